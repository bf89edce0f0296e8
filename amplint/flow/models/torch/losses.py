"""Losses: what a scaler makes of them, what is computed with scaled ones, and backward passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from amplint.amp import scalers as known
from amplint.amp.tokens import SCALES_LOSSES
from amplint.events import BY_SCALE, AmpHidden, Backward, Place, ScaledLossRead, ScalerUsed
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch import hidden
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.recomputation import in_function
from amplint.flow.models.torch.values import (
    MODULE,
    SCALER,
    Gradient,
    Optimizer,
    Parameters,
    Scale,
    ScaledLoss,
    Scaler,
    Tensor,
)
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import apply, choice, leaves
from amplint.flow.state.short import singles
from amplint.flow.state.symbols import Symbol, is_made_from_lost, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    Choice,
    Constant,
    Instance,
    Note,
    Number,
    Sequence,
    Text,
    Unknown,
    Value,
)
from amplint.lowering.program import Call, Node

models = Registry()

MAYBE_SCALED = "maybe scaled"
"""The kind of an unknown that code out of sight made of a scaled loss, or with a scaler."""
_NO_LOSSES = frozenset({MODULE})
"""The kinds that hide no scale among others."""
MOST_LOSSES = 8

_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "**", "@", "neg", "pos"})
_READS = {
    "item": "item",
    "tolist": "tolist",
    "numpy": "numpy",
    "__float__": "float",
    "__int__": "int",
    "__str__": "str",
    "__repr__": "str",
    "__format__": "formatted",
}
"""Methods that make a number or text of a loss, with what an event calls them."""


@dataclass(frozen=True, slots=True)
class UnitScale(Note):
    """The scale of a scaler is 1: it was made so, and nothing has updated it yet."""


@dataclass(frozen=True, slots=True)
class Compared(Note):
    """Readings of scales were compared: whether they are the same is asked by ``questions``, at these places. The
    latest is the last."""

    questions: tuple[tuple[Symbol, Place], ...]


COMPARED = symbol("scales compared")
"""What holds the note of the class Compared."""
MOST_COMPARISONS = 4


# what scales a loss ----------------------------------------------------------------------------------------------


def scaled_by(value: Value | None) -> tuple[tuple[Symbol, ...], bool]:
    """The scalers that scaled a loss, or the losses in a collection, and whether others may have."""
    match value:
        case ScaledLoss():
            inner, unclear = scaled_by(value.loss)
            if value.scaler is None:
                return inner, True
            return (value.scaler, *inner), unclear
        case Sequence() if value.items:
            # of numbers and texts, such as ``list(range(count))``, those that are not told are no losses either
            others = not value.exact and any(not isinstance(one, (Number, Text)) for one in value.items)
            return _scaled_by_any(value.items[:MOST_LOSSES], others)
        case Choice():
            return _scaled_by_any(tuple(leaves(value)), False)
        case Unknown():
            return (), value.kind == MAYBE_SCALED or is_made_from_lost(value.symbol, _NO_LOSSES)
    return (), False


def _scaled_by_any(values: tuple[Value, ...], unclear: bool) -> tuple[tuple[Symbol, ...], bool]:
    parts = [scaled_by(value) for value in values]
    found = tuple(dict.fromkeys(scaler for scalers, _ in parts for scaler in scalers))
    return found, unclear or any(hidden for _, hidden in parts)


def scaled(scaler: Symbol, loss: Value) -> Value:
    """``scaler.scale(loss)``, for each loss of a collection."""
    if isinstance(loss, Sequence) and loss.exact:
        items = tuple(apply(lambda one: ScaledLoss(scaler, one), item) for item in loss.items)
        return Sequence(items)
    return ScaledLoss(scaler, loss)


# backward --------------------------------------------------------------------------------------------------------


def backward(
    api: Api, loss: Value | None, node: Node, how: str, *, unclear: bool = False, partial: bool = False
) -> None:
    """Tells that the gradients of a loss are computed here. ``unclear``: by code that may scale it first;
    ``partial``: those of given inputs alone. Inside a Function it is a part of the pass around, which multiplies what
    comes of it."""
    if in_function(api):
        return
    scalers, may_be = scaled_by(loss)
    start = loss.loss if isinstance(loss, ScaledLoss) else loss
    hidden.used(api, start)
    api.emit(
        Backward(
            api.place(node),
            regions(api),
            how,
            bool(scalers),
            scaled_by=scalers,
            loss=identity_of(start),
            unclear=unclear or may_be,
            partial=partial,
            halves=tuple(
                dict.fromkeys((part.born, part.element) for part in _tensors(start) if part.is_half)
            ),
        )
    )


def _tensors(loss: Value | None) -> Iterator[Tensor]:
    """The tensors among what a backward pass starts from, on all paths."""
    for one in singles(loss) if loss is not None else ():
        if isinstance(one, ScaledLoss):
            yield from _tensors(one.loss)
        elif isinstance(one, Tensor):
            yield one


@models.method(ScaledLoss, "backward", weight=Weight.EFFECT)
@models.method(Tensor, "backward", weight=Weight.EFFECT)
@models.method(Gradient, "backward", weight=Weight.EFFECT)
@models.method("", "backward", weight=Weight.EFFECT)
def _backward(api: Api, loss: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``loss.backward()``; ``engine.backward(loss)`` of a framework, which scales by itself, is unclear. Of all these
    nothing comes: ``text = mapping.backward(text)`` is another method."""
    if isinstance(loss, Unknown) and isinstance(node, Call) and node.assigned:
        return api.opaque(arguments, node)
    unclear = isinstance(loss, Gradient) or (isinstance(loss, Unknown) and bool(arguments.positional))
    given = arguments.get(0, "gradient")
    if isinstance(given, Gradient) or scaled_by(given)[1]:
        unclear = True  # ``y.backward(x.grad)``: whatever x got was scaled, or not
    if unclear:
        hand_over(api, arguments, node)
    backward(api, loss, node, ".backward()", unclear=unclear, partial=_is_given(arguments, "inputs"))
    return NONE


def hand_over(api: Api, arguments: Arguments, node: Node) -> None:
    """What a backward pass out of sight is given beside the loss, ``balancer.backward(loss, scaler.scale)``."""
    if len(arguments.all) > 1:
        api.opaque(arguments.rest(1), node)


@models.call("torch.autograd.backward", weight=Weight.EFFECT)
def _autograd_backward(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    losses, partial = arguments.get(0, "tensors"), _is_given(arguments, "inputs")
    backward(api, losses, node, "torch.autograd.backward()", unclear=arguments.unclear, partial=partial)
    return NONE


def _is_given(arguments: Arguments, name: str) -> bool:
    return arguments.keyword(name) not in (None, NONE)


# computing with scaled losses ------------------------------------------------------------------------------------


@models.method(ScaledLoss)
def _method(api: Api, loss: ScaledLoss, name: str, arguments: Arguments, node: Node) -> Value:
    """A method of a scaled loss, or a function of torch that is given one: most give a tensor that is still
    scaled."""
    if name in _READS:
        return read(api, loss, _READS[name], node)
    if name in known.KEEPS:
        return loss
    if name in known.COMBINES | known.JOINS:
        return combined(api, node, loss, *_flat(arguments.positional))
    return ScaledLoss(None, loss) if loss.scaler is not None else api.unknown(node)


def read(api: Api, loss: ScaledLoss, how: str, node: Node) -> Value:
    """Tells that a scaled loss becomes a number or text, unless its scale is 1."""
    if loss.scaler is not None and api.note(loss.scaler, UnitScale) is None:
        api.emit(ScaledLossRead(api.place(node), regions(api), loss.scaler, how))
    return api.number(node)


def _flat(values: tuple[Value, ...]) -> list[Value]:
    return [part for value in values for part in (value.items if isinstance(value, Sequence) else (value,))]


@models.into(models.operators, ScaledLoss)
def _operator(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``scaler.scale(loss) / 4 + other``."""
    if operator.removesuffix("=") not in _ARITHMETIC:
        return None
    return combined(api, node, left, *(() if right is None else (right,)))


def combined(api: Api, node: Node, *values: Value) -> Value:
    """The result of arithmetic with scaled losses: scaled, unless the scale was divided out."""
    losses = [value for value in values if isinstance(value, ScaledLoss)]
    others = [value for value in values if not isinstance(value, ScaledLoss)]
    if not losses or any(isinstance(value, Scale) for value in others):
        return api.unknown(node)
    first = losses[0]
    unsure = [value for value in others if not isinstance(value, (Constant, Number))]
    if not unsure:
        return ScaledLoss(first.scaler, api.unknown(node))
    # a tensor may be a factor, or a loss of its own that nobody scaled
    plain = all(isinstance(value, (Unknown, Tensor)) for value in unsure)
    return first if plain else ScaledLoss(None, first)


@models.into(models.attributes, ScaledLoss)
def _attribute(api: Api, loss: ScaledLoss, name: str, node: Node) -> Value | None:
    return loss if name == "data" else None


@models.into(models.enters, ScaledLoss)
def _enter(api: Api, loss: ScaledLoss, node: Node) -> Value:
    """``with amp.scale_loss(loss, optimizer) as scaled_loss``."""
    return loss


@models.method("", "scale", weight=Weight.EFFECT, tags=(SCALES_LOSSES,))
def _scale(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``x.scale(loss)``: it may be a scaler of which no more is in sight."""
    return ScaledLoss(None, arguments.all[0]) if len(arguments.all) == 1 and not arguments.unclear else None


# computing with scales -------------------------------------------------------------------------------------------


@models.into(models.operators, Scale)
def _scale_operator(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``1.0 / scaler.get_scale()``, ``scaler.get_scale() == before``, ``loss * scaler.get_scale()``."""
    match operator:
        case "==":
            return _compared(api, left, right, node)
        case "*" | "/" | "*=" | "/=":
            if not _is_known(left) or not _is_known(right):
                _computes(api, left, right, node)
            return _multiplied(api, operator[0], left, right, node)
        case "neg" | "pos":
            return left
    if operator.removesuffix("=") not in _ARITHMETIC:
        return None
    _computes(api, left, right, node)
    return api.number(node) if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS) else None


_KNOWN = (Scale, Constant)
_NUMBERS = (*_KNOWN, Number)


def _is_known(value: Value | None) -> bool:
    """Whether a scale is turned into another number by it. Nobody divides zero by one: it stands for what is something
    else on another path."""
    return isinstance(value, _KNOWN) and not (isinstance(value, Constant) and value.value == 0)


def _computes(api: Api, left: Value, right: Value | None, node: Node) -> None:
    """Tells that the code computes with a scale: it may multiply or divide gradients by that, or a limit."""
    scale = left if isinstance(left, Scale) else right
    if isinstance(scale, Scale):
        api.emit(ScalerUsed(api.place(node), regions(api), scale.scaler, BY_SCALE))


def _multiplied(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """A product or quotient with a scale. A loss that is multiplied by one is scaled by hand, perhaps."""
    match left, right:
        case (Scale(), Scale()):
            return api.number(node)
        case (Scale(), (Constant() | Number())):
            return left
        case ((Constant() | Number()), Scale()):
            return replace(right, inverse=right.inverse is (operator == "*"))
        case ((Unknown() | Tensor()), Scale()):
            larger = right.inverse is (operator == "/")
            return ScaledLoss(None, left) if larger else api.unknown(node)
        case (Scale(), (Unknown() | Tensor())):
            larger = operator == "*" and not left.inverse
            return ScaledLoss(None, right) if larger else api.unknown(node)
    return None


def _compared(api: Api, left: Value, right: Value | None, node: Node) -> Value:
    """Whether a scale is the same as before. Each comparison has an outcome of its own."""
    outcome = api.unknown(node)
    if isinstance(left, Scale) and isinstance(right, Scale):
        earlier = [question for note in api.notes(COMPARED, Compared) for question in note.questions]
        questions = (*dict.fromkeys(earlier), (outcome.symbol, api.place(node)))
        api.set_note(COMPARED, Compared(questions[-MOST_COMPARISONS:]))
    return choice(is_true(outcome.symbol), TRUE, FALSE)


# code out of sight -----------------------------------------------------------------------------------------------


def out_of_sight(api: Api, arguments: Arguments, node: Node) -> Value | None:
    """What a call gives that is not followed, if it may be a scaled loss: a scaler or a scaled loss went in."""
    if any(isinstance(value, Scale) for value in arguments.all) and any(map(_has_gradients, arguments.all)):
        api.emit(AmpHidden(api.place(node), regions(api)))
    touched = any(_may_scale(value) for value in arguments.all)
    return api.unknown(node, MAYBE_SCALED) if touched else None


def _has_gradients(value: Value) -> bool:
    """Whether code that is given a value can change gradients by that."""
    if isinstance(value, Sequence):
        return any(map(_has_gradients, value.items))
    known = isinstance(value, Unknown) and value.kind is not None
    return known or isinstance(value, (Parameters, Gradient, Optimizer, Instance))


def _may_scale(value: Value) -> bool:
    if isinstance(value, Scaler) or (isinstance(value, Unknown) and value.kind == SCALER):
        return True
    scalers, unclear = scaled_by(value)
    return bool(scalers) or unclear


@models.into(models.attributes, MAYBE_SCALED)
def _part_by_name(api: Api, whole: Unknown, name: str, node: Node) -> Value:
    return Unknown(symbol("attribute", whole.symbol, name), MAYBE_SCALED)


@models.into(models.items, MAYBE_SCALED)
def _part_by_key(api: Api, whole: Unknown, keys: tuple[Value, ...], node: Node) -> Value:
    return Unknown(symbol("item", whole.symbol, *keys), MAYBE_SCALED)


@models.method(MAYBE_SCALED, *sorted(known.KEEPS))
def _same(api: Api, loss: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    return loss


@models.into(models.operators, Unknown)
def _operator_of_unknown(
    api: Api, operator: str, left: Value, right: Value | None, node: Node
) -> Value | None:
    """``wrap(scaler, loss) / 4``."""
    maybe = any(isinstance(side, Unknown) and side.kind == MAYBE_SCALED for side in (left, right))
    return api.unknown(node, MAYBE_SCALED) if maybe and operator.removesuffix("=") in _ARITHMETIC else None
