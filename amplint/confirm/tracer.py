"""The collector of ``amplint trace``: which op ran where, with which operands, in which region, and what autocast cast
for it."""

from __future__ import annotations

from dataclasses import replace

from amplint.confirm.observer import Observer
from amplint.confirm.recording import CastRow, OpRow, Recording
from amplint.events import AutocastCast, Event, Op, Place, Region, innermost

_OpKey = tuple[Place, str, tuple[str, ...], str, Region | None]
_CastKey = tuple[Place, str, str, str, Region | None]

_NO_WORK = frozenset({"grad"})
"""What looks like an op and computes nothing."""


class Tracer(Observer):
    """An observer without rules that keeps account of ops and casts. It grows with the places of the program."""

    def __init__(self, steps: int | None = None) -> None:
        super().__init__((), steps=steps)
        self._ops: dict[_OpKey, int] = {}
        self._casts: dict[_CastKey, list[int]] = {}

    def _take(self, event: Event) -> None:
        super()._take(event)
        region = innermost(event.regions)
        if isinstance(event, Op) and event.operands and event.name not in _NO_WORK:
            operands = tuple(part.dtype.value if part.dtype is not None else "?" for part in event.operands)
            if event.weights is not None:
                operands = (*operands, f"weight {event.weights.value}")
            result = event.result.value if event.result is not None else "?"
            key = (event.place, event.name.strip("_"), operands, result, region)
            self._ops[key] = self._ops.get(key, 0) + 1
        elif isinstance(event, AutocastCast):
            of = (event.place, event.name.strip("_"), event.source.value, event.to.value, region)
            total = self._casts.setdefault(of, [0, 0])
            total[0] += 1
            total[1] += event.size

    def forget(self) -> None:
        """Begins a new account."""
        super().forget()
        self._ops.clear()
        self._casts.clear()

    def recording(self, made: Recording, *, numbers: bool = True) -> Recording:
        """What was seen so far, ops and casts included."""
        with self._lock:
            ops: dict[OpRow, int] = {}
            for (place, name, operands, result, region), count in self._ops.items():
                row = OpRow(place.path, place.span, name, operands, result, *_described(region), 0)
                ops[row] = ops.get(row, 0) + count
            casts: dict[CastRow, tuple[int, int]] = {}
            for (place, name, source, to, region), (count, size) in self._casts.items():
                cast = CastRow(place.path, place.span, name, source, to, *_described(region), 0, 0)
                before = casts.get(cast, (0, 0))
                casts[cast] = (before[0] + count, before[1] + size)
            return replace(
                super().recording(made, numbers=numbers),
                ops=tuple(replace(row, count=count) for row, count in ops.items()),
                casts=tuple(replace(row, count=count, size=size) for row, (count, size) in casts.items()),
            )


def _described(region: Region | None) -> tuple[str, str]:
    """Where the region was opened, and what it does."""
    if region is None:
        return "", ""
    dtype = region.dtype.value if region.dtype is not None else "half"
    return f"{region.place.path}:{region.place.line}", dtype if region.enabled else "off"
