"""Pylint's lines, which many editors and CI services read: ``path:line: [code(name), ] message``."""

from __future__ import annotations

from amplint.check import CheckResult
from amplint.report.sources import Sources
from amplint.report.text import Style, escaped


def render(result: CheckResult, style: Style) -> str:
    """The report; nothing if there are no findings."""
    sources = Sources(result)
    return "".join(
        f"{escaped(finding.path)}:{sources.on_disk(finding.path, finding.span).line}: "
        f"[{finding.code}({finding.name}), ] "
        f"{sources.preface(finding.path, finding.span)}{escaped(finding.message)}\n"
        for finding in result.findings
    )
