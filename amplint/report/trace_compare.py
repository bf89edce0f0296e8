"""Two traces side by side, as of the same program before and after a fix: as text, as JSON, and as a page.

Modules are matched by their names, casts by module, op, types, what was cast and by whom: lines may have moved.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape

from amplint.confirm.recording import Recording
from amplint.confirm.trace import CastRow, Trace
from amplint.report.text import Style, escaped
from amplint.report.trace_model import (
    Mix,
    ModuleView,
    amount,
    brief,
    moved,
    percent,
    shares,
    totals,
    trace_of,
    tree,
    unit_of,
)
from amplint.report.trace_page import bar, choice, facts, page, row, size, table
from amplint.report.trace_page import cast as arrow

_Key = tuple[str, str, str, str, str, str]
_SAME = 0.005
"""The largest change of a type's share that is none."""


@dataclass(frozen=True)
class Figure:
    """A number of both traces."""

    name: str
    before: float
    after: float
    is_size: bool = True
    """Whether it is a number of bytes."""
    is_cost: bool = True
    """Whether less is better."""

    @property
    def change(self) -> float:
        """By how much it became more."""
        return self.after - self.before


@dataclass(frozen=True)
class ChangedModule:
    """A module with the bytes of its results by type; empty where it did not run."""

    name: str
    kind: str
    before: Mapping[str, int]
    after: Mapping[str, int]


@dataclass(frozen=True)
class ChangedCast:
    """Casts of one kind, with the bytes that they read per unit."""

    module: str
    op: str
    source: str
    to: str
    what: str
    by: str
    before: float
    after: float
    line_before: str = ""
    line_after: str = ""

    @property
    def change(self) -> float:
        """By how many bytes they became more."""
        return self.after - self.before


@dataclass(frozen=True)
class Comparison:
    """What differs. Figures are those of one unit, ``units`` says of what in each."""

    units: tuple[str, str]
    figures: tuple[Figure, ...]
    modules: tuple[ChangedModule, ...]
    casts: tuple[ChangedCast, ...]


def compare(before: Recording, after: Recording) -> Comparison:
    """What two recordings differ in. Raises NoRecording where one holds no trace."""
    traces = trace_of(before), trace_of(after)
    units = unit_of(before), unit_of(after)
    return Comparison(
        (units[0].word, units[1].word),
        _figures(traces, (units[0].number, units[1].number)),
        tuple(_modules(*traces)),
        _casts(traces, (units[0].number, units[1].number)),
    )


def _figures(traces: tuple[Trace, Trace], numbers: tuple[int, int]) -> tuple[Figure, ...]:
    one, other = totals(traces[0]), totals(traces[1])
    found = [
        Figure("bytes cast", one.size / numbers[0], other.size / numbers[1]),
        Figure("casts", one.casts / numbers[0], other.casts / numbers[1], False),
    ]
    for who in sorted({*one.by, *other.by}):
        found.append(
            Figure(f"bytes cast by {who}", one.by.get(who, 0) / numbers[0], other.by.get(who, 0) / numbers[1])
        )
    found += [
        Figure("held by casts", one.held, other.held),
        Figure("up and down again", one.pairs / numbers[0], other.pairs / numbers[1], False),
        Figure("weight cache hits", one.hits / numbers[0], other.hits / numbers[1], False, False),
    ]
    for dtype in sorted({*one.ops.size, *other.ops.size}):
        pair = one.ops.size.get(dtype, 0) / numbers[0], other.ops.size.get(dtype, 0) / numbers[1]
        found.append(Figure(f"bytes of results in {dtype}", *pair, is_cost=False))
    return tuple(figure for figure in found if figure.before or figure.after)


def _modules(before: Trace, after: Trace) -> list[ChangedModule]:
    """The modules whose types differ; those that have others in them only where their own ops do."""
    one, other = (
        {view.name: view for root in tree(trace) for view in root.walk()} for trace in (before, after)
    )
    found = []
    for name in dict.fromkeys((*one, *other)):
        mixes = [_own(known.get(name)) for known in (one, other)]
        if not _alike(*mixes):
            view = other.get(name) or one[name]
            kind = view.row.kind if view.row is not None else ""
            found.append(ChangedModule(name, kind, mixes[0], mixes[1]))
    return found


def _own(view: ModuleView | None) -> Mapping[str, int]:
    mix = view.own if view is not None else Mix()
    return dict(mix.size)


def _alike(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    if bool(one) != bool(other):
        return False
    a, b = dict(shares(one)), dict(shares(other))
    return all(abs(a.get(dtype, 0) - b.get(dtype, 0)) < _SAME for dtype in {*a, *b})


def _casts(traces: tuple[Trace, Trace], numbers: tuple[int, int]) -> tuple[ChangedCast, ...]:
    sums: tuple[Counter[_Key], Counter[_Key]] = (Counter(), Counter())
    lines: tuple[dict[_Key, str], dict[_Key, str]] = ({}, {})
    for trace, total, where in zip(traces, sums, lines, strict=True):
        for cast in trace.casts:
            total[_key(cast)] += moved(cast)
            where.setdefault(_key(cast), f"{cast.path}:{cast.span.line}")
    found = []
    for key in dict.fromkeys((*sums[0], *sums[1])):
        before, after = sums[0][key] / numbers[0], sums[1][key] / numbers[1]
        if abs(after - before) > _SAME * max(before, after):
            found.append(ChangedCast(*key, before, after, lines[0].get(key, ""), lines[1].get(key, "")))
    return tuple(sorted(found, key=lambda cast: -abs(cast.change)))


def _key(cast: CastRow) -> _Key:
    return cast.module, cast.op, cast.source, cast.to, cast.what, cast.by


def render(comparison: Comparison, style: Style, limit: int = 0) -> str:
    """The comparison as text; ``limit`` is the number of casts and of modules, 0 all."""
    lines = [style.paint(f"{'':32}{'before':>12}{'after':>12}{'change':>12}", "bold")]
    for figure in comparison.figures:
        lines.append(_figure_line(figure, style))
    for title, rows in (
        ("Modules whose types differ", [_module_line(module) for module in comparison.modules]),
        ("Casts that differ (bytes)", [_cast_line(cast, style) for cast in comparison.casts]),
    ):
        if rows:
            lines += ["", style.paint(title, "bold"), *(rows[:limit] if limit else rows)]
            if limit and len(rows) > limit:
                lines.append(style.paint(f"... {len(rows) - limit} more (--limit 0 shows all)", "dim"))
    if not comparison.modules and not comparison.casts:
        lines += ["", "The same casts in the same modules."]
    lines += ["", f"Figures are those of one {_per(comparison)}."]
    return "\n".join(lines) + "\n"


def _per(comparison: Comparison) -> str:
    one, other = comparison.units
    return one if one == other else f"{one} before, one {other} after"


def _figure_line(figure: Figure, style: Style) -> str:
    shown = amount if figure.is_size else _plain
    sign = "+" if figure.change > 0 else "-" if figure.change < 0 else ""
    change = f"{sign + shown(abs(figure.change)) if sign else '':>12}"
    numbers = f"{escaped(figure.name):32}{shown(figure.before):>12}{shown(figure.after):>12}"
    return numbers + (_tinted(change, figure.change, style) if figure.is_cost else change)


def _tinted(text: str, change: float, style: Style) -> str:
    return style.paint(text, "red" if change > 0 else "green" if change < 0 else "plain")


def _plain(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _module_line(module: ChangedModule) -> str:
    return f"  {escaped(module.name)} ({escaped(module.kind)}): {_types(module.before)} -> {_types(module.after)}"


def _types(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{brief(dtype)} {percent(share)}" for dtype, share in shares(sizes)) or "did not run"


def _cast_line(cast: ChangedCast, style: Style) -> str:
    where = cast.line_after or cast.line_before
    change = f"{'+' if cast.change > 0 else '-'}{amount(abs(cast.change))}"
    return (
        f"  {_tinted(f'{change:>10}', cast.change, style)}  {amount(cast.before)} -> {amount(cast.after)}  "
        f"{brief(cast.source)}->{brief(cast.to)} {cast.what} by {cast.by} for {escaped(cast.op)}"
        f"{f' in {escaped(cast.module)}' if cast.module else ''}, {escaped(where)}"
    )


def render_json(comparison: Comparison) -> str:
    """The comparison as one object."""
    value = {
        "units": list(comparison.units),
        "figures": [{**asdict(figure), "change": figure.change} for figure in comparison.figures],
        "modules": [asdict(module) for module in comparison.modules],
        "casts": [{**asdict(cast), "change": cast.change} for cast in comparison.casts],
    }
    return json.dumps(value, indent=2) + "\n"


def render_html(comparison: Comparison, before: str, after: str) -> str:
    """The comparison as a page; ``before`` and ``after`` are the names of the recordings."""
    heading = f"<span>amplint trace</span> {escape(before)} <span>and</span> {escape(after)}"
    sections = (
        ("figures", "Figures", _figures_html(comparison)),
        ("modules", "Modules", _modules_html(comparison)),
        ("casts", "Casts", _casts_html(comparison)),
    )
    head = facts({"before": before, "after": after, "figures are those of": f"one {_per(comparison)}"})
    return page(f"amplint trace: {before} and {after}", heading, head, sections)


def _change(value: float, *, is_size: bool = True, is_cost: bool = True) -> str:
    shown = amount if is_size else _plain
    sign = "+" if value > 0 else "-" if value < 0 else ""
    kind = " more" if value > 0 else " less" if value < 0 else ""
    kind = kind if is_cost else ""
    return f'<td class="num{kind}" data-v="{value:g}">{sign}{shown(abs(value)) if sign else ""}</td>'


def _figures_html(comparison: Comparison) -> str:
    rows = []
    for figure in comparison.figures:
        shown = amount if figure.is_size else _plain
        cells = [f"<td>{escape(figure.name)}</td>"]
        cells += [
            f'<td class="num" data-v="{value:g}">{shown(value)}</td>'
            for value in (figure.before, figure.after)
        ]
        cells.append(_change(figure.change, is_size=figure.is_size, is_cost=figure.is_cost))
        rows.append(row(cells, {"text": figure.name}))
    heads = (("figure", False), ("before", True), ("after", True), ("change", True))
    return f"<h2>Figures</h2>{table(heads, rows)}"


def _modules_html(comparison: Comparison) -> str:
    if not comparison.modules:
        return "<h2>Modules</h2><p>All modules ran in the same types.</p>"
    rows = [
        row(
            [
                f"<td class=name>{escape(module.name)}</td><td>{escape(module.kind)}</td>",
                *(
                    f"<td>{bar(sizes, sizes) if sizes else 'did not run'}</td>"
                    for sizes in (module.before, module.after)
                ),
            ],
            {"text": f"{module.name} {module.kind}".lower()},
        )
        for module in comparison.modules
    ]
    heads = (("module", False), ("class", False), ("before", False), ("after", False))
    return f"<h2>Modules <small>whose types differ</small></h2>{table(heads, rows)}"


def _casts_html(comparison: Comparison) -> str:
    if not comparison.casts:
        return "<h2>Casts</h2><p>The same casts.</p>"
    rows = []
    for cast in comparison.casts:
        cells = [
            _change(cast.change),
            size(cast.before),
            size(cast.after),
            f"<td class=line>{arrow(cast.source, cast.to)}</td>",
            f"<td>{escape(cast.what)}</td><td>{escape(cast.by)}</td><td>{escape(cast.op)}</td>",
            f"<td class=name>{escape(cast.module)}</td>",
            f"<td>{escape(cast.line_before)}</td><td>{escape(cast.line_after)}</td>",
        ]
        text = (
            f"{cast.module} {cast.op} {cast.source} {cast.to} {cast.what} {cast.by} {cast.line_after}".lower()
        )
        rows.append(row(cells, {"text": text, "by": cast.by, "what": cast.what}))
    heads = (
        ("change", True),
        ("before", True),
        ("after", True),
        *((name, False) for name in ("cast", "what", "by", "for", "module", "place before", "place after")),
    )
    picks = choice("by", "by", (cast.by for cast in comparison.casts)) + choice(
        "what", "what", (cast.what for cast in comparison.casts)
    )
    return f'<h2>Casts <small>that differ</small></h2><div class="filters">{picks}</div>{table(heads, rows)}'
