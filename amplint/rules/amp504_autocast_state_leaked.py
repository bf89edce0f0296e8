"""Finds autocast that is switched on by hand and, on some path, never switched off again.

## What it does

Reports `context.__enter__()` on a local context without `__exit__` on every way to the end of the function or
script, `torch.autocast("cuda").__enter__()` in a function, which nobody can leave, and
`torch.set_autocast_enabled(..., True)` in a file that never sets it again.

Silent where the other half may be elsewhere: contexts that are kept in an attribute, returned or handed on,
classes that delegate `__enter__` and `__exit__`, files that call `set_autocast_enabled` in several functions,
and calls that set back a value that was read before.

## Why is this bad

Autocast stays on for the rest of the thread: for validation, for the backward pass, for the next test. And
since the outermost context is never left, the copies of the weights that autocast caches are never dropped:
every later forward uses the weights of the first one, and training stands still.

## What torch does at run time

Copies of weights are dropped when the outermost autocast context is left, or by `torch.clear_autocast_cache()`.
`set_autocast_enabled` opens no context. Measured with torch 2.13.0 on the CPU, a linear model and SGD: after
`torch.set_autocast_enabled("cpu", True)` and no region the loss printed in five steps is 2.6592, five times;
after `context.__enter__()` alone it is constant as well.

## Example

```python
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8), torch.randn(16, 1)

torch.set_autocast_enabled("cpu", True)
losses = []
for _ in range(3):
    loss = nn.functional.mse_loss(model(x).float(), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert len(set(losses)) == 1
```

## Use instead

```python
import torch
from torch import nn

torch.manual_seed(0)
torch.set_autocast_enabled("cpu", False)
torch.clear_autocast_cache()
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(16, 8), torch.randn(16, 1)

losses = []
for _ in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert len(set(losses)) == 3
```

## Fix safety

This version has no automatic fix for the rule. By hand, use `with`; where the block cannot be written as one,
`contextlib.ExitStack` or `try` and `finally`.

## References

* [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
* [contextlib.ExitStack](https://docs.python.org/3/library/contextlib.html#contextlib.ExitStack)
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from amplint.events import (
    AutocastSwitched,
    FunctionEnded,
    Place,
    RegionAbandoned,
    RegionEntered,
    RegionExited,
)
from amplint.findings import Level
from amplint.rules.base import FlowRule, Report
from amplint.rules.wording import code


@dataclass(frozen=True)
class Leak:
    """What switched autocast on, and the region that it opened, if any."""

    place: Place
    name: str = ""
    region: Hashable = None


class AutocastStateLeaked(FlowRule):
    """The state is a tuple of leaks: what is on by hand at this point."""

    level = Level.WARNING
    hears_assumed = True

    def start(self) -> tuple[Leak, ...]:
        return ()

    def on_region_entered(
        self, state: tuple[Leak, ...], event: RegionEntered, report: Report
    ) -> tuple[Leak, ...]:
        region = event.regions[-1]
        if event.by_hand is None or not region.enabled:
            return state
        return (*state, Leak(event.place, event.by_hand, region.identity))

    def on_region_exited(
        self, state: tuple[Leak, ...], event: RegionExited, report: Report
    ) -> tuple[Leak, ...]:
        return tuple(leak for leak in state if leak.region != event.region.identity)

    def on_autocast_switched(
        self, state: tuple[Leak, ...], event: AutocastSwitched, report: Report
    ) -> tuple[Leak, ...]:
        rest = tuple(leak for leak in state if leak.region is not None)
        return (*rest, Leak(event.place)) if event.enabled else rest

    def on_function_ended(
        self, state: tuple[Leak, ...], event: FunctionEnded, report: Report
    ) -> tuple[Leak, ...]:
        for leak in state:
            if leak.region is None:
                report.add(
                    self,
                    leak.place,
                    "autocast is switched on here and not switched off again",
                    why="It stays on for the rest of the thread, and the copies of the weights that it caches are "
                    "never dropped, so that training stands still.",
                    help="Write `with torch.autocast(…):` around the forward.",
                )
            else:
                self._not_left(leak.place, leak.name, report)
        return ()

    def on_region_abandoned(
        self, state: tuple[Leak, ...], event: RegionAbandoned, report: Report
    ) -> tuple[Leak, ...]:
        if event.region.enabled:
            self._not_left(event.region.place, event.name, report)
        return state

    def _not_left(self, place: Place, name: str, report: Report) -> None:
        report.add(
            self,
            place,
            f"{code(name)} is entered here, and on some path to the end of the function `__exit__` is not called",
            why="Autocast stays on for the rest of the thread, with the weights as it has cast them.",
            help=f"Write `with {name}:`.",
        )
