"""The log of a run's ops and casts, as a table for a terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from amplint.confirm.recording import CastRow, OpRow, Recording
from amplint.report.text import Style, counted, escaped
from amplint.report.verdicts import described_run

_HEADS = ("line", "op", "operands -> result", "region", "times", "cast")
_COLORS = {"float16": "yellow", "bfloat16": "cyan", "float64": "red"}
_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "integer": "int"}
_WIDEST = 120
_NARROWEST_OPERANDS = 18


@dataclass(frozen=True)
class Line:
    """An op at a place, with the casts that autocast made for it."""

    op: OpRow
    casts: tuple[CastRow, ...]

    @property
    def size(self) -> int:
        """Bytes that were cast."""
        return sum(cast.size for cast in self.casts)


def lines_of(recording: Recording) -> list[Line]:
    """The ops, each with its casts. Casts for operands that differ in type are counted with the op that ran most."""
    casts: dict[tuple[str, object, str, str, str], list[CastRow]] = {}
    for cast in recording.casts:
        casts.setdefault((cast.path, cast.span, cast.op, cast.region, cast.region_type), []).append(cast)
    found = []
    for op in sorted(recording.ops, key=lambda op: -op.count):
        found.append(Line(op, tuple(casts.pop((op.path, op.span, op.op, op.region, op.region_type), ()))))
    for (path, _, name, region, region_type), left in casts.items():
        row = OpRow(path, left[0].span, name, (), "?", region, region_type, 0)
        found.append(Line(row, tuple(left)))
    return found


def render(recording: Recording, style: Style, order: str = "bytes", limit: int = 0) -> str:
    """The table, fitted to the width of the terminal, and a last line that says what it rests on."""
    lines = sorted(lines_of(recording), key=_key(order))
    shown = lines[:limit] if limit else lines
    cells = [_cells(line) for line in shown]
    widths = [max(map(len, column)) for column in zip(_HEADS, *cells, strict=True)]
    room = (style.width or _WIDEST) - sum(widths[:2]) - sum(widths[3:]) - 2 * (len(widths) - 1)
    widths[2] = min(widths[2], max(room, _NARROWEST_OPERANDS))
    text = [style.paint(_row(_HEADS, widths), "bold")]
    for line, row in zip(shown, cells, strict=True):
        text.append(_painted(_row(row, widths), line, style))
    if len(shown) < len(lines):
        text.append(style.paint(f"... {len(lines) - len(shown)} more (--limit 0 shows all)", "dim"))
    total = sum(cast.size for cast in recording.casts)
    times = sum(cast.count for cast in recording.casts)
    notes = [style.paint(f"note: {escaped(note)}", "yellow") for note in recording.notes]
    summary = f"autocast cast {amount(total)} in {counted(times, 'cast')}."
    return "\n".join([*text, "", *notes, described_run(recording), summary]) + "\n"


def render_json(recording: Recording) -> str:
    """One object: device, torch, steps, ops and casts."""
    value = {
        "device": recording.device,
        "device_name": recording.device_name,
        "torch": recording.torch,
        "op_table": recording.op_table,
        "command": list(recording.command),
        "steps": recording.steps,
        "ended": recording.ended,
        "status": recording.status,
        "notes": list(recording.notes),
        "ops": [_flat(asdict(op)) for op in sorted(recording.ops, key=lambda op: (op.path, op.span))],
        "casts": [_flat(asdict(cast)) for cast in sorted(recording.casts, key=lambda op: (op.path, op.span))],
    }
    return json.dumps(value, indent=2) + "\n"


def amount(size: int) -> str:
    """A number of bytes for people."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    span = row.pop("span")
    return {"path": row.pop("path"), **span, **row}


def _key(order: str) -> Callable[[Line], Any]:
    def place(line: Line) -> tuple[object, ...]:
        return (line.op.path, line.op.span, line.op.op)

    if order == "line":
        return place
    if order == "count":
        return lambda line: (-line.op.count, *place(line))
    return lambda line: (-line.size, not line.op.region, -line.op.count, *place(line))


def _cells(line: Line) -> tuple[str, ...]:
    op = line.op
    operands = f"{', '.join(map(brief, op.operands))} -> {brief(op.result)}" if op.operands else ""
    region = f"{op.region_type} {op.region.rpartition(':')[2]}" if op.region else ""
    if op.region and op.region.rpartition(":")[0] != op.path:
        region = f"{op.region_type} {op.region}"
    times = str(op.count) if op.count else ""
    cast = f"{amount(line.size)} x{sum(cast.count for cast in line.casts)}" if line.casts else ""
    return (f"{escaped(op.path)}:{op.span.line}", escaped(op.op), operands, escaped(region), times, cast)


def brief(dtype: str) -> str:
    """ "f16" for float16."""
    if dtype == "?":
        return "tensors"
    before, _, last = dtype.rpartition(" ")
    return f"{before} {_SHORT.get(last, last)}".strip()


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for number, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if len(cell) > width:
            cell = cell[: width - 1] + "…"
        parts.append(f"{cell:>{width}}" if number >= 4 else f"{cell:<{width}}")
    return "  ".join(parts).rstrip()


def _painted(text: str, line: Line, style: Style) -> str:
    color = _COLORS.get(line.op.result)
    return style.paint(text, color) if color else text
