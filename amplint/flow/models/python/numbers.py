"""Numbers that settings choose: what they come to where nobody chooses another one.

``1 - args.decay`` is 0.001 if the default of ``--decay`` is 0.999.
"""

from __future__ import annotations

from collections.abc import Callable

from amplint.flow.core.api import Api
from amplint.flow.state.symbols import COMPUTED, NUMBER, Symbol
from amplint.flow.state.values import Constant, Number, Unknown, Usual, Value

_OPERATORS: dict[object, Callable[[float, float], float]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: one / other,
    "**": lambda one, other: one**other,
}
EXTREMES: dict[str, Callable[[list[float]], float]] = {"smallest": min, "largest": max}
"""How the symbols of ``min`` and ``max`` of numbers that are not all known begin."""


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
