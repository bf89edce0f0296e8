"""ignite: engines that run a function for each batch, and handlers that write checkpoints.

Source: ``ignite/engine/__init__.py``, ``ignite/engine/engine.py``, ``ignite/handlers/checkpoint.py`` of pytorch-ignite
0.5. ``amp_mode="amp"`` opens a float16 region of torch.autocast; a scaler is there only if it is asked for, and is
``trainer.state.scaler`` then. A checkpoint has the states of what is in ``to_save``, and of nothing else.
"""

from __future__ import annotations

from functools import partial

from amplint.events import DType, Place
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch import checkpoints
from amplint.flow.models.torch.losses import SCALES_LOSSES
from amplint.flow.models.torch.values import Autocast
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    BoundMethod,
    Constant,
    External,
    Instance,
    Mapping,
    Note,
    Partial,
    Sequence,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

ENGINES = ("ignite.engine.Engine", "ignite.engine.engine.Engine")
_ENGINE = ENGINES[0]
_FACTORY = "ignite.engine.create_supervised_trainer"
_STEP = "ignite.engine.supervised_training_step"
_STEP_AMP = "ignite.engine.supervised_training_step_amp"
_OF_FACTORY = (
    "model",
    "optimizer",
    "loss_fn",
    "device",
    "non_blocking",
    "prepare_batch",
    "model_transform",
    "output_transform",
    "deterministic",
    "amp_mode",
    "scaler",
)
_OF_STEP_AMP = (*_OF_FACTORY[:8], "scaler")
_RAN = "ignite.engine.<step>"
"""What calls of a function that such a factory has made go by."""
CHECKPOINTS = ("ignite.handlers.Checkpoint", "ignite.handlers.checkpoint.Checkpoint")
MODEL_CHECKPOINTS = ("ignite.handlers.ModelCheckpoint", "ignite.handlers.checkpoint.ModelCheckpoint")
_COMMON = tuple(
    f"{module}.setup_common_training_handlers"
    for module in ("ignite.contrib.engines.common", "ignite.contrib.engines", "ignite.handlers.common")
)
ROUNDS = 2
"""So many batches an engine is run for: what one leaves, the next one meets."""


@dataclass_note
class _Made(Note):
    """Where an object was made."""


# one step of training --------------------------------------------------------------------------------------------


def _train(api: Api, told: dict[str, Value], node: Node) -> None:
    """What a supervised trainer does with a batch."""
    model, optimizer, loss_fn = (told.get(name, api.unknown(node)) for name in _OF_FACTORY[:3])
    nothing = Arguments()
    roles.method(api, optimizer, "zero_grad", nothing, node)
    region = _region(api, node) if told.get("amp_mode") == Constant("amp") else None
    if region is not None:
        api.enter(region, node)
    output = api.call(model, roles.given(api.unknown(node), node=node), node)
    loss = api.call(loss_fn, roles.given(output, api.unknown(node), node=node), node)
    if region is not None:
        api.leave(region, node)
    scaler = told.get("scaler", FALSE)
    api.each(loss, partial(_update, api, optimizer, scaler, node))


def _update(api: Api, optimizer: Value, scaler: Value, node: Node, loss: Value) -> Value:
    nothing = Arguments()
    if scaler in (FALSE, NONE):
        roles.method(api, loss, "backward", nothing, node)
        return roles.method(api, optimizer, "step", nothing, node)
    scaled = roles.method(api, scaler, "scale", roles.given(loss, node=node), node)
    api.each(scaled, lambda one: roles.method(api, one, "backward", nothing, node))
    roles.method(api, scaler, "step", roles.given(optimizer, node=node), node)
    return roles.method(api, scaler, "update", nothing, node)
