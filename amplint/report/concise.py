"""One line for each finding: ``path:line:column: level[name] CODE message``; ``[*]`` before the message of
one that ``--fix`` would fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.check import CheckResult
from amplint.report.text import (
    Style,
    ending,
    escaped,
    in_lines,
    is_fixable,
    painted_kind,
    place_of,
)

if TYPE_CHECKING:
    from amplint.findings import Finding


def render(result: CheckResult, style: Style) -> str:
    """The report."""
    lines = _lines(result, style) if result.findings else []
    mark = "[*] " if any(is_fixable(finding, result.unsafe_fixes) for finding in result.findings) else ""
    return in_lines([*lines, *ending(result, Style(quiet=style.quiet), mark)])


def _lines(result: CheckResult, style: Style) -> list[str]:
    from amplint.report.sources import Sources

    sources = Sources(result)
    return [_line(sources.in_cell(finding), style, result.unsafe_fixes) for finding in result.findings]


def _line(finding: Finding, style: Style, unsafe: bool) -> str:
    place = style.paint(place_of(finding), "bold")
    kind = painted_kind(finding, style)
    mark = style.paint("[*] ", "green") if is_fixable(finding, unsafe) else ""
    return f"{place}: {kind} {finding.code} {mark}{escaped(finding.message)}"
