"""One line for each finding: ``path:line:column: level[name] CODE message``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.check import CheckResult
from amplint.report.text import LEVEL_COLORS, Style, escaped, place_of, summary

if TYPE_CHECKING:
    from amplint.findings import Finding


def render(result: CheckResult, style: Style) -> str:
    """The report."""
    lines = [_line(finding, style) for finding in result.findings]
    return "\n".join([*lines, summary(result.findings, result.checked)]) + "\n"


def _line(finding: Finding, style: Style) -> str:
    place = style.paint(place_of(finding), "bold")
    level = style.paint(f"{finding.level.value}[{finding.name}]", LEVEL_COLORS[finding.level.value])
    return f"{place}: {level} {finding.code} {escaped(finding.message)}"
