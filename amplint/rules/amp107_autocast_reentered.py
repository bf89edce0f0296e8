"""Finds autocast contexts that are entered a second time while they are still open.

## What it does

Reports a context object, kept in a name or an attribute, that is entered inside its own block, also through
calls; and functions decorated with an autocast context that call themselves, directly or through others: the
decorator enters the same object each time.

Silent where each use makes a context of its own, where the uses follow each other, and where the state at the
second entry is the same as before the first, so that nothing is lost.

## Why is this bad

A context can be used again, but not while it is open. It remembers one previous state. The second entry
overwrites it with the state inside, and on leaving the outer block autocast returns to that: it stays on for
the rest of the thread. Everything after it runs in half precision, backward passes and optimizers included,
and the weights that are cast from then on are kept for good.

## What torch does at run time

`autocast.__enter__` stores the current state in `self.prev` and `self.prev_fastdtype`, `__exit__` restores it.
Measured with torch 2.13.0: after `with ctx:` around `with ctx:`, and after a recursive function decorated with
`@torch.autocast("cpu")`, `torch.is_autocast_enabled("cpu")` is True. With a disabled context inside an enabled
region the rest of that region runs with autocast off. Entered one after the other, also after an exception, the
same object works.

## Example

```python
import torch

amp = torch.autocast("cpu", dtype=torch.bfloat16)
with amp:
    with amp:
        pass
assert torch.is_autocast_enabled("cpu")
torch.set_autocast_enabled("cpu", False)
```

## Use instead

```python
from functools import partial

import torch

amp = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
with amp():
    with amp():
        pass
assert not torch.is_autocast_enabled("cpu")
```

In a recursive function, open the region in the body with `with`, or decorate the function that starts the
recursion.

## Fix safety

All fixes are unsafe: the code after the block then runs in float32, which it was written for and has not done so
far. The second entry gets a context of its own, with the arguments of the stored one, where these mean the same
in both places; the decorator of a recursive function becomes a `with` around its body. By hand, keep a factory
instead of a context.

## References

* [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
* [Reusable and reentrant context managers](
  https://docs.python.org/3/library/contextlib.html#reentrant-context-managers)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Region, RegionEntered, RegionExited, Regions, enabled_region
from amplint.findings import Level
from amplint.fixes.base import FixBuilder
from amplint.fixes.bodies import OpenInBody, OwnContext
from amplint.rules.base import FlowRule, Report
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of

Open = tuple[tuple[Region, Hashable], ...]
"""The open regions whose context is kept somewhere, with what identifies it."""


class AutocastReentered(FlowRule):
    """See Open for the state."""

    level = Level.ERROR
    hears_assumed = True

    def start(self) -> Open:
        return ()

    def on_region_entered(self, state: Open, event: RegionEntered, report: Report) -> Open:
        if event.instance is None:
            return state
        region = event.regions[-1]
        for first, instance in state:
            if instance == event.instance and first in event.regions[:-1]:
                before = event.regions[: event.regions.index(first)]
                self._tell(first, before, event.regions[:-1], event, report)
                break
        return (*state, (region, event.instance))

    def on_region_exited(self, state: Open, event: RegionExited, report: Report) -> Open:
        if not event.regions:
            return ()
        return tuple(part for part in state if part[0].identity != event.region.identity)

    def _tell(
        self, first: Region, before: Regions, now: Regions, event: RegionEntered, report: Report
    ) -> None:
        device = first.device
        if _state(before, device) == _state(now, device):
            return
        after = enabled_region(tuple(part for part in now if part.device == device))
        what = "stays on" if after is not None else "stays off"
        again = event.place
        if again == first.place:
            where = "the function calls itself"
            advice = "Open the region with `with` in the body, or decorate the caller."
            builder: FixBuilder = OpenInBody(again, "function")
        else:
            where = f"it is open already since {line_of(first.place, again)}"
            advice = "Make a context for each use, such as `functools.partial(torch.autocast, …)`."
            builder = OwnContext(again)
        trail = ((first.place, "it is entered here first"),)
        assumes = of_regions(first, event.regions[-1], seen_from=again)
        report.add(
            self,
            again,
            f"this autocast context is entered again while {where}",
            why=f"It forgets the state from before: on leaving the outer block autocast {what}.",
            help=advice,
            trail=trail,
            builder=builder,
            assumes=assumes,
        )


def _state(regions: Regions, device: str | None) -> tuple[bool, object]:
    region = enabled_region(tuple(part for part in regions if part.device == device))
    return (region is not None, region.dtype if region is not None else None)
