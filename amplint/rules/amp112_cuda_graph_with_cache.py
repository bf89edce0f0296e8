"""Finds CUDA graphs that are captured inside an autocast region with its weight cache on.

## What it does

Reports `torch.cuda.make_graphed_callables` in an enabled region, and a capture with `torch.cuda.graph` in a region in
which a forward has run before. Silent with `cache_enabled=False`, and where the region is opened inside the capture
or just for it.

## Why is this bad

`make_graphed_callables` refuses to work. A manual capture after a warm-up in the same region finds the weights
cast already: the graph holds no cast, only the address of the copy. Once the region is left, the copy is freed, and
each replay reads memory that may belong to something else by then. Where it does not, it reads the weights from
before the capture.

## What torch does at run time

`make_graphed_callables` begins with a test of `torch.is_autocast_cache_enabled()` and raises `RuntimeError:
make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`.` (source of torch
2.13.0; seen on a device with 2.11). Copies of weights are kept until the outermost region is left: there a graph that
was captured in a region after a forward gave the same output after each weight had been set to 1.

## Example

```python
import torch
from torch import nn

if torch.cuda.is_available():
    model = nn.Linear(8, 8).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        try:
            torch.cuda.make_graphed_callables(model, (torch.randn(4, 8, device="cuda"),))
        except RuntimeError as error:
            assert "cache_enabled=False" in str(error)
```

## Use instead

```python
import torch
from torch import nn

if torch.cuda.is_available():
    model = nn.Linear(8, 8).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
        torch.cuda.make_graphed_callables(model, (torch.randn(4, 8, device="cuda"),))
```

## Fix safety

The calls that make the open regions get `cache_enabled=False`, which is safe: inside the graph the casts are
replayed with everything else. Where the call of torch that makes the region is not found there is no fix.

## References

* [torch.cuda.make_graphed_callables](
  https://docs.pytorch.org/docs/stable/generated/torch.cuda.make_graphed_callables.html)
* [pytorch#71631](https://github.com/pytorch/pytorch/issues/71631) and
  [pytorch#121751](https://github.com/pytorch/pytorch/issues/121751): captures with the cache on
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from amplint.events import (
    CacheCleared,
    Captured,
    Forward,
    Place,
    Region,
    RegionExited,
    Regions,
    enabled_region,
)
from amplint.findings import Level
from amplint.fixes.weight_cache import SwitchCacheOff
from amplint.rules.base import FlowRule, Report, caching, opened
from amplint.rules.ledger import of_open
from amplint.rules.wording import line_of


class Kept(NamedTuple):
    """A forward whose weights the outermost region keeps, which was opened at ``inside``."""

    inside: Place
    forward: Place


class CudaGraphWithCache(FlowRule):
    """The state is what the open region keeps, or None."""

    level = Level.ERROR
    never_without = (Captured,)
    needs = "a CUDA graph"

    def on_forward(self, state: Kept | None, event: Forward, report: Report) -> Hashable:
        kept = event.trains and _caches(event.regions) is not None
        return Kept(event.regions[0].place, event.place) if kept else state

    def on_region_exited(self, state: Kept | None, event: RegionExited, report: Report) -> Hashable:
        return state if event.regions else None

    def on_cache_cleared(self, state: Kept | None, event: CacheCleared, report: Report) -> Hashable:
        return None

    def on_captured(self, state: Kept | None, event: Captured, report: Report) -> Hashable:
        region = _caches(event.regions)
        if region is None:
            return state
        where = line_of(region.place, event.place)
        builder = SwitchCacheOff(caching(event.regions))
        assumes = of_open(event.regions, event.place)
        if event.how == "torch.cuda.make_graphed_callables":
            report.add(
                self,
                event.place,
                f"`make_graphed_callables` is called in the region on {where}, which caches its casts of weights",
                why="It raises `RuntimeError: make_graphed_callables does not support the autocast caching`.",
                help="Open the region with `cache_enabled=False`.",
                trail=(opened(region),),
                builder=builder,
                assumes=assumes,
            )
        elif event.how == "torch.cuda.graph" and state is not None and state.inside == event.regions[0].place:
            message = (
                f"the region on {where} has cast the weights before this capture, in the forward on "
                f"{line_of(state.forward, event.place)}"
            )
            trail = (opened(region), (state.forward, "the weights are cast here"))
            report.add(
                self,
                event.place,
                message,
                why="The graph holds the addresses of the copies, which are freed when the region is left.",
                help="Open the region with `cache_enabled=False`, or inside the capture.",
                trail=trail,
                builder=builder,
                assumes=assumes,
            )
        return state


def _caches(regions: Regions) -> Region | None:
    region = enabled_region(regions)
    return region if region is not None and region.cache_enabled and region.device != "cpu" else None
