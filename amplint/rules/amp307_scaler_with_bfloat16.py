"""Finds gradient scalers that scale the loss of a bfloat16 region.

## What it does

Reports an enabled `GradScaler` whose `scale()` gets a loss on a way through the code on which every autocast
region runs in bfloat16. The finding stands where the scaler is made.

Silent: scalers that are disabled, or switched by another flag than the region; scalers that are made under a condition
where a flag chooses the type; scalers that come from out of sight; ways on which some region runs in float16 or in a
type that is not known. `enabled=(dtype == torch.float16)`
is followed.

## Why is this bad

bfloat16 has the exponent range of float32. A gradient that float32 can hold does not underflow in bfloat16,
so there is nothing for a scaler to save. It costs a pass over all gradients and a synchronisation with the
device in each step. And it goes on doubling its scale, every 2000 steps, until the scaled loss or a gradient
overflows: then it skips a good step.

## What torch does at run time

Measured with torch 2.13.0 on the CPU:

* Fifty steps of AdamW in a bfloat16 region with and without the scaler: the weights are equal bit for bit.
  Multiplying by a power of two is exact.
* With `growth_interval=1`, so that a short run shows what a long one does: from a scale of 2^122 on, every
  second step overflows and is skipped, for a loss near 100.
* Parameters in bfloat16 are another matter, see half-model: on CUDA a scaler cannot unscale them.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

with torch.autocast(device, dtype=torch.bfloat16):
    loss = nn.functional.mse_loss(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Use instead

Where the type is a choice, let the scaler follow it; it is free of cost when it is disabled.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.bfloat16
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

with torch.autocast(device, dtype=dtype):
    loss = nn.functional.mse_loss(model(x), y)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
```

## Fix safety

The fix passes `enabled=False` to the scaler, and is unsafe: a disabled scaler has an empty `state_dict()`,
and an enabled one refuses to load that: `RuntimeError: The source state dict is empty`. Watch checkpoints
that are shared between both kinds of run. There is no fix where the type of the region is chosen elsewhere, or
where the same line makes the scaler for losses of another type, too; give the scaler `enabled=dtype == torch.float16`
there. Nor is there one where the code reads a number of the state, `scaler.state_dict()["scale"]`.

## References

* [torch.amp.GradScaler](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [accelerate#1036](https://github.com/huggingface/accelerate/issues/1036) and
  [transformers#21428](https://github.com/huggingface/transformers/issues/21428): bfloat16 with a scaler
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import DType, Region, RegionEntered, ScalerUsed, innermost
from amplint.findings import Level
from amplint.fixes.scaling import SwitchScalerOff
from amplint.rules.base import FlowRule, Report, opened
from amplint.rules.ledger import of_regions, of_scaler
from amplint.rules.wording import line_of

_OTHER = "another type"


class ScalerWithBfloat16(FlowRule):
    """The state is the bfloat16 region that was entered, or None, or "another type" for good."""

    level = Level.ADVICE
    shown_by = (ScalerUsed,)
    evidence = ("scale",)

    def on_region_entered(self, state: Hashable, event: RegionEntered, report: Report) -> Hashable:
        region = innermost(event.regions)
        if region is None or not region.enabled:
            return state
        if region.dtype is not DType.BFLOAT16:
            report.withdraw(self, region.place)
            return _OTHER
        return region if state != _OTHER else state

    def on_scaler_used(self, state: Hashable, event: ScalerUsed, report: Report) -> Hashable:
        if event.act != "scale" or event.made is None:
            return state
        if not isinstance(state, Region):
            if state == _OTHER:
                report.leave(self, event.made, "elsewhere this scaler scales a loss of another type")
            return state
        if event.enabled is not True or (event.switch is not None and event.switch != state.switch):
            return state
        # where one flag chooses the type and another the scaler, they may well exclude each other
        chosen = self.context.is_optional(event)
        where = line_of(state.place, event.made)
        trail = (opened(state), (event.place, "the loss is scaled here"))
        around = (event.place, *event.place.calls)
        builder = SwitchScalerOff(event.made, state.place, tuple(sorted({place.path for place in around})))
        assumes = (*of_regions(state, seen_from=event.made), *of_scaler(event))
        subject = state.place if chosen else None
        report.add(
            self,
            event.made,
            f"this gradient scaler scales a loss of the bfloat16 region on {where}",
            why="bfloat16 has the range of float32 and needs no scaling. The scaler costs a synchronisation in each "
            "step, and its scale grows until an overflow makes it skip a good step.",
            help="Drop it, or give it `enabled=dtype == torch.float16`.",
            trail=trail,
            subject=subject,
            builder=builder,
            assumes=assumes,
        )
        return state
