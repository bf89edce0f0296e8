"""Numbers that settings choose: which of the unknown are numbers beside a tensor, and what they come to where nobody
chooses another one.

``1 - args.decay`` is 0.001 if the default of ``--decay`` is 0.999; ``logits / config["temperature"]`` has the type of
the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amplint.flow.core.api import Api
from amplint.flow.core.registry import Registry
from amplint.flow.state.counts import JOINED, PLAIN
from amplint.flow.state.symbols import COMPUTED, DATA, NUMBER, OR, Symbol
from amplint.flow.state.values import Constant, Note, Number, Unknown, Usual, Value

models = Registry()

_OPERATORS: dict[object, Callable[[float, float], float]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: one / other,
    "**": lambda one, other: one**other,
}
EXTREMES: dict[str, Callable[[list[float]], float]] = {"smallest": min, "largest": max}
"""How the symbols of ``min`` and ``max`` of numbers that are not all known begin."""


@dataclass(frozen=True, slots=True)
class IsNumber(Note):
    """An unknown is a number, or nothing that has an operator: it was given to a layer as its size, or its parameter
    is annotated with ``float``."""

    def joined(self, other: Note | None) -> Note | None:
        """What a name stands for does not change."""
        return self


@dataclass(frozen=True, slots=True)
class PlainData(Note):
    """An unknown is what a file of settings or the command line gives: numbers, texts, and lists and dicts of them."""

    def joined(self, other: Note | None) -> Note | None:
        """What a name stands for does not change."""
        return self


def is_number(api: Api, name: Symbol) -> bool:
    """Whether what a symbol stands for is a number wherever an operator or a function takes it beside a tensor: it is
    known to be one, is a part of plain data, what an operator makes of such, or one such or another."""
    return _is_number(api, name, {})


def _is_number(api: Api, name: Symbol, known: dict[Symbol, bool]) -> bool:
    if name not in known:
        known[name] = _is_known_number(api, name, known)
    return known[name]


def _is_known_number(api: Api, name: Symbol, known: dict[Symbol, bool]) -> bool:
    match name.parts:
        case (kind, *_) if kind == NUMBER or api.note(name, IsNumber) is not None:
            return True
        case (kind, _, *operands) if kind == COMPUTED:
            return all(isinstance(part, Symbol) and _is_number(api, part, known) for part in operands)
        case (kind, Symbol() as one, Symbol() as other) if kind == OR:
            return _is_number(api, one, known) or _is_number(api, other, known)
        case (kind, Symbol(), Symbol() as one, Symbol() as other) if kind == JOINED:
            return _is_number(api, one, known) and _is_number(api, other, known)
        case (kind, _, value) if kind == PLAIN:
            return type(value) in (int, float)
        case ("attribute" | "item", Symbol() as whole, *_):
            return _is_data(api, whole)
    return False


def _is_data(api: Api, name: Symbol) -> bool:
    match name.parts:
        case (kind, *_) if kind == DATA or api.note(name, PlainData) is not None:
            return True
        case ("attribute" | "item", Symbol() as whole, *_):
            return _is_data(api, whole)
    return False


@models.into(models.annotations, "builtins.int", "builtins.float")
def _annotated(api: Api, own: Symbol) -> Value | None:
    """``scale: float``, which may be None all the same: ``scale: float = None``."""
    api.set_note(own, IsNumber())
    return None


def usual(api: Api, value: Value | None) -> float | None:
    """What a number is if all settings have their defaults, or None where that is not known."""
    match value:
        case Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case Number() | Unknown():
            return _of(api, value.symbol)
    return None


def _of(api: Api, name: Symbol) -> float | None:
    note = api.note(name, Usual)
    if note is not None:
        return usual(api, note.value)
    match name.parts:
        case ("constant", Constant() as constant):
            return usual(api, constant)
        case (kind, Symbol() as inner) if kind in ("float", NUMBER):
            return _of(api, inner)
        case (kind, operator, Symbol() as left, Symbol() as right) if kind == COMPUTED:
            return _computed(operator, _of(api, left), _of(api, right))
        case (str() as kind, *several) if kind in EXTREMES:
            # who sets a limit expects it to be reached: min(0.999, (1 + step) / (10 + step))
            found = [_of(api, part) for part in several if isinstance(part, Symbol)]
            known = [number for number in found if number is not None]
            return EXTREMES[kind](known) if known else None
    return None


def _computed(operator: object, left: float | None, right: float | None) -> float | None:
    function = _OPERATORS.get(operator)
    if function is None or left is None or right is None:
        return None
    try:
        result = function(left, right)
    except ArithmeticError:
        return None
    return result if isinstance(result, float) else None
