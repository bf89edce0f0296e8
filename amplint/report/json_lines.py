"""The objects of the format "json", each on a line of its own."""

from __future__ import annotations

import json

from amplint.check import CheckResult
from amplint.report.json import as_object
from amplint.report.sources import Sources
from amplint.report.text import Style


def render(result: CheckResult, style: Style) -> str:
    """The report; nothing if there are no findings."""
    sources = Sources(result)
    return "".join(f"{json.dumps(as_object(finding, sources))}\n" for finding in result.findings)
