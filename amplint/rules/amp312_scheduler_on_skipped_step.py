"""Finds learning-rate schedulers that go on although the scaler skipped the step.

## What it does

Reports `scheduler.step()` that follows each `scaler.step(optimizer)` of the same optimizer, once for each
step, where the code never looks at `scaler.get_scale()`. Reports `scaler.get_scale() != before`, too, where the
scheduler goes on or not by that: the scale also differs after it has grown.

Silent: schedulers that step once an epoch; code that asks for the scale; schedulers and optimizers that come
from out of sight; scalers that are disabled.

This is advice, and off by default. Select it for code that resumes often, warms up over few steps, or turns
warnings into errors.

## Why is this bad

In the first steps the scale is too large and the scaler skips them. The scheduler counts them: a warmup over
100 steps loses its first four, and a schedule that ends at zero gets there early. If the very first step is
skipped, torch warns that the scheduler was called before the optimizer, which looks like a mistake in the
order of the calls and is none.

## What torch does at run time

Measured with torch 2.13.0: with infinite gradients in two of three steps `StepLR` divides the rate three
times while the weights change once. The first skipped step brings ``UserWarning: Detected call of
`lr_scheduler.step()` before `optimizer.step()` ``.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
scaler = torch.amp.GradScaler(device)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
```

## Use instead

A scale that has become smaller says that the step was skipped. One that differs does not: it grows as well.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
scaler = torch.amp.GradScaler(device)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    before = scaler.get_scale()
    scaler.update()
    if scaler.get_scale() >= before:
        scheduler.step()
```

## Fix safety

The fix is unsafe. `get_scale()` waits for the device, which costs a little in each step, and the schedule waits for
skipped steps. It keeps the scale before `update()` and steps the scheduler where the scale has not become smaller; a
comparison by `!=` or `==` becomes one by `<` or `>=`.

There is none where the step, the update and the scheduler stand in different blocks or functions, where the scaler is
made under a condition, and may be something else without it, and where it is not clear which of two scales is the later
one.

## References

* [pytorch#44511](https://github.com/pytorch/pytorch/issues/44511) and
  [pytorch#67590](https://github.com/pytorch/pytorch/issues/67590): the warning, and what to make of it
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from amplint.events import LoopEnded, LoopIterated, Place, ScalerUsed, SchedulerStepped
from amplint.findings import Level
from amplint.fixes.scheduling import CompareSmaller, StepIfMade
from amplint.rules.base import FlowRule, Report
from amplint.rules.wording import line_of

_LOOKS = "the code looks at the scale"
MOST = 4


@dataclass(frozen=True)
class Counted:
    """The scaler's steps of an optimizer since its scheduler went on, up to two; ``paired`` says that there
    was one step for the scheduler's step before. ``loop`` is the loop in which the last step stands, ``made`` where the
    scaler was made."""

    optimizer: Hashable
    place: Place
    made: Place | None = None
    steps: int = 1
    paired: bool = False
    loop: Hashable = None


@dataclass(frozen=True)
class Stepped:
    """What was counted by optimizer, and the loops that run, the innermost last."""

    counts: tuple[Counted, ...] = ()
    loops: tuple[Hashable, ...] = ()


State = Stepped | str


class SchedulerOnSkippedStep(FlowRule):
    """The state counts steps by optimizer, or is "the code looks at the scale" for good."""

    level = Level.ADVICE
    default = False
    shown_by = (SchedulerStepped,)
    never_without = (SchedulerStepped,)

    def start(self) -> Hashable:
        return Stepped()

    def on_loop_iterated(self, state: State, event: LoopIterated, report: Report) -> Hashable:
        if isinstance(state, str):
            return state
        around = state.loops
        if event.loop in around:
            around = around[: around.index(event.loop)]
        return replace(state, loops=(*around, event.loop))

    def on_loop_ended(self, state: State, event: LoopEnded, report: Report) -> Hashable:
        if isinstance(state, str) or event.loop not in state.loops:
            return state
        inside = state.loops[state.loops.index(event.loop) :]
        counts = tuple(
            replace(known, steps=2) if known.steps and known.loop in inside else known
            for known in state.counts
        )
        return Stepped(counts, state.loops[: -len(inside)])

    def on_scaler_used(self, state: State, event: ScalerUsed, report: Report) -> Hashable:
        if event.act == "get_scale" or isinstance(state, str):
            return _LOOKS
        if event.act != "step" or event.optimizer is None or event.enabled is False:
            return state
        known = _of(state, event.optimizer)
        loop = state.loops[-1] if state.loops else None
        if known is None:
            made = Counted(event.optimizer, event.place, event.made, loop=loop)
            return replace(state, counts=(*state.counts, made)[-MOST:])
        changed = Counted(
            event.optimizer, event.place, event.made, min(known.steps + 1, 2), known.paired, loop
        )
        return state if changed == known else _with(state, changed)

    def on_scheduler_stepped(self, state: State, event: SchedulerStepped, report: Report) -> Hashable:
        if event.compared is not None:
            scheduler = line_of(event.place, event.compared)
            trail = ((event.place, "the scheduler depends on it"),)
            smaller = CompareSmaller(event.compared)
            report.add(
                self,
                event.compared,
                "a scale that differs from the one before is taken for a skipped step",
                why=f"It differs as well when it has grown, every 2000 steps by default: the scheduler on {scheduler} "
                "then misses a step that was made. Only a scale that has become smaller tells of a skipped step.",
                help="Compare with `<`, or `>=`.",
                trail=trail,
                builder=smaller,
            )
        if isinstance(state, str):
            return state
        known = _of(state, event.optimizer)
        if known is None:
            return state
        if known.steps == 1 and known.paired:
            where = line_of(known.place, event.place)
            trail = ((known.place, "this step may be skipped"),)
            builder = StepIfMade(known.place, event.place, known.made)
            report.add(
                self,
                event.place,
                f"the scheduler goes on even when the scaler skips the step on {where}",
                why="The scaler skips the first steps of a run, until the scale has come down.",
                help="Step it only if the scale did not become smaller: "
                "`if scaler.get_scale() >= scale_before_update`.",
                trail=trail,
                builder=builder,
            )
        return _with(state, replace(known, steps=0, paired=known.steps == 1))


def _of(state: Stepped, optimizer: Hashable) -> Counted | None:
    return next((part for part in state.counts if part.optimizer == optimizer), None)


def _with(state: Stepped, changed: Counted) -> State:
    counts = tuple(changed if part.optimizer == changed.optimizer else part for part in state.counts)
    return replace(state, counts=counts)
