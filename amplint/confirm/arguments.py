"""The arguments with which autocast contexts and scalers are made."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

import torch

from amplint.amp.regions import ENTRIES
from amplint.amp.scalers import parameters_of
from amplint.confirm.dtypes import named
from amplint.confirm.watching import Watch
from amplint.events import Constructed, Given

NAMES: dict[type, str] = {
    torch.amp.autocast_mode.autocast: "torch.autocast",
    torch.cuda.amp.autocast: "torch.cuda.amp.autocast",
    torch.cpu.amp.autocast_mode.autocast: "torch.cpu.amp.autocast",
    torch.amp.grad_scaler.GradScaler: "torch.amp.GradScaler",
    torch.cuda.amp.GradScaler: "torch.cuda.amp.GradScaler",
    torch.cpu.amp.grad_scaler.GradScaler: "torch.cpu.amp.GradScaler",
}


def watched(watch: Watch, owner: type, original: Any) -> Any:
    """A constructor that tells of its arguments before it looks at them."""
    told: dict[Hashable, Constructed] = {}

    def __init__(made: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if type(made) is owner:
            watch.guarded(_constructed, watch, NAMES[owner], args, kwargs, told)
        original(made, *args, **kwargs)

    return __init__


def _constructed(
    watch: Watch,
    name: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    told: dict[Hashable, Constructed],
) -> None:
    frame = watch.sites.direct(sys._getframe(1))
    if frame is None:
        return
    site, regions = watch.sites.at(frame), watch.here.regions
    values = [(index, _known(value)) for index, value in enumerate(args)]
    named_values = [(parameter, _known(value)) for parameter, value in kwargs.items()]
    # the same arguments at the same place are the same event; equal stacks of regions are one object
    key = (site.key, id(regions), *values, *named_values)
    event = told.get(key)
    if event is None:
        parameters = ENTRIES[name].parameters if name in ENTRIES else parameters_of(name)
        given = [
            Given(parameter, *known, site.argument(index), True)
            for parameter, (index, known) in zip(parameters, values, strict=False)
        ]
        given += [Given(parameter, *known, site.argument(parameter)) for parameter, known in named_values]
        missing = parameters[:1] == ("device_type",) and not args and "device_type" not in kwargs
        event = told[key] = Constructed(site, regions, name, tuple(given), missing)
    watch.tell(event)


def _known(value: Any) -> tuple[str, object]:
    """The name of the type of an argument, and its value if that is told."""
    match value:
        case bool():
            return "bool", value
        case str():
            return "str", str(value)
        case None:
            return "None", None
        case int() | float():
            return "number", None
        case torch.dtype():
            return "torch.dtype", named(value)
        case torch.device():
            return "torch.device", str(value)
        case _:
            return "unknown", None
