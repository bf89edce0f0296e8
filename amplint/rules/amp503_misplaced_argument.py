"""Finds arguments of autocast and GradScaler that stand where another one belongs, as in `GradScaler(True)`.

## What it does

Reports a bool or a device where `autocast` takes its `dtype`, a bool or a dtype where it takes the device, and a
dtype or a string where it takes `enabled`. Of `GradScaler`, a bool or a device where it takes `init_scale`, a
bool where it takes `growth_factor`, and a bool or a number where the new class takes the device. Arguments
whose type is not known are passed over.

Reports an argument by a name that the class does not take, such as the `device_type` of `torch.autocast` where the old
`torch.cuda.amp.autocast` is called, which raises. Silent where an `except TypeError` stands around it.

## Why is this bad

The old and the new spelling take their positional arguments in different order:

| call | positional parameters |
|---|---|
| `torch.autocast`, `torch.amp.autocast` | `device_type, dtype, enabled, cache_enabled` |
| `torch.cuda.amp.autocast`, `torch.cpu.amp.autocast` | `enabled, dtype, cache_enabled` |
| `torch.amp.GradScaler` | `device, init_scale, growth_factor, …, enabled` |
| `torch.cuda.amp.GradScaler` | `init_scale, growth_factor, …, enabled` |

For autocast a mix-up raises. For the scaler it is silent: `GradScaler("cuda", True)` scales the loss by
1.0, which is no scaling at all, and `GradScaler("cuda", False)` multiplies every loss, and so every gradient,
by 0.0. Neither switches the scaler off.

## What torch does at run time

Measured with torch 2.13.0: `torch.autocast("cpu", True)` raises `TypeError: set_autocast_dtype(): argument
'dtype' (position 2) must be torch.dtype, not bool` when it is entered; `torch.autocast(True)` a `ValueError` when
it is made; `torch.cpu.amp.autocast(torch.bfloat16)` raises `TypeError: set_autocast_enabled(): argument 'enabled'
(position 2) must be bool, not torch.dtype`. `GradScaler("cpu", True).get_scale()` is 1.0 after a step,
`GradScaler("cpu", False)` is enabled with a scale of 0.0, and so is `torch.amp.GradScaler(False)` with the default
scale: `False` has become the device.

## Example

```python
import torch

use_amp = False
scaler = torch.amp.GradScaler("cpu", use_amp)
assert scaler.is_enabled()
assert scaler.scale(torch.tensor(3.0)).item() == 0.0
```

## Use instead

Give everything but the device by keyword.

```python
import torch

use_amp = False
scaler = torch.amp.GradScaler("cpu", enabled=use_amp)
assert not scaler.is_enabled()
assert scaler.scale(torch.tensor(3.0)).item() == 3.0
```

## Fix safety

The arguments that stand in the wrong place, and the positional ones after them, are given by the names of the
parameters that their types belong to. A string for the device of a class that has it in its name is left out.
This is safe: for autocast the old call raised, and for the scaler the new one does what the old one was written
to do. The training run changes, since the loss is then scaled for the first time, or not at all where a flag is
off. The fix is unsafe where the device is given nowhere, and `"cuda"` is put first. There is none where a star
hides arguments, or the right parameter is given already.

## References

* [torch.amp](https://docs.pytorch.org/docs/stable/amp.html)
* [Mortal#3](https://github.com/Equim-chan/Mortal/issues/3): `torch.autocast(device, enabled)` in the field
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.amp.regions import ENTRIES, NAMES_OF_DEVICE, Entry, is_of_torch
from amplint.amp.scalers import SCALERS, parameters_of
from amplint.events import Constructed, Given
from amplint.findings import Level
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.misplaced import Misplaced, NameArguments
from amplint.rules.base import FlowRule, Report
from amplint.rules.wording import quoted

_BELONGS = {"bool": "enabled", "torch.dtype": "dtype", "torch.device": "device_type", "str": "device_type"}
_DEVICES = ("cuda", "cpu", "mps", "xpu")


class MisplacedArgument(FlowRule):
    """Has no state."""

    level = Level.ERROR
    hears_assumed = True

    def on_constructed(self, state: Hashable, event: Constructed, report: Report) -> Hashable:
        if event.name in SCALERS:
            builder = _builder_of_scaler(event)
            for argument in event.arguments:
                self._look_at_name(event.name, parameters_of(event.name), argument, builder, report)
                self._look_at_scaler(event.name, argument, builder, report)
        elif (entry := ENTRIES.get(event.name)) is not None and not entry.framework:
            builder = _builder_of_region(event, entry, self.setting.device)
            for argument in event.arguments:
                self._look_at_name(event.name, entry.parameters, argument, builder, report)
                self._look_at_region(entry.parameters, argument, builder, report)
        return state

    def _look_at_name(
        self, name: str, parameters: tuple[str, ...], given: Given, builder: FixBuilder, report: Report
    ) -> None:
        if not _is_unknown(name, parameters, given):
            return
        advice = f"It takes {', '.join(f'`{known}`' for known in parameters)}."
        named = _is_device_of_name(name, parameters, given)
        if named:
            advice = "This class has its device in its name: leave it out, or use the one of `torch.amp`."
        message = f"`{given.parameter}` is no argument of `{name}`"
        report.add(
            self,
            given.place,
            message,
            why="The call raises `TypeError: … got an unexpected keyword argument`.",
            help=advice,
            builder=builder if named else NoFix("what is meant, only the author knows"),
        )

    def _look_at_region(
        self, parameters: tuple[str, ...], given: Given, builder: FixBuilder, report: Report
    ) -> None:
        effect = _effect_on_region(given)
        if not effect:
            return
        where = _BELONGS[given.kind]
        advice = f"Write `{where}={given.place.text}`."
        if where not in parameters:
            advice = "This class has its device in its name: leave it out."
        elif where == "device_type":
            advice = f"It belongs first: `autocast({given.place.text}, …)`."
        what = (
            given.kind if given.kind.startswith("torch.") else {"bool": "bool", "str": "string"}[given.kind]
        )
        message = f"{quoted(given.place)} is a {what}, and stands where `{given.parameter}` belongs"
        report.add(self, given.place, message, why=effect, help=advice, builder=builder)

    def _look_at_scaler(self, name: str, given: Given, builder: FixBuilder, report: Report) -> None:
        text = given.place.text
        match given.parameter, given.kind:
            case "init_scale", "bool":
                effect = "The loss is multiplied by 1.0 for True and by 0.0 for False, and the scaler stays enabled."
                advice = f"Write `enabled={text}`."
            case "init_scale", "str" | "torch.device":
                effect = "The first `scale()` raises a TypeError."
                device = "" if name.endswith("cuda.amp.GradScaler") else ", or use `torch.amp.GradScaler`"
                advice = f"Leave it out{device}."
            case "growth_factor", "bool":
                effect = "The constructor raises `AssertionError: The growth factor must be > 1.0.`"
                advice = f"Write `enabled={text}`."
            case "device", "bool":
                effect = "The scaler is enabled whatever it says."
                advice = f'Write `GradScaler("cuda", enabled={text})`.'
            case "device", "number":
                effect = "The scale stays at its default of 65536."
                advice = f'Write `GradScaler("cuda", init_scale={text})`.'
            case _:
                return
        message = f"{quoted(given.place)} stands where `{given.parameter}` belongs"
        report.add(self, given.place, message, why=effect, help=advice, builder=builder)


def _is_unknown(name: str, parameters: tuple[str, ...], given: Given) -> bool:
    """Whether a class of torch takes no argument of a name."""
    return is_of_torch(name) and not given.positional and given.parameter not in parameters


def _is_device_of_name(name: str, parameters: tuple[str, ...], given: Given) -> bool:
    """Whether a class that has its device in its name is given a device by the name that other classes have for it."""
    takes_none = NAMES_OF_DEVICE.isdisjoint(parameters) and given.parameter in NAMES_OF_DEVICE
    return takes_none and _is_unknown(name, parameters, given)


def _left_out(name: str, given: Given) -> tuple[Misplaced, str]:
    """A device that is left out, and what is in doubt with it."""
    kind = str(given.value).partition(":")[0]
    doubt = "" if f"torch.{kind}.amp" in name else "which device is meant is not written in the call"
    return Misplaced(given.place, ""), doubt


def _effect_on_region(given: Given) -> str:
    """What comes of an argument of autocast that stands in the wrong place, "" if it does not."""
    match given.parameter, given.kind:
        case "device_type", "bool" | "torch.dtype":
            return "The constructor raises a ValueError."
        case "dtype", "bool" | "torch.device":
            return "The region raises a TypeError when it is entered."
        case "dtype", "str" if str(given.value).partition(":")[0] in _DEVICES:
            return "The region raises a TypeError when it is entered."
        case "enabled", "torch.dtype" | "str" | "torch.device":
            return "The region raises a TypeError when it is entered."
    return ""


def _builder_of_region(event: Constructed, entry: Entry, device: str) -> FixBuilder:
    found: list[Misplaced] = []
    doubt = ""
    for given in event.arguments:
        if _is_device_of_name(event.name, entry.parameters, given):
            left_out, doubt = _left_out(event.name, given)
            found.append(left_out)
            continue
        if not _effect_on_region(given):
            continue
        where = _BELONGS[given.kind]
        if where not in entry.parameters:
            if str(given.value).partition(":")[0] != entry.device:
                doubt = "which device is meant is not written in the call"
            where = ""
        found.append(Misplaced(given.place, where, given.kind == "torch.device"))
    left = [given for given in event.arguments if not _effect_on_region(given)]
    named = {given.parameter for given in left} | {part.parameter for part in found}
    missing = "device_type" in entry.parameters and "device_type" not in named
    if missing:
        doubt = f'the device is taken to be "{device}"'
    return NameArguments(event.place, entry.parameters, tuple(found), device if missing else "", doubt)


def _builder_of_scaler(event: Constructed) -> FixBuilder:
    found: list[Misplaced] = []
    device, doubt = "", ""
    for given in event.arguments:
        if _is_device_of_name(event.name, parameters_of(event.name), given):
            left_out, doubt = _left_out(event.name, given)
            found.append(left_out)
            continue
        match given.parameter, given.kind:
            case "init_scale" | "growth_factor" | "device", "bool":
                found.append(Misplaced(given.place, "enabled"))
            case "device", "number":
                found.append(Misplaced(given.place, "init_scale"))
            case "init_scale", "str" | "torch.device":
                left_out, doubt = _left_out(event.name, given)
                found.append(left_out)
            case _:
                continue
        if given.parameter == "device":
            device = "cuda"
    return NameArguments(event.place, parameters_of(event.name), tuple(found), device, doubt)
