"""Which torch release brought what. Source: the wheels of 1.9.1, 1.10.2, 1.11.0, 1.12.1, 2.2.2, 2.3.1 and 2.4.1."""

from __future__ import annotations

import re

Version = tuple[int, ...]
Bounds = tuple[tuple[int, int], tuple[int, int] | None]
"""The lowest torch release that a project allows, and the highest, or None where there is no upper bound."""

_RELEASE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")

_SINCE: dict[str, Version] = {
    "torch.autocast": (1, 10),
    "torch.amp": (1, 12),
    "torch.amp.autocast": (1, 12),
    "torch.amp.is_autocast_available": (2, 4),
    "torch.cpu.amp": (1, 10),
    "torch.cpu.amp.autocast": (1, 10),
    "torch.cpu.amp.GradScaler": (2, 3),
    "torch.cuda.amp": (1, 6),
    "torch.cuda.amp.autocast": (1, 6),
    "torch.cuda.amp.GradScaler": (1, 6),
    "torch.cuda.amp.custom_fwd": (1, 6),
    "torch.cuda.amp.custom_bwd": (1, 6),
    "torch.GradScaler": (2, 3),
    "torch.amp.GradScaler": (2, 3),
    "torch.amp.custom_fwd": (2, 4),
    "torch.amp.custom_bwd": (2, 4),
    "torch.compile": (2, 0),
}


def since(name: str) -> Version | None:
    """The release that has a name first, or None where that is not recorded."""
    return _SINCE.get(name)


def parse(text: str) -> Version | None:
    """ "1.10.0a0" -> (1, 10, 0); None if it does not begin like a version."""
    found = _RELEASE.match(text.strip())
    return tuple(int(part) for part in found.groups() if part is not None) if found else None


def compare(bounds: Bounds, sign: str, version: Version) -> bool | None:
    """``torch sign version`` if it has the same answer for every release within the bounds, else None."""
    low, high = bounds
    at_low, at_high = low[:2], high[:2] if high is not None else (99, 0)
    wanted = (*version, 0, 0)[:3]
    # a bound is a minor release: its patch releases run from .0 upwards
    lowest, highest = (*at_low, 0), (*at_high, 999)
    match sign:
        case ">=":
            return True if lowest >= wanted else False if highest < wanted else None
        case ">":
            return True if lowest > wanted else False if highest <= wanted else None
        case "<":
            return True if highest < wanted else False if lowest >= wanted else None
        case "<=":
            return True if highest <= wanted else False if lowest > wanted else None
        case "==":
            return False if highest < wanted or lowest > wanted else None
        case "!=":
            return True if highest < wanted or lowest > wanted else None
    return None
