"""Reviewdog's Diagnostic Format: comments on pull requests with changes that one click applies.

Columns count bytes of UTF-8. https://github.com/reviewdog/reviewdog/tree/master/proto/rdf
"""

from __future__ import annotations

import json
from typing import Any

from amplint.check import CheckResult
from amplint.findings import Edit, Finding, Fix, Level, Span
from amplint.fixes.edits import applied
from amplint.report.places import path_in_repository
from amplint.report.sources import Sources
from amplint.report.text import Style

_SEVERITIES = {Level.ERROR: "ERROR", Level.WARNING: "WARNING", Level.ADVICE: "INFO"}
_MOST_LINES = 40
"""A suggestion that replaces more lines than these is no comment on a line any more."""


def render(result: CheckResult, style: Style) -> str:
    """The report, in ASCII."""
    sources = Sources(result)
    value = {
        "source": {"name": "amplint"},
        "diagnostics": [_diagnostic(finding, sources, result.unsafe_fixes) for finding in result.findings],
    }
    return json.dumps(value, indent=2) + "\n"


def _diagnostic(finding: Finding, sources: Sources, unsafe: bool) -> dict[str, Any]:
    path, span = finding.path, finding.span
    value: dict[str, Any] = {
        "message": sources.preface(path, span) + finding.text,
        "location": _location(sources, path, span),
        "severity": _SEVERITIES[finding.level],
        "code": {"value": f"{finding.name} ({finding.code})"},
    }
    if finding.trail:
        value["relatedLocations"] = [
            {
                "message": sources.preface(step.path, step.span) + step.message,
                "location": _location(sources, step.path, step.span),
            }
            for step in finding.trail
        ]
    fix = finding.fix.chosen(unsafe) if finding.fix is not None else None
    suggestion = _suggestion(fix, path, sources) if fix is not None else None
    if suggestion is not None:
        value["suggestions"] = [suggestion]
    return value


def _suggestion(fix: Fix, path: str, sources: Sources) -> dict[str, Any] | None:
    """The whole fix as one replacement: a part of it alone would break the code. None where it is in several files,
    or too large."""
    edits = sorted(fix.edits)
    if any(edit.path != path for edit in edits):
        return None
    start, end = edits[0].start, edits[-1].end
    text = sources.text(path)
    whole = Edit(path, start, end, applied(text[:end], edits)[start:])
    made = sources.written(path, [whole])
    if len(made) != 1 or made[0].span.end_line - made[0].span.line > _MOST_LINES:
        return None
    return {"range": _range(sources, path, made[0].span), "text": made[0].text}


def _location(sources: Sources, path: str, span: Span) -> dict[str, Any]:
    return {
        "path": path_in_repository(path),
        "range": _range(sources, path, sources.on_disk(path, span)),
    }


def _range(sources: Sources, path: str, span: Span) -> dict[str, Any]:
    return {
        "start": _position(sources, path, span.line, span.column),
        "end": _position(sources, path, span.end_line, span.end_column),
    }


def _position(sources: Sources, path: str, line: int, column: int) -> dict[str, int]:
    """A line and a column of the file, which comes in code points."""
    lines = sources.file_lines(path)
    before = lines[line - 1][: column - 1] if line <= len(lines) else " " * (column - 1)
    return {"line": line, "column": len(before.encode("utf-8", "surrogatepass")) + 1}
