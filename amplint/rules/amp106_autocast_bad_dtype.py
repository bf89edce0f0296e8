"""Finds autocast contexts whose dtype is none that autocast can run in.

## What it does

Reports a string or a number as `dtype`, and `float32`, `float64` or an integer type in a region of the CPU or
of another device that only takes 16-bit types.

Silent for `torch.autocast("cuda", dtype=torch.float32)`: CUDA accepts it, and uses it to raise half-precision
operands to float32. Silent too where a flag may have switched the region off, as in
`dtype=torch.float16 if use_amp else torch.float32, enabled=use_amp`, and where the same region also runs in a
16-bit type: `predict(model, x, dtype)` that is called with float32 and with bfloat16. A bool as `dtype` is
misplaced-argument.

## Why is this bad

With a string the region raises when it is entered. With float32 on the CPU torch prints a warning and
switches the region off: the code reads as if mixed precision were on.

## What torch does at run time

Measured with torch 2.13.0: `torch.autocast("cpu", dtype="bfloat16")` is constructed, and its `__enter__` raises
`TypeError: set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not str`.
`torch.autocast("cpu", dtype=torch.float32)` prints `UserWarning: In CPU autocast, but the target dtype is not
supported. Disabling autocast.`, and the region is disabled; float64 and int8 likewise. The check is skipped
for the device `"cuda"`.

## Example

```python
import warnings

import torch
from torch import nn

model = nn.Linear(8, 1)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    with torch.autocast("cpu", dtype=torch.float32):
        assert not torch.is_autocast_enabled("cpu")
        prediction = model(torch.randn(4, 8))
```

## Use instead

```python
import torch
from torch import nn

model = nn.Linear(8, 1)
with torch.autocast("cpu", dtype=torch.bfloat16):
    assert torch.is_autocast_enabled("cpu")
    prediction = model(torch.randn(4, 8))
```

Where float32 is what is wanted, `enabled=False` says so without a warning. A name from a configuration becomes
a dtype with `getattr(torch, name)`.

## Fix safety

All fixes are unsafe: which type was meant, and whether the region should be on at all, is the author's to say. The
name of a half-precision type gives way to the type, and code that raised so far runs in it for the first time. A
type that switches the region off gives way to `enabled=False`, which keeps the region off and says so. A number
names no type, and there is no fix.

## References

* [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
* [CPU ops and types](https://docs.pytorch.org/docs/stable/amp.html#cpu-op-specific-behavior)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.amp.regions import ENTRIES
from amplint.events import Constructed, DType, Given
from amplint.findings import Level
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.dtypes import SwitchOff, WriteDtype
from amplint.rules.base import FlowRule, Report
from amplint.rules.wording import quoted

STRICT_DEVICES = frozenset({"cpu", "mps", "xpu"})
"""Devices whose regions are switched off when the type is none of 16 bits."""


class AutocastBadDtype(FlowRule):
    """Has no state."""

    level = Level.ERROR
    hears_assumed = True

    def on_constructed(self, state: Hashable, event: Constructed, report: Report) -> Hashable:
        entry = ENTRIES.get(event.name)
        dtype = event.given("dtype")
        if entry is None or entry.framework or dtype is None:
            return state
        match dtype.kind:
            case "str" if str(dtype.value).partition(":")[0] not in ("cuda", "cpu", "mps", "xpu"):
                self._raises(dtype, "a string", WriteDtype(dtype.place, str(dtype.value)), report)
            case "number":
                self._raises(dtype, "a number", NoFix("a number names no type"), report)
            case "torch.dtype" if isinstance(dtype.value, DType) and dtype.value.is_half:
                # who chooses the type has the region run in float32 on purpose, where it does
                report.withdraw(self, dtype.place)
            case "torch.dtype" if isinstance(dtype.value, DType):
                self._switched_off(event, dtype, dtype.value, report)
        return state

    def _raises(self, dtype: Given, what: str, builder: FixBuilder, report: Report) -> None:
        report.add(
            self,
            dtype.place,
            f"{quoted(dtype.place)} is {what}, no torch.dtype",
            why="The region raises a TypeError when it is entered.",
            help="Write `torch.bfloat16` or `torch.float16`; `getattr(torch, name)` turns a name into a dtype.",
            builder=builder,
        )

    def _switched_off(self, event: Constructed, dtype: Given, value: DType, report: Report) -> None:
        enabled = event.given("enabled")
        if enabled is not None and enabled.value is not True:
            return
        device = ENTRIES[event.name].device
        given = event.given("device_type")
        if given is not None and given.kind == "str":
            device = str(given.value).partition(":")[0]
        if device in STRICT_DEVICES:
            builder = SwitchOff(event.place, dtype.place, ENTRIES[event.name].parameters)
            report.add(
                self,
                dtype.place,
                f"autocast on {device} runs in bfloat16 or float16 only, not in {value.value}",
                why="Torch prints a warning and the region is disabled.",
                help="Write `torch.bfloat16`, or `enabled=False` if that is meant.",
                level=Level.WARNING,
                subject=dtype.place if value is DType.FLOAT32 else None,
                builder=builder,
            )
