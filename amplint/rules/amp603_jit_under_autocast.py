"""Finds TorchScript that is made under autocast in ways that raise.

## What it does

Reports `torch.jit.trace` and `torch.jit.trace_module` of a module in sight that takes gradients, in a region with the
weight cache on, and `torch.jit.script` of a function that an autocast context decorates.

Silent with `cache_enabled=False`, for frozen modules, for modules that were made or handed over out of sight (they may
have been frozen, cast or quantized to be traced), for scripted functions with `with torch.autocast(...)` inside,
and for traced or scripted modules that are only called in a region, which works. Silent with `check_trace=False`, too,
where the module runs once; that it has run before in the same region, which raises all the same, is not looked at.

## Why is this bad

Both raise. The trace raises on the CPU and on CUDA alike, with a message about constants that does not mention
autocast.

## What torch does at run time

Measured with torch 2.13.0: `torch.jit.trace(model, x)` in `with torch.autocast("cpu", dtype=torch.bfloat16)` raises
`RuntimeError: Cannot insert a Tensor that requires grad as a constant`: the tracer meets the cached copies of the
weights, which are no parameters, when it runs the module again to check the trace. With `cache_enabled=False` or
`check_trace=False`, or after `model.requires_grad_(False)`, it works and records the casts. `torch.jit.script` of a
decorated function raises `RuntimeError: TorchScript error: @autocast() decorator is not supported in script mode`.
TorchScript as a whole is deprecated since torch 2.11.

## Example

```python
import torch
from torch import nn

model = nn.Linear(8, 1)
x = torch.randn(4, 8)
try:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.jit.trace(model, x)
except RuntimeError as error:
    assert "requires grad as a constant" in str(error)
else:
    raise AssertionError("expected a RuntimeError")
```

## Use instead

```python
import torch
from torch import nn

model = nn.Linear(8, 1)
x = torch.randn(4, 8)
with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
    traced = torch.jit.trace(model, x)
assert traced(x).dtype == torch.bfloat16
```

## Fix safety

This version has no automatic fix for the rule. `cache_enabled=False` is right for every trace: the casts
belong into it.

## References

* [pytorch#84092](https://github.com/pytorch/pytorch/issues/84092) and
  [pytorch#63552](https://github.com/pytorch/pytorch/pull/63552): tracing and the cache
* [torch.jit.trace](https://docs.pytorch.org/docs/stable/generated/torch.jit.trace.html)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Captured, enabled_region
from amplint.findings import Level
from amplint.rules.base import FlowRule, Report, opened
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of


class JitUnderAutocast(FlowRule):
    """Has no state."""

    level = Level.WARNING

    def on_captured(self, state: Hashable, event: Captured, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if event.how == "torch.jit.script" and event.decorated is not None:
            report.add(
                self,
                event.place,
                f"torch.jit.script gets a function that autocast decorates on {line_of(event.decorated, event.place)}",
                why="It raises: `@autocast() decorator is not supported in script mode`.",
                help="Open the region with `with` inside the function.",
                trail=((event.decorated, "it is decorated here"),),
            )
        elif (
            event.how.startswith("torch.jit.trace")
            and region is not None
            and region.cache_enabled
            and event.trains
            and event.again
        ):
            assumes = of_regions(region, seen_from=event.place)
            report.add(
                self,
                event.place,
                f"in the region on {line_of(region.place, event.place)} the trace meets cached copies of the weights",
                why="It raises `RuntimeError: Cannot insert a Tensor that requires grad as a constant`.",
                help="Open the region with `cache_enabled=False`.",
                trail=(opened(region),),
                assumes=assumes,
            )
        return state
