"""Finds gradient scalers that are made anew while they are in use.

## What it does

Reports a `GradScaler(...)` that is built again each time round a loop, in a function that a loop calls, or by
the constructor of a helper object that is made there, and then steps an optimizer that the scaler before it has
already stepped. Without a loop in sight it is a warning: for a function that takes a single step of an optimizer that
was there before, with a scaler that it makes for itself and keeps nowhere.

Silent: where the optimizer is made anew as well, as in a loop over folds or trials; scalers that are
disabled; a second scaler for another optimizer; a scaler that loads the state of the one before; a function that has
a loop around its steps, since it may be the whole training.

## Why is this bad

A scaler learns. It starts with a scale that is far too large on purpose, 65536, halves it and skips the step
each time that a gradient overflows, and doubles it after 2000 good steps. A new scaler knows nothing of
that. Made once an epoch, it throws away the first steps of every epoch; made for each step, it may never
apply one. It never grows either, because the count of good steps begins anew. Nothing raises and nothing
warns.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, float16, a small network whose gradients fit below a scale of 4096,
ten epochs of twenty steps:

| a scaler for | steps skipped, of 200 | scale at the end |
|---|---:|---:|
| the whole run | 4 | 4096 |
| each epoch | 37 | 8192 |
| each step | 200 | 32768 |

In the last row the weights are those of the beginning: training did nothing.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

for _ in range(3):
    scaler = torch.amp.GradScaler(device)
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

for _ in range(3):
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

Where a function trains one epoch, give it the scaler, as it is given the optimizer.

## Fix safety

The fix moves the construction above the loops of the function, and is unsafe: an outer loop that makes a new
model and optimizer, such as one over folds, wants a new scaler, too. There is no fix where the loop is in
another function than the construction, or where the arguments change in the loop: make the scaler where the
optimizer is made, and put it into the checkpoint beside that (see scaler-not-saved).

## References

* [torch.amp.GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [pytorch_cnn_trainer#10](https://github.com/oke-aditya/pytorch_cnn_trainer/issues/10) and
  [composer#1376](https://github.com/mosaicml/composer/pull/1376): the mistake in the field
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from amplint.events import ObjectMade, OptimizerMade, Place, ScalerMade, ScalerUsed
from amplint.findings import Level
from amplint.fixes.base import NoFix
from amplint.fixes.scaling import HoistScaler
from amplint.rules.base import FlowRule, Report
from amplint.rules.ledger import of_scaler
from amplint.rules.wording import line_of


@dataclass(frozen=True)
class Stepped:
    """An optimizer that a scaler has stepped; ``anew`` is where the scaler was made again since, or the object
    whose constructor makes it, if ``held``."""

    optimizer: Hashable
    scaler: Hashable
    place: Place
    anew: Place | None = None
    held: bool = False


State = tuple[Stepped, ...]
MOST = 4
"""So many optimizers are kept in mind."""


class ScalerInLoop(FlowRule):
    """The state holds the optimizers that scalers have stepped."""

    level = Level.ERROR
    shown_by = (ScalerMade,)
    evidence = ("scale",)

    def start(self) -> Hashable:
        return ()

    def on_scaler_made(self, state: State, event: ScalerMade, report: Report) -> Hashable:
        if event.enabled is False or not event.anew:
            return state
        return tuple(
            replace(known, anew=event.place, held=False) if known.scaler == event.scaler else known
            for known in state
            if not self.context.is_of_call(known.optimizer, event.once_in)
        )

    def on_optimizer_made(self, state: State, event: OptimizerMade, report: Report) -> Hashable:
        return tuple(known for known in state if not self.context.belongs(known.optimizer, event.optimizer))

    def on_object_made(self, state: State, event: ObjectMade, report: Report) -> Hashable:
        return tuple(
            replace(known, anew=event.place, held=True)
            if event.anew and self.context.belongs(known.scaler, event.identity)
            else known
            for known in state
            if not self.context.belongs(known.optimizer, event.identity)
            and not (event.anew and self.context.is_of_call(known.optimizer, event.once_in))
        )

    def on_scaler_used(self, state: State, event: ScalerUsed, report: Report) -> Hashable:
        if event.act == "load_state_dict":
            # it goes on with the scale of the one before
            return tuple(
                replace(known, anew=None) if known.scaler == event.scaler else known for known in state
            )
        if event.act != "step" or event.optimizer is None or event.enabled is False:
            return state
        if self.context.is_for_one_step(event):
            self._tell_of_one_step(event, report)
        known = next((part for part in state if part.optimizer == event.optimizer), None)
        if known is None or known.scaler != event.scaler:
            others = tuple(part for part in state if part is not known)
            return (*others, Stepped(event.optimizer, event.scaler, event.place))[-MOST:]
        if known.anew is None:
            return state
        made = known.anew
        trail = [(event.place, "the scaler steps the optimizer here")]
        if known.held and event.made is not None:
            made = event.made
            trail.insert(0, (known.anew, "the object that holds the scaler is made here"))
        message = (
            "a new gradient scaler is made here for an optimizer that the last one has already stepped, on "
            f"{line_of(event.place, made)}"
        )
        assumes = of_scaler(event)
        report.add(
            self,
            made,
            message,
            why="The scale starts again where it began, so steps are skipped until it has come down again, and it "
            "never grows.",
            help="Make one scaler before the loop and hand it in.",
            trail=tuple(trail),
            builder=HoistScaler(made),
            assumes=assumes,
        )
        return tuple(replace(part, anew=None) if part is known else part for part in state)

    def _tell_of_one_step(self, event: ScalerUsed, report: Report) -> None:
        made = event.made
        assert made is not None
        report.add(
            self,
            made,
            f"the gradient scaler made here is gone after one step, on {line_of(event.place, made)}, so that each "
            "further call of the function begins with a new one",
            why="Nobody uses the scale that `update()` finds. Where gradients overflow at the initial scale, each call "
            "skips its step.",
            help="Make one scaler where the optimizer is made and hand it in.",
            level=Level.WARNING,
            trail=((event.place, "the one step of the scaler"),),
            builder=NoFix("the scaler has to be made outside of the function"),
            assumes=of_scaler(event),
        )
