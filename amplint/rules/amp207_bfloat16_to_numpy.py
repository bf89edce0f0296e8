"""Finds bfloat16 tensors that are handed to NumPy.

## What it does

Reports `.numpy()`, `np.asarray(...)` and `np.array(...)` on a tensor that is bfloat16, because autocast made
it so in a region or because the code or its model was cast to it, with no cast back in between. `.item()`
and `.tolist()` work and are no findings, nor is float16, which NumPy has.

## Why is this bad

NumPy has no bfloat16, so the call raises. It does so in the logging or the evaluation code, often long
after the start of the run, and only when the region is in bfloat16: the same script works with float16 and
in float32.

## What torch does at run time

Measured with torch 2.13.0 and NumPy 2 on the CPU:

| call | float16 | bfloat16 |
|---|---|---|
| `t.numpy()`, `np.asarray(t)`, `np.array(t)` | works | `TypeError: Got unsupported ScalarType BFloat16` |
| `np.from_dlpack(t)` | works | `RuntimeError: Unsupported dtype in DLTensor.` |
| `t.tolist()`, `t.item()` | works | works |
| `t.float().numpy()` | works | works |

A region without `dtype` is bfloat16 on the CPU and float16 on CUDA, unless a region around it says
otherwise.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 2).to(device)

with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
    prediction = model(torch.randn(4, 8, device=device))
print(prediction.cpu().numpy())  # raises TypeError: Got unsupported ScalarType BFloat16
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 2).to(device)

with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
    prediction = model(torch.randn(4, 8, device=device))
print(prediction.float().cpu().numpy())
```

## Fix safety

The fix writes `.float()` before the conversion, after `.cpu()`, so that half as many bytes are moved. It is
exact, because each bfloat16 number is a float32 number, and safe where the value surely is a tensor; unsafe
where it comes out of a module whose code is not part of the project, or is no bfloat16 or float32 tensor on another
path. The array is then float32 where float16
runs gave a float16 array: files that are written from it get larger.

## References

* [pytorch#110285](https://github.com/pytorch/pytorch/issues/110285): bfloat16 and NumPy
* [torch.Tensor.numpy](https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Certainty, Converted, DType
from amplint.findings import Level
from amplint.fixes.casts import AddFloat
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import birth, doubt_of
from amplint.rules.ledger import LIKELY, of_operand
from amplint.rules.wording import quoted


class Bfloat16ToNumpy(FlowRule):
    """Has no state."""

    level = Level.ERROR
    raises = r"unsupported ScalarType BFloat16"

    def on_converted(self, state: Hashable, event: Converted, report: Report) -> Hashable:
        operand = event.operand
        if event.to != "numpy" or operand.dtype is not DType.BFLOAT16:
            return state
        if operand.born_in is not None and operand.born_in.framework:
            return state
        certain = operand.certainty is Certainty.SURE
        condition = "is bfloat16" if certain else f"is bfloat16 {LIKELY.text}"
        trail = birth(operand)
        if operand.half_by_user is not None:
            trail += ((operand.half_by_user, "it is cast to bfloat16 here"),)
        builder = AddFloat(operand.place, doubt_of(operand))
        assumes = of_operand(operand, event.place)
        report.add(
            self,
            event.place,
            f"{quoted(operand.place)} {condition}, which numpy does not have",
            why="It raises `TypeError: Got unsupported ScalarType BFloat16`.",
            help="Write `.float()` before the conversion.",
            trail=trail,
            builder=builder,
            assumes=assumes,
        )
        return state
