"""Finds numbers beyond the range of half precision that are written into half-precision tensors.

## What it does

Reports `masked_fill`, `fill_`, `full`, `full_like`, `new_full`, `index_fill`, `scatter` with a number, and
`pad(value=...)`, where the tensor is surely float16 and the number is beyond 65504 (such as `-1e9`), or the
tensor is surely bfloat16 and the number is beyond 3.39e38 (such as `torch.finfo(torch.float32).min`).

Silent where the tensor is float32 (autocast gives softmax, norms and sums in float32; a mask in float32
lifts the scores that it is added to), for `torch.finfo(x.dtype).min`, for `float("-inf")`, for `-65504`,
for numbers beyond 3.4e38, which raise in float32, too, and for `where`, `x[mask] = ...`, `+` and `*`, which give
`-inf` without an error.

## Why is this bad

The largest float16 number is 65504. `-1e9` as "minus infinity" for attention masks was chosen for float32.
These ops convert the number to the dtype of the tensor first and refuse one that does not fit. Whether they
meet float16 depends on the op before: `q @ k.T` in a region is half, and the same line without AMP is not.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, with a float16 tensor `h`:

| expression | what happens |
|---|---|
| `h.masked_fill(mask, -1e9)`, also `masked_fill_` | `RuntimeError: value cannot be converted ... without overflow` |
| the same with `-65505`, or with a tensor of one element | the same |
| `h.fill_(-1e9)`, `full_like(h, -1e9)`, `h.new_full(size, -1e9)` | the same |
| `index_fill`, `scatter` with a number, `F.pad(h, pad, value=-1e9)` | the same |
| `h.masked_fill(mask, -65504)`, `torch.finfo(h.dtype).min`, `float("-inf")` | fine |
| `h + -1e9`, `h * -1e9`, `torch.where(mask, -1e9, h)`, `h[mask] = -1e9` | `-inf`, no error |
| `b.masked_fill(mask, torch.finfo(torch.float32).min)`, `b` in bfloat16 | the same RuntimeError |
| `b.masked_fill(mask, -1e9)` | fine: bfloat16 reaches 3.39e38 |

Older releases say `at::Half` for `c10::Half`.

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
q, k = torch.randn(4, 8, device=device), torch.randn(4, 8, device=device)
mask = torch.ones(4, 4, dtype=torch.bool, device=device).triu(1)

with torch.autocast(device, dtype=torch.float16):
    scores = q @ k.T
    try:
        weights = scores.masked_fill(mask, -1e9).softmax(dim=-1)
    except RuntimeError as error:
        print(error)  # value cannot be converted to type c10::Half without overflow
```

## Use instead

Ask the tensor for the smallest number that it can hold:

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
q, k = torch.randn(4, 8, device=device), torch.randn(4, 8, device=device)
mask = torch.ones(4, 4, dtype=torch.bool, device=device).triu(1)

with torch.autocast(device, dtype=torch.float16):
    scores = q @ k.T
    weights = scores.masked_fill(mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
assert not weights.isnan().any()
```

or mask in float32: `scores.float().masked_fill(mask, -1e9)`. `float("-inf")` works too, unless a whole row
can be masked: the softmax of such a row is `nan`.

## Fix safety

The fix writes `torch.finfo(x.dtype).min` or `.max`, which changes a float32 run from -1e9 to -3.4e38. That is
the same for a softmax, a maximum or a comparison, and the fix is safe. It is unsafe where the function computes
on with the result, because two such masks added to each other give `-inf`, and where the number is a parameter
or an attribute, which may be another one elsewhere. There is no fix where the tensor has no name.

## References

* [torch.finfo](https://docs.pytorch.org/docs/stable/type_info.html#torch.torch.finfo)
* [apex#1052](https://github.com/NVIDIA/apex/issues/1052), [Qwen#32](https://github.com/QwenLM/Qwen/issues/32)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import DType, Filled
from amplint.findings import Level
from amplint.fixes.numerics import LimitOfType
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import birth, made_half, surely_half, type_name
from amplint.rules.ledger import FLOAT16, of_float16, of_operand
from amplint.rules.wording import quoted


class HalfOverflowLiteral(FlowRule):
    """Has no state."""

    level = Level.ERROR

    def on_filled(self, state: Hashable, event: Filled, report: Report) -> Hashable:
        target = event.target
        if not surely_half(target) and not (
            target.dtype is DType.FLOAT16 and event.name in ("full", "full_like")
        ):
            return state
        unsure = target.dtype is DType.HALF
        made = f" ({made_half(target, event.place)})" if surely_half(target) else ""
        condition = f", {FLOAT16.text}" if unsure else ""
        name, largest = ("bfloat16", "3.39e38") if target.dtype is DType.BFLOAT16 else ("float16", "65504")
        message = (
            f"`{event.name}` with {event.value:g} overflows: {quoted(target.place)} is {'in ' if unsure else ''}"
            f"{type_name(target)}{made}{condition}"
        )
        assumes = (*of_float16(target), *of_operand(target, event.place))
        builder = LimitOfType(event.place, event.name, target.place, event.value < 0)
        report.add(
            self,
            event.place,
            message,
            why=f"The largest number of {name} is {largest}. It raises RuntimeError: the value cannot be converted "
            "without overflow.",
            help="Use `torch.finfo(x.dtype).min` or `.max` of the tensor, or cast it with `.float()` before.",
            trail=birth(target),
            builder=builder,
            assumes=assumes,
        )
        return state
