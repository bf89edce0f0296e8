"""timm: scalers that are called with a loss and an optimizer, and the saver of its checkpoints.

Source: ``timm/utils/cuda.py``, ``timm/utils/checkpoint_saver.py`` of timm 1.0. ``NativeScaler`` scales, runs backward,
unscales and clips if it is told to, steps the optimizer and updates, with a torch.amp.GradScaler of its own in the
attribute ``_scaler``.
"""

from __future__ import annotations

from functools import partial

from amplint.amp.tokens import SCALES_LOSSES
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch import checkpoints, losses, optimizers
from amplint.flow.models.torch.values import SCALER, Scaler, StateDict
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import FALSE, NONE, TRUE, External, Mapping, Value
from amplint.lowering.program import Node

models = Registry()

_PARAMETERS = ("loss", "optimizer", "clip_grad", "clip_mode", "parameters", "create_graph", "need_update")


def _both(name: str) -> tuple[str, str]:
    return f"timm.utils.{name}", f"timm.utils.cuda.{name}"


SAVERS = ("timm.utils.CheckpointSaver", "timm.utils.checkpoint_saver.CheckpointSaver")
_SAVED = ("model", "optimizer", "args", "model_ema", "amp_scaler")
"""The first parameters of the saver: what it writes the states of."""
_HAVE_STATE = frozenset({"model", "optimizer", "model_ema", "amp_scaler"})


# NativeScaler ----------------------------------------------------------------------------------------------------


def _makes_scaler(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``NativeScaler()`` makes a GradScaler and keeps it as ``_scaler``."""
    api.store(identity, "_scaler", api.call(External("torch.amp.GradScaler"), Arguments(), node))


def _scaler(api: Api, framework: Value) -> Value:
    """The GradScaler of a NativeScaler. May be a Choice."""
    held = roles.held_by(api, framework, "_scaler")
    return Scaler(symbol("scaler of", roles.owner_of(api, framework))) if held is None else held


def _train(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``loss_scaler(loss, optimizer, clip_grad=…, parameters=…)``. What it does between backward and the step, to
    unscale and to clip, is right."""
    named = arguments.by_name(_PARAMETERS)
    loss = named.get("loss", api.unknown(node))
    scaler = _scaler(api, framework)
    scaled = roles.method(api, scaler, "scale", roles.given(loss, node=node), node)
    api.each(scaled, partial(_backward, api, node))
    update = named.get("need_update", TRUE)
    return api.each(api.truth(update), partial(_updated, api, scaler, named.get("optimizer"), node))


def _backward(api: Api, node: Node, loss: Value) -> Value:
    losses.backward(api, loss, node, "loss scaler call")
    return NONE


def _updated(api: Api, scaler: Value, optimizer: Value | None, node: Node, update: Value) -> Value:
    if update == TRUE:
        given = (optimizer if optimizer is not None else api.unknown(node),)
        roles.method(api, scaler, "step", roles.given(*given, node=node), node)
        roles.method(api, scaler, "update", Arguments(), node)
    return NONE


def _state(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    return roles.method(api, _scaler(api, framework), "state_dict", Arguments(), node)


def _restored(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    return roles.method(api, _scaler(api, framework), "load_state_dict", arguments, node)


roles.give_constructor(models, _both("NativeScaler"), _makes_scaler)
roles.give(
    models,
    _both("NativeScaler"),
    {
        "__call__": Role(_train, tags=frozenset({SCALES_LOSSES})),
        "state_dict": Role(_state),
        "load_state_dict": Role(_restored),
    },
)


# ApexScaler ------------------------------------------------------------------------------------------------------


def _train_by_apex(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``loss_scaler(loss, optimizer)`` with the scaler of apex."""
    named = arguments.by_name(_PARAMETERS)
    losses.backward(api, named.get("loss"), node, "loss scaler call", unclear=True)
    if named.get("need_update") != FALSE:
        optimizers.stepped(api, named.get("optimizer"), node, via_scaler=True, framework=True)
    return NONE


def _state_of_apex(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    return StateDict(SCALER, roles.owner_of(api, framework), api.place(node))


roles.give_constructor(models, _both("ApexScaler"))
roles.give(
    models,
    _both("ApexScaler"),
    {
        "__call__": Role(_train_by_apex, tags=frozenset({SCALES_LOSSES})),
        "state_dict": Role(_state_of_apex),
        "load_state_dict": roles.LOADED,
    },
)


# checkpoints -----------------------------------------------------------------------------------------------------


def _tell(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``CheckpointSaver(model, optimizer, amp_scaler=loss_scaler)``."""
    named = arguments.by_name(_SAVED)
    # what is None is not written
    items = tuple((key, value) for key, value in named.items() if key in _HAVE_STATE and value != NONE)
    rest = (api.unknown(node),) if arguments.unclear else ()
    api.store(identity, "saved", Mapping(items, rest, place=api.place(node)))


roles.give_constructor(models, SAVERS, _tell, weight=Weight.EFFECT)


def _save(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``saver.save_checkpoint(epoch)``."""
    checkpoints.saved(api, roles.states_of(api, roles.held_by(api, framework, "saved"), node), node)
    return api.unknown(node)


roles.give(models, SAVERS, {"save_checkpoint": Role(_save), "save_recovery": Role(_save)})
