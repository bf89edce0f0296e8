"""The report for reading: each finding with its source lines, carets, the way that led there, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.check import CheckResult
from amplint.report.sources import Sources
from amplint.report.text import (
    LEVEL_COLORS,
    Style,
    counted,
    ending,
    escaped,
    in_lines,
    kind_of,
    painted_kind,
    place_of,
    wrapped,
)

if TYPE_CHECKING:
    from amplint.findings import Edit, Finding, Fix

FEW = 10
"""More findings than these are counted by rule at the end."""
MOST_FILES = 3
"""So many files are named there."""
SHORT = 12
"""A fix that changes more lines than these is shown if it is asked for."""

Shown = set["tuple[Edit, ...]"]
"""The fixes whose changes were shown."""


def render(result: CheckResult, style: Style) -> str:
    """The report."""
    sources = Sources(result)
    shown: Shown = set()
    blocks = [in_lines(block(finding, sources, style, shown)) for finding in result.findings]
    return in_lines([*blocks, *_overview(result, style), *ending(result, style), *_hint(result, style)])


def _overview(result: CheckResult, style: Style) -> list[str]:
    """The findings by rule, and the files that have most of them, where there are many."""
    if len(result.findings) <= FEW or style.quiet:
        return []
    from amplint.report.statistics import fullest, table

    files = fullest(result.findings, MOST_FILES)
    return [*table(result.findings, style), *([files] if files else []), ""]


def _hint(result: CheckResult, style: Style) -> list[str]:
    """Where to read more, for somebody who sits in front of a terminal."""
    if not result.findings or not style.width or style.quiet:
        return []
    return [style.paint(f"`amplint rule {result.findings[0].name}` explains a rule.", "dim")]


def block(finding: Finding, sources: Sources, style: Style, shown: Shown | None = None) -> list[str]:
    """The lines of one finding. ``shown`` are the fixes that were shown before, which are not shown again."""
    from amplint.report.frame import Mark, frame

    finding = sources.in_cell(finding)
    color = LEVEL_COLORS[finding.level.value]
    own = [Mark(finding.span, "", primary=True)]
    others: list[tuple[str, Mark]] = []
    numbered = len(finding.trail) > 1
    for number, step in enumerate(finding.trail, 1):
        label = f"{number}. {step.message}" if numbered else step.message
        mark = Mark(step.span, label, primary=False)
        if step.path == finding.path:
            own.append(mark)
        else:
            others.append((step.path, mark))
    places = [finding.span.end_line, *(step.span.end_line for step in finding.trail)]
    if finding.fix is not None:
        places += [claim.last for claim in finding.fix.claims]
    gutter = max(len(str(line)) for line in places)
    lines = _header(finding, style)
    lines += frame(sources.lines(finding.path), own, style, color, gutter)
    for path, mark in others:
        place = f"{escaped(path)}:{mark.span.line}:{mark.span.column}"
        lines.append(" " * gutter + style.paint(" ::: ", "blue") + place)
        lines += frame(sources.lines(path), [mark], style, color, gutter) or [
            " " * gutter + style.paint(" = ", "blue") + escaped(mark.label)
        ]
    return lines + _notes(finding, sources, style, gutter, shown if shown is not None else set())


def _header(finding: Finding, style: Style) -> list[str]:
    """The first line, wrapped as plain text and painted afterwards, since colours have no width."""
    place, kind = place_of(finding), kind_of(finding)
    text = f"{place}: {kind} {finding.code} {escaped(finding.message)}"
    first, *rest = wrapped(text, style, "    ")
    first = first.replace(kind, painted_kind(finding, style), 1)
    first = first.replace(place, style.paint(place, "bold"), 1)
    return [first, *rest]


def _notes(finding: Finding, sources: Sources, style: Style, gutter: int, shown: Shown) -> list[str]:
    """What comes of it, and what to do: the fix and what it changes, or in words, with why there is no fix."""
    lines = _note("why", finding.why, "blue", style, gutter)
    fix = finding.fix
    if fix is None:
        lines += _note("help", finding.help, "green", style, gutter)
        return lines + _note("no fix", finding.fix_note, "blue", style, gutter)
    for offer in (fix.minimum, fix) if fix.minimum is not None else (fix,):
        lines += _offer(offer, finding, sources, style, gutter, shown)
    return lines


def _offer(
    fix: Fix, finding: Finding, sources: Sources, style: Style, gutter: int, shown: Shown
) -> list[str]:
    """What a fix is, why it is unsafe, and what it changes, if that is short and was not shown."""
    from amplint.report.patch import changes, fix_lines, size_of

    kind, color = ("fix", "green") if fix.is_safe else ("unsafe fix", "yellow")
    pieces = changes(fix, sources)
    size = size_of(pieces)
    text = fix.title + (f" ({fix.note})" if fix.note else "")
    if fix.edits in shown:
        text, pieces = f"{text}; shown above", []
    elif size > SHORT and not style.all_fixes:
        text, pieces = f"{text}; {counted(size, 'line')} change, which `--show-fixes` shows", []
    elif pieces:
        shown.add(fix.edits)
    return [*_note(kind, text, color, style, gutter), *fix_lines(pieces, finding.path, style, gutter)]


def _note(kind: str, text: str, color: str, style: Style, gutter: int) -> list[str]:
    if not text:
        return []
    margin = " " * gutter + " "
    first, *rest = wrapped(f"{margin}= {kind}: {escaped(text)}", style, margin + "  ")
    first = first.strip().replace(f"= {kind}", style.paint("= ", "blue") + style.paint(kind, color), 1)
    return [margin + first, *rest]
