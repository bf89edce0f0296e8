"""What ``amplint trace`` keeps of a run, as data: modules, ops, casts, and the timeline of one step. Knows no torch.

Sizes are in bytes, times in microseconds. Types are torch's names: "float16", "float32".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from amplint.findings import Span

FORMAT = 2
"""Raised whenever a field of a trace changes. Format 1 had neither modules nor a number."""

FORWARD, BACKWARD, STEP = "forward", "backward", "step"
"""When something happened: in no backward pass and no optimizer step, in a backward pass, in an optimizer step."""
WEIGHT, ACTIVATION, GRADIENT = "weight", "activation", "gradient"
"""What was cast: a parameter or a view of one, any other tensor, or a gradient."""
AUTOCAST, CODE, LIBRARY, TORCH = "autocast", "code", "library", "torch"
"""Who cast: autocast, the user's own code (``.float()``, ``.to(dtype)``, ``module.half()``), a library that the code
calls, or torch for itself, as where an op got operands of two types."""


class OtherFormat(ValueError):  # noqa: N818
    """A trace that another release wrote."""


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module that was called. ``name`` begins with the class of the outermost module and goes on as
    ``named_modules`` has it; ``weights`` are the bytes of its own parameters by type."""

    name: str
    kind: str
    path: str
    span: Span
    text: str
    weights: tuple[tuple[str, int], ...] = ()
    calls: int = 0


@dataclass(frozen=True, slots=True)
class OpRow:
    """An op at a place with operands and a result of these types. ``region`` is the path and line of the innermost
    region, empty if there is none; ``region_type`` its type, or "off". ``size`` are the bytes of its results."""

    path: str
    span: Span
    op: str
    module: str
    operands: tuple[str, ...]
    result: str
    region: str
    region_type: str
    phase: str
    count: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class CastRow:
    """Casts of one kind for one op. ``what`` is one of WEIGHT, ACTIVATION, GRADIENT, ``by`` one of AUTOCAST … TORCH.

    ``count`` casts read ``size`` and wrote ``written`` bytes; the backward pass cast the gradient back ``backward``
    times and read ``backward_size`` bytes for it. ``held`` is the most that their results still took up when a
    backward pass began. ``hits`` are the times that autocast's weight cache had the copy, of ``hit_size`` bytes read.
    """

    path: str
    span: Span
    op: str
    module: str
    source: str
    to: str
    what: str
    by: str
    region: str
    region_type: str
    phase: str
    text: str = ""
    count: int = 0
    size: int = 0
    written: int = 0
    backward: int = 0
    backward_size: int = 0
    held: int = 0
    hits: int = 0
    hit_size: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """One of the two casts of a pair."""

    path: str
    line: int
    op: str
    module: str


@dataclass(frozen=True, slots=True)
class PairRow:
    """A tensor that was cast from ``low`` up to ``high`` for ``up`` and down again for ``down``, with at most
    ``between`` ops in the wide type. ``size`` are the bytes that both casts read."""

    up: End
    down: End
    low: str
    high: str
    between: int = 0
    count: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Something on the timeline. ``lane`` is "phase", "region", "module" or "op"; ``depth`` that of a region or
    module in those around it; ``dtype`` is the type of a region or of an op's result."""

    lane: str
    name: str
    start: int
    length: int
    dtype: str = ""
    module: str = ""
    path: str = ""
    line: int = 0
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Timeline:
    """One step, from the end of one optimizer step to the end of the next. ``number`` counts from 1; 0 if no step came
    to its end. ``memory`` holds times and the bytes that results of casts took up then."""

    number: int
    spans: tuple[TimeSpan, ...] = ()
    memory: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """The precision of a run. Counts and sizes are those of the whole run, all processes together."""

    format: int = FORMAT
    backwards: int = 0
    """Backward passes of the user's code."""
    forwards: int = 0
    """Calls of outermost modules that have parameters."""
    modules: tuple[ModuleRow, ...] = ()
    ops: tuple[OpRow, ...] = ()
    casts: tuple[CastRow, ...] = ()
    pairs: tuple[PairRow, ...] = ()
    timeline: Timeline | None = None


def from_value(value: Mapping[str, Any]) -> Trace:
    """The trace that a file holds as JSON. Raises OtherFormat, KeyError or TypeError."""
    if value.get("format") != FORMAT:
        raise OtherFormat(f"it has format {value.get('format', 1)} and this release reads format {FORMAT}")
    timeline = value["timeline"]
    return Trace(
        FORMAT,
        int(value["backwards"]),
        int(value["forwards"]),
        tuple(
            ModuleRow(**{**_placed(part), "weights": tuple((str(a), int(b)) for a, b in part["weights"])})
            for part in value["modules"]
        ),
        tuple(OpRow(**{**_placed(part), "operands": tuple(part["operands"])}) for part in value["ops"]),
        tuple(CastRow(**_placed(part)) for part in value["casts"]),
        tuple(
            PairRow(**{**part, "up": End(**part["up"]), "down": End(**part["down"])})
            for part in value["pairs"]
        ),
        timeline
        and Timeline(
            int(timeline["number"]),
            tuple(TimeSpan(**part) for part in timeline["spans"]),
            tuple((int(at), int(size)) for at, size in timeline["memory"]),
        ),
    )


def _placed(part: Mapping[str, Any]) -> dict[str, Any]:
    return {**part, "span": Span(**part["span"])}


def merged(traces: Iterable[Trace]) -> Trace | None:
    """The trace of several processes; the timeline is that of the first one that has one. None if there is no trace."""
    traces = list(traces)
    if not traces:
        return None
    return Trace(
        FORMAT,
        sum(trace.backwards for trace in traces),
        sum(trace.forwards for trace in traces),
        added((row for trace in traces for row in trace.modules), ("calls",)),
        added((row for trace in traces for row in trace.ops), ("count", "size")),
        added((row for trace in traces for row in trace.casts), CAST_SUMS),
        added((row for trace in traces for row in trace.pairs), ("count", "size"), ("between",)),
        next((trace.timeline for trace in traces if trace.timeline is not None), None),
    )


Row = TypeVar("Row", ModuleRow, OpRow, CastRow, PairRow)
CAST_SUMS = ("count", "size", "written", "backward", "backward_size", "held", "hits", "hit_size")


def added(rows: Iterable[Row], sums: tuple[str, ...], most: tuple[str, ...] = ()) -> tuple[Row, ...]:
    """Rows that differ only in these numbers as one: of ``sums`` the sum, of ``most`` the largest."""
    found: dict[Row, dict[str, int]] = {}
    zeros = dict.fromkeys((*sums, *most), 0)
    change: Callable[..., Row] = replace
    for row in rows:
        numbers = found.setdefault(change(row, **zeros), dict(zeros))
        for name in sums:
            numbers[name] += getattr(row, name)
        for name in most:
            numbers[name] = max(numbers[name], getattr(row, name))
    return tuple(change(row, **numbers) for row, numbers in found.items())
