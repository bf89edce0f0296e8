"""Finds steps of a scaler that no `update()` follows before the next one.

## What it does

Reports `scaler.step(optimizer)` where a way through the code leads to the next `step` or `unscale_` of the same
optimizer without `scaler.update()`. Helpers, other files, `continue`, and guards such as `if (i + 1) % n == 0`
are followed.

Silent: one `update()` for several optimizers, functions that step once and whose caller updates, scalers that are
off.

## Why is this bad

`step` marks the optimizer as stepped, and only `update` takes the mark away. The second iteration that goes this
way raises, often hours into a run when the way is a rare one (a batch that is skipped, the last batch of an
epoch).

## What torch does at run time

torch 2.13.0, `torch/amp/grad_scaler.py`: the stage of the optimizer stays `OptState.STEPPED`.

| second iteration | result |
|---|---|
| `scaler.step(optimizer)` | `RuntimeError: step() has already been called since the last update().` |
| `scaler.unscale_(optimizer)` first | `RuntimeError: unscale_() is being called after step().` |
| the scaler has `enabled=False` | right |

Until then the scale stays what it was: it neither grows nor backs off.

## Example

```python
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)
loader = DataLoader(TensorDataset(torch.randn(4, 8), torch.randn(4, 1)), batch_size=4)

for x, y in loader:  # a second iteration raises
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
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
```

## Fix safety

The fix calls `scaler.update()` after the last `scaler.step(…)` of the block, and is safe. It is unsafe where
another function of the file calls `update` of the same name. There is no fix where the same function has an
`update` on other ways, or steps in several blocks or in a loop over optimizers: call it once after the last
`scaler.step(…)` of the iteration.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from amplint.amp.protocol import Fault, Violation
from amplint.events import ScalerUsed
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.scaling import AddUpdate
from amplint.rules.grad_scaler import Description, ProtocolRule, times, where
from amplint.rules.wording import quoted


class MissingScalerUpdate(ProtocolRule):
    """A step that no update follows."""

    shown_by = (ScalerUsed,)
    raises = r"step\(\) has already been called since the last update|unscale_\(\) is being called after step"
    faults = frozenset({Fault.NO_UPDATE, Fault.STILL_UNSCALED})

    def builder_of(self, violation: Violation) -> FixBuilder:
        """An update after the step."""
        if violation.fault is Fault.STILL_UNSCALED:
            return NoFix("the step that follows `unscale_` is not made by the scaler")
        return AddUpdate(violation.place)

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        if violation.fault is Fault.STILL_UNSCALED:
            return Description(
                f"no `scaler.update()` follows {quoted(violation.place)} before the scaler steps on {where(violation)}",
                "It takes the scaled gradients of the new backward pass for unscaled ones and applies them "
                f"{times(violation)} too large at the initial scale.",
                "Call `scaler.update()` also where the code steps or skips a step by itself.",
                "applied without division here",
            )
        error = (
            "unscale_() is being called after step()."
            if violation.how == "unscale_"
            else "step() has already been called since the last update()."
        )
        again = "the next time" if violation.other == violation.place else f"on {where(violation)}"
        return Description(
            f"no `scaler.update()` follows {quoted(violation.place)} before `scaler.{violation.how}` runs again "
            f"{again}",
            f"Torch raises `RuntimeError: {error}` and the scale never changes.",
            "Call `scaler.update()` once after the last step of the iteration.",
            "raises here",
        )
