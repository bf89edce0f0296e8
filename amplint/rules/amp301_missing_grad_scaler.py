"""Finds float16 training without a gradient scaler.

## What it does

Reports a backward pass of a loss that a model computed in a float16 autocast region, followed by a step of
an optimizer, where nothing scales the loss. A CUDA region without a dtype runs in float16.

Silent: bfloat16, and regions whose type is not known; forwards under `no_grad`; optimizers that come from
out of sight or that a framework prepared; and everything where something that scales losses may be in reach:
a file on the way that uses a scaler, or mentions loss scaling, accelerate, Lightning, Fabric, DeepSpeed, mmengine or
apex, a base class out of sight, or gradients that are multiplied by hand. A scaler that is made and that nobody uses
scales nothing. Where the region is around the backward pass and the step, what counts is the functions that run in
it.

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

There is no fix: a scaler or bfloat16 is a choice, and either changes the run. With a scaler, gradients that
are clipped or logged have to be unscaled first (see clip-without-unscale).

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [Micikevicius et al., Mixed Precision Training](https://arxiv.org/abs/1710.03740), figure 3: where the
  gradients of a network lie
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from amplint.amp.versions import compare
from amplint.events import (
    Backward,
    DType,
    Forward,
    OptimizerStepped,
    Place,
    Region,
    ScalerUsed,
    ThreadBegan,
    ThreadEnded,
    enabled_region,
    innermost,
)
from amplint.findings import Level
from amplint.rules.base import FlowRule, Report, line_of, opened

_SCALES = "a scaler is there"
_IDLE = ("state_dict", "load_state_dict")
"""What a scaler may do that scales no loss."""
_LOST = "the type was lost"


@dataclass(frozen=True)
class Trained:
    """A region in which a model ran that autograd records, and the backward pass of what came out."""

    region: Region
    backward: Place | None = None


class MissingGradScaler(FlowRule):
    """The state is None, what was trained since the last step, "the type was lost" in a thread, or "a
    scaler is there" for good."""

    level = Level.ERROR
    shown_by = (Backward,)
    evidence = ("norm", "zeros")

    def on_scaler_used(self, state: Hashable, event: ScalerUsed, report: Report) -> Hashable:
        return state if event.act in _IDLE else _SCALES

    def on_thread_began(self, state: Hashable, event: ThreadBegan, report: Report) -> Hashable:
        # a region that lost its type on the way there is autocast-lost-in-threads
        here, there = innermost(event.started_in), innermost(event.regions)
        lost = here is not None and there is not None and here.dtype is not there.dtype
        return _LOST if state is None and lost else state

    def on_thread_ended(self, state: Hashable, event: ThreadEnded, report: Report) -> Hashable:
        return None if state == _LOST else state

    def on_forward(self, state: Hashable, event: Forward, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if (
            state is None
            and region is not None
            and region.dtype is DType.FLOAT16
            and not region.framework
            and event.gradients
            and event.trains
        ):
            return Trained(region)
        return state

    def on_backward(self, state: Hashable, event: Backward, report: Report) -> Hashable:
        if not isinstance(state, Trained):
            return state
        if event.scaled or event.unclear or event.scaler_in_reach or event.partial:
            return None
        return replace(state, backward=event.place)

    def on_optimizer_stepped(self, state: Hashable, event: OptimizerStepped, report: Report) -> Hashable:
        if not isinstance(state, Trained) or state.backward is None:
            return state
        if event.in_sight and not event.framework and not event.via_scaler and not event.casts:
            self._tell(state.region, state.backward, event.place, report)
        return None

    def _tell(self, region: Region, backward: Place, step: Place, report: Report) -> None:
        where = line_of(region.place, backward)
        old = compare(self.setting.torch, "<", (2, 3)) is True
        scaler = "torch.cuda.amp.GradScaler()" if old else f'torch.amp.GradScaler("{region.device}")'
        message = (
            f"the loss comes out of the float16 region on {where} and nothing scales it: gradients below 6e-8 "
            f"become zero, and the weights they belong to stop learning. Train with `{scaler}`, or in bfloat16."
        )
        trail = (opened(region), (step, "the optimizer uses these gradients"))
        report.add(self, backward, message, trail=trail)
