"""Finds autocast contexts for a device that torch.autocast does not take: a torch.device, "gpu", "cuda:0".

## What it does

Reports `torch.autocast(device)` where `device` is a `torch.device`, a number, `None` or a string that names
no device type, and a call without any device. A string with an index, such as `"cuda:0"`, is reported where
the project's requirements (or `--torch-version`) admit torch before 2.4.

Reports the comparison of a `torch.device` with a text, `device == "cuda"`, where an autocast context is on, is for this
device or is made at all only if it is true: it never is.

The value is followed to where it was made: `device = torch.device(...)`, `x.device` of a tensor, `str(device)`,
f-strings, also through functions and attributes of the project. `device.type` is right, and so are wrappers
that cut the index off. What comes from an argument or a configuration is not known, and the rule is silent.

## Why is this bad

The constructor raises, so code on this path has never run: often it is the branch for the other device, or
for evaluation. A comparison that is never true raises nothing: the training runs in float32, or in a region for the
CPU, which does nothing to tensors on a GPU, and only takes longer.

## What torch does at run time

Measured with torch 2.13.0: `torch.autocast(torch.device("cpu"))` raises ``ValueError: Expected `device_type`
of type `str`, got: `<class 'torch.device'>` ``, and the same for a number and `None`. `torch.autocast("gpu")`
raises `RuntimeError: Expected one of cpu, cuda, …`, `"meta"` `RuntimeError: unsupported scalarType`, and no
argument at all a `TypeError`. `"cpu:0"` and `"cuda:0"` are accepted since torch 2.4; torch 2.3.1 raises
`RuntimeError: User specified an unsupported autocast device_type 'cuda:0'`. With torch 2.14.1
`torch.device("cuda") == "cuda"` is `False`.

## Example

```python
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
try:
    with torch.autocast(device, dtype=torch.bfloat16):
        pass
except ValueError as error:
    assert "device_type" in str(error)
else:
    raise AssertionError("expected a ValueError")
```

## Use instead

```python
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 1).to(device)

with torch.autocast(device.type, dtype=torch.bfloat16):
    prediction = model(torch.randn(4, 8, device=device))
assert prediction.dtype == torch.bfloat16
```

## Fix safety

The fix is safe where the device is given. A string gives way to the right one; what surely is a `torch.device`
gets `.type`; and where callers may hand over a string as well, `torch.device(device).type` is written, which is
right for both. A call without any device gets the one of the settings, `"cuda"` by default; that is unsafe,
because another may be meant. So is `device.type == "cuda"` for a comparison: what depends on it happens for the first
time. A number and `None` say nothing of the type, and there is no fix.

## References

* [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
* [ComfyUI#6061](https://github.com/comfyanonymous/ComfyUI/issues/6061) and
  [speechbrain#2881](https://github.com/speechbrain/speechbrain/pull/2881): the exception in the field
* [pytorch#153539](https://github.com/pytorch/pytorch/pull/153539): accepting `torch.device` was proposed and
  closed
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.amp.regions import GENERIC_ENTRIES, NO_DEVICES
from amplint.amp.versions import compare
from amplint.events import Constructed, Given, NeverOn
from amplint.findings import Level
from amplint.fixes.base import NoFix
from amplint.fixes.devices import CompareType, GiveDevice, WriteDeviceType
from amplint.rules.base import FlowRule, Report
from amplint.rules.ledger import of_torch
from amplint.rules.wording import line_of, quoted

TAKES_INDEX = (2, 4)
"""The first torch release that accepts "cuda:0"."""
_NO_STRING = "It raises `ValueError: Expected `device_type` of type `str``."


class AutocastWrongDevice(FlowRule):
    """Has no state."""

    level = Level.ERROR
    hears_assumed = True
    shown_by = (Constructed,)

    def on_constructed(self, state: Hashable, event: Constructed, report: Report) -> Hashable:
        if event.name not in GENERIC_ENTRIES:
            return state
        if event.missing:
            device = self.setting.device
            report.add(
                self,
                event.place,
                "`autocast` has no device",
                why="It raises `TypeError: missing 1 required positional argument: 'device_type'`.",
                help='Write `autocast("cuda")`, or `device.type`.',
                builder=GiveDevice(event.place, device),
            )
            return state
        given = event.given("device_type")
        if given is not None:
            self._look(given, report)
        return state

    def on_never_on(self, state: Hashable, event: NeverOn, report: Report) -> Hashable:
        where = line_of(event.place, event.compared)
        report.add(
            self,
            event.compared,
            f"{quoted(event.compared)} compares a torch.device with a text, and is never true",
            why=f"So the autocast region on {where} is never what is meant, and nothing says so.",
            help="Compare its type: `device.type`.",
            trail=((event.place, "what depends on it"),),
            builder=CompareType(event.compared),
            told_by_text=True,
        )
        return state

    def _look(self, device: Given, report: Report) -> None:
        match device.kind:
            case "torch.device":
                report.add(
                    self,
                    device.place,
                    f"{quoted(device.place)} is a torch.device, and `autocast` takes its type",
                    why=_NO_STRING,
                    help=f"Write `{device.place.text}.type`.",
                    builder=WriteDeviceType(device.place),
                )
            case "number" | "None":
                kind = "None" if device.kind == "None" else "a number"
                report.add(
                    self,
                    device.place,
                    f"{quoted(device.place)} is {kind}, and `autocast` takes the type of a device",
                    why=_NO_STRING,
                    help='Write the type of the device, such as `"cuda"`.',
                    builder=NoFix(f"{kind} does not say which type of device is meant"),
                )
            case "str":
                self._look_at_string(device, str(device.value), report)

    def _look_at_string(self, device: Given, name: str, report: Report) -> None:
        kind, colon, _ = name.partition(":")
        if kind.lower() in NO_DEVICES or (kind != kind.lower() and kind.lower() in ("cuda", "cpu")):
            right = NO_DEVICES.get(kind.lower(), kind.lower())
            builder = WriteDeviceType(device.place, right) if right else NoFix("no device has a like name")
            report.add(
                self,
                device.place,
                f'"{name}" is no device that autocast knows',
                why="The constructor raises a RuntimeError.",
                help=f'Write `"{right}"`.' if right is not None else "",
                builder=builder,
            )
            return
        old = compare(self.setting.torch, "<", TAKES_INDEX)
        if colon and old is not False:
            release = "torch" if old else "torch before 2.4"
            level = Level.ERROR if old else Level.WARNING
            assumes = of_torch(self.setting.torch, "<", TAKES_INDEX)
            builder = WriteDeviceType(device.place)
            report.add(
                self,
                device.place,
                f'{release} takes the device type without an index: "{name}" raises',
                why=f'It is `RuntimeError: User specified an unsupported autocast device_type "{name}"`.',
                help=f'Write `"{kind}"`, or `torch.device(…).type`.',
                level=level,
                builder=builder,
                assumes=assumes,
            )
