"""A JSON array with one object for each finding."""

from __future__ import annotations

import json
from typing import Any

from amplint.check import CheckResult
from amplint.findings import Finding
from amplint.report.text import Style


def render(result: CheckResult, style: Style) -> str:
    """The report, in ASCII, so that no control character of a linted file gets through."""
    return json.dumps([_object(finding) for finding in result.findings], indent=2) + "\n"


def _object(finding: Finding) -> dict[str, Any]:
    fix = finding.fix
    return {
        "code": finding.code,
        "name": finding.name,
        "level": finding.level.value,
        "message": finding.message,
        "path": finding.path,
        "line": finding.span.line,
        "column": finding.span.column,
        "end_line": finding.span.end_line,
        "end_column": finding.span.end_column,
        "trail": [
            {
                "path": step.path,
                "line": step.span.line,
                "column": step.span.column,
                "message": step.message,
            }
            for step in finding.trail
        ],
        "fix": None if fix is None else {"applicability": fix.applicability, "title": fix.title},
        "fingerprint": finding.fingerprint,
    }
