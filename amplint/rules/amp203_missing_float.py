"""Finds half-precision results of a region that meet code that needs float32 after the region.

## What it does

Follows tensors that autocast made half in a region and that are used after it, where no policy protects
them any more. Reports

* a loss, softmax, log, exp, mean, variance or a division by a small constant that is computed on them,
* float32 weights that they meet: a linear or convolution layer, a recurrent layer, a matrix product,
* an op that has no kernel for half precision, such as `torch.quantile` or `torch.linalg.inv`,
* a float32 buffer that they are written to by index.

Whether a value is half is decided by torch's own op policies for the device, not by names. Silent for what
autocast returns in float32 (losses; on CUDA also softmax, norms, sums, `exp`, `log`, `pow`), for integers
and booleans (`argmax`, comparisons), for `.item()` and `.tolist()`, after `.float()`, for ops that are asked for
another type (`log_softmax(out, 1, dtype=torch.float32)`), and for `out.sum().backward()`, where nobody looks at the
sum. Of a model that is not in sight, whose last op most often runs in half, a loss is told of, or the logarithm of
a softmax where gradients are taken.

It is an error where torch raises, advice for a loss that is computed with gradients switched off, as in a validation:
that is a figure to look at, with three digits. Else it is a warning.

## Why is this bad

Inside the region autocast sends the delicate ops to float32. After it, the ops run in the dtype they are
given, and what they are given is half. In the better case torch raises. In the worse case the loss, the
probabilities or a running mean lose digits or become `inf`, and the training curve only looks a little
worse than it should.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, with a float16 result of a linear layer after its region (bfloat16
behaves alike):

| what it meets | what happens |
|---|---|
| `nn.Linear` in float32 | `RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float` |
| `@` with a float32 matrix | `RuntimeError: expected m1 and m2 to have the same dtype` |
| `nn.Conv1d` in float32 | `RuntimeError: Input type (c10::Half) and bias type (float) should be the same` |
| `nn.LSTM`, `nn.GRU` | `ValueError: RNN input dtype (torch.float16) does not match weight dtype` |
| `buffer[index] = result` | `RuntimeError: Index put requires the source and destination dtypes match` |
| `scatter_`, `index_add_` | `RuntimeError` |
| `cross_entropy`, `softmax`, `log`, `mean` | no error, the result is float16 |
| `mse_loss`, `+`, `cat`, `where` with float32 | no error, float32 by type promotion |
| `buffer[0:2] = result` | no error, copied into float32 |

How wrong the silent ones are: a cross entropy over 1000 classes that is 8.4689 in float32 reads 8.4766 in
float16 and 8.5 in bfloat16. Adding 1.0 to a running total stops at 2048 in float16 and at 256 in bfloat16.
The mean of the squares of a hundred values of 300 is `inf` in float16. `0 / (0 + 1e-8)` is `nan` in
float16, since 1e-8 is zero there.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(64, 1000).to(device)
x, target = torch.randn(32, 64, device=device), torch.randint(1000, (32,), device=device)

with torch.autocast(device, dtype=torch.float16):
    logits = model(x)
loss = nn.functional.cross_entropy(logits, target)
assert loss.dtype == torch.float16
```

## Use instead

Compute the loss in the region, where it runs in float32:

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(64, 1000).to(device)
x, target = torch.randn(32, 64, device=device), torch.randint(1000, (32,), device=device)

with torch.autocast(device, dtype=torch.float16):
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, target)
assert loss.dtype == torch.float32
```

or cast what leaves the region:

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(64, 1000).to(device)
x, target = torch.randn(32, 64, device=device), torch.randint(1000, (32,), device=device)

with torch.autocast(device, dtype=torch.float16):
    logits = model(x)
loss = nn.functional.cross_entropy(logits.float(), target)
assert loss.dtype == torch.float32
```

## Fix safety

The fix writes `.float()` on the value where it is used, with brackets where the operators need them. It is safe:
either every op on the way to the value is known, or the value is the input of a loss, which can be nothing but a
floating tensor. It is unsafe where the value is float64, integers, booleans, a tuple or `None` on another path to the
same place, and where the file makes something half by hand, which may want the result in half. The logits of
`binary_cross_entropy_with_logits` are cast together with a half target, whose type decides. Of an output that is a
tuple, a dictionary or an object, the elements that are used get the cast, each in its place: `out["logits"].float()`.
Where a star hands over all of them at once there is no fix. A cast costs memory for large outputs. Moving the loss into
the region is the cheaper edit unless the loss is `binary_cross_entropy`, which raises there on CUDA.

## References

* [torch.amp: autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting) and the op reference
  below it
* [accelerate#134](https://github.com/huggingface/accelerate/issues/134): a loss in float16
* [pytorch#98814](https://github.com/pytorch/pytorch/issues/98814): dtypes that do not match after a region
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from amplint.amp.versions import Bounds
from amplint.events import Backward, Certainty, DType, Event, IndexPut, Op, Operand, Place
from amplint.findings import Level, Span
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.numerics import CastWritten
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import MISMATCH, Harm, birth, born_half, cast_of, harm_of, origin
from amplint.rules.ledger import LIKELY, of_operand
from amplint.rules.wording import line_of, quoted

_SUMS = frozenset({"sum", "mean"})


class _Sum(NamedTuple):
    """Where a sum of half-precision values stands."""

    path: str
    span: Span

    def is_within(self, place: Place) -> bool:
        """Whether it is a part of what stands at a place."""
        return self.path == place.path and place.span.holds(self.span)


class MissingFloat(FlowRule):
    """The state holds where the values that were told of were born, and which parts of an output they are, so that
    what is computed from them is not told of again."""

    by_subject = True
    level = Level.WARNING
    shown_by = (Op, IndexPut)
    raises = MISMATCH

    def start(self) -> Hashable:
        return frozenset()

    def about(self, event: Event) -> tuple[Hashable, ...] | None:
        if isinstance(event, Op):
            harm = _harm_outside(event, self.setting.torch)
            return (_told(harm.operand),) if harm is not None else ()
        if isinstance(event, Backward):
            return event.halves
        return (_told(event.value),) if isinstance(event, IndexPut) else None

    def again(self, state: frozenset[Hashable]) -> Hashable:
        return frozenset()

    def on_op(self, state: frozenset[Hashable], event: Op, report: Report) -> Hashable:
        harm = _harm_outside(event, self.setting.torch)
        if harm is None or _told(harm.operand) in state:
            return state
        place = harm.place or event.place
        total = _Sum(place.path, place.span) if event.name in _SUMS else None
        self._tell(place, harm, total, report, reported=event.sensitivity == "loss" and not event.gradients)
        return state | ({_told(harm.operand)} if total is None else {_told(harm.operand), total})

    def on_backward(self, state: frozenset[Hashable], event: Backward, report: Report) -> Hashable:
        """The gradient of a sum is one, whatever its value, and nothing else is done with this one."""
        for known in state:
            if isinstance(known, _Sum) and known.is_within(event.place):
                report.withdraw(self, known)
        return state

    def on_index_put(self, state: frozenset[Hashable], event: IndexPut, report: Report) -> Hashable:
        value = event.value
        if (
            event.regions
            or event.name == "copy_"
            or not _left(value)
            or value.certainty is not Certainty.SURE
            or event.target.dtype is None
            or event.target.dtype.is_half
            or not event.target.dtype.is_floating
            or _told(value) in state
        ):
            return state
        if event.target.dtype is DType.FLOAT32:
            builder: FixBuilder = CastWritten(
                event.place, event.target.place, value.place, event.name, is_float32=True
            )
        else:
            builder = NoFix(f"the value has to be cast to {event.target.dtype.value}")
        assumes = of_operand(value, event.place)
        report.add(
            self,
            event.place,
            f"a {origin(value)} is written into a {event.target.dtype.value} tensor",
            why="It raises RuntimeError: the dtypes of destination and source must match.",
            help="Write it with `.float()`.",
            level=Level.ERROR,
            trail=birth(value),
            builder=builder,
            assumes=assumes,
        )
        return state | {_told(value)}

    def _tell(
        self, place: Place, harm: Harm, subject: _Sum | None, report: Report, *, reported: bool
    ) -> None:
        """``reported``: a loss of which no gradients are taken is a figure to look at."""
        operand = harm.operand
        # what is computed from the softmax shows that it matters; its operand is not in sight there
        what = quoted(operand.place) if harm.place is None else f"the operand of {quoted(harm.place)}"
        message = (
            f"{what} left the autocast region on {line_of(_region_place(operand), place)} in "
            f"{_type_name(operand)} and {harm.effect}"
        )
        level = Level.ERROR if harm.raises else Level.ADVICE if reported else Level.WARNING
        report.add(
            self,
            place,
            message,
            why=harm.why,
            help=harm.remedy,
            level=level,
            trail=birth(operand),
            subject=subject,
            builder=cast_of(harm, self.name),
            assumes=(*of_operand(operand, place), *harm.assumes),
        )


def _harm_outside(event: Op, torch: Bounds) -> Harm | None:
    harm = None if event.regions else harm_of(event, torch)
    return harm if harm is not None and _left(harm.operand) else None


def _left(operand: Operand) -> bool:
    """Whether the value is half, and outside of every region: those out of sight, too."""
    return born_half(operand) and operand.born_in is not None and not operand.born_in.inner


def _told(operand: Operand) -> Hashable:
    return (operand.born, operand.element)


def _type_name(operand: Operand) -> str:
    name = "half precision" if operand.dtype is None or operand.dtype.value == "half" else operand.dtype.value
    return name if operand.certainty is Certainty.SURE else f"{name}, {LIKELY.text},"


def _region_place(operand: Operand) -> Place:
    assert operand.born_in is not None
    return operand.born_in.place
