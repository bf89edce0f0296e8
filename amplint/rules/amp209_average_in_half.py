"""Finds averages of weights that are kept in half precision.

## What it does

Reports where a tensor that the code has cast to half precision becomes the average of what it was and of a new value,
and the new value counts at most 1/128 in it in float16, at most 1/16 in bfloat16: the moving average of weights (EMA),
a momentum teacher, running statistics. Such a tensor is the result of `.half()` or `.to(torch.float16)`, or a
parameter of a module that was cast. The average may be written as `s.mul_(d).add_(p, alpha=1 - d)`,
`s.lerp_(p, 1 - d)`, `s.copy_(s * d + p * (1 - d))`, `s.sub_((1 - d) * (s - p))`, as the items of a dict that are
replaced, or by `torch._foreach_mul_` and its like.

Options and parameters count with their defaults, a limit as reached, `min(0.999, (1 + n) / (10 + n))`, and a cosine as
in its middle.

Silent where the average is kept in float32, whatever the model is in, where the two weights do not make up 1, as in
the step of an optimizer, `p.add_(g, alpha=-lr)`, and where types or weights are not known.

## Why is this bad

Neighbouring numbers of float16 are between 2^-11 and 2^-10 of their value apart, those of bfloat16 between 2^-8 and
2^-7. A change of less than half of that is rounded away. With a decay of 0.999 each update changes the average by a
thousandth of how far it is from the weights, mostly far below that. So the average stands still where it was at first,
or stops at a distance, while the loss of the model itself looks fine.

## What torch does at run time

Measured with torch 2.14.1 on the CPU: 100,000 normally distributed numbers, 1,000 updates towards weights that are
larger by 1 %, 10 % or 100 %; how much of the way the median of the averages has gone, by `mul_` and `add_` (by `lerp_`
it is the same within 0.03, but for 0.19 in place of 0 with bfloat16, 0.004 and 100 %):

| weight of the new value | float32 | float16: 1 % | 10 % | 100 % | bfloat16: 1 % | 10 % | 100 % |
|---|---|---|---|---|---|---|---|
| 0.0001 | 0.10 | 0 | 0 | 0 | 0 | 0 | 0 |
| 0.001 | 0.63 | 0 | 0 | 0.52 | 0 | 0 | 0 |
| 0.004 | 0.98 | 0 | 0.19 | 0.85 | 0 | 0 | 0 |
| 1/128 | 1.00 | 0 | 0.55 | 0.92 | 0 | 0 | 0.50 |
| 1/64 | 1.00 | 0 | 0.77 | 0.96 | 0 | 0 | 0.71 |
| 1/16 | 1.00 | 0.48 | 0.94 | 0.99 | 0 | 0.54 | 0.91 |
| 0.1 | 1.00 | 0.68 | 0.97 | 0.99 | 0 | 0.73 | 0.94 |

## Example

```python
import torch

weight = torch.full((8,), 1.1)
average = torch.ones(8).half()
for _ in range(1000):
    average.mul_(0.999).add_(weight, alpha=0.001)
assert average.eq(1).all()
```

## Use instead

```python
import torch

weight = torch.full((8,), 1.1)
average = torch.ones(8)
for _ in range(1000):
    average.mul_(0.999).add_(weight, alpha=0.001)
assert average.sub(1.063).abs().max() < 1e-3
exported = average.half()
```

## Fix safety

There is no fix: where the average is made may serve others, it takes twice the memory in float32, and what uses it has
to take float32 or to cast it.

## References

* [torch.optim: weight averaging](https://docs.pytorch.org/docs/stable/optim.html#weight-averaging-swa-and-ema)
* [Micikevicius et al., Mixed Precision Training](https://arxiv.org/abs/1710.03740): updates that are too small for half
  precision, and why there are float32 master weights
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Averaged, DType
from amplint.findings import Level
from amplint.fixes.base import NoFix
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import birth, type_name
from amplint.rules.wording import line_of, quoted

_LARGEST = {DType.FLOAT16: 1 / 128, DType.BFLOAT16: 1 / 16}
"""The largest weight of a new value that is told of, by type: with it half of a change of a tenth is lost."""
_STEP = {DType.FLOAT16: "2^-12", DType.BFLOAT16: "2^-9"}
"""Half the smallest distance of neighbouring numbers, as a part of their value."""


class AverageInHalf(FlowRule):
    """Has no state."""

    level = Level.WARNING
    unseen = "a run does not tell which numbers the tensors of a sum were multiplied by"

    def on_averaged(self, state: Hashable, event: Averaged, report: Report) -> Hashable:
        half = event.operand
        if half.dtype not in _LARGEST or event.weight > _LARGEST[half.dtype]:
            return state
        name = type_name(half)
        cast = half.half_by_user
        made = f" (cast on {line_of(cast, event.place)})" if cast is not None else ""
        report.add(
            self,
            event.place,
            f"the average {quoted(half.place)} is kept in {name}{made}, in which what is new counts {event.weight:.2g}",
            why=f"A change of less than {_STEP[half.dtype]} of a value is rounded away in {name}: the average stands "
            "still, or stops far from what it follows.",
            help="Keep the average in float32; cast a copy of it to save or to run it.",
            trail=birth(half),
            builder=NoFix("what is kept, saved and used of an average is decided at several places"),
        )
        return state
