"""Finds float16 training without a gradient scaler.

## What it does

Reports a backward pass of a loss that a model computed in a float16 autocast region, followed by a step of
an optimizer, where nothing scales the loss: as a warning where the optimizer comes from out of sight. A CUDA region
without a dtype runs in float16. What code out of sight computes there, `losses = model.training_step(batch)`, comes
from a model if it goes into the loss.

Silent: bfloat16, and regions whose type is not known; forwards under `no_grad`; optimizers that a framework prepared;
and everything where something that scales losses may be in reach: one of the functions that are being run, or what
the function of the backward pass calls, uses a scaler or one of accelerate, Lightning, Fabric, DeepSpeed, mmengine or
apex, or multiplies gradients by hand. Where the region is around the backward pass and the step, what counts is the
functions that run in it.

Where the function of the backward pass could use a gradient scaler that is there, as a local name or as an attribute
of the same object, the loss was forgotten and not the scaler: unscaled-backward says so and names it.

## Why is this bad

Gradients below 6e-8 are zero in float16, and below 6e-5 they lose digits. Gradients of that size are common,
most of all in the first layers and late in training. The weights that they belong to stop learning. Nothing
warns: the loss falls, more slowly than it should, and then stays where it is.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, a network of three layers, gradients compared with those of float32:

| loss multiplied by | type | gradients that are zero | relative error |
|---:|---|---:|---:|
| 1 | float32 | 1 % | |
| 1 | float16 without a scaler | 1 % | 2 % |
| 1e-4 | float16 without a scaler | 21 % | 28 % |
| 1e-4 | float16, scaled by 65536 | 1 % | 2 % |
| 1e-6 | float16 without a scaler | 100 % | 100 % |
| 1e-6 | float16, scaled by 65536 | 1 % | 2 % |
| 1e-6 | bfloat16 without a scaler | 1 % | 3 % |

Two hundred steps with a loss that is multiplied by 1e-5 and a learning rate that makes up for it ended at a
loss of 0.77 without a scaler, at 0.15 with one, and at 0.15 in bfloat16.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

with torch.autocast(device, dtype=torch.float16):
    loss = nn.functional.mse_loss(model(x), y)
loss.backward()
optimizer.step()
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

with torch.autocast(device, dtype=torch.float16):
    loss = nn.functional.mse_loss(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

Or `dtype=torch.bfloat16`, which needs no scaler, on devices that have it (NVIDIA from Ampere on).

## Fix safety

The fix is unsafe: a scaler or bfloat16 is a choice, and either changes the run. It makes the scaler where the optimizer
is made, for the device of the region and with its flag where these are known there; scales the losses of the function,
calls `unscale_` before gradients are clipped or read, and steps and updates through the scaler. Where the optimizer
comes into the function as an argument, so does the scaler, and the callers hand it on, also those in other files.

There is none where not all callers are in sight or one of them hides its arguments behind a star; where the backward
pass and the step stand in different functions; where something else steps that may be a second optimizer; where the
optimizer is made under a condition or has no name; and where gradients are read under a condition of their own.

What is missing beside a scaler is told afterwards: a checkpoint that does not hold it (scaler-not-saved), a scheduler
that counts skipped steps (scheduler-on-skipped-step).

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [Micikevicius et al., Mixed Precision Training](https://arxiv.org/abs/1710.03740), figure 3: where the
  gradients of a network lie
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.amp.versions import compare
from amplint.events import Backward, OptimizerStepped, ScalerUsed
from amplint.findings import Level
from amplint.fixes.new_scaler import AddScaler
from amplint.rules.base import Report, opened
from amplint.rules.float16_training import LOST, Float16Training, Trained, level_of
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of

_SCALES = "a scaler is there"
_IDLE = ("state_dict", "load_state_dict")
"""What a scaler may do that scales no loss."""


class MissingGradScaler(Float16Training):
    """The state is also "a scaler is there", for good."""

    level = Level.ERROR
    shown_by = (Backward,)
    evidence = ("norm", "zeros")

    def on_scaler_used(self, state: Hashable, event: ScalerUsed, report: Report) -> Hashable:
        return state if event.act in _IDLE else _SCALES

    def concerns(self, event: Backward) -> bool:
        """Whether nothing scales the loss, and nothing is there that could."""
        return not (
            event.scaled
            or event.unclear
            or event.partial
            or self.context.scaler_at_hand(event) is not None
            or self.context.scaler_may_exist(event)
        )

    def tell(self, trained: Trained, backward: Backward, step: OptimizerStepped, report: Report) -> None:
        region = trained.region
        where = line_of(region.place, backward.place)
        old = compare(self.setting.torch, "<", (2, 3)) is True
        scaler = "torch.cuda.amp.GradScaler()" if old else f'torch.amp.GradScaler("{region.device}")'
        trail = (opened(region), (step.place, "the optimizer uses these gradients"))
        assumes = of_regions(region, seen_from=backward.place)
        admits_old = compare(self.setting.torch, ">=", (2, 3)) is not True and self.setting.torch_stated
        builder = AddScaler(step.place, region.place, region.device, old=old or admits_old)
        report.add(
            self,
            backward.place,
            f"the loss comes out of the float16 region on {where} and nothing scales it",
            why=LOST,
            help=f"Train with `{scaler}`, or in bfloat16.",
            level=level_of(step),
            trail=trail,
            assumes=assumes,
            builder=builder,
        )
