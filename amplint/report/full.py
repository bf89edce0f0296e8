"""The report for reading: each finding with its source lines, carets, the way that led there, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.check import CheckResult
from amplint.report.sources import Sources
from amplint.report.text import LEVEL_COLORS, Style, escaped, place_of, summary, wrapped

if TYPE_CHECKING:
    from amplint.findings import Finding


def render(result: CheckResult, style: Style) -> str:
    """The report."""
    sources = Sources(result)
    blocks = ["\n".join(block(finding, sources, style)) + "\n" for finding in result.findings]
    last = style.paint(summary(result.findings, result.checked), "bold" if result.findings else "green")
    return "\n".join([*blocks, last]) + "\n"


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
    gutter = max(len(str(line)) for line in places)
    lines = _header(finding, style)
    lines += frame(sources.lines(finding.path), own, style, color, gutter)
    for path, mark in others:
        place = f"{escaped(path)}:{mark.span.line}:{mark.span.column}"
        lines.append(" " * gutter + style.paint(" ::: ", "blue") + place)
        lines += frame(sources.lines(path), [mark], style, color, gutter) or [
            " " * gutter + style.paint(" = ", "blue") + escaped(mark.label)
        ]
    return lines + _help(finding, style, gutter)


def _header(finding: Finding, style: Style) -> list[str]:
    """The first line, wrapped as plain text and painted afterwards, since colours have no width."""
    place, kind = place_of(finding), f"{finding.level.value}[{finding.name}]"
    text = f"{place}: {kind} {finding.code} {escaped(finding.message)}"
    first, *rest = wrapped(text, style, "    ")
    first = first.replace(kind, style.paint(kind, LEVEL_COLORS[finding.level.value]), 1)
    first = first.replace(place, style.paint(place, "bold"), 1)
    return [first, *rest]


def _help(finding: Finding, style: Style, gutter: int) -> list[str]:
    margin = " " * gutter + " "
    if finding.fix is None:
        return []
    kind = "" if finding.fix.applicability == "safe" else f" ({finding.fix.applicability})"
    first, *rest = wrapped(f"{margin}= help{kind}: {escaped(finding.fix.title)}", style, margin + "        ")
    first = first.strip()
    return [
        margin + first.replace("= help", style.paint("= ", "blue") + style.paint("help", "green"), 1),
        *rest,
    ]
