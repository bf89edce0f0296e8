"""apex: ``amp.initialize``, ``amp.scale_loss``, and optimizers that own the backward pass.

Source: ``apex/amp/_initialize.py``, ``apex/amp/handle.py``, ``apex/fp16_utils/fp16_optimizer.py`` of apex (2019 to
2024). O1 patches the functions of torch so that they cast by themselves, wherever they are called; O2 and O3 cast the
weights, let ``forward`` cast its inputs, and its outputs to float32. So no types are known of a model that apex has
initialised but those of its outputs.
"""

from __future__ import annotations

from functools import partial

from amplint.amp.apex import INITIALIZE
from amplint.amp.tokens import SCALES_LOSSES
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch import losses, optimizers
from amplint.flow.models.torch.gradients import zeroed
from amplint.flow.models.torch.notes import ParametersCast, Prepared, Wrapped
from amplint.flow.models.torch.values import SCALER, Optimizer, Parameters, ScaledLoss, StateDict
from amplint.flow.models.torch.weights import cast_parameters
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import FALSE, NONE, Constant, Iteration, Mapping, Sequence, Value
from amplint.lowering.program import Node

models = Registry()

_SCALERS = symbol("apex.amp")
"""Names the scalers of apex: there is one set of them in a process."""
_LEVEL = INITIALIZE.index("opt_level")
_CAST = ("O2", "O3")
"""The levels at which the outputs of a model become float32."""
_OWN_BACKWARD = (
    "apex.fp16_utils.FP16_Optimizer",
    "apex.optimizers.FP16_Optimizer",
    "apex.contrib.optimizers.FP16_Optimizer",
)
_SAME = (
    "apex.parallel.convert_syncbn_model",
    "apex.parallel.LARC",
    "apex.parallel.LARC.LARC",
    "apex.fp16_utils.prep_param_lists",
)


# amp -------------------------------------------------------------------------------------------------------------


@models.call(
    "apex.amp.initialize", "apex.amp.frontend.initialize", weight=Weight.ENTRY, tags=(SCALES_LOSSES,)
)
def _initialize(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``model, optimizer = amp.initialize(model, optimizer, opt_level="O1")``."""
    given, optimizer = arguments.get(0, "models"), arguments.get(1, "optimizers")
    if given is None:
        return api.unknown(node)
    if arguments.get(2, "enabled") != FALSE:
        level = arguments.get(_LEVEL, "opt_level") or Constant("O1")
        _each(api, given, partial(_initialised, api, level))
        if optimizer is not None:
            roles.prepare(api, api.contents(optimizer), Prepared())
    return given if optimizer in (None, NONE) else Sequence((given, optimizer))


def _each(api: Api, values: Value, action: roles.Action) -> None:
    """Does something with a value, or with each value of a list."""
    held = api.contents(values)
    for value in held.items if isinstance(held, Sequence) else (held,):
        api.each(value, action)


def _initialised(api: Api, level: Value, model: Value) -> Value:
    identity = roles.owner_of(api, model)
    if identity is not None and level != Constant("O0"):
        cast_parameters(api, model, ParametersCast(None))
        float32 = isinstance(level, Constant) and level.value in _CAST
        api.set_note(identity, Prepared(float32_out=float32))
    return NONE


@models.call("apex.amp.scale_loss", "apex.amp.handle.scale_loss", weight=Weight.ENTRY, tags=(SCALES_LOSSES,))
def _scale_loss(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``with amp.scale_loss(loss, optimizer) as scaled_loss``: at its end the gradients are divided by the scale. A
    loss that is scaled already is scaled once more."""
    loss = arguments.get(0, "loss")
    return ScaledLoss(None, loss if loss is not None else api.unknown(node))


@models.call("apex.amp.master_params")
def _master_params(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``amp.master_params(optimizer)``."""
    modules = optimizers.modules_of(api, arguments.get(0, "optimizer"))
    parts = tuple(Parameters(module, one=True) for module in sorted(modules, key=lambda one: one.order))
    return (
        Iteration(parts[0])
        if len(parts) == 1
        else Sequence(parts, exact=False)
        if parts
        else api.unknown(node)
    )


@models.call("apex.amp.state_dict", weight=Weight.EFFECT)
def _state(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return StateDict(SCALER, _SCALERS, api.place(node))


@models.call("apex.amp.load_state_dict", weight=Weight.EFFECT)
def _load_state(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return NONE


@models.call(*_SAME)
def _same(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``LARC(optimizer)``, ``convert_syncbn_model(model)``."""
    found = roles.first(arguments)
    if isinstance(found, Optimizer):
        api.set_note(found.identity, Wrapped())
    return found


# optimizers that own the backward pass ---------------------------------------------------------------------------


def _tell(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``FP16_Optimizer(optimizer, dynamic_loss_scale=True)`` keeps float32 copies of half parameters."""
    inner = arguments.get(0, "init_optimizer")
    if inner is not None:
        api.store(identity, "optimizer", inner)
        roles.prepare(api, inner, Prepared())
        roles.prepare(api, inner, Wrapped())


def _step(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    inner = roles.held_by(api, framework, "optimizer")
    if inner is None:
        optimizers.stepped(api, None, node, via_scaler=True, framework=True)
        return NONE
    return api.each(inner, lambda one: _stepped(api, one, node))


def _stepped(api: Api, optimizer: Value, node: Node) -> Value:
    optimizers.stepped(api, optimizer, node, via_scaler=True, framework=True)
    return NONE


def _zero(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    inner = roles.held_by(api, framework, "optimizer")
    if inner is None:
        zeroed(api, node)
        return NONE
    return api.each(inner, lambda one: _zeroed(api, one, node))


def _zeroed(api: Api, optimizer: Value, node: Node) -> Value:
    zeroed(api, node, optimizer=optimizer, of=optimizers.modules_of(api, optimizer))
    return NONE


def _backward(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    losses.backward(api, roles.first(arguments), node, ".backward()", unclear=True)
    return NONE


def _own_state(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """The state of such an optimizer holds that of its scaler."""
    own = StateDict(SCALER, roles.owner_of(api, framework), api.place(node))
    inner = roles.held_by(api, framework, "optimizer")
    if inner is None:
        return own
    state = api.each(inner, lambda one: roles.method(api, one, "state_dict", Arguments(), node))
    return Mapping((("loss_scaler", own), ("optimizer_state_dict", state)), place=api.place(node))


roles.give_constructor(models, _OWN_BACKWARD, _tell)
roles.give(
    models,
    _OWN_BACKWARD,
    {
        "backward": Role(_backward, tags=frozenset({SCALES_LOSSES})),
        "step": Role(_step),
        "zero_grad": Role(_zero),
        "clip_master_grads": roles.HIDDEN,
        "state_dict": Role(_own_state),
    },
)
