"""What code out of sight computes: ``loss = model.training_step(batch)`` in a region runs a model there, if gradients
of it are taken."""

from __future__ import annotations

from functools import partial

from amplint.events import ForwardHidden, enabled_region
from amplint.flow.core.api import Api
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.notes import ComputedIn
from amplint.flow.state.conditions import leaves
from amplint.flow.state.short import singles
from amplint.flow.state.symbols import made_from
from amplint.flow.state.values import NONE, Unknown, Value
from amplint.lowering.program import Node


def computed(api: Api, result: Value, node: Node) -> Value:
    """The result of a call that is not followed, with a note of the regions around."""
    region = enabled_region(regions(api))
    is_half = region is not None and region.dtype is not None and region.dtype.is_half
    if is_half and gradients(api):
        for leaf in leaves(result):
            if isinstance(leaf, Unknown):
                api.set_note(leaf.symbol, ComputedIn(api.place(node), regions(api)))
    return result


def used(api: Api, value: Value | None) -> None:
    """Something is computed with a value, or its gradients are: if code out of sight has computed it in a region, that
    is told now, once."""
    if value is None or not gradients(api):
        return
    for one in singles(value):
        if isinstance(one, Unknown):
            known = [name for name in (one.symbol, *made_from(one.symbol)) if api.notes(name, ComputedIn)]
            for name in sorted(known, key=lambda name: name.order):
                api.each_item(api.noted(name, ComputedIn) or NONE, partial(_tell, api))
                api.drop_note(name, ComputedIn)


def _tell(api: Api, note: Value) -> Value:
    if isinstance(note, ComputedIn):
        api.emit(ForwardHidden(note.place, note.regions))
    return NONE
