"""The arguments with which autocast contexts and scalers are made."""

from __future__ import annotations

import sys
from typing import Any

import torch

from amplint.amp.regions import ENTRIES
from amplint.amp.scalers import parameters_of
from amplint.confirm.dtypes import named
from amplint.confirm.places import Site
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

    def __init__(made: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if type(made) is owner:
            watch.guarded(_constructed, watch, NAMES[owner], args, kwargs)
        original(made, *args, **kwargs)

    return __init__


def _constructed(watch: Watch, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    frame = watch.sites.direct(sys._getframe(1))
    if frame is None:
        return
    site = watch.sites.at(frame)
    entry = ENTRIES.get(name)
    parameters = entry.parameters if entry is not None else parameters_of(name)
    given = [
        _given(parameter, value, site, index, True)
        for index, (parameter, value) in enumerate(zip(parameters, args, strict=False))
    ]
    given += [_given(parameter, value, site, parameter, False) for parameter, value in kwargs.items()]
    missing = parameters[:1] == ("device_type",) and not args and "device_type" not in kwargs
    watch.tell(Constructed(site, watch.here.regions, name, tuple(given), missing))


def _given(parameter: str, value: Any, site: Site, where: int | str, positional: bool) -> Given:
    kind: tuple[str, object]
    match value:
        case bool():
            kind = "bool", value
        case str():
            kind = "str", str(value)
        case None:
            kind = "None", None
        case int() | float():
            kind = "number", None
        case torch.dtype():
            kind = "torch.dtype", named(value)
        case torch.device():
            kind = "torch.device", str(value)
        case _:
            kind = "unknown", None
    name, known = kind
    return Given(parameter, name, known, site.argument(where), positional)
