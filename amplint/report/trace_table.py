"""A trace as tables for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

from amplint.confirm.recording import Recording
from amplint.confirm.trace import CAST_SUMS, CastRow
from amplint.report.text import Style, counted, escaped
from amplint.report.trace_model import (
    CastView,
    Line,
    Mix,
    ModuleView,
    Unit,
    amount,
    brief,
    cache_notes,
    cast_key,
    casts_of,
    chosen,
    lines_of,
    moved,
    odd_ones,
    percent,
    times,
    totals,
    trace_of,
    tree,
    unit_of,
)
from amplint.report.verdicts import described_run

_COLORS = {"float16": "yellow", "bfloat16": "cyan", "float64": "red"}
_WIDEST = 120
_NARROWEST = 6
_BAR = 12
_MARKS = {"float16": "█", "bfloat16": "█", "float32": "░"}
_RIGHT = frozenset({"bytes", "cast", "held", "times"})
"""Columns with numbers."""
_PLACES = frozenset({"line", "called at"})


def render(recording: Recording, style: Style, order: str = "bytes", limit: int = 0, text: str = "") -> str:
    """The modules, the casts and the lines, fitted to the width of the terminal, and what the run rests on. ``limit``
    is the number of rows of a table, 0 all; only what mentions ``text`` is shown. Raises NoRecording."""
    if not recording.torch:
        return f"{described_run(recording)}\n"
    trace, unit = trace_of(recording), unit_of(recording)
    roots = tree(trace)
    modules = [row for root in chosen(roots, text) for row in _folded(root, text)]
    parts = [
        _table(
            f"Modules (bytes of results per {unit.word})",
            _MODULES,
            [_module_cells(*row, unit) for row in modules],
            style,
            limit,
        ),
        _table(
            f"Casts (per {unit.word})",
            _CASTS,
            [_cast_cells(*part, unit) for part in _like_casts(casts_of(trace, order, text), order)],
            style,
            limit,
        ),
        _table(
            "Lines", _LINES, [_line_cells(line, unit) for line in lines_of(trace, order, text)], style, limit
        ),
        "\n".join(_summary(recording, roots, unit, style)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(recording: Recording, roots: Sequence[ModuleView], unit: Unit, style: Style) -> list[str]:
    trace = trace_of(recording)
    sums = totals(trace)
    lines = [style.paint(f"note: {escaped(note)}", "yellow") for note in recording.notes]
    for view in odd_ones(roots):
        lines.append(style.paint(f"{escaped(view.name)} stands out: {escaped(view.odd)}", "bold"))
    if sums.pairs:
        lines.append(
            f"cast up and down again per {unit.word}: {times(sums.pairs, unit)} times, "
            f"{amount(sums.pair_size / unit.number)}"
        )
    per = f"{amount(sums.size / unit.number)} per {unit.word}"
    by = ", ".join(f"{who} {percent(size / sums.size)}" for who, size in sums.by.items()) if sums.size else ""
    what = f"{counted(sums.casts, 'cast')} read {amount(sums.size)}, {per}" + (f" ({by})" if by else "")
    held = f"; their results held {amount(sums.held)} when a backward pass began" if sums.held else ""
    hits = f"; the weight cache saved {times(sums.hits, unit)} per {unit.word}" if sums.hits else ""
    return [*lines, described_run(recording), f"{what}{held}{hits}."]


_MODULES = ("module", "class", "bytes", "types", "", "cast", "called at")
_CASTS = ("bytes", "held", "times", "types", "what", "by", "for", "module", "line", "")
_LINES = ("line", "op", "operands -> result", "region", "times", "cast")


def _folded(view: ModuleView, text: str, label: str = "") -> list[tuple[ModuleView, str]]:
    """The module and those in it; neighbours that are alike but for their numbers become one."""
    rows = [(view, label or view.short)]
    children = chosen(view.children, text)
    at = 0
    while at < len(children):
        first, end = children[at], at + 1
        while end < len(children) and first.short.isdigit() and _alike(first, children[end]):
            end += 1
        last = children[end - 1]
        name = f"{first.short}-{last.short} ({end - at} alike)" if end - at > 1 else ""
        rows += _folded(first, text, name)
        at = end
    return rows


def _alike(one: ModuleView, other: ModuleView) -> bool:
    return (
        other.short.isdigit()
        and _shape(one) == _shape(other)
        and len(one.children) == len(other.children)
        and all(_alike_named(a, b) for a, b in zip(one.children, other.children, strict=True))
    )


def _alike_named(one: ModuleView, other: ModuleView) -> bool:
    return (
        one.short == other.short
        and _shape(one) == _shape(other)
        and all(_alike_named(a, b) for a, b in zip(one.children, other.children, strict=False))
        and len(one.children) == len(other.children)
    )


def _shape(view: ModuleView) -> tuple[object, ...]:
    return (
        view.row.kind if view.row else "",
        view.odd,
        view.casts,
        sum(view.total.size.values()),
        [(dtype, round(share, 2)) for dtype, share in view.total.shares()],
    )


def _module_cells(view: ModuleView, label: str, unit: Unit) -> tuple[str, ...]:
    row = view.row
    shares = view.total.shares()
    types = ", ".join(f"{brief(dtype)} {percent(share)}" for dtype, share in shares)
    where = f"{escaped(row.path)}:{row.span.line}" if row is not None else ""
    size = sum(view.total.size.values())
    return (
        f"{'  ' * view.depth}{'! ' if view.odd else ''}{escaped(label)}",
        escaped(row.kind) if row is not None else "",
        amount(size / unit.number) if size else "",
        types,
        _bar(view.total),
        amount(view.casts / unit.number) if view.casts else "",
        where,
    )


def _bar(mix: Mix) -> str:
    cells, filled = "", 0.0
    for dtype, share in mix.shares():
        filled += share
        cells += _MARKS.get(dtype, "▒") * (round(filled * _BAR) - len(cells))
    return cells


def _like_casts(views: Sequence[CastView], order: str) -> list[tuple[CastRow, list[str], int]]:
    """Casts of the same place in modules whose names differ in their numbers as one, with what is to be said of them
    and the number of modules."""
    groups: dict[CastRow, list[CastView]] = {}
    change: Callable[..., CastRow] = replace
    for view in views:
        parts = ["*" if part.isdigit() else part for part in view.row.module.split(".")]
        key = change(view.row, module=".".join(parts), **dict.fromkeys(CAST_SUMS, 0))
        groups.setdefault(key, []).append(view)
    found = []
    for key, group in groups.items():
        sums = {name: sum(getattr(view.row, name) for view in group) for name in CAST_SUMS}
        row = change(key if len(group) > 1 else group[0].row, **sums)
        notes = [*group[0].pair_notes, *cache_notes(row)]
        found.append((row, notes, len(group)))
    return sorted(found, key=lambda part: cast_key(part[0], order))


def _cast_cells(row: CastRow, notes: Sequence[str], modules: int, unit: Unit) -> tuple[str, ...]:
    backward = f"+{times(row.backward, unit)}" if row.backward else ""
    return (
        amount(moved(row) / unit.number),
        amount(row.held) if row.held else "",
        times(row.count, unit) + backward,
        f"{brief(row.source)}->{brief(row.to)}",
        row.what,
        row.by,
        escaped(row.op),
        escaped(row.module) + (f" ({modules})" if modules > 1 else ""),
        f"{escaped(row.path)}:{row.span.line}",
        "; ".join(notes),
    )


def _line_cells(line: Line, unit: Unit) -> tuple[str, ...]:
    op = line.op
    operands = f"{', '.join(map(brief, op.operands))} -> {brief(op.result)}" if op.operands else ""
    region = f"{op.region_type} {op.region.rpartition(':')[2]}" if op.region else ""
    if op.region and op.region.rpartition(":")[0] != op.path:
        region = f"{op.region_type} {op.region}"
    return (
        f"{escaped(op.path)}:{op.span.line}",
        escaped(op.op),
        operands,
        escaped(region),
        times(op.count, unit) if op.count else "",
        amount(line.size / unit.number) if line.size else "",
    )


def _table(
    title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]], style: Style, limit: int
) -> str:
    """The rows, as wide as the terminal: the widest columns give way. Empty columns are left out."""
    shown = rows[:limit] if limit else rows
    if not shown:
        return ""
    used = [index for index in range(len(heads)) if any(row[index] for row in shown)]
    names = [heads[index] for index in used]
    cells = [[row[index] for index in used] for row in shown]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - (style.width or _WIDEST)
    texts = [index for index, name in enumerate(names) if name not in _RIGHT]
    while over > 0:
        widest = max(texts, key=widths.__getitem__)
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1
        over -= 1
    lines = [style.paint(title, "bold"), style.paint(_row(names, names, widths), "dim")]
    for row in cells:
        lines.append(_painted(_row(row, names, widths), row, style))
    if len(shown) < len(rows):
        lines.append(style.paint(f"... {len(rows) - len(shown)} more (--limit 0 shows all)", "dim"))
    return "\n".join(lines)


def _row(cells: Sequence[str], heads: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for cell, head, width in zip(cells, heads, widths, strict=True):
        if len(cell) > width:
            # of a path the end tells more
            cell = f"…{cell[1 - width :]}" if head in _PLACES else f"{cell[: width - 1]}…"
        parts.append(f"{cell:>{width}}" if head in _RIGHT else f"{cell:<{width}}")
    return "  ".join(parts).rstrip()


def _painted(text: str, row: Sequence[str], style: Style) -> str:
    if any(cell.lstrip().startswith("! ") for cell in row[:1]):
        return style.paint(text, "red")
    return text


def render_json(recording: Recording) -> str:
    """One object: what the run took place on, the modules with what ran in them, ops, casts and the timeline. Numbers
    are those of the whole run, ``per`` says of how many steps. Raises NoRecording."""
    value: dict[str, Any] = {
        "device": recording.device,
        "device_name": recording.device_name,
        "torch": recording.torch,
        "op_table": recording.op_table,
        "command": list(recording.command),
        "steps": recording.steps,
        "ended": recording.ended,
        "status": recording.status,
        "notes": list(recording.notes),
    }
    if recording.torch:
        trace, unit = trace_of(recording), unit_of(recording)
        value |= {
            "format": trace.format,
            "per": {"number": unit.number, "unit": unit.word},
            "modules": [_module(view) for root in tree(trace) for view in root.walk()],
            "ops": [_flat(asdict(op)) for op in sorted(trace.ops, key=lambda op: (op.path, op.span))],
            "casts": [{**_flat(asdict(view.row)), "notes": view.notes} for view in casts_of(trace)],
            "pairs": [asdict(pair) for pair in trace.pairs],
            "timeline": asdict(trace.timeline) if trace.timeline is not None else None,
        }
    return json.dumps(value, indent=2) + "\n"


def _module(view: ModuleView) -> dict[str, Any]:
    row = view.row
    return {
        "name": view.name,
        "class": row.kind if row else None,
        "path": row.path if row else None,
        "line": row.span.line if row else None,
        "text": row.text if row else None,
        "calls": row.calls if row else 0,
        "weights": dict(row.weights) if row else {},
        "ops": dict(view.total.ops),
        "bytes": dict(view.total.size),
        "cast_bytes": view.casts,
        "stands_out": view.odd or None,
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    span = row.pop("span")
    return {"path": row.pop("path"), **span, **row}
