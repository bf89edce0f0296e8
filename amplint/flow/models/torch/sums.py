"""Sums of tensors that numbers multiply, ``0.999 * average + 0.001 * weight``, as far as they have to do with what is
kept in half precision."""

from __future__ import annotations

from collections.abc import Iterable

from amplint.flow.core.api import Api
from amplint.flow.models.python.numbers import usual
from amplint.flow.models.torch.notes import ParametersCast
from amplint.flow.models.torch.values import Parameters, Tensor, Terms
from amplint.flow.models.torch.weights import current
from amplint.flow.state.symbols import COMPUTED, Symbol, symbol
from amplint.flow.state.values import Constant, Number, Unknown, Value

SMALL = 1 / 16
"""A tensor that a number of at most this size multiplies is the new part of an average; of others nothing is noted."""

_TIMES = frozenset({"__mul__", "mul", "*"})
_PLUS = frozenset({"__add__", "add", "+"})
_MINUS = frozenset({"__sub__", "sub", "-"})


def kept(api: Api, value: Value) -> Symbol | None:
    """What stands for a tensor that the code itself keeps in half precision: ``p.half()``, a parameter of a module that
    was cast. Tensors that one expression has cast, such as those of a dict, have one name."""
    if isinstance(value, Parameters):
        notes = () if value.copied else api.notes(value.module, ParametersCast)
        half = any(note.dtype is not None and note.dtype.is_half and not note.one for note in notes)
        return value.module if half else None
    value = current(api, value)
    if not isinstance(value, Tensor) or not value.is_half or value.half_by_user is None:
        return None
    if value.parameter_of is not None:
        return value.parameter_of
    return symbol("cast at", value.half_by_user.path, value.half_by_user.key)


def terms_of(api: Api, value: Value) -> Terms:
    """A value as a sum."""
    if isinstance(value, Tensor) and value.terms:
        return value.terms
    if isinstance(value, Unknown):
        return _of_unknown(api, value.symbol)
    return ((kept(api, value), 1.0),)


def carried(api: Api, value: Value) -> Terms:
    """What of that a cast hands on: ``(average.float() * 0.999 + x).half()``."""
    key = kept(api, value)
    if isinstance(value, Tensor) and value.terms:
        return value.terms
    return ((key, 1.0),) if key is not None else ()


def _of_unknown(api: Api, name: Symbol) -> Terms:
    """``0.001 * x`` of something that nothing is known of."""
    match name.parts:
        case (kind, "*", Symbol() as left, Symbol() as right) if kind == COMPUTED:
            for one, other in ((left, right), (right, left)):
                number = usual(api, Unknown(one))
                if number is not None:
                    return _times(_of_unknown(api, other), number)
    return ((None, 1.0),)


def combined(api: Api, name: str, values: tuple[Value, ...], alpha: float = 1.0) -> Terms:
    """What an op makes of sums; nothing where no small number and nothing that is kept in half precision is in it."""
    if len(values) < 2:
        return ()
    left, right = values[:2]
    if name in _TIMES:
        return _product(api, left, right)
    if name not in _PLUS | _MINUS or any(isinstance(side, (Constant, Number)) for side in (left, right)):
        return ()
    sign = -alpha if name in _MINUS else alpha
    found = added(terms_of(api, left), _times(terms_of(api, right), sign))
    return found if any(key is not None or abs(factor) <= SMALL for key, factor in found) else ()


def _product(api: Api, left: Value, right: Value) -> Terms:
    for number, tensor in ((left, right), (right, left)):
        if isinstance(number, (Constant, Number, Unknown)) and not isinstance(tensor, (Constant, Number)):
            factor = usual(api, number)
            if factor is None:
                continue
            terms = terms_of(api, tensor)
            if abs(factor) <= SMALL or any(key is not None for key, _ in terms):
                return _times(terms, factor)
    return ()


def _times(terms: Terms, factor: float) -> Terms:
    return tuple((key, one * factor) for key, one in terms)


def added(*several: Iterable[tuple[Symbol | None, float]]) -> Terms:
    """The sum of sums."""
    found: dict[Symbol | None, float] = {}
    for key, factor in (term for terms in several for term in terms):
        found[key] = found.get(key, 0.0) + factor
    return tuple(found.items())
