"""Finds casts to float32 that autocast undoes at once.

## What it does

Reports `.float()`, `.to(torch.float32)` and `.type(torch.float32)` on a direct argument of an op that
autocast runs in half: `@`, `matmul`, `bmm`, `baddbmm`, `einsum`, `linear`, convolutions, scaled dot product
attention, and layers that consist of them, inside an enabled region, where the cast is in one, too.

Silent where the cast matters: where an op that autocast leaves alone (`/`, `mean`, `sqrt`, `var`, FFT,
`linalg`) uses its result, too, on integers and masks, be it on one way only, and where nothing shows that
a tensor is none, before the region and in one with `enabled=False`, and for `.double()`, which autocast does
not touch.

## Why is this bad

The author wanted this product in float32 and did not get it. Autocast looks at the op, not at the wish: the
op is on its half list, so it casts the float32 tensor straight back down and computes in half. The line
costs two casts, and the overflow or the rounding that it was written against is still there.
`self.layer(x.float())` changes nothing, nor does `self.layer.float()`: the weights are float32 already and
are cast just the same.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, in a region with bfloat16 and with float16:

| expression in the region | dtype of the result |
|---|---|
| `self.layer(h)` | half |
| `self.layer(h.float())` | half, equal bit for bit to the line above |
| `self.layer.float()(h.float())` | half |
| `h.float() @ h.float().T`, `einsum`, attention | half |
| `h.double() @ h.double().T` | float64: autocast leaves float64 alone |
| in a nested `enabled=False` region: `self.layer(h.float())` | float32 |
| in a nested `enabled=False` region: `self.layer(h)` | raises: the dtypes differ |

The relative error of a product of two random matrices with an inner size of 256: 2.9e-3 in bfloat16, 2.9e-3
with `.float()` on both sides, 2.1e-7 in a nested `enabled=False` region. The dot product of two vectors of
64 values of 1000: `inf` in float16, `inf` with `.float()`, 64000000 in the nested region.

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
q, k = torch.randn(8, 64, device=device), torch.randn(8, 64, device=device)

with torch.autocast(device, dtype=torch.float16):
    scores = q.float() @ k.float().T
assert scores.dtype == torch.float16
```

## Use instead

Switch autocast off for the op, and keep the casts, since the inputs may be half.

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
q, k = torch.randn(8, 64, device=device), torch.randn(8, 64, device=device)

with torch.autocast(device, dtype=torch.float16):
    with torch.autocast(device, enabled=False):
        scores = q.float() @ k.float().T
assert scores.dtype == torch.float32
```

**An imported module that must stay in float32 and that you cannot edit**, for example a RoI pooling layer
with boxes in float32. Casting its arguments alone does not help, since the ops in it are cast again. Wrap
the call:

```python
import torch
from torch import nn


class Float32(nn.Module):  # runs a module in float32, whatever region surrounds the call
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *tensors):
        with torch.autocast(tensors[0].device.type, enabled=False):
            return self.module(*(t.float() if t.is_floating_point() else t for t in tensors))


device = "cuda" if torch.cuda.is_available() else "cpu"
backbone, head = nn.Linear(8, 8).to(device), Float32(nn.Bilinear(8, 4, 2)).to(device)
with torch.autocast(device, dtype=torch.float16):
    features = backbone(torch.randn(3, 8, device=device))
    result = head(features, torch.randn(3, 4, device=device))
assert features.dtype == torch.float16 and result.dtype == torch.float32
result.sum().backward()
```

When the module sits deep in a model that you cannot edit either, replace it there: `model.pool =
Float32(model.pool)`. That puts `module.` into the names of its weights in the checkpoint. To keep the
names, wrap its `forward` instead: `model.pool.forward = torch.amp.custom_fwd(model.pool.forward,
device_type="cuda", cast_inputs=torch.float32)`. It casts every floating argument (not float64) and runs the
call with autocast off; outside a region it does nothing. It is made for the `forward` of an
`autograd.Function`, but works on any function whose first positional argument is a tensor or a module,
because it writes two attributes on that argument. Both recipes were run with torch 2.13.0, forward and
backward.

## Fix safety

The fix runs the statement in a nested region with autocast off and keeps the casts. It is always unsafe: the
numbers change, the op takes more time and memory, and its result is float32, which the next op has to accept.
In that region every floating input needs a cast, so there is no fix where another operand of the op may be
half, where the statement holds other ops that autocast would have cast, or where the cast is not written on a
name whose device can be asked for. The opposite edit, deleting the cast, leaves the numbers as they are.

## References

* [torch.amp: op reference](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference)
* [diffusers#495](https://github.com/huggingface/diffusers/pull/495): "identical results" with and without
  the cast
* [A module that must stay float32](
  https://discuss.pytorch.org/t/can-autocast-context-manager-be-used-around-all-of-training-loop/136771)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Cast, Certainty, DType, Op, Operand, enabled_region
from amplint.findings import Level
from amplint.fixes.casts import DisabledAround
from amplint.rules.base import FlowRule, Report, dtype_name, opened
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of


class UselessFloat(FlowRule):
    """Has no state."""

    level = Level.WARNING
    for_every_caller = True
    shown_by = (Cast,)

    def on_op(self, state: Hashable, event: Op, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if region is not None and event.policy in (None, "promote"):
            for operand in event.operands:
                if operand.raised is not None:
                    report.withdraw(self, operand.raised)  # this op computes in float32 because of the cast
        if region is None or event.policy != "lower" or event.in_place:
            return state
        if region.dtype is None or not region.dtype.is_half:
            return state
        raised = [operand for operand in event.operands if operand.raised is not None]
        # a cast of something unknown may turn integers or masks into floats
        casts = {operand.raised for operand in raised}
        if not raised or all(operand.certainty is not Certainty.SURE for operand in raised):
            return state
        place = raised[0].raised
        assert place is not None
        where = line_of(region.place, place)
        trail = (opened(region), (event.place, f"runs in {dtype_name(region)} here"))
        halves = any(not _is_float32(operand) for operand in event.operands)
        builder = DisabledAround(event.place, place, halves)
        subject = place if len(casts) == 1 else None
        assumes = of_regions(region, seen_from=place)
        report.add(
            self,
            place,
            f"this cast to float32 has no effect inside the autocast region that opens on {where}",
            why=f"`{event.name.strip('_')}` casts its operands to {dtype_name(region)} again.",
            help="For float32, run the op in a nested `with torch.autocast(device_type, enabled=False):` and keep the "
            "cast.",
            trail=trail,
            subject=subject,
            builder=builder,
            assumes=assumes,
        )
        return state

    def on_cast(self, state: Hashable, event: Cast, report: Report) -> Hashable:
        """A cast that gets integers on another way, or may get them, turns them into floats there."""
        dtype = event.operand.dtype
        if event.to is DType.FLOAT32 and (dtype is None or not dtype.is_floating):
            report.withdraw(self, event.place)
        return state


def _is_float32(operand: Operand) -> bool:
    """Whether an operand of an op keeps its float32 where autocast is off, or is none of its tensors."""
    return operand.raised is not None or operand.parameter or operand.dtype in (DType.FLOAT32, DType.INTEGER)
