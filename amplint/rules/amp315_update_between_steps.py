"""Finds `scaler.update()` between a backward pass and the step that uses its gradients.

## What it does

Reports `scaler.update()`

* after a scaled backward pass whose gradients are divided only later, with `scaler.step(b)` after the update of
  `scaler.step(a)`,
* after `scaler.unscale_(optimizer)` whose gradients `scaler.step(optimizer)` then divides once more,
* where nothing was stepped or unscaled since the last update.

Silent: a backward pass of its own before each step, as in most GANs: scale, backward, step, update for one network
and then for the other.

## Why is this bad

`update` may change the scale, and it forgets which optimizers are unscaled. Gradients that were multiplied by the
old scale are divided by the new one: twice or half as large in the iterations in which the scale moves. Gradients
that are unscaled already are divided once more, every time: they become 65536 times too small.

## What torch does at run time

Measured with torch 2.13.0 on the CPU:

| calls after one backward pass for both optimizers | result for `b` |
|---|---|
| `step(a)`, `step(b)`, `update()` | right |
| `step(a)`, `update()`, `step(b)`, `update()` | right while the scale stays, else half or twice as large |
| `unscale_(a)`, `unscale_(b)`, `step(a)`, `update()`, `step(b)` | always 1/scale of the update |
| `update()` without a step since the last one | `AssertionError: No inf checks were recorded prior to update.` |

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
encoder, head = nn.Linear(8, 8).to(device), nn.Linear(8, 1).to(device)
slow = torch.optim.SGD(encoder.parameters(), lr=0.01)
fast = torch.optim.SGD(head.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    slow.zero_grad()
    fast.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(head(encoder(x)), y)
    scaler.scale(loss).backward()
    scaler.step(slow)
    scaler.update()
    scaler.step(fast)
    scaler.update()
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
encoder, head = nn.Linear(8, 8).to(device), nn.Linear(8, 1).to(device)
slow = torch.optim.SGD(encoder.parameters(), lr=0.01)
fast = torch.optim.SGD(head.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    slow.zero_grad()
    fast.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(head(encoder(x)), y)
    scaler.scale(loss).backward()
    scaler.step(slow)
    scaler.step(fast)
    scaler.update()
```

## Fix safety

This version has no automatic fix for the rule. By hand: keep one `scaler.update()`, after the last
`scaler.step(…)` of the iteration.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
* [neosr#9](https://github.com/neosr-project/neosr/issues/9): two updates in one iteration
"""

from __future__ import annotations

from amplint.amp.protocol import Fault, Violation
from amplint.events import ScalerUsed
from amplint.findings import Level
from amplint.rules.grad_scaler import Description, ProtocolRule, where
from amplint.rules.wording import quoted


class UpdateBetweenSteps(ProtocolRule):
    """An update at the wrong time."""

    level = Level.WARNING
    shown_by = (ScalerUsed,)
    raises = r"No inf checks were recorded prior to update|Attempted update but _scale is None"
    faults = frozenset({Fault.UPDATED_BEFORE_STEP, Fault.DIVIDED_TWICE, Fault.NOTHING_TO_UPDATE})

    def level_of(self, violation: Violation) -> Level | None:
        """A scale that moves between is wrong in some iterations, the others always."""
        return None if violation.fault is Fault.UPDATED_BEFORE_STEP else Level.ERROR

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        if violation.fault is Fault.NOTHING_TO_UPDATE:
            return Description(
                f"{quoted(violation.place)} runs on a path on which the scaler has stepped or unscaled no optimizer "
                "since its last update",
                "Torch raises `AssertionError: No inf checks were recorded prior to update.`",
                "Call it under the condition of `scaler.step(optimizer)`.",
                "here",
            )
        if violation.fault is Fault.DIVIDED_TWICE:
            return Description(
                f"{quoted(violation.place)} forgets that the gradients which {where(violation)} applies are unscaled "
                "already",
                "They are divided by the scale a second time: the update is lost.",
                "Call it once, after the last step of the iteration.",
                "divided again here",
            )
        return Description(
            f"{quoted(violation.place)} may change the scale before {where(violation)} divides the gradients of an "
            "earlier backward pass by it",
            "In those iterations the update is twice or half as large.",
            "Call it once, after the last step of the iteration.",
            "divided by the new scale here",
        )
