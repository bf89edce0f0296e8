"""One step of training as a framework runs it: region, forward, loss, backward, step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from amplint.flow.core.api import Api, Arguments
from amplint.flow.models.frameworks import roles
from amplint.flow.models.torch.values import Autocast
from amplint.flow.state.values import External, Value
from amplint.lowering.program import Node

ROUNDS = 2
"""For so many batches training is played: what one leaves, the next one meets."""
_NOTHING = Arguments()


@dataclass(frozen=True, slots=True)
class Step:
    """What is trained, and how: ``criterion`` is None where the model gives the loss, ``scaler`` where the loss is not
    scaled; ``region``: the forward runs in a float16 region of torch.autocast."""

    model: Value
    optimizer: Value
    criterion: Value | None = None
    scaler: Value | None = None
    region: bool = False


def run(api: Api, step: Step, node: Node) -> None:
    """Plays a step. All of it is told of at one place."""
    _of_each(api, step.optimizer, "zero_grad", _NOTHING, node)
    context = _region(api, node)
    if step.region:
        api.enter(context, node)
    loss = api.call(step.model, roles.given(api.unknown(node), node=node), node)
    if step.criterion is not None:
        loss = api.call(step.criterion, roles.given(loss, api.unknown(node), node=node), node)
    if step.region:
        api.leave(context, node)
    if step.scaler is None:
        _of_each(api, loss, "backward", _NOTHING, node)
        _of_each(api, step.optimizer, "step", _NOTHING, node)
        return
    scaled = api.each(loss, partial(_scaled, api, step.scaler, node))
    _of_each(api, scaled, "backward", _NOTHING, node)
    _of_each(api, step.scaler, "step", roles.given(step.optimizer, node=node), node)
    _of_each(api, step.scaler, "update", _NOTHING, node)


def make_scaler(api: Api, node: Node) -> Value:
    """The scaler that a framework makes for itself."""
    return api.call(External("torch.amp.GradScaler"), _NOTHING, node)


def _scaled(api: Api, scaler: Value, node: Node, loss: Value) -> Value:
    return _of_each(api, scaler, "scale", roles.given(loss, node=node), node)


def _of_each(api: Api, value: Value, name: str, arguments: Arguments, node: Node) -> Value:
    return api.each(value, lambda one: roles.method(api, one, name, arguments, node))


def _region(api: Api, node: Node) -> Autocast:
    return Autocast(api.place(node), api.fresh(node, "region"), "cuda", None, dtype_given=False)
