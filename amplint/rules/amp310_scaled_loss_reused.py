"""Finds scaled losses that are logged or scaled again.

## What it does

Reports a loss that came out of `scaler.scale()` and is then read as a number (`.item()`, `float()`, an f-string,
`print`), and a loss that goes through `scale` of the same scaler a second time. It follows the value through
names, arithmetic, `.mean()`, `.detach()` and calls.

Silent: code that asks for `scaler.get_scale()` around the read, since it may divide by it, and the loss itself
under its own name.

## Why is this bad

`loss = scaler.scale(loss)` gives the name of the loss to a number that is 65536 times larger by default and that
changes with the scale. What is logged, averaged over the epoch or compared for early stopping is not the loss: it
doubles when the scale grows and halves after an overflow. Scaling twice multiplies the gradient by the square of
the scale: almost every step overflows and is skipped until the scale has shrunk.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, loss 0.7, scale 65536:

| code | result |
|---|---|
| `loss = scaler.scale(loss); loss.item()` | 45875.2 |
| `scaler.scale(scaler.scale(loss)).backward()` and step | gradient 65536 times too large after the division |
| the scaler has `enabled=False` | right: `scale` gives the loss back |

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
    loss = scaler.scale(loss)
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
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
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
```

## Fix safety

The fix gives the scaled loss a name of its own in `loss = scaler.scale(loss)` and in the backward pass that
follows in the same block, and is safe: what else reads the loss was meant to read the loss. Taking a second
`scale` away is unsafe, because on another way the loss may not be scaled yet. There is no fix where the loss is
scaled in another function than the one that reads it.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
* [FAIR-Chem/fairchem#617](https://github.com/FAIR-Chem/fairchem/issues/617): the loss was logged 65536 times too large
"""

from __future__ import annotations

from amplint.amp.protocol import Fault, Violation
from amplint.events import ScaledLossRead, ScalerUsed
from amplint.fixes.base import FixBuilder
from amplint.fixes.scaling import NameScaledLoss, ScaleOnce
from amplint.rules.grad_scaler import Description, ProtocolRule, times
from amplint.rules.wording import quoted


class ScaledLossReused(ProtocolRule):
    """A scaled loss where the loss is meant."""

    shown_by = (ScaledLossRead, ScalerUsed)
    faults = frozenset({Fault.READ_SCALED, Fault.SCALED_TWICE})

    def builder_of(self, violation: Violation) -> FixBuilder:
        """A name for the scaled loss, or one scale less."""
        return (
            ScaleOnce(violation.place)
            if violation.fault is Fault.SCALED_TWICE
            else NameScaledLoss(violation.place)
        )

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        if violation.fault is Fault.SCALED_TWICE:
            return Description(
                f"{quoted(violation.place)} scales a loss that this scaler has already scaled",
                "The gradients are multiplied by the square of the scale and divided by the scale once, and nearly "
                "every step overflows.",
                "Scale the loss itself.",
                "here",
            )
        return Description(
            f"{quoted(violation.place)} reads the loss after `scaler.scale()`",
            f"It is {times(violation)} the loss at the initial scale, and jumps when the scale changes.",
            "Keep the loss under its own name and scale it only for backward: `scaler.scale(loss).backward()`.",
            "used from here on",
        )
