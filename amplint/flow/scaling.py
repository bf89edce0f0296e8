"""Losses, gradients, scalers and optimizers: what the flow tells of the protocol between them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp import scalers as known
from amplint.events import (
    AmpHidden,
    Backward,
    CastParameters,
    FrameworkUnscaled,
    GradientsRead,
    GradientsZeroed,
    OptimizerStepped,
    Place,
    Rounds,
    ScaledGradientMixed,
    ScaledLossRead,
    ScalerAtHand,
    ScalerUsed,
    SchedulerStepped,
)
from amplint.flow import calls, modules, optimizers
from amplint.flow.paths import HANDED_OUT, SCALER_STEPPED, STEPPED, ZEROED
from amplint.flow.values import (
    NONE,
    ONE_OF_MANY,
    UNKNOWN,
    Alternatives,
    BoundMethod,
    Constant,
    Decorated,
    FunctionValue,
    Gradient,
    Instance,
    Number,
    Optimizer,
    Parameters,
    Partial,
    ScaledGradient,
    ScaledLoss,
    Scaler,
    Scheduler,
    Sequence,
    Sharded,
    StateDict,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.expressions import Expressions
    from amplint.source.outline import FunctionOutline

SHARDED = "<sharded>"
"""The attribute under which a module or optimizer has its note Sharded."""

RESTORED = "<restored>"
"""The attribute that notes of an optimizer that it loads a state."""

PRECISION = "<precision>"
"""The attribute under which a framework's object has the type that it was asked for."""

_UNSCALED = ("<framework>", "<unscaled>")
"""Where it is noted that a framework has unscaled gradients."""
_SCALE = "scale of"
_SAME_SCALE = "same scale as before"
_ASSUMED = "a scaler takes for on"
_MAYBE_SCALED = "made of a scaled loss"


# losses ----------------------------------------------------------------------------------------------------------


def scaled_by(value: Value) -> tuple[tuple[Hashable, ...], bool]:
    """The scalers that scaled a loss, or the losses in a collection, and whether others may have."""
    match value:
        case ScaledLoss():
            inner, unclear = scaled_by(value.loss)
            if value.scaler is None:
                return inner, True
            return (value.scaler, *inner), unclear
        case Sequence() if value.items:
            parts = [scaled_by(item) for item in value.items]
            found = tuple(dict.fromkeys(scaler for scalers, _ in parts for scaler in scalers))
            return found, not value.exact or any(unclear for _, unclear in parts)
        case Unknown():
            symbol = value.symbol
            return (), isinstance(symbol, tuple) and len(symbol) == 2 and symbol[0] == _MAYBE_SCALED
    return (), False


def out_of_sight(
    walker: Expressions, given: calls.Arguments, node: cst.CSTNode, *, in_project: bool = False
) -> Unknown:
    """The result of a call to code out of sight. A scaler given to it may be used there, and what comes back
    may be scaled if a scaler or a scaled loss went in. ``in_project``: its text is known."""
    may_step(walker, node)
    if not in_project and any(map(_holds_gradients, given.all)):
        walker.path.did(HANDED_OUT)
    touched = False
    for value in given.all:
        scaler = as_scaler(value)
        if scaler is not None:
            walker.emit(_used(walker, scaler, "given", node))
            touched = True
        elif isinstance(value, Optimizer):
            walker.path.store(value.identity, "<wrapped>", Constant(True))
        elif isinstance(value, ScaledLoss):
            touched = True
    symbol = walker.fresh(node)
    return Unknown((_MAYBE_SCALED, symbol) if touched else symbol)


def not_followed(
    walker: Expressions, function: FunctionValue, given: calls.Arguments, node: cst.CSTNode
) -> Unknown:
    """The result of a function of the project into which the walk does not go, or not to its end."""
    if function.outline is not None and walker.engine.has_effects(function):
        walker.emit(AmpHidden(walker.place(node), walker.path.regions))
    if function.outline is not None and function.outline.owner is not None:
        _leave_open(walker, function.outline, given)
    return out_of_sight(walker, given, node, in_project=True)


def _holds_gradients(value: Value) -> bool:
    """Whether who has a value can get at gradients."""
    if isinstance(value, Unknown):
        return value.kind in ("module", "optimizer")
    return isinstance(value, (Optimizer, Parameters, Instance))


def _leave_open(walker: Expressions, method: FunctionOutline, given: calls.Arguments) -> None:
    """What a method sets that was None before is anything from here on."""
    receiver = given.positional[0] if given.positional else None
    if not isinstance(receiver, Instance) or receiver.made_of is None or method.owner is None:
        return
    for name, places in method.owner.assignments.items():
        if not any(method.line <= first <= method.end_line for first, _ in places):
            continue
        found = walker.path.load(receiver.identity, name)
        if found is None and walker.engine.is_none_at_first(receiver.made_of, name):
            found = modules.constructed(walker, receiver, name)
        if found == NONE:
            kind = walker.engine.kind_of_attribute(receiver.made_of, name)
            walker.path.store(receiver.identity, name, Unknown((receiver.identity, name), kind))


def backward(walker: Expressions, loss: Value, node: cst.CSTNode, how: str, *, unclear: bool = False) -> None:
    """Tells that the gradients of a loss are computed here. ``unclear``: by code that may scale it first."""
    scalers, hidden = scaled_by(loss)
    in_reach = walker.engine.scaler_in_reach(walker.scope, inside=bool(walker.path.regions))
    plain = not (scalers or hidden or unclear or in_reach)
    partial = isinstance(node, cst.Call) and any(
        argument.keyword is not None and argument.keyword.value == "inputs" for argument in node.args
    )
    walker.emit(
        Backward(
            walker.place(node),
            walker.path.regions,
            how,
            bool(scalers),
            walker.path.iteration,
            scalers,
            identity_of(loss.loss if isinstance(loss, ScaledLoss) else loss),
            unclear or hidden,
            partial,
            in_reach,
            _at_hand(walker) if plain else None,
        )
    )


def _at_hand(walker: Expressions) -> ScalerAtHand | None:
    """A scaler among the local names of the function, or among the attributes of its object."""
    scope = walker.scope
    found = [(name, value) for name, value in {**scope.outer_names, **walker.path.names}.items()]
    receiver = scope.self_value
    if isinstance(receiver, Instance) and walker.engine.may_hold_scaler(receiver):
        held = walker.engine.attributes_of(walker.path, receiver)
        found += [(f"self.{name}", value) for name, value in held.items()]
    for name, value in found:
        for option, facts in value.options if isinstance(value, Alternatives) else ((value, frozenset()),):
            if isinstance(option, Scaler) and option.made is not None and walker.path.agrees(facts):
                on = option.enabled if option.switch is None else walker.known_truth(option.switch)
                if on is not False:
                    return ScalerAtHand(name, option.made)
    return None


def loss_method(
    walker: Expressions, loss: ScaledLoss, name: str, given: calls.Arguments, node: cst.Call
) -> Value:
    """A method of a scaled loss: most give a tensor that is still scaled."""
    if name in known.READS:
        read_loss(walker, loss, name, node)
        return Number(walker.fresh(node))
    if name in known.KEEPS:
        return loss
    if name in known.COMBINES:
        return combined(loss, *given.positional)
    return UNKNOWN


def read_loss(walker: Expressions, loss: ScaledLoss, how: str, node: cst.CSTNode) -> None:
    """Tells that a scaled loss becomes a number or text."""
    if loss.scaler is not None:
        walker.emit(ScaledLossRead(walker.place(node), walker.path.regions, loss.scaler, how))


def combined(*values: Value) -> Value:
    """The result of arithmetic with a scaled loss: scaled, unless the scale was divided out."""
    losses = [value for value in values if isinstance(value, ScaledLoss)]
    others = [value for value in values if not isinstance(value, ScaledLoss)]
    if not losses or any(_is_scale(value) for value in others):
        return UNKNOWN
    unsure = [value for value in others if not isinstance(value, (Constant, Number))]
    return ScaledLoss(losses[0].scaler, UNKNOWN) if not unsure else _mixed(losses[0], unsure)


def computed(name: str, given: calls.Arguments) -> Value | None:
    """What a function of torch makes of scaled losses, or None if there is none among its arguments."""
    values = [
        item
        for value in given.positional
        for item in (value.items if isinstance(value, Sequence) else (value,))
    ]
    losses = [value for value in values if isinstance(value, ScaledLoss)]
    if not losses:
        return None
    same = name.rpartition(".")[2] in known.KEEPS | known.COMBINES | known.JOINS
    return combined(*values) if same else ScaledLoss(None, losses[0])


def _mixed(loss: ScaledLoss, others: list[Value]) -> ScaledLoss:
    # a tensor may be a factor, or a loss of its own that nobody scaled
    return loss if all(isinstance(value, (Unknown, Tensor)) for value in others) else ScaledLoss(None, loss)


def _is_scale(value: Value) -> bool:
    symbol = value.symbol if isinstance(value, (Number, Unknown)) else None
    return isinstance(symbol, tuple) and len(symbol) == 2 and symbol[0] == _SCALE


def scales_compared(walker: Expressions, left: Value, right: Value, node: cst.CSTNode) -> Hashable | None:
    """What stands for whether two scales are the same, if that is what is compared: a scaler was asked twice.
    Each comparison has an outcome of its own."""
    if not _is_scale(left) or not _is_scale(right):
        return None
    symbol = (_SAME_SCALE, walker.place(node))
    walker.path.forget(symbol)
    return symbol


def _compared(walker: Expressions) -> Place | None:
    """Where the scale was found to be the same as before, if this path has gone by that."""
    for symbol, truth in walker.path.facts.items():
        if truth and isinstance(symbol, tuple) and len(symbol) == 2 and symbol[0] == _SAME_SCALE:
            return symbol[1]  # type: ignore[no-any-return]
    return None


# scalers ---------------------------------------------------------------------------------------------------------


def as_scaler(value: Value) -> Scaler | None:
    """A value as a scaler, if it is one."""
    if isinstance(value, Scaler):
        return value
    if isinstance(value, Unknown) and value.kind == "scaler":
        return Scaler(value.symbol)
    return None


def _enabled(walker: Expressions, scaler: Scaler) -> bool | None:
    """Whether a scaler is on. A flag that nothing is known of is taken to be on, and the path remembers it."""
    if scaler.switch is None:
        return scaler.enabled
    on = walker.known_truth(scaler.switch)
    if on is None:
        walker.assume(scaler.switch, True)
        walker.path.learn((_ASSUMED, scaler.switch), True)
        return True
    return on


def _is_decided(walker: Expressions, scaler: Scaler) -> bool:
    """Whether a condition on this path has asked for the flag of a scaler."""
    if scaler.switch is None or walker.known_truth(scaler.switch) is None:
        return False
    return (_ASSUMED, scaler.switch) not in walker.path.facts


def _closure(given: calls.Arguments) -> str:
    if len(given.positional) > 1 and given.positional[1] != NONE:
        return "positional"
    return "keyword" if given.keyword("closure") not in (None, NONE) else ""


def _used(
    walker: Expressions,
    scaler: Scaler,
    act: str,
    node: cst.CSTNode,
    *,
    optimizer: Value = UNKNOWN,
    loss: Value = UNKNOWN,
    new_scale: bool = False,
    closure: str = "",
) -> ScalerUsed:
    decided = _is_decided(walker, scaler)
    casts = () if scaler.takes_half or act not in ("unscale_", "step") else _casts(walker, optimizer)
    named, given = optimizers.named(walker, optimizer)
    return ScalerUsed(
        walker.place(node),
        walker.path.regions,
        scaler.identity,
        act,
        casts,
        _enabled(walker, scaler) if act != "given" else scaler.enabled,
        named,
        _modules(optimizer),
        identity_of(loss),
        scaled_by(loss)[0],
        new_scale,
        scaler.made,
        scaler.switch.symbol if isinstance(scaler.switch, Unknown) else None,
        closure,
        act != "step" or walker.engine.region_in_reach(walker.scope),
        _sharded(walker, optimizer) if act == "step" and not scaler.takes_half else None,
        decided,
        scaler.optional,
        scaler.initial,
        given,
        named is None and scaler.identity in walker.engine.unscaled_of_many,
        walker.scope.rounds() if act == "unscale_" else Rounds.ANY,
    )


def unscaled_by_framework(walker: Expressions, framework: Value, node: cst.CSTNode) -> None:
    """Tells that a framework unscales gradients in order to clip them."""
    identity = modules.identity_of(framework)
    precision = walker.path.load(identity, PRECISION)
    if isinstance(precision, Constant) and precision.value != "fp16":
        return
    walker.emit(FrameworkUnscaled(walker.place(node), walker.path.regions, precision == Constant("fp16")))
    walker.path.store(*_UNSCALED, Constant(True))


def may_step(walker: Expressions, node: cst.CSTNode) -> None:
    """Something out of sight is called: where a framework has unscaled gradients, it may be what applies them."""
    if walker.path.load(*_UNSCALED) == Constant(True):
        walker.path.store(*_UNSCALED, Constant(False))
        walker.emit(AmpHidden(walker.place(node), walker.path.regions))


def scaler_method(
    walker: Expressions, scaler: Scaler, name: str, given: calls.Arguments, node: cst.Call
) -> Value:
    """A method of a scaler."""
    first = given.positional[0] if given.positional else UNKNOWN
    match name:
        case "scale":
            loss = given.positional[0] if given.positional else given.keyword("outputs") or UNKNOWN
            event = _used(walker, scaler, name, node, loss=loss)
            walker.emit(event)
            if event.enabled is False:
                return loss
            if isinstance(loss, Sequence) and loss.exact:
                return Sequence(tuple(ScaledLoss(scaler.identity, item) for item in loss.items))
            return ScaledLoss(scaler.identity, loss)
        case "unscale_" | "step":
            optimizer = given.positional[0] if given.positional else given.keyword("optimizer") or UNKNOWN
            closure = _closure(given) if name == "step" else ""
            event = _used(walker, scaler, name, node, optimizer=optimizer, closure=closure)
            walker.emit(event)
            optimizers.note(walker, event, optimizer)
            if name == "step":
                walker.path.did(STEPPED if event.enabled is False else SCALER_STEPPED)
                if scaler.made is not None and not walker.silent:
                    walker.engine.stepped.add(scaler.identity)
                step(walker, optimizer, node, scaler=scaler.identity, closure=bool(closure))
            return NONE
        case "update":
            new_scale = first if given.positional else given.keyword("new_scale") or NONE
            walker.emit(_used(walker, scaler, name, node, new_scale=new_scale != NONE))
            return NONE
        case "get_scale":
            walker.emit(_used(walker, scaler, name, node))
            return Number((_SCALE, scaler.identity))
        case "state_dict" | "load_state_dict":
            walker.emit(_used(walker, scaler, name, node))
            return StateDict("scaler", scaler.identity) if name == "state_dict" else UNKNOWN
        case "is_enabled":
            on = scaler.enabled if scaler.switch is None else walker.known_truth(scaler.switch)
            if on is not None:
                return Constant(on)
            return scaler.switch or Unknown(("enabled", scaler.identity))
    return UNKNOWN


def stages_read(walker: Expressions, value: Value, node: cst.CSTNode) -> None:
    """Tells that the code asks a scaler itself in which stages its optimizers are."""
    scaler = as_scaler(value)
    if scaler is not None:
        walker.emit(_used(walker, scaler, "stages", node))


# optimizers and gradients ----------------------------------------------------------------------------------------


def identity_of(value: Value) -> Hashable:
    """What tells a loss, an optimizer or an object apart from others."""
    match value:
        case Optimizer() if value.owner is not None:
            return None if is_one_of_many(value.identity) else (value.identity, value.owner)
        case Optimizer() | Instance() if not is_one_of_many(value.identity):
            return value.identity
        case Unknown() if not is_one_of_many(value.symbol):
            return value.symbol
    return None


def is_one_of_many(symbol: Hashable) -> bool:
    """Whether a symbol stands for another value in each round of a loop."""
    if isinstance(symbol, tuple):
        return any(is_one_of_many(part) for part in symbol)
    return symbol is ONE_OF_MANY


def _noted(walker: Expressions, optimizer: Value, note: str) -> bool:
    key = optimizer.identity if isinstance(optimizer, Optimizer) else identity_of(optimizer)
    return key is not None and walker.path.load(key, note) is not None


def _sharded(walker: Expressions, optimizer: Value) -> Place | None:
    """Where the parameters of an optimizer were split among processes, or None."""
    if not isinstance(optimizer, Optimizer):
        return None
    for owner in (optimizer.identity, *sorted(optimizer.modules, key=repr)):
        note = walker.path.load(owner, SHARDED)
        if isinstance(note, Sharded):
            return note.place
    return None


def _modules(optimizer: Value) -> frozenset[Hashable]:
    return optimizer.modules if isinstance(optimizer, Optimizer) else frozenset()


def _casts(walker: Expressions, optimizer: Value) -> tuple[CastParameters, ...]:
    if not isinstance(optimizer, Optimizer):
        return ()
    return tuple(CastParameters(dtype, place) for dtype, place in modules.casts_of(walker, optimizer))


def step(
    walker: Expressions,
    optimizer: Value,
    node: cst.CSTNode,
    *,
    via_scaler: bool = False,
    scaler: Hashable = None,
    framework: bool = False,
    closure: bool = False,
) -> None:
    """Tells that an optimizer updates its parameters here, through ``scaler`` or a framework's one, or not."""
    wrapped = _noted(walker, optimizer, "<wrapped>")
    walker.emit(
        OptimizerStepped(
            walker.place(node),
            walker.path.regions,
            identity_of(optimizer),
            via_scaler or scaler is not None,
            () if wrapped else _casts(walker, optimizer),
            walker.path.iteration,
            scaler,
            _modules(optimizer),
            framework or _noted(walker, optimizer, "<prepared>"),
            isinstance(optimizer, Optimizer),
            closure,
        )
    )


def optimizer_method(
    walker: Expressions, optimizer: Value, name: str, given: calls.Arguments, node: cst.Call
) -> Value:
    """A method of an optimizer."""
    match name:
        case "step":
            closure = given.positional[0] if given.positional else given.keyword("closure")
            if isinstance(closure, (FunctionValue, BoundMethod, Partial, Decorated)):
                calls.call_value(walker, closure, calls.Arguments(), node)
            step(walker, optimizer, node, closure=closure is not None and closure != NONE)
            walker.path.did(STEPPED)
            return NONE
        case "zero_grad":
            zeroed(walker, node, optimizer=optimizer)
            return NONE
        case "state_dict":
            return StateDict("optimizer", identity_of(optimizer), walker.place(node))
        case "load_state_dict":
            walker.path.store(identity_of(optimizer), RESTORED, NONE)
        case "add_param_group" if given.positional:
            return NONE
    return UNKNOWN


def zeroed(
    walker: Expressions,
    node: cst.CSTNode,
    *,
    optimizer: Value = UNKNOWN,
    of: frozenset[Hashable] = frozenset(),
) -> None:
    """Tells that gradients are dropped."""
    walker.path.did(ZEROED)
    walker.emit(
        GradientsZeroed(
            walker.place(node), walker.path.regions, identity_of(optimizer), of or _modules(optimizer)
        )
    )


def gradient_function(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> Value | None:
    """A function of a library that works on gradients: ``clip_grad_norm_`` and the like. None for others."""
    first = given.positional[0] if given.positional else UNKNOWN
    if isinstance(first, ScaledGradient):
        return scaled_gradient_method(walker, first, name.rpartition(".")[2], given.positional[1:], node)
    if isinstance(first, Gradient) and name.startswith("torch."):
        return gradient_method(walker, first, name.rpartition(".")[2], node)
    op = known.GRADIENT_OPS.get(name)
    if op is None:
        return None
    named = given.by_name(op.parameters)
    limit = named.get(op.parameters[1]) if len(op.parameters) > 1 else None
    walker.emit(
        GradientsRead(
            walker.place(node),
            walker.path.regions,
            name.rpartition(".")[2],
            modules.parameters_in(walker, named.get(op.parameters[0], UNKNOWN)),
            op.clips,
            _number(limit),
        )
    )
    return Unknown(walker.fresh(node))


def gradient_method(walker: Expressions, gradient: Gradient, name: str, node: cst.Call) -> Value:
    """A method of ``parameter.grad``."""
    clips = name in known.LIMITS
    if clips or name in known.NORMS:
        walker.emit(
            GradientsRead(
                walker.place(node),
                walker.path.regions,
                name,
                frozenset() if gradient.module is None else frozenset({gradient.module}),
                clips,
            )
        )
    elif name == "zero_":
        zeroed(walker, node, of=frozenset() if gradient.module is None else frozenset({gradient.module}))
    elif name in known.KEEPS:
        return gradient
    return UNKNOWN


def schedule(
    walker: Expressions, scheduler: Scheduler, name: str, given: calls.Arguments, node: cst.Call
) -> Value:
    """A method of a learning-rate scheduler."""
    if name == "step" and not given.all:
        place, path = walker.place(node), walker.path
        event = SchedulerStepped(
            place, path.regions, scheduler.identity, scheduler.optimizer, _compared(walker)
        )
        walker.emit(event)
    return NONE if name == "step" else UNKNOWN


def gradients_of(walker: Expressions, given: calls.Arguments, node: cst.Call) -> Value:
    """``torch.autograd.grad(outputs, …)``. With create_graph the result becomes part of a loss."""
    outputs = given.positional[0] if given.positional else given.keyword("outputs") or UNKNOWN
    scalers, unclear = scaled_by(outputs)
    if scalers and not unclear and given.keyword("create_graph") == Constant(True):
        gradient = ScaledGradient(scalers[0], walker.place(node))
        return Sequence((gradient,), exact=False)
    return Unknown(walker.fresh(node))


def scaled_gradient_method(
    walker: Expressions, gradient: ScaledGradient, name: str, others: tuple[Value, ...], node: cst.CSTNode
) -> Value:
    """What becomes of a gradient that is still scaled."""
    name = name.strip("_")
    if name in ("div", "mul", "truediv"):
        return gradient if others and all(isinstance(value, Constant) for value in others) else UNKNOWN
    if name in known.PROPORTIONAL:
        return gradient
    if name not in ("add", "sub"):
        return UNKNOWN
    if all(isinstance(value, ScaledGradient) or value == Constant(0) for value in others):
        return gradient
    if all(isinstance(value, (Constant, Number, Tensor)) for value in others):
        walker.emit(
            ScaledGradientMixed(walker.place(node), walker.path.regions, gradient.scaler, gradient.born, name)
        )
    return UNKNOWN


def _number(value: Value | None) -> float | None:
    if isinstance(value, Constant) and isinstance(value.value, (int, float)):
        return float(value.value)
    return None
