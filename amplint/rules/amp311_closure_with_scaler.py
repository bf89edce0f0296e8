"""Finds optimizers that get a closure while a gradient scaler is at work.

## What it does

Reports `scaler.step(optimizer, closure)`, `scaler.step(optimizer, closure=closure)`, and
`optimizer.step(closure)` where the closure runs `scaler.scale(loss).backward()`.

Silent: scalers that are disabled or come from out of sight; closures that run `backward()` on a loss that
nobody scaled, or that unscale the gradients themselves.

## Why is this bad

An optimizer with a closure, such as LBFGS, computes the loss and its gradients several times within one
step. The scaler unscales and checks the gradients once, before the step. So each further call of the closure
leaves gradients in place that are too large by the scale, and the optimizer uses them as they are. There is
no scale at which that is right.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, LBFGS, an initial scale of 1024:

* `scaler.step(optimizer, closure)`: no exception. The gradient that the optimizer meets in each evaluation of
  the closure has a norm of 2594.5, which is 1024 times the true one.
* `scaler.step(optimizer, closure=closure)`: `RuntimeError: Closure use is not currently supported if
  GradScaler is enabled.`
* `scaler.step(optimizer)`: `TypeError: LBFGS.step() missing 1 required positional argument: 'closure'`.
* `optimizer.step(closure)` with `scaler.scale(loss).backward()` in the closure: no exception, gradients 1024
  times too large, and infs and NaNs are not caught.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)


def closure():
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    return loss


closure()
scaler.step(optimizer, closure)
scaler.update()
```

## Use instead

bfloat16, which needs no scaler, or no autocast at all: what LBFGS does with small differences of gradients
suffers from rounding anyway.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)


def closure():
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


optimizer.step(closure)
```

## Fix safety

The fix is unsafe: another type is a choice. It runs the region of the closure in bfloat16 and passes `enabled=False` to
the scaler, which then hands the closure to the optimizer and multiplies nothing. bfloat16 has fewer digits than
float16, not every device has it, and the state of a scaler that is off is empty.

There is none where the region or the scaler is made by other code, and where the scaler steps another optimizer too.

## References

* `GradScaler.step` in [torch/amp/grad_scaler.py](
  https://github.com/pytorch/pytorch/blob/main/torch/amp/grad_scaler.py), which refuses the keyword
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from amplint.events import (
    Backward,
    Forward,
    OptimizerStepped,
    Place,
    ScalerUsed,
    enabled_region,
)
from amplint.findings import Level
from amplint.fixes.switches import TrainInBfloat16
from amplint.rules.base import FlowRule, Report
from amplint.rules.ledger import of_scaler
from amplint.rules.wording import line_of


class Seen(NamedTuple):
    """``scaled`` is the last scaled backward pass since a step, ``region`` where the last region was opened in which a
    module ran, ``made`` where the scaler was made that scaled last."""

    scaled: Place | None = None
    region: Place | None = None
    made: Place | None = None


class ClosureWithScaler(FlowRule):
    """The state is what was seen last."""

    level = Level.ERROR
    shown_by = (ScalerUsed, OptimizerStepped)

    def start(self) -> Hashable:
        return Seen()

    def on_forward(self, state: Seen, event: Forward, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        return state._replace(region=region.place) if region is not None and event.trains else state

    def on_backward(self, state: Seen, event: Backward, report: Report) -> Hashable:
        return state._replace(scaled=event.place if event.scaled_by else None)

    def on_scaler_used(self, state: Seen, event: ScalerUsed, report: Report) -> Hashable:
        if event.act == "scale":
            return state._replace(made=event.made)
        if event.act == "unscale_":
            return state._replace(scaled=None)
        # a scaler out of sight may be of a class that takes closures
        if event.act == "step" and event.closure and event.enabled is not False and event.made is not None:
            if event.closure == "keyword":
                message = "the step of an enabled gradient scaler is given a closure"
                why = "It raises `RuntimeError: Closure use is not currently supported if GradScaler is enabled.`"
            else:
                message = "the scaler unscales once, before this step, whose closure computes gradients again"
                why = (
                    "Each further evaluation of the closure leaves the optimizer with gradients that are too large by "
                    "the scale, and nothing raises."
                )
            builder = TrainInBfloat16(event.made, state.region)
            assumes = of_scaler(event)
            report.add(self, event.place, message, why=why, help=_INSTEAD, assumes=assumes, builder=builder)
        return state

    def on_optimizer_stepped(self, state: Seen, event: OptimizerStepped, report: Report) -> Hashable:
        if event.closure and not event.via_scaler and state.scaled is not None:
            where = line_of(state.scaled, event.place)
            trail = ((state.scaled, "the scaled backward pass"),)
            builder = TrainInBfloat16(state.made, state.region)
            report.add(
                self,
                event.place,
                f"the closure of this step scales its loss, on {where}, and nothing unscales the gradients",
                why="The optimizer uses them as they are, too large by the scale. Infs and NaNs are not caught.",
                help=_INSTEAD,
                trail=trail,
                builder=builder,
            )
        return state._replace(scaled=None)


_INSTEAD = "Train this optimizer in bfloat16 or float32, without a scaler."
