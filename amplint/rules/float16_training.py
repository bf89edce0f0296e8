"""What the rules on float16 training whose loss nobody scales share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from amplint.events import (
    Backward,
    DType,
    Event,
    Forward,
    ForwardHidden,
    LoopIterated,
    OptimizerStepped,
    Region,
    ScalerAtHand,
    ThreadBegan,
    ThreadEnded,
    enabled_region,
    innermost,
)
from amplint.findings import Level
from amplint.rules.base import FlowRule, Report

LOST = "Gradients below 6e-8 become zero, and the weights they belong to stop learning."
"""What becomes of gradients in float16 that no scaler has enlarged."""
_LOST = "the type was lost"


@dataclass(frozen=True)
class Trained:
    """A float16 region in which a model ran that autograd records, and the backward pass of what came out."""

    region: Region
    backward: Backward | None = None
    scaler: ScalerAtHand | None = None
    """The scaler that could have scaled the loss, if there is one."""
    loops: frozenset[Hashable] = frozenset()
    """The loops that began since the model ran."""


class Float16Training(FlowRule):
    """The state is None, what was trained since the last step, or "the type was lost" in a thread."""

    def concerns(self, event: Backward) -> bool:
        """Whether a backward pass of a loss from a float16 region is what the rule is about."""
        raise NotImplementedError

    def tell(self, trained: Trained, backward: Backward, step: OptimizerStepped, report: Report) -> None:
        """Reports the backward pass whose gradients a step applies as they are."""
        raise NotImplementedError

    def on_thread_began(self, state: Hashable, event: ThreadBegan, report: Report) -> Hashable:
        # a region that lost its type on the way there is autocast-lost-in-threads
        here, there = innermost(event.started_in), innermost(event.regions)
        lost = here is not None and there is not None and here.dtype is not there.dtype
        return _LOST if state is None and lost else state

    def on_thread_ended(self, state: Hashable, event: ThreadEnded, report: Report) -> Hashable:
        return None if state == _LOST else state

    def on_forward(self, state: Hashable, event: Forward, report: Report) -> Hashable:
        region = _float16_region(event) if event.gradients and event.trains else None
        return Trained(region) if state is None and region is not None else state

    def on_forward_hidden(self, state: Hashable, event: ForwardHidden, report: Report) -> Hashable:
        region = _float16_region(event)
        return Trained(region) if state is None and region is not None else state

    def on_loop_iterated(self, state: Hashable, event: LoopIterated, report: Report) -> Hashable:
        """A model that ran in the round before, and of which nothing was differentiated there, was only looked at."""
        if not isinstance(state, Trained) or state.backward is not None:
            return state
        if event.number == 0:
            return replace(state, loops=state.loops | {event.loop})
        return state if event.loop in state.loops else None

    def on_backward(self, state: Hashable, event: Backward, report: Report) -> Hashable:
        if not isinstance(state, Trained):
            return state
        if not self.concerns(event):
            return None
        return replace(state, backward=event, scaler=self.context.scaler_at_hand(event))

    def on_optimizer_stepped(self, state: Hashable, event: OptimizerStepped, report: Report) -> Hashable:
        if not isinstance(state, Trained) or state.backward is None:
            return state
        if not event.framework and not event.via_scaler and not event.casts:
            self.tell(state, state.backward, event, report)
        return None


def level_of(step: OptimizerStepped) -> Level | None:
    """How bad it is that an optimizer applies such gradients, if it is less than else: what one from out of sight does
    beside that, nobody knows."""
    return None if step.in_sight else Level.WARNING


def _float16_region(event: Event) -> Region | None:
    """The region that runs an event in float16, if it is not one of a framework, which scales losses by itself."""
    region = enabled_region(event.regions)
    is_float16 = region is not None and region.dtype is DType.FLOAT16 and not region.framework
    return region if is_float16 else None
