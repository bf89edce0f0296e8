"""Finds inputs that the code casts to half by hand although the weights are float32 or autocast casts them.

## What it does

Reports `.half()`, `.bfloat16()` and `.to(torch.float16)` on a tensor that goes

* outside every region into a linear, convolution or recurrent layer with float32 weights, or into a matrix
  product with a float32 parameter, which raises;
* inside an enabled region into such a layer or product, or into a module whose code is out of sight, as
  advice.

Silent where the module was cast too (`model.half()`), where the cast follows the dtype of a weight
(`x.to(self.weight.dtype)`), after `.float()`, and for casts whose result goes somewhere else.

## Why is this bad

Autocast wants float32 inputs. What it runs in half it casts itself, and what it keeps in float32 (norms,
losses, the first embedding lookups and products with constants) it can only keep if it is given float32.
An input that was cast by hand is rounded for all of them: pixel coordinates beyond 2048 lose their last
bit, targets of a loss lose digits. Outside a region nothing casts the other side, and the layer raises.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, float32 weights and a float16 input:

| where | what happens |
|---|---|
| `nn.Linear` outside a region | `RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float` |
| `nn.Conv2d` outside a region | `RuntimeError: Input type (c10::Half) and bias type (float) should be the same` |
| `nn.LSTM` outside a region | `ValueError: RNN input dtype (torch.float16) does not match weight dtype` |
| `nn.Linear`, `nn.Conv2d` in a float16 region | the same numbers as without the cast |
| in a bfloat16 region | rounded twice |

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
x = torch.randn(4, 8, device=device)
try:
    layer(x.half())
except RuntimeError as error:
    print(error)  # mat1 and mat2 must have the same dtype, but got Half and Float
```

## Use instead

Leave inputs and targets in float32 and let autocast cast them:

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 2).to(device)
x = torch.randn(4, 8, device=device)
with torch.autocast(device, dtype=torch.float16):
    y = layer(x)
assert y.dtype == torch.float16
```

## Fix safety

The fix deletes the cast and is unsafe: inside a region the numbers stay the same or get better, but other code
may want the value in half, and it takes memory where the input is large and is kept for the backward pass in
half only. Outside a region the op then runs in float32. There is no fix where the type is not written in the
cast.

## References

* [torch.amp: autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting): "should not call
  half() or bfloat16() on your model(s) or inputs"
* [YOLOX, trainer](https://github.com/Megvii-BaseDetection/YOLOX/blob/0.3.0/yolox/core/trainer.py): images and
  boxes are cast before the region
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Certainty, DType, Forward, Op, Operand, Place, Region, enabled_region, innermost
from amplint.findings import Level
from amplint.fixes.casts import RemoveCast
from amplint.rules.base import FlowRule, Report, opened
from amplint.rules.half_operands import type_name
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of, quoted


class HalfInput(FlowRule):
    """The state holds the places of the casts that were told of."""

    by_subject = True
    level = Level.ERROR
    for_every_caller = True

    def start(self) -> Hashable:
        return frozenset()

    def about(self, event: Op | Forward) -> list[Hashable]:
        operands = event.operands if isinstance(event, Op) else event.inputs
        return [operand.half_by_user for operand in operands if operand.half_by_user is not None]

    def on_op(self, state: frozenset[Hashable], event: Op, report: Report) -> Hashable:
        if event.policy != "lower" or event.in_place or event.out is not None:
            return state
        for operand in event.operands:
            cast = operand.half_by_user
            if cast is None or cast in state or not _is_half(operand):
                continue
            if not _meets_float32(event, operand):
                continue
            region = enabled_region(event.regions)
            if region is not None:
                self._advise(operand, cast, event.place, region, report)
                state |= {cast}
            elif innermost(event.regions) is None and (event.weights is None or event.weights_raise):
                message = (
                    f"{quoted(operand.place)} was cast to {type_name(operand)} on {line_of(cast, event.place)} and "
                    "meets float32 weights outside every autocast region"
                )
                builder = RemoveCast(cast, tensor=True)
                report.add(
                    self,
                    event.place,
                    message,
                    why="It raises RuntimeError: the dtypes must match.",
                    help="Leave it in float32 and run the op in an autocast region.",
                    trail=((cast, "cast to half precision here"),),
                    builder=builder,
                )
                state |= {cast}
        return state

    def on_forward(self, state: frozenset[Hashable], event: Forward, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if region is None:
            return state
        for operand in event.inputs:
            cast = operand.half_by_user
            if cast is not None and cast not in state:
                self._advise(operand, cast, event.place, region, report)
                state |= {cast}
        return state

    def _advise(self, operand: Operand, cast: Place, place: Place, region: Region, report: Report) -> None:
        message = (
            f"this cast to {type_name(operand)} is not needed inside the autocast region that opens on "
            f"{line_of(region.place, cast)}"
        )
        trail = (opened(region), (place, "goes in here"))
        builder = RemoveCast(cast, tensor=True)
        assumes = of_regions(region, seen_from=cast)
        report.add(
            self,
            cast,
            message,
            why="Autocast casts what it runs in half, and what it keeps in float32 now gets rounded values.",
            help="Leave inputs and targets in float32.",
            level=Level.ADVICE,
            trail=trail,
            builder=builder,
            assumes=assumes,
        )


def _is_half(operand: Operand) -> bool:
    return operand.dtype is not None and operand.dtype.is_half and operand.certainty is Certainty.SURE


def _meets_float32(event: Op, operand: Operand) -> bool:
    if event.weights is not None:
        return event.weights is DType.FLOAT32 and operand is event.operands[0]
    return any(other.parameter and other.dtype is DType.FLOAT32 for other in event.operands)
