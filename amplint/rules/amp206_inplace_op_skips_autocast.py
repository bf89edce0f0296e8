"""Finds in-place ops and `out=` in a region, which autocast never casts.

## What it does

Reports in an enabled region, on values that are surely half,

* the in-place form of an op that autocast runs in float32: `exp_`, `log_`, `pow_`, `**=`, `square_`,
  `reciprocal_`, `rsqrt_`, `cumsum_`, `cumprod_` and their like, and `torch.exp(x, out=...)`;
* the in-place form of a matrix product, `addmm_`, `baddbmm_`, `addmv_`, and `torch.mm(a, b, out=...)`,
  where its operands have different dtypes, which raises.

A power in float16 assumes that there are values beyond 255, whose squares overflow; smaller ones lose digits alone.

Silent on float32 values, in disabled regions, for in-place ops that autocast leaves alone in either form
(`relu_`, `add_`, `mul_`, `clamp_`, `sqrt_`), and for `x @= y`, which is `x = x @ y` on tensors.

## Why is this bad

Autocast looks at the out-of-place ops only, because a tensor that is written to cannot change its dtype.
`h.exp()` runs in float32, `h.exp_()` in the dtype of `h`, and the two differ in one character. In float16
the exponential overflows beyond 11.09, and a square beyond 255. The products raise where the accumulator is
float32 and the factors are half, or the other way round: the cast that makes `addmm` run is not there.

## What torch does at run time

Measured with torch 2.13.0: dtypes on CUDA with fake tensors, errors on the CPU; `h` is float16, `f` float32:

| in an enabled region | what happens |
|---|---|
| `h.exp()` on CUDA | float32 |
| `h.exp_()`, `torch.exp(h, out=h2)` | float16 |
| `h ** 2` on CUDA | float32 |
| `h **= 2`, `h.pow_(2)` | float16 |
| `f.addmm_(h, h)` | `RuntimeError: self and mat2 must have the same dtype, but got Float and Half` |
| `f.baddbmm_(h, h)` | `RuntimeError: Input dtypes must be the same` |
| `torch.mm(h, h, out=f)` | `RuntimeError: Expected out tensor to have dtype c10::Half, but got float` |
| `torch.mm(f, f, out=f2)` | runs in float32, no faster than without autocast |

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 8).to(device)
with torch.autocast(device, dtype=torch.float16):
    scores = layer(torch.randn(4, 8, device=device)) + 12
    weights = scores.exp_()
assert weights.dtype == torch.float16 and weights.isinf().any()
```

## Use instead

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 8).to(device)
with torch.autocast(device, dtype=torch.float16):
    scores = layer(torch.randn(4, 8, device=device)) + 12
    weights = scores.float().exp()
assert weights.isfinite().all()
```

On CUDA `scores.exp()` is enough.

## Fix safety

The fix takes the op that gives a new tensor and binds its result to the old name. It is unsafe: the result has
another dtype, and other names of the old tensor no longer change with it. There is no fix for attributes and
parts of tensors, nor where the value of the op has a new name while the old one is still used.

## References

* [torch.amp: op eligibility](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference): only
  out-of-place ops and tensor methods are eligible
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.amp.traits import SQUARING
from amplint.events import Certainty, DType, Op, enabled_region
from amplint.findings import Assumed, Assumption, Level
from amplint.fixes.numerics import OutOfPlace
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import birth, made_half, surely_half, type_name
from amplint.rules.ledger import of_operand, of_regions
from amplint.rules.wording import line_of, quoted

_INSTEAD = "Use the op that gives a new tensor."


class InplaceOpSkipsAutocast(FlowRule):
    """Has no state."""

    level = Level.WARNING

    def on_op(self, state: Hashable, event: Op, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if region is None or not (event.in_place or event.out is not None):
            return state
        halves = [operand for operand in event.operands if surely_half(operand)]
        if not halves:
            return state
        form = f"`{event.name.strip('_')}` with `out=`" if event.out is not None else _in_place(event.name)
        region_line = line_of(region.place, event.place)
        half = halves[0]
        builder = OutOfPlace(event.place)
        if event.policy == "lower" and _mixed(event):
            message = (
                f"{form} skips autocast: {quoted(half.place)} is {type_name(half)} ({made_half(half, event.place)}) "
                "beside float32"
            )
            assumes = (*of_operand(half, event.place), *of_regions(region, seen_from=event.place))
            report.add(
                self,
                event.place,
                message,
                why=f"The region that opens on {region_line} casts no operand of it: it raises RuntimeError, since the "
                "dtypes must be the same.",
                help=_INSTEAD,
                level=Level.ERROR,
                trail=birth(half),
                builder=builder,
                assumes=assumes,
            )
        elif event.policy == "float32" and surely_half(event.operands[0]):
            half = event.operands[0]
            message = (
                f"{form} skips autocast and runs in {type_name(half)}, the type of {quoted(half.place)} "
                f"({made_half(half, event.place)})"
            )
            why = f"The op that gives a new tensor runs in float32 in the region that opens on {region_line}."
            assumes = (*of_operand(half, event.place), *of_regions(region, seen_from=event.place))
            if event.name in SQUARING and half.dtype is not DType.BFLOAT16:
                where = "if there are values beyond 255"
                message += f": it matters {where}"
                why += " The squares of such values overflow in float16."
                assumes += (Assumption(Assumed.VALUES, where),)
            report.add(
                self,
                event.place,
                message,
                why=why,
                help=_INSTEAD,
                trail=birth(half),
                builder=builder,
                assumes=assumes,
            )
        return state


def _in_place(name: str) -> str:
    operators = {"__pow__": "**="}
    return f"`{operators.get(name, name + '_')}`"


def _mixed(event: Op) -> bool:
    """Whether float32 stands beside half among the operands and the tensor that is written to."""
    return event.out is DType.FLOAT32 or any(
        operand.dtype is DType.FLOAT32 and operand.certainty is Certainty.SURE for operand in event.operands
    )
