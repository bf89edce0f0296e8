"""Backward of autograd Functions of the project: it comes after the region in which they are applied, and what it runs
again runs without it.

Source: measured with torch 2.13.0; ``torch.autograd.Function`` keeps no state of autocast, ``custom_fwd`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

from amplint.events import CustomFunction, Place, Region, RunAgain, enabled_region
from amplint.flow.core.api import Api
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import regions
from amplint.flow.state.store import Ambient
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import Note
from amplint.lowering.program import Node


@dataclass(frozen=True, slots=True)
class Applied:
    """A Function that was applied inside a region and leaves autocast to chance in its backward."""

    function: CustomFunction
    region: Region
    place: Place


@dataclass(frozen=True, slots=True)
class InFunction(Ambient):
    """The Function whose forward is being walked, or its backward."""

    applied: Applied | None = None
    backward: bool = False
    forward: bool = False

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """Whether calls are followed."""
        return self.applied is not None


@dataclass(frozen=True, slots=True)
class Lowered(Note):
    """A layer ran in half precision in the forward of a Function."""

    applied: Applied


models = Registry(ambients=[InFunction()])


def in_function(api: Api) -> bool:
    """Whether what is being walked is the forward or the backward of a Function."""
    inside = api.ambient(InFunction)
    return inside.forward or inside.backward


def runs_again(api: Api, layer: Symbol, node: Node) -> bool:
    """Whether a layer with float32 weights that autocast runs in half precision runs in a backward, without the region
    that it had in the forward: tells of it. In a forward it is noted."""
    inside = api.ambient(InFunction)
    if inside.applied is None:
        return False
    if not inside.backward:
        if enabled_region(regions(api)) is not None:
            api.set_note(layer, Lowered(inside.applied))
        return False
    if regions(api) or api.note(layer, Lowered) != Lowered(inside.applied):
        return False
    applied = inside.applied
    api.emit(RunAgain(api.place(node), (), applied.function, applied.region, applied.place))
    return True
