"""mmengine: wrappers of optimizers, which open regions, scale losses, step and zero.

Source: ``mmengine/optim/optimizer/*optimizer_wrapper*.py`` of mmengine 0.10. ``AmpOptimWrapper`` scales with a
torch.amp.GradScaler of its own and writes that into its state; the plain wrapper does none of this. Which of them a
parameter is, the configuration file decides.
"""

from __future__ import annotations

from dataclasses import replace

from amplint.amp.tokens import SCALES_LOSSES
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Kind, Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch import autocast, losses, optimizers
from amplint.flow.models.torch.gradients import zeroed
from amplint.flow.models.torch.regions import framework_region
from amplint.flow.models.torch.values import SCALER, DTypeValue, StateDict
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import NONE, Instance, Sequence, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_MODULES = ("mmengine.optim", "mmengine.optim.optimizer")
PLAIN = tuple(f"{module}.{name}" for module in _MODULES for name in ("OptimWrapper", "OptimWrapperDict"))
APEX = tuple(f"{module}.ApexOptimWrapper" for module in _MODULES)
AMP = tuple(f"{module}.AmpOptimWrapper" for module in _MODULES)
WRAPPER = "optim wrapper"
"""The kind of unknown objects that are used as a wrapper is."""

models.kinds += [Kind(WRAPPER, one_of=frozenset({"update_params", "optim_context"}))]


def _tell(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``AmpOptimWrapper(dtype="float16", optimizer=optimizer)``."""
    for name in ("optimizer", "dtype"):
        value = arguments.keyword(name)
        if value is not None:
            api.store(identity, name, value)


def _annotated(api: Api, own: Symbol) -> Value:
    """``optim_wrapper: OptimWrapper``: that, or one of the classes that derive from it."""
    return Unknown(own, WRAPPER)


def _inner(api: Api, framework: Value) -> Value:
    """The optimizer inside."""
    return roles.held_by(api, framework, "optimizer") or framework


def _region(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``optim_wrapper.optim_context(model)``: of an AmpOptimWrapper, or of one that may be one."""
    known = isinstance(framework, Instance)
    context = replace(framework_region(api, node, enabled=True if known else None), framework=not known)
    dtype = roles.held_by(api, framework, "dtype")
    return replace(context, dtype=dtype.dtype) if isinstance(dtype, DTypeValue) else context


def _backward(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    losses.backward(api, roles.first(arguments), node, ".backward()", unclear=True)
    return NONE


def _step(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    api.each(_inner(api, framework), lambda one: _stepped(api, one, node))
    return NONE


def _stepped(api: Api, optimizer: Value, node: Node) -> Value:
    optimizers.stepped(api, optimizer, node, via_scaler=True, framework=True)
    return NONE


def _zero(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    api.each(_inner(api, framework), lambda one: _zeroed(api, one, node))
    return NONE


def _zeroed(api: Api, optimizer: Value, node: Node) -> Value:
    zeroed(api, node, optimizer=optimizer, of=optimizers.modules_of(api, optimizer))
    return NONE


def _update(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``optim_wrapper.update_params(loss)``: backward, clip, step and zero_grad."""
    losses.backward(api, roles.first(arguments), node, ".update_params()", unclear=True)
    _step(api, framework, arguments, node)
    return _zero(api, framework, arguments, node)


def _state(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    inner = _inner(api, framework)
    if inner == framework:
        return api.unknown(node)
    return roles.method(api, inner, "state_dict", Arguments(), node)


def _state_with_scaler(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """The state of AmpOptimWrapper: the optimizer's, and that of its scaler."""
    identity = roles.owner_of(api, framework)
    own = symbol("scaler of", identity) if identity is not None else None
    return Sequence((_state(api, framework, arguments, node), StateDict(SCALER, own, api.place(node))))


@models.call(
    "mmengine.runner.autocast", "mmengine.runner.amp.autocast", weight=Weight.ENTRY, tags=("opens a region",)
)
def _autocast(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``with mmengine.runner.autocast(dtype=torch.bfloat16):``."""
    return autocast.make(api, name, arguments, node)


_SCALES = frozenset({SCALES_LOSSES})
ROLES = {
    "optim_context": roles.NULL,
    "backward": Role(_backward, tags=_SCALES),
    "step": Role(_step),
    "zero_grad": Role(_zero),
    "update_params": Role(_update, tags=_SCALES),
    "state_dict": Role(_state),
}
SCALED = ROLES | {
    "optim_context": Role(_region, Weight.ENTRY, roles.REGION.tags),
    "state_dict": Role(_state_with_scaler),
}

roles.give_constructor(models, PLAIN, _tell, weight=Weight.EFFECT)
roles.give_constructor(models, (*AMP, *APEX), _tell)
roles.give(models, PLAIN, ROLES)
roles.give(models, APEX, ROLES | {"state_dict": SCALED["state_dict"]})
roles.give(models, AMP, SCALED)
roles.give_kind(models, WRAPPER, ROLES | {"optim_context": SCALED["optim_context"]})
for _name in PLAIN:
    models.annotations[_name] = _annotated
