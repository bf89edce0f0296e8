"""Pylint's lines, which many editors and CI services read: ``path:line: [code(name), ] message``."""

from __future__ import annotations

from amplint.check import CheckResult
from amplint.report.text import Style, escaped


def render(result: CheckResult, style: Style) -> str:
    """The report; nothing if there are no findings."""
    return "".join(
        f"{escaped(finding.path)}:{finding.span.line}: [{finding.code}({finding.name}), ] "
        f"{escaped(finding.message)}\n"
        for finding in result.findings
    )
