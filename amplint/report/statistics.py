"""The number of findings for each rule, and which releases of torch they hold for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amplint.amp.ops import name_of_table
from amplint.check import CheckResult
from amplint.report.text import LEVEL_COLORS, Style, ending, escaped, in_lines

if TYPE_CHECKING:
    from amplint.findings import Finding, Level


def render_statistics(result: CheckResult, style: Style, *, as_json: bool) -> str:
    """A table, the most frequent rule first, or the same as a JSON array."""
    if as_json:
        objects = [
            {"code": code, "name": name, "level": level.value, "count": count}
            for (code, name, level), count in _counted(result.findings)
        ]
        return json.dumps(objects, indent=2) + "\n"
    lines = table(result.findings, style)
    if style.quiet:
        return in_lines([*lines, *ending(result, style)])
    read = [] if result.torch is None else [f"Read with the {name_of_table(result.torch)}."]
    if result.cut:
        read.append(
            f"{result.cut} of {result.entries} entry points are longer than what is walked: findings may be missing."
        )
    return in_lines([*lines, *read, *ending(result, Style())])


def table(findings: Sequence[Finding], style: Style) -> list[str]:
    """A line for each rule and level: how many findings, the most frequent first."""
    rows = _counted(findings)
    width = max((len(str(count)) for _, count in rows), default=0)
    return [
        f"{count:>{width}}  {code}  {style.paint(f'{level.value:<7}', LEVEL_COLORS[level.value])}  {name}"
        for (code, name, level), count in rows
    ]


def fullest(findings: Sequence[Finding], most: int) -> str:
    """A line about the files that have most of the findings: "Most are in a.py (8) and b.py (5)." Empty if all are in
    one file."""
    counts = Counter(finding.path for finding in findings)
    if len(counts) < 2:
        return ""
    *others, last = [
        f"{escaped(path)} ({count})"
        for path, count in sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:most]
    ]
    return f"Most are in {', '.join(others)} and {last}."


def _counted(findings: Sequence[Finding]) -> list[tuple[tuple[str, str, Level], int]]:
    counts = Counter((finding.code, finding.name, finding.level) for finding in findings)
    return sorted(counts.items(), key=lambda row: (-row[1], row[0][0], row[0][2].rank))
