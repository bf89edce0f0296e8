"""A trace as a page: modules with their types, casts by rank, the timeline of a step, and the source."""

from __future__ import annotations

from html import escape

from amplint.confirm.recording import SIMULATED, Recording
from amplint.confirm.trace import Trace
from amplint.report import trace_source, trace_timeline
from amplint.report.text import counted
from amplint.report.trace_model import (
    CastView,
    ModuleView,
    Totals,
    Unit,
    amount,
    casts_of,
    moved,
    percent,
    shares,
    times,
    totals,
    trace_of,
    tree,
    unit_of,
)
from amplint.report.trace_page import Links, bar, choice, color, facts, number, page, row, size, table
from amplint.report.trace_page import cast as arrow
from amplint.report.verdicts import described_run

_FOOT = (
    "<p>Bytes of a module are those of the results of the ops that ran in it, the modules in it included; bytes of a "
    "cast are those that it read, and the backward pass to cast the gradient back. Held is the most that the results "
    "of a cast still took up when a backward pass began. The colour of a line is the type that most of its ops "
    "returned; dots show all of them. The bars beside it are autocast regions, dashed where autocast is off; the "
    "number after the line's own is how often it ran; ↧ is what was cast for it. Point at a line for its ops.</p>"
)


def render(recording: Recording) -> str:
    """The page. Raises NoRecording."""
    heading = f"<span>amplint trace</span> {escape(' '.join(recording.command))}"
    title = f"amplint trace: {' '.join(recording.command)}"
    if not recording.torch:
        return page(title, heading, f"<p>{escape(described_run(recording))}</p>", ())
    trace, unit = trace_of(recording), unit_of(recording)
    roots = tree(trace)
    paths = trace_source.paths_of(recording, trace)
    links = Links(paths)
    sections = (
        ("modules", "Modules", _modules(roots, links, unit)),
        ("casts", "Casts", _casts(trace, links, unit)),
        ("timeline", "Timeline", trace_timeline.render(trace.timeline, links)),
        ("source", "Source", _source(recording, trace, paths, links, unit)),
    )
    return page(title, heading, _head(recording, trace, roots, unit), sections, _FOOT)


def _head(recording: Recording, trace: Trace, roots: list[ModuleView], unit: Unit) -> str:
    device = "CUDA simulated on CPU" if recording.device == SIMULATED else recording.device_name or "CPU"
    sums = totals(trace)
    notes = [f'<p class="note">{escape(note)}</p>' for note in recording.notes]
    odd = [
        f'<p class="odd"><a href="#m{at}">{escape(view.name)}</a> stands out: {escape(view.odd)}</p>'
        for at, view in enumerate(view for root in roots for view in root.walk())
        if view.odd
    ]
    return (
        facts(
            {
                "device": device,
                "torch": f"{recording.torch}, {recording.op_table}"
                if recording.op_table
                else recording.torch,
                "steps": str(recording.steps),
                "end": recording.ended,
                f"cast per {unit.word}": f"{amount(sums.size / unit.number)} in {times(sums.casts, unit)} casts",
                "held by casts": amount(sums.held) if sums.held else "",
                "up and down again": _pairs(sums, unit),
                "weight cache": f"{times(sums.hits, unit)} reused per {unit.word}" if sums.hits else "",
            }
        )
        + "".join(odd + notes)
        + _legend(sums)
    )


def _pairs(sums: Totals, unit: Unit) -> str:
    if not sums.pairs:
        return ""
    return f"{times(sums.pairs, unit)} per {unit.word}, {amount(sums.pair_size / unit.number)}"


def _legend(sums: Totals) -> str:
    by_size, by_count = dict(shares(sums.ops.size)), dict(shares(sums.ops.ops))
    chips = [
        f"<span class='chip {color(name)}'>{escape(name)} <b>{percent(share)}</b> of bytes, "
        f"{percent(by_count[name])} of ops</span>"
        for name, share in by_size.items()
    ]
    return f'<div class="legend">{"".join(chips)}</div>'


def _modules(roots: list[ModuleView], links: Links, unit: Unit) -> str:
    views = [view for root in roots for view in root.walk()]
    if not views:
        return ""
    heads = (
        ("module", False),
        ("types by bytes", False),
        ("bytes", True),
        ("ops", True),
        ("cast", True),
        ("class", False),
        ("weights", False),
        ("called at", False),
    )
    rows = [_module(view, at, links, unit) for at, view in enumerate(views)]
    types = {dtype for view in views for dtype in view.own.size}
    return (
        f"<h2>Modules <small>per {escape(unit.word)}, forward</small></h2>"
        f'<div class="filters">{choice("types", "ran in", types)}{choice("kind", "class", _kinds(views))}</div>'
        f"{table(heads, rows, 0)}"
    )


def _kinds(views: list[ModuleView]) -> set[str]:
    return {view.row.kind for view in views if view.row is not None}


def _module(view: ModuleView, at: int, links: Links, unit: Unit) -> str:
    module = view.row
    twist = (
        '<button type="button" class="twist" aria-expanded="true" aria-label="modules in it"></button>'
        if view.children
        else ""
    )
    why = f'<span class="why">{escape(view.odd)}</span>' if view.odd else ""
    weights = ", ".join(f"{dtype} {amount(size)}" for dtype, size in module.weights) if module else ""
    kind = module.kind if module else ""
    place = links.to(module.path, module.span.line, module.text) if module else ""
    cells = [
        f'<td class="name" data-v="{at}" style="--depth:{view.depth}">{twist}{escape(view.short)}{why}</td>',
        f'<td data-v="{view.total.size.get("float32", 0) / (sum(view.total.size.values()) or 1):g}">'
        f"{bar(view.total.size, view.total.ops)}</td>",
        size(sum(view.total.size.values()) / unit.number),
        number(sum(view.total.ops.values()), times(sum(view.total.ops.values()), unit)),
        size(view.casts / unit.number),
        f"<td>{escape(kind)}</td>",
        f"<td class=line>{escape(weights)}</td>",
        f'<td class="place">{place}</td>',
    ]
    return row(
        cells,
        {
            "text": f"{view.name} {kind} {module.path if module else ''} {' '.join(view.own.size)}".lower(),
            "name": view.name,
            "types": " ".join(view.own.size),
            "kind": kind,
        },
        kind="stands-out" if view.odd else "",
        anchor=f"m{at}",
    )


def _casts(trace: Trace, links: Links, unit: Unit) -> str:
    views = casts_of(trace)
    heads = (
        ("bytes", True),
        ("held", True),
        ("times", True),
        ("cast", False),
        ("what", False),
        ("by", False),
        ("for", False),
        ("module", False),
        ("place", False),
    )
    note = (
        '<p class="about">Bytes that casts read, forward and backward. “Times” is forward + backward. By “code” are '
        "the casts that the program writes, by “torch” those that torch makes for itself, as for operands of "
        "two types.</p>"
    )
    if not views:
        return "<h2>Casts</h2><p>Nothing was cast.</p>"
    picks = "".join(
        [
            choice("by", "by", (view.row.by for view in views)),
            choice("what", "what", (view.row.what for view in views)),
            choice("pair", "pairs", ("pair" if view.pairs else "single" for view in views)),
        ]
    )
    return (
        f"<h2>Casts <small>per {escape(unit.word)}</small></h2>{note}"
        f'<div class="filters">{picks}</div>{table(heads, (_cast(view, links, unit) for view in views), 0)}'
    )


def _cast(view: CastView, links: Links, unit: Unit) -> str:
    cast = view.row
    backward = f" + {times(cast.backward, unit)}" if cast.backward else ""
    notes = "".join(
        f"<br><small class='{'pair' if view.pairs else ''}'>{escape(note)}</small>" for note in view.notes
    )
    cells = [
        size(moved(cast) / unit.number),
        size(cast.held),
        number((cast.count + cast.backward) / unit.number, times(cast.count, unit) + backward),
        f"<td class=line>{arrow(cast.source, cast.to)}{notes}</td>",
        f"<td>{escape(cast.what)}</td>",
        f"<td>{escape(cast.by)}</td>",
        f"<td>{escape(cast.op)}</td>",
        f'<td class="name">{escape(cast.module).replace(".", ".<wbr>")}</td>',
        f'<td class="place">{links.to(cast.path, cast.span.line, cast.text)}</td>',
    ]
    return row(
        cells,
        {
            "text": " ".join(
                (cast.path, cast.module, cast.op, cast.source, cast.to, cast.what, cast.by, cast.text)
            ).lower(),
            "by": cast.by,
            "what": cast.what,
            "pair": "pair" if view.pairs else "single",
        },
    )


def _source(recording: Recording, trace: Trace, paths: list[str], links: Links, unit: Unit) -> str:
    shown = trace_source.render(recording, trace, paths, links, unit)
    files = counted(len(paths), "file")
    return (
        f"<h2>Source <small>{files}</small></h2>{shown}"
        if paths
        else "<p>No tensor op ran in the user's code.</p>"
    )
