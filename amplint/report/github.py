"""Workflow commands that GitHub Actions turns into annotations, and the Markdown summary of a step.

GitHub shows ten annotations of each kind for a step, so errors come first. It drops an annotation that has
columns and spans several lines.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from amplint.check import CheckResult
from amplint.findings import Finding, Level
from amplint.report.places import path_in_repository
from amplint.report.sources import Sources
from amplint.report.text import (
    Style,
    baselined,
    escaped,
    in_lines,
    left_alone,
    place_of,
    reasons,
    remedies,
    summary,
)

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.ADVICE: "notice"}

SUMMARY_LIMIT = 1 << 20
"""Bytes that GitHub accepts as the summary of a step."""


def render(result: CheckResult, style: Style) -> str:
    """The workflow commands and, unless the style is quiet, a last line that counts them."""
    sources = Sources(result)
    lines = [command(finding, sources) for finding in _by_weight(result)]
    lines += [_left_alone(name, reason) for name, reason in sorted(result.skipped.items())]
    return in_lines(lines if style.quiet else [*lines, summary(result), *baselined(result)])


def _left_alone(name: str, reason: str) -> str:
    """The annotation for a file that was to be fixed and is left as it is."""
    file = _property(path_in_repository(name))
    return f"::warning file={file},title=not fixed::{_data(f'{name} is left as it is: {reason}')}"


def write_step_summary(result: CheckResult, target: Path) -> None:
    """Append a table of the findings to the step's summary, as far as there is room."""
    try:
        room = SUMMARY_LIMIT - (target.stat().st_size if target.exists() else 0)
        with target.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_step_summary(result, room))
    except OSError:
        return  # the annotations say the same


def _step_summary(result: CheckResult, room: int) -> str:
    lines = [summary(result), *left_alone(result), *baselined(result)]
    head = "### amplint\n\n" + "\n\n".join(map(_markdown, lines)) + "\n"
    if result.findings:
        head += "\n| level | rule | place | message |\n| --- | --- | --- | --- |\n"
    rest = "\n\nThere is no room for more findings here; the log has them all.\n"
    left = room - len(head) - len(rest)
    if left < 0:
        return ""
    rows: list[str] = []
    for finding in map(Sources(result).in_cell, _by_weight(result)):
        cells = (finding.level.value, f"{finding.name} ({finding.code})", place_of(finding), finding.message)
        row = f"| {' | '.join(_markdown(cell) for cell in cells)} |\n"
        left -= len(row.encode("utf-8", "backslashreplace"))
        if left < 0:
            return head + "".join(rows) + rest
        rows.append(row)
    return head + "".join(rows) + "\n"


def _by_weight(result: CheckResult) -> list[Finding]:
    return sorted(result.findings, key=lambda finding: (finding.level.rank, finding.order))


def command(finding: Finding, sources: Sources, more: Sequence[str] = ()) -> str:
    """The annotation for a finding, with further lines at the end of its message. It stands in the JSON of a notebook,
    which GitHub shows."""
    span = sources.on_disk(finding.path, finding.span)
    properties = {
        "file": path_in_repository(finding.path),
        "line": str(span.line),
        "endLine": str(span.end_line),
    }
    if span.line == span.end_line:
        properties |= {"col": str(span.column), "endColumn": str(span.end_column)}
    properties["title"] = f"{finding.name} ({finding.code})"
    written = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    message = "\n".join([_message(sources.in_cell(finding)), *more])
    return f"::{_COMMANDS[finding.level]} {written}::{_data(message)}"


def _message(finding: Finding) -> str:
    trail = [f"{step.path}:{step.span.line}:{step.span.column}: {step.message}" for step in finding.trail]
    place = f"{finding.path}:{finding.span.line}:{finding.span.column}"
    return "\n".join([f"{place}: {finding.message}", *reasons(finding), *trail, *remedies(finding)])


def _data(text: str) -> str:
    text = _visible(text).replace("%", "%25").replace("\r", "%0D")
    return text.replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _visible(text: str) -> str:
    """Control characters but line breaks as escapes, since the log is shown in terminals and browsers."""
    if text.isprintable():
        return text
    return "".join(character if character in "\r\n" else escaped(character) for character in text)


def _markdown(text: str) -> str:
    plain = escaped(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + character if character in "\\`*_[]|#~" else character for character in plain)
