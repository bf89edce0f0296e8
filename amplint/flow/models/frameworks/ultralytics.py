"""ultralytics: its autocast, and subclasses of its trainer.

Source: ``ultralytics/utils/torch_utils.py``, ``ultralytics/engine/trainer.py`` of ultralytics 8.4. ``autocast(enabled,
device)`` takes a type in place of a flag, too. ``BaseTrainer.optimizer_step`` unscales, clips, steps, updates and drops
gradients with ``self.scaler`` and ``self.optimizer``.
"""

from __future__ import annotations

from dataclasses import replace

from amplint.amp.tokens import SCALES_LOSSES
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch import autocast, optimizers
from amplint.flow.models.torch.gradients import zeroed
from amplint.flow.models.torch.values import MODULE, OPTIMIZER, SCALER, DTypeValue
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import NONE, TRUE, Instance, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_AUTOCAST = "ultralytics.utils.torch_utils.autocast"
TRAINERS = ("ultralytics.engine.trainer.BaseTrainer", "ultralytics.models.yolo.detect.DetectionTrainer")
_ATTRIBUTES = {"scaler": SCALER, "optimizer": OPTIMIZER, "model": MODULE}
"""What attributes of a trainer are."""


@models.call(_AUTOCAST, weight=Weight.ENTRY, tags=("opens a region",))
def _autocast(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``autocast(enabled=self.amp)``, ``autocast(torch.bfloat16)``."""
    given = arguments.get(0, "enabled")
    if not isinstance(given, DTypeValue):
        return autocast.make(api, name, arguments, node)
    on = replace(arguments, positional=(TRUE, *arguments.positional[1:]), keywords=())
    return replace(autocast.make(api, name, on, node), dtype=given.dtype, dtype_given=True)


def _step(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``self.optimizer_step()``."""
    optimizer = api.attribute(trainer, "optimizer", node)
    return api.each(optimizer, lambda one: _stepped(api, one, node))


def _stepped(api: Api, optimizer: Value, node: Node) -> Value:
    optimizers.stepped(api, optimizer, node, via_scaler=True, framework=True)
    zeroed(api, node, optimizer=optimizer)
    return NONE


roles.give(models, TRAINERS, {"optimizer_step": Role(_step)})
models.about(*TRAINERS, weight=Weight.NOTHING, tags=(SCALES_LOSSES,))


@models.into(models.attributes, *TRAINERS)
def _attribute(api: Api, trainer: Instance, name: str, node: Node | None) -> Value | None:
    kind = _ATTRIBUTES.get(name)
    return Unknown(symbol("attribute", trainer.identity, name), kind) if kind is not None else None
