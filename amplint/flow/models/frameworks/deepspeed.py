"""DeepSpeed: an engine around the module, which casts the weights, scales the loss and steps.

Source: ``deepspeed/__init__.py``, ``deepspeed/runtime/engine.py`` of deepspeed 0.19. ``initialize`` gives engine,
optimizer, data loader and scheduler. What types the weights have and whether losses are scaled, a configuration file
says; so nothing is known of the engine but that it is a module.
"""

from __future__ import annotations

from amplint.amp.tokens import SCALES_LOSSES
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Kind, Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch import losses, optimizers
from amplint.flow.models.torch.notes import ParametersCast, Prepared
from amplint.flow.models.torch.values import MODULE, OPTIMIZER, Optimizer, ScaledLoss
from amplint.flow.models.torch.weights import cast_parameters
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import NONE, ContextManager, Instance, Sequence, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_MODEL, _OPTIMIZER = 1, 2
"""Positions in ``initialize(args, model, optimizer, …)``."""
_CLASSES = ("DeepSpeedEngine", "PipelineEngine")
ENGINES = tuple(
    f"{module}.{name}"
    for module in ("deepspeed", "deepspeed.runtime.engine", "deepspeed.runtime.pipe.engine")
    for name in _CLASSES
)
ENGINE = "engine"
"""The kind of unknown objects that run backward and step: engines, and optimizers that own the backward pass."""
_OWN_OPTIMIZERS = ("deepspeed.ops.", "deepspeed.runtime.fp16.onebit.")
_NULL = ("deepspeed.zero.Init", "deepspeed.zero.GatheredParameters", "deepspeed.OnDevice")

models.kinds += [
    Kind(MODULE, all_of=frozenset({"__call__", "backward", "step"})),
    Kind(
        ENGINE,
        all_of=frozenset({"backward", "step"}),
        none_of=frozenset({"parameters", "named_parameters", "eval", "train"}),
    ),
]


@models.call("deepspeed.initialize", weight=Weight.ENTRY, tags=(SCALES_LOSSES,))
def _initialize(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``engine, optimizer, loader, scheduler = deepspeed.initialize(model=model, …)``."""
    api.opaque(arguments, node)
    model = arguments.get(_MODEL, "model")
    if isinstance(model, (Instance, Unknown)):
        # the configuration file says to which type
        cast_parameters(api, model, ParametersCast(None))
    optimizer = arguments.get(_OPTIMIZER, "optimizer")
    if not isinstance(optimizer, (Optimizer, Instance)):
        optimizer = api.unknown(node, OPTIMIZER)
    roles.prepare(api, optimizer, Prepared())
    return Sequence((_engine(api, node), optimizer, api.unknown(node), api.unknown(node)))


@models.call("deepspeed.init_inference", "deepspeed.tp_model_init")
def _wrapped(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    api.opaque(arguments, node)
    return _engine(api, node)


def _engine(api: Api, node: Node) -> Value:
    return Unknown(api.fresh(node, "engine"), MODULE)


@models.into(models.annotations, *ENGINES)
def _annotated(api: Api, own: Symbol) -> Value:
    return Unknown(own, MODULE)


@models.call(*_NULL)
def _null(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``with deepspeed.zero.Init():``."""
    return ContextManager("null", api.fresh(node))


@models.namespace(*_OWN_OPTIMIZERS, weight=Weight.EFFECT)
def _optimizer(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``deepspeed.ops.adam.FusedAdam(model.parameters())``."""
    made = name.rpartition(".")[2][:1].isupper()
    return roles.optimizer_of(api, arguments, node) if made else None


def _backward(api: Api, engine: Value, arguments: Arguments, node: Node) -> Value:
    """``engine.backward(loss)`` gives the loss back. A module without argument computes no gradients."""
    loss = roles.first(arguments)
    losses.hand_over(api, arguments, node)  # what is known by its methods alone may be none of DeepSpeed's
    losses.backward(api, loss, node, ".backward()", unclear=True)
    return loss if loss is not None else NONE


def _step(api: Api, engine: Value, arguments: Arguments, node: Node) -> Value:
    optimizers.stepped(api, None, node, via_scaler=True, framework=True)
    return NONE


def _scale(api: Api, engine: Value, arguments: Arguments, node: Node) -> Value:
    """``engine.scale(loss).backward()``."""
    loss = roles.first(arguments)
    return ScaledLoss(None, loss) if loss is not None else api.unknown(node)


ROLES = {
    "backward": Role(_backward, tags=frozenset({SCALES_LOSSES})),
    "step": Role(_step),
}

roles.give_kind(models, ENGINE, ROLES)
roles.give_kind(models, MODULE, ROLES | {"scale": Role(_scale), "no_sync": roles.NULL})
