"""timm: scalers that are called with a loss and an optimizer, and the saver of its checkpoints.

Source: ``timm/utils/cuda.py``, ``timm/utils/checkpoint_saver.py`` of timm 1.0. ``NativeScaler`` scales, runs backward,
unscales and clips if it is told to, steps the optimizer and updates, with a torch.amp.GradScaler of its own.
"""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch import checkpoints, losses, optimizers
from amplint.flow.models.torch.losses import SCALES_LOSSES
from amplint.flow.models.torch.values import SCALER, StateDict
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import FALSE, NONE, Mapping, Value
from amplint.lowering.program import Node

models = Registry()

SCALERS = tuple(
    f"timm.{module}.{name}" for module in ("utils", "utils.cuda") for name in ("NativeScaler", "ApexScaler")
)
SAVERS = ("timm.utils.CheckpointSaver", "timm.utils.checkpoint_saver.CheckpointSaver")
_SAVED = ("model", "optimizer", "args", "model_ema", "amp_scaler")
"""The first parameters of the saver: what it writes the states of."""
_HAVE_STATE = frozenset({"model", "optimizer", "model_ema", "amp_scaler"})

roles.give_constructor(models, SCALERS)


def _train(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``loss_scaler(loss, optimizer, clip_grad=…, parameters=…)``."""
    named = arguments.by_name(("loss", "optimizer"))
    losses.backward(api, named.get("loss"), node, "loss scaler call", unclear=True)
    if arguments.keyword("need_update") != FALSE:
        optimizers.stepped(api, named.get("optimizer"), node, via_scaler=True, framework=True)
    return NONE


def _state(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    return StateDict(SCALER, roles.owner_of(api, framework), api.place(node))


roles.give(
    models,
    SCALERS,
    {
        "__call__": Role(_train, tags=frozenset({SCALES_LOSSES})),
        "state_dict": Role(_state),
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
