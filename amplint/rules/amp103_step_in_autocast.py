"""Finds optimizer steps that run while autocast is still enabled.

## What it does

Reports `optimizer.step()`, `scaler.step(optimizer)` and helpers that call one, when they run in an enabled
autocast region that ends before the next forward pass. Where the region lasts until the next forward pass,
the same code is an error, and epoch-wide-autocast reports it instead. Of a call that runs the backward pass,
too, such as `optim_wrapper.update_params(loss)`, backward-in-autocast speaks. `scheduler.step()`, `profiler.step()`
and the like are no optimizer steps.

## Why is this bad

Mostly it is in the wrong place rather than wrong: the usual optimizers only add and multiply element by
element, and autocast does not touch that. An optimizer that multiplies matrices is another matter. Shampoo,
Muon, SOAP or K-FAC compute those products in half precision when they step in a region. So does LBFGS with
the forward pass that its closure runs. And code that sits in the region by habit is one refactoring away
from the frozen weights of epoch-wide-autocast.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, twenty steps, region for each step:

| optimizer | weights after steps inside the region, compared with steps after it |
|---|---|
| SGD, AdamW | equal bit for bit |
| `torch.optim.Muon`, bfloat16 region | equal bit for bit: it works in bfloat16 anyway |
| `torch.optim.Muon`, float16 region | off by 3 %: float16 replaces its own bfloat16 |
| a self-written optimizer with `u @ u.T @ u` in its step | off by 0.1 % |

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
```

## Fix safety

The step leaves the region together with the backward pass before it and all that follows, in the same order;
it is the same fix as that of backward-in-autocast, whose page says when it is safe. The step itself never
needs the region.

## References

* [torch.amp: typical mixed precision
  training](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Backward, OptimizerStepped, Place, enabled_region
from amplint.findings import Level
from amplint.fixes.regions import LeaveRegion
from amplint.rules.base import FlowRule, Report, opened, surrounding
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of


class StepInAutocast(FlowRule):
    """Has where the last backward pass ran: of a call that does both, backward-in-autocast speaks."""

    level = Level.ADVICE
    yields_to = ("epoch-wide-autocast",)
    shown_by = (OptimizerStepped,)

    def on_backward(self, state: Place | None, event: Backward, report: Report) -> Hashable:
        return event.place

    def on_optimizer_stepped(self, state: Place | None, event: OptimizerStepped, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if region is not None and not region.whole_step and event.place != state:
            where = line_of(region.place, event.place)
            builder = LeaveRegion(region.place, event.place, surrounding(event.regions))
            subject = event.regions[0].place
            assumes = of_regions(region, seen_from=event.place)
            report.add(
                self,
                event.place,
                f"the optimizer steps inside the autocast region that opens on {where}",
                why="Harmless for optimizers that work element by element. Those with matrix products (Muon, Shampoo, "
                "SOAP, LBFGS) compute their update in half precision, and a later forward in the same region would "
                "use the old weights.",
                help="Leave the region after the loss.",
                trail=(opened(region),),
                subject=subject,
                builder=builder,
                assumes=assumes,
            )
        return state
