"""The timeline of one step in a page about a trace: phases, regions, modules, ops by type, and the memory of casts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape

from amplint.confirm.trace import Timeline, TimeSpan
from amplint.report.trace_model import PRECISIONS, amount
from amplint.report.trace_page import Links, color

_DEEPEST = 4
"""Modules in each other that are shown."""
_FINEST = 2000
"""Parts of the step: ops of a type that are nearer to each other than one are shown as one."""
_TICKS = 4


def render(timeline: Timeline | None, links: Links) -> str:
    """The timeline as HTML, or "" if there is none."""
    if timeline is None or not timeline.spans:
        return ""
    whole = max(span.start + span.length for span in timeline.spans)
    of_lane = {
        lane: [span for span in timeline.spans if span.lane == lane]
        for lane in ("phase", "region", "module", "op")
    }
    lanes = [_lane("phase", of_lane["phase"], whole, links)]
    for lane, name in (("region", "region"), ("module", "modules")):
        for depth in range(_DEEPEST):
            spans = [span for span in of_lane[lane] if span.depth == depth]
            if spans:
                lanes.append(_lane(name if not depth else "", spans, whole, links))
    kinds = {span.dtype for span in of_lane["op"]}
    for dtype in [*(name for name in PRECISIONS if name in kinds), *sorted(kinds - set(PRECISIONS))]:
        ops = [span for span in of_lane["op"] if span.dtype == dtype]
        lanes.append(_lane(dtype, _joined(ops, whole), whole, links))
    which = f"step {timeline.number}" if timeline.number else "the run"
    return (
        f"<h2>Timeline <small>{which}, {_time(whole)} on the host</small></h2>"
        '<p class="about">When the host ran, or queued, what. An op of the backward pass stands in the lane of the '
        "type that its forward op returned.</p>"
        '<div class="filters"><label>zoom <input type="range" min="0" max="6" step="0.5" value="0"></label></div>'
        f'<div class="scroll"><div class="lanes">{_axis(whole)}{"".join(lanes)}'
        f"{_memory(timeline.memory, whole)}</div></div>"
    )


def _lane(name: str, spans: Iterable[TimeSpan], whole: int, links: Links) -> str:
    parts = "".join(_span(span, whole, links) for span in spans)
    return f'<div class="lane"><span>{escape(name)}</span><div class="track">{parts}</div></div>'


def _span(span: TimeSpan, whole: int, links: Links) -> str:
    where = f" · {span.path}:{span.line}" if span.path else ""
    inside = (
        f" in {span.module}"
        if span.module and span.lane == "op"
        else f" {span.module}"
        if span.module
        else ""
    )
    dtype = f" · {span.dtype}" if span.dtype else ""
    said = escape(f"{span.name}{inside}{dtype} · {_time(span.length)}{where}")
    place = f"left:{100 * span.start / whole:.3f}%;width:{100 * span.length / whole:.3f}%"
    if span.lane == "op":
        anchor = links.anchor(span.path, span.line)
        href = f' href="#{anchor}"' if anchor else ""
        return f'<a class="{color(span.dtype)}"{href} style="{place}" title="{said}"></a>'
    kind = {"phase": span.name, "region": f"region {color(span.dtype)}"}.get(span.lane, "")
    label = span.dtype if span.lane == "region" else span.module.rpartition(".")[2] or span.name
    return f'<b class="{escape(kind)}" style="{place}" title="{said}">{escape(label)}</b>'


def _joined(spans: Sequence[TimeSpan], whole: int) -> list[TimeSpan]:
    """Ops that are too near to each other to be told apart become one, where there are many."""
    if len(spans) <= _FINEST:
        return list(spans)
    joined: list[tuple[TimeSpan, int]] = []
    for span in spans:
        if joined:
            last, count = joined[-1]
            if (span.start - last.start - last.length) * _FINEST < whole:
                length = max(last.length, span.start + span.length - last.start)
                joined[-1] = (replace(last, length=length), count + 1)
                continue
        joined.append((span, 1))
    return [replace(span, name=f"{count} ops") if count > 1 else span for span, count in joined]


def _memory(memory: Sequence[tuple[int, int]], whole: int) -> str:
    most = max((size for _, size in memory), default=0)
    if not most:
        return ""
    points = " ".join(f"{1000 * at / whole:.1f},{50 - 46 * size / most:.1f}" for at, size in memory)
    first, last = 1000 * memory[0][0] / whole, 1000 * memory[-1][0] / whole
    return (
        f'<div class="lane memory"><span title="bytes that results of casts take up">held</span><div class="track">'
        f'<svg viewBox="0 0 1000 50" preserveAspectRatio="none" role="img" aria-label="at most {amount(most)}">'
        f'<polyline points="{first:.1f},50 {points} {last:.1f},50"></polyline></svg>'
        f"<em>at most {amount(most)}</em></div></div>"
    )


def _axis(whole: int) -> str:
    ticks = "".join(
        f'<i style="left:{100 * at / _TICKS:g}%">{_time(whole * at // _TICKS)}</i>'
        for at in range(_TICKS + 1)
    )
    return f'<div class="axis"><span></span><div class="track">{ticks}</div></div>'


def _time(microseconds: int) -> str:
    """A time for people."""
    if microseconds < 1000:
        return f"{microseconds} µs"
    milliseconds = microseconds / 1000
    return f"{milliseconds:.1f} ms" if milliseconds < 100 else f"{milliseconds:.0f} ms"
