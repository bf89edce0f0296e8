"""Finds losses that go into a scaler's step without having been scaled.

## What it does

Reports a backward pass on a loss that `scaler.scale()` did not multiply, where an enabled scaler then divides
the gradients by its scale in `scaler.unscale_(optimizer)` or `scaler.step(optimizer)`. It also reports
`unscale_` and `step` of a scaler that never scaled anything, and gradients that one scaler scaled and another
one divides.

Silent: the branch for `scaler is None` or for a flag that also switches the scaler off, losses with an optimizer
of their own that steps without the scaler, `backward(inputs=…)`, frameworks whose `backward` scales by itself,
and scalers that are switched by a flag of which nothing is known.

## Why is this bad

The scaler divides by its scale whatever it was that made the gradients. A gradient that was never
multiplied becomes 65536 times too small with the default scale. With SGD the model stands still; with Adam, whose
step does not depend on the size of the gradient, the run looks almost right until the gradients fall below
`eps`. The loss that was not scaled also underflows in the float16 parts of the backward pass, which is what the
scaler is there to prevent. No exception says so, unless the scaler has not scaled anything yet.

## What torch does at run time

Measured with torch 2.13.0 on the CPU (`torch.amp.GradScaler("cpu")`), SGD:

| backward pass | scaler's step |
|---|---|
| not scaled, the scaler scaled something before | silent: the update is 1/65536 of what it should be by default |
| one scaled loss and one that is not, in one step | silent: the second counts for 1/scale of its weight |
| not scaled, the scaler never scaled anything | `AssertionError: Attempted step but _scale is None.` |
| scaled by one scaler, stepped by another | silent: off by the ratio of the two scales |
| the scaler has `enabled=False` | right |

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    penalty = model.weight.square().sum()
    scaler.scale(loss).backward()
    penalty.backward()
    scaler.step(optimizer)
    scaler.update()
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    penalty = model.weight.square().sum()
    scaler.scale(loss).backward()
    scaler.scale(penalty).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety

The fix writes `scaler.scale(loss).backward()` with the scaler that steps, and is unsafe: all steps on these
gradients have to go through that scaler. There is no fix where two scalers are mixed up, or where the backward
pass is in another function.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from amplint.amp.protocol import Breach, Fault
from amplint.events import Backward, ScalerUsed
from amplint.fixes.base import Mend, NoMend
from amplint.fixes.scaling import ScaleLoss
from amplint.rules.grad_scaler import ProtocolRule, call, number, where


class UnscaledBackward(ProtocolRule):
    """A loss that the scaler's step divides but nobody multiplied."""

    shown_by = (Backward, ScalerUsed)
    evidence = ("scale", "norm")
    raises = r"Attempted (step|unscale_) but _scale is None"
    faults = frozenset({Fault.UNSCALED_LOSS, Fault.NEVER_SCALED, Fault.OTHER_SCALER})

    def mend_of(self, breach: Breach) -> Mend:
        """The loss is scaled by the scaler that steps."""
        if breach.fault is Fault.OTHER_SCALER:
            return NoMend("it is not clear which of the two scalers is meant")
        if breach.fault is Fault.NEVER_SCALED:
            return ScaleLoss(breach.place)
        return ScaleLoss(breach.other, breach.place)

    def describe(self, breach: Breach) -> tuple[str, str]:
        """The message, and the step of the trail."""
        if breach.fault is Fault.NEVER_SCALED:
            return (
                f"{call(breach.place)} runs before this scaler has scaled any loss: torch raises "
                f"`AssertionError: Attempted {breach.how} but _scale is None.` Write "
                "`scaler.scale(loss).backward()` with the same scaler.",
                "here",
            )
        if breach.fault is Fault.OTHER_SCALER:
            return (
                f"{call(breach.place)} divides by the scale of one scaler the gradients that another one scaled "
                f"for the backward pass on {where(breach)}: the update is off by the ratio of the two scales. "
                "Use one scaler for both calls.",
                "scaled by another scaler here",
            )
        first = f" (1 / {number(breach.initial)} at the initial scale)" if breach.initial is not None else ""
        return (
            f"{call(breach.place)} runs on a loss that was not scaled, and the scaler divides its gradients on "
            f"{where(breach)} all the same: they count for 1 / scale of what they should{first}, and small ones "
            "underflow in float16. Write `scaler.scale(loss).backward()`.",
            "the gradients are divided by the scale here",
        )
