"""Finds autocast contexts that are created and never entered.

## What it does

Reports `torch.autocast(...)`, or the call of a helper that makes such a context and gives it back, as a
statement of its own, and a context that is assigned to a name and then neither entered nor handed on. Also
`with torch.autocast:`, which enters the class instead of an instance, and `with a and b:`, which enters only
one of two contexts.

Silent where the context may be entered elsewhere: it is returned, stored in an attribute or a container,
passed as an argument, used as a decorator, called with a function, given to `ExitStack.enter_context` or
wrapped in `functools.partial`.

## Why is this bad

The code reads as if mixed precision were on, and it is off. Everything runs in float32: correct, but slower
and with more memory than the code seems to promise. With a `GradScaler` beside it, nothing in the logs
looks odd.

## What torch does at run time

The constructor checks its arguments and stores them. Only `__enter__` changes the autocast state. Measured
with torch 2.13.0 on the CPU: after `torch.autocast("cpu", dtype=torch.bfloat16)` as a statement,
`is_autocast_enabled("cpu")` is False and a matrix product gives float32. `with torch.autocast:` raises
`TypeError: 'type' object does not support the context manager protocol`.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)

torch.autocast(device, dtype=torch.bfloat16)
prediction = model(torch.randn(4, 8, device=device))
assert prediction.dtype == torch.float32
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)

with torch.autocast(device, dtype=torch.bfloat16):
    prediction = model(torch.randn(4, 8, device=device))
assert prediction.dtype == torch.bfloat16
```

## Fix safety

The fix is unsafe: the code runs in half precision for the first time, so expect what comes with it. float16 needs a
`GradScaler`, and values that leave the region may need `.float()` (see missing-float).

* A context that is made and thrown away, or kept in a name that nobody reads, is entered around the statements that
  follow in its block: up to the last one that may need the region and comes before the backward pass. The context alone
  does not say which statements it was meant for, so look at them. There is no fix where none of them needs a region,
  and none where the region runs in float16 and nothing scales the loss.
* `with a and b:` becomes `with a, b:`. There is no fix for `or`.
* `with torch.autocast:` becomes a call, for the device that the settings name.

## References

* [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
* [mmengine#1515](https://github.com/open-mmlab/mmengine/issues/1515): a relative, a region that a wrapper
  prepares and nobody enters
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import RegionDropped, RegionEntered
from amplint.findings import Level
from amplint.fixes.base import FixBuilder
from amplint.fixes.entering import CallContext, EnterBoth, EnterContext
from amplint.rules.base import FlowRule, Report

_EFFECT = "Autocast stays as it is around this, off unless a caller has switched it on."


class AutocastNotEntered(FlowRule):
    """Has no state."""

    level = Level.ERROR
    shown_by = (RegionDropped, RegionEntered)

    def on_region_dropped(self, state: Hashable, event: RegionDropped, report: Report) -> Hashable:
        builder: FixBuilder = EnterContext(event.place, event.name)
        why = _EFFECT
        match event.how:
            case "statement":
                message = "this autocast context is made and thrown away"
                advice = f"Write `with {event.place.text}:` around the forward."
            case "unused name":
                message = f"the autocast context `{event.name}` is never entered"
                advice = f"Write `with {event.name}:` around the forward."
            case "boolean":
                builder = EnterBoth(event.place)
                message = "`and`/`or` between contexts gives one of them, the other is never entered"
                advice = "Separate them by a comma."
            case _:
                builder = CallContext(event.place, self.setting.device)
                message = "`with` gets the autocast class, not a context"
                why = "It raises a TypeError or AttributeError."
                advice = f"Call it: `{event.place.text}(device_type)`."
        report.add(self, event.place, message, why=why, help=advice, builder=builder)
        return state
