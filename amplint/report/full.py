"""The report for reading: each finding with its source lines, carets, the way that led there, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.check import CheckResult
from amplint.report.sources import Sources
from amplint.report.text import LEVEL_COLORS, Style, ending, escaped, place_of, wrapped

if TYPE_CHECKING:
    from amplint.findings import Finding


def render(result: CheckResult, style: Style) -> str:
    """The report."""
    sources = Sources(result)
    blocks = ["\n".join(block(finding, sources, style)) + "\n" for finding in result.findings]
    return "\n".join([*blocks, *ending(result, style)]) + "\n"


def block(finding: Finding, sources: Sources, style: Style) -> list[str]:
    """The lines of one finding."""
    from amplint.report.frame import Mark, frame

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
    return lines + _notes(finding, sources, style, gutter)


def _header(finding: Finding, style: Style) -> list[str]:
    """The first line, wrapped as plain text and painted afterwards, since colours have no width."""
    place, kind = place_of(finding), f"{finding.level.value}[{finding.name}]"
    text = f"{place}: {kind} {finding.code} {escaped(finding.message)}"
    first, *rest = wrapped(text, style, "    ")
    first = first.replace(kind, style.paint(kind, LEVEL_COLORS[finding.level.value]), 1)
    first = first.replace(place, style.paint(place, "bold"), 1)
    return [first, *rest]


def _notes(finding: Finding, sources: Sources, style: Style, gutter: int) -> list[str]:
    """What comes of it, and what to do: the fix and what it changes, or in words, with why there is no fix."""
    lines = _note("why", finding.why, "blue", style, gutter)
    fix = finding.fix
    if fix is None:
        lines += _note("help", finding.help, "green", style, gutter)
        return lines + _note("no fix", finding.fix_note, "blue", style, gutter)
    from amplint.report.patch import fix_lines

    for offer in (fix.minimum, fix) if fix.minimum is not None else (fix,):
        kind, color = ("fix", "green") if offer.is_safe else ("unsafe fix", "yellow")
        because = f" ({offer.note})" if offer.note else ""
        lines += _note(kind, offer.title + because, color, style, gutter)
        lines += fix_lines(offer, finding.path, sources, style, gutter)
    return lines


def _note(kind: str, text: str, color: str, style: Style, gutter: int) -> list[str]:
    if not text:
        return []
    margin = " " * gutter + " "
    first, *rest = wrapped(f"{margin}= {kind}: {escaped(text)}", style, margin + "  ")
    first = first.strip().replace(f"= {kind}", style.paint("= ", "blue") + style.paint(kind, color), 1)
    return [margin + first, *rest]
