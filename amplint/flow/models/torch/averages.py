"""Averages that are kept up in place, ``s.mul_(0.999).add_(p, alpha=0.001)``, in tensors of half precision."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.events import Averaged, Operand
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.numbers import usual
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.notes import ParametersCast
from amplint.flow.models.torch.operations import operand
from amplint.flow.models.torch.sums import added, kept, terms_of
from amplint.flow.models.torch.values import Gradient, Parameters, Tensor, Terms
from amplint.flow.state.conditions import leaves
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import NONE, BoundMethod, Constant, Mapping, Note, Number, Unknown, Value
from amplint.lowering.program import Attribute, AugmentedAssign, Call, Node

models = Registry()

_TIMES = frozenset({"mul_", "multiply_", "__imul__", "__i*"})
_PLUS = {"add_": 1, "__iadd__": 1, "__i+": 1, "sub_": -1, "__isub__": -1, "__i-": -1}
_COPIES = frozenset({"copy_", "data", "set_"})
_EXACT = 1e-3
"""So far from 1 the sum of the weights of an average may be, as a part of the weight of the new value."""


@dataclass(frozen=True, slots=True)
class Scaled(Note):
    """A tensor that is kept in half precision was multiplied in place: so much of what it was is left."""

    by: float


def alpha_of(api: Api, arguments: Arguments) -> float:
    """What multiplies what ``add`` and ``sub`` are given: 1 where no number is given, nan where it is not known."""
    given = arguments.keyword("alpha")
    number = usual(api, given) if given is not None else 1.0
    return number if number is not None else float("nan")


def changed(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> None:
    """Hears that a tensor was changed in place by a method or statement, and tells if it is an average since."""
    key = kept(api, base)
    if key is None:
        return
    note = api.note(key, Scaled)
    left = ((key, note.by if note is not None else 1.0),)
    given = arguments.get(0, "other") or arguments.keyword("end") or arguments.keyword("src") or NONE
    if name in _TIMES:
        factor = usual(api, given)
        if factor is not None and 0 < factor < 1:
            api.set_note(key, Scaled(left[0][1] * factor))
            return
    api.drop_note(key, Scaled)
    terms: Terms = ()
    if name in _PLUS:
        alpha = alpha_of(api, arguments) * _PLUS[name]
        terms = added(left, ((one, factor * alpha) for one, factor in _others(api, given)))
    elif name == "lerp_":
        weight = usual(api, arguments.get(1, "weight"))
        terms = ((key, 1 - weight), (None, weight)) if weight is not None else ()
    elif name in _COPIES:
        terms = terms_of(api, given)
    _tell(api, base, key, terms, node)


@models.call(*(f"torch._foreach_{name}_" for name in ("mul", "div", "add", "sub", "lerp", "zero")))
def _of_lists(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch._foreach_lerp_(averages, weights, 0.001)``. To a gradient it does what its method does."""
    first, *rest = arguments.positional or (NONE,)
    given = tuple(one if isinstance(one, (Constant, Number)) else api.unknown(node) for one in rest)
    each = Arguments(given, arguments.keywords)

    method = name.removeprefix("torch._foreach_")

    def change(one: Value) -> Value:
        if isinstance(one, Gradient):
            return api.call(BoundMethod(one, method), each, node)
        changed(api, one, method, each, node)
        return NONE

    return api.each(api.iterate(first, node), change)


@models.into(models.item_stores, Mapping)
def _stored(api: Api, base: Mapping, keys: tuple[Value, ...], value: Value, node: Node) -> bool:
    """``averages[name] = 0.999 * averages[name] + 0.001 * p``, if that is half."""
    held = api.contents(base)
    if isinstance(value, Tensor) and value.terms and isinstance(held, Mapping):
        for key in dict.fromkeys(kept(api, one) for part in held.values for one in leaves(part)):
            if key is not None:
                _tell(api, value, key, value.terms, node)
    return False


def _others(api: Api, given: Value) -> Terms:
    """What is added to a tensor, as a sum: of what it was made, or else something new."""
    is_made = isinstance(given, Unknown) or (isinstance(given, Tensor) and given.terms)
    return terms_of(api, given) if is_made else ((None, 1.0),)


def _written(node: Node) -> Node:
    """The expression of the tensor that is changed: ``s`` in ``s.mul_(0.999).add_(p)``."""
    match node:
        case Call(function=Attribute(value=value, name=name)):
            return node.arguments[0].value if name.startswith("_foreach") else _written(value)
        case AugmentedAssign():
            return node.target
    return node


def _tell(api: Api, base: Value, key: Symbol, terms: Terms, node: Node) -> None:
    """Tells of an average: the weights of the old and the new value make up 1."""
    old = sum(factor for one, factor in terms if one is key)
    new = sum(factor for one, factor in terms if one is not key)
    if not 0 < new < 1 or abs(old + new - 1) > new * _EXACT:
        return
    written = _written(node)
    if not isinstance(base, Parameters):
        api.emit(Averaged(api.place(node), regions(api), operand(api, base, written), new))
        return

    def tell(note: Value) -> Value:
        if isinstance(note, ParametersCast) and note.dtype is not None and note.dtype.is_half:
            half = Operand(api.place(written), note.dtype, half_by_user=note.place, parameter=True)
            api.emit(Averaged(api.place(node), regions(api), half, new))
        return NONE

    api.each_item(api.noted(key, ParametersCast) or NONE, tell)
