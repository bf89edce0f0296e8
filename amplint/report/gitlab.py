"""GitLab's Code Quality report: a JSON array.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import json
from typing import Any

from amplint.check import CheckResult
from amplint.findings import Finding, Level
from amplint.report.places import path_in_repository
from amplint.report.sources import Sources
from amplint.report.text import Style, escaped

_SEVERITIES = {Level.ERROR: "major", Level.WARNING: "minor", Level.ADVICE: "info"}


def render(result: CheckResult, style: Style) -> str:
    """The report."""
    sources = Sources(result)
    return json.dumps([_issue(finding, sources) for finding in result.findings], indent=2) + "\n"


def _issue(finding: Finding, sources: Sources) -> dict[str, Any]:
    span = sources.on_disk(finding.path, finding.span)
    preface = sources.preface(finding.path, finding.span)
    return {
        # GitLab does not show the name of the check
        "description": escaped(f"{finding.name} ({finding.code}): {preface}{finding.text}"),
        "check_name": finding.code,
        "fingerprint": finding.fingerprint,
        "severity": _SEVERITIES[finding.level],
        "location": {
            "path": escaped(path_in_repository(finding.path)),
            "positions": {
                "begin": {"line": span.line, "column": span.column},
                "end": {"line": span.end_line, "column": span.end_column},
            },
        },
    }
