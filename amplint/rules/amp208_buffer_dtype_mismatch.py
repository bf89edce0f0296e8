"""Finds writes by index of a tensor into one of another dtype, which raise.

## What it does

Reports `buffer[mask] = value` and `buffer[indices] = value`, `index_put_`, `index_add_`, `index_copy_`,
`scatter_`, `scatter_add_`, `scatter_reduce_`, `masked_scatter_` and their out-of-place forms, where one of
the two tensors is surely half and the other surely float32: a buffer made by `torch.zeros` that takes the
result of a layer in a region, or a buffer of the dtype of such a result that takes a softmax.

Silent where torch copies and converts (an integer, a slice, `...`, `copy_`, `masked_fill`), for the
out-of-place `scatter_add` and `index_put` in a region, which autocast promotes, and where one of the dtypes
is not known. A float32 buffer that takes a result of autocast *after* the region is missing-float.

## Why is this bad

Type promotion does not apply to what is written to: the buffer keeps its dtype, and these ops insist that
both are the same. Autocast does not help, since it does not cast in-place ops. Without AMP both are float32
and the line works, so it fails in the first run with AMP, or only in the branch that is rarely taken.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, float32 buffer and float16 value (and the other way round):

| write | what happens |
|---|---|
| `f[mask] = h`, `f[indices] = h`, `f[[0, 1]] = h` | `RuntimeError: Index put requires the source and ...` |
| `index_put_` | the same |
| `index_add_`, `index_reduce_` | `RuntimeError: self (Float) and source (Half) must have the same ...` |
| `index_copy_` | `RuntimeError: self and source expected to have the same dtype` |
| `scatter_`, `scatter_add_`, `scatter_reduce_` | `RuntimeError: Expected self.dtype to be equal to src.dtype` |
| `masked_scatter_` | `RuntimeError: expected self and source to have same dtypes` |
| `f[0] = h`, `f[0:2] = h`, `f[...] = h`, `f.copy_(h)` | fine: copied and converted |
| `f[mask] = h.sum()` (one element) | fine: a fill |
| `f.scatter_add(dim, i, h)`, `f.index_put(i, h)` in a CUDA region | fine: promoted to float32 |

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer, x = torch.nn.Linear(8, 8).to(device), torch.randn(4, 8, device=device)
keep = x[:, 0] > 0
with torch.autocast(device, dtype=torch.float16):
    out = torch.zeros(4, 8, device=device)
    try:
        out[keep] = layer(x[keep])
    except RuntimeError as error:
        print(error)  # Index put requires the source and destination dtypes match
```

## Use instead

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer, x = torch.nn.Linear(8, 8).to(device), torch.randn(4, 8, device=device)
keep = x[:, 0] > 0
with torch.autocast(device, dtype=torch.float16):
    out = torch.zeros(4, 8, device=device)
    out[keep] = layer(x[keep]).to(out.dtype)
```

## Fix safety

The fix writes `.to(buffer.dtype)` on what is written, and is safe: it does nothing where the dtypes agree, and
the line raised where they did not. It rounds where the buffer is the half one; there it may be better to make
the buffer float32. There is no fix where the buffer has no name.

## References

* [pytorch#98814](https://github.com/pytorch/pytorch/issues/98814): Index put in a region
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Certainty, DType, IndexPut, Operand, innermost
from amplint.findings import Level
from amplint.fixes.numerics import CastWritten
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import birth, born_half, surely_half, type_name
from amplint.rules.ledger import of_operand
from amplint.rules.wording import quoted

_COPIES = "copy_"


class BufferDtypeMismatch(FlowRule):
    """Has no state."""

    level = Level.ERROR

    def on_index_put(self, state: Hashable, event: IndexPut, report: Report) -> Hashable:
        target, value = event.target, event.value
        if event.name == _COPIES or not _differ(target, value):
            return state
        half = value if surely_half(value) else target
        if not surely_half(half):
            return state
        if half is value and innermost(event.regions) is None and born_half(value):
            return state  # missing-float
        op = "an index assignment" if event.name == "index_put_" else f"`{event.name}`"
        message = f"a {_name(value)} tensor is written into the {_name(target)} tensor {quoted(target.place)} by {op}"
        builder = CastWritten(event.place, target.place, event.value.place, event.name)
        assumes, made = of_operand(half, event.place), birth(half)
        report.add(
            self,
            event.place,
            message,
            why="It raises RuntimeError: the dtypes must be the same, and autocast casts neither.",
            help=f"Write `.to({target.place.text}.dtype)` on what is written.",
            trail=made,
            builder=builder,
            assumes=assumes,
            # all that is written into one buffer of the other type is one mistake, and so is one value
            cause=(made[-1][0].extent, event.place.path, target.place.text) if made else None,
        )
        return state


def _differ(target: Operand, value: Operand) -> bool:
    """Whether one is surely float32, the other half."""
    sure = target.certainty is Certainty.SURE and value.certainty is Certainty.SURE
    types = {target.dtype, value.dtype}
    return sure and DType.FLOAT32 in types and any(dtype is not None and dtype.is_half for dtype in types)


def _name(operand: Operand) -> str:
    return "half-precision" if operand.dtype is DType.HALF else type_name(operand)
