"""The number of findings for each rule, and which releases of torch they hold for."""

from __future__ import annotations

import json
from collections import Counter

from amplint.amp.ops import name_of_table
from amplint.check import CheckResult
from amplint.report.text import LEVEL_COLORS, Style, ending


def render_statistics(result: CheckResult, style: Style, *, as_json: bool) -> str:
    """A table, the most frequent rule first, or the same as a JSON array."""
    counts = Counter((finding.code, finding.name, finding.level) for finding in result.findings)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0][0], row[0][2].rank))
    if as_json:
        objects = [
            {"code": code, "name": name, "level": level.value, "count": count}
            for (code, name, level), count in rows
        ]
        return json.dumps(objects, indent=2) + "\n"
    width = max((len(str(count)) for _, count in rows), default=0)
    lines = [
        f"{count:>{width}}  {code}  {style.paint(f'{level.value:<7}', LEVEL_COLORS[level.value])}  {name}"
        for (code, name, level), count in rows
    ]
    read = [] if result.torch is None else [f"Read with the {name_of_table(result.torch)}."]
    if result.cut:
        read.append(
            f"{result.cut} of {result.entries} entry points are longer than what is walked: findings may be missing."
        )
    return "\n".join([*lines, *read, *ending(result, Style())]) + "\n"
