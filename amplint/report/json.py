"""A JSON array with one object for each finding.

``message`` says in one line what is wrong at the place, ``why`` what comes of it when the program runs, ``help``
what to write instead; the last two are empty where there is nothing to say.

A ``fix`` is null or an object: ``applicability`` is "safe" or "unsafe", ``title`` says what it does, ``note`` why it
is unsafe (else empty), and ``edits`` lists replacements, each with the ``path``, the range to replace
(``line``, ``column``, ``end_line``, ``end_column``, counted from 1, columns in code points, the end being the
first character that stays) and the ``content`` to put there, with the line ends of the file. The ranges speak
of the file as it was read and do not overlap. ``minimum`` is null, or for some unsafe fixes the safe one that is
made instead where unsafe ones are not wanted. ``fix_note`` says why there is no fix where one could be
expected; after `--fix`, also why a fix was not made: then ``fix`` is null. ``assumes`` lists what has to hold beside
what the text says: the ``kind`` of each ("flag", "torch", "likely", "type", "reaches", "values", "caller", "cut") and a
clause as its ``text``.

In a notebook each place has the number of a ``cell`` beside its path, and its lines are those of the cell, which counts
as ending with a line end.
"""

from __future__ import annotations

import json
from typing import Any

from amplint.check import CheckResult
from amplint.findings import Assumed, Assumption, Edit, Finding, Fix, Level, Span, TrailStep
from amplint.report.sources import Sources
from amplint.report.text import Style


def render(result: CheckResult, style: Style) -> str:
    """The report, in ASCII, so that no control character of a linted file gets through."""
    sources = Sources(result)
    return json.dumps([as_object(finding, sources) for finding in result.findings], indent=2) + "\n"


def as_object(finding: Finding, sources: Sources) -> dict[str, Any]:
    """One finding."""
    return {
        "code": finding.code,
        "name": finding.name,
        "level": finding.level.value,
        "message": finding.message,
        "why": finding.why,
        "help": finding.help,
        **_place(finding.path, finding.span, sources),
        "end_line": sources.local(finding.path, finding.span).end_line,
        "end_column": finding.span.end_column,
        "trail": [
            {**_place(step.path, step.span, sources), "message": step.message} for step in finding.trail
        ],
        "fix": None if finding.fix is None else _fix(finding.fix, sources),
        "fix_note": finding.fix_note,
        "assumes": [{"kind": one.kind.value, "text": one.text} for one in finding.assumes],
        "fingerprint": finding.fingerprint,
    }


def _fix(fix: Fix, sources: Sources) -> dict[str, Any]:
    return {
        "applicability": fix.applicability,
        "title": fix.title,
        "note": fix.note,
        "edits": [_edit(edit, sources) for edit in fix.edits],
        "minimum": None if fix.minimum is None else _fix(fix.minimum, sources),
    }


def _edit(edit: Edit, sources: Sources) -> dict[str, Any]:
    span = Span(*sources.place(edit.path, edit.start), *sources.place(edit.path, edit.end))
    return {
        **_place(edit.path, span, sources),
        "end_line": sources.local(edit.path, span).end_line,
        "end_column": span.end_column,
        "content": edit.text,
    }


def _place(path: str, span: Span, sources: Sources) -> dict[str, Any]:
    """Path, line and column; in a notebook the number of the cell, too, whose lines are counted."""
    cell = sources.cell(path, span.line)
    where = {"path": path, "cell": cell} if cell else {"path": path}
    return {**where, "line": sources.local(path, span).line, "column": span.column}


def finding_from(value: dict[str, Any]) -> Finding:
    """The finding that an object speaks of, without the edits of its fix. Raises KeyError, TypeError or ValueError
    if it is none."""
    span = Span(*(int(value[key]) for key in ("line", "column", "end_line", "end_column")))
    trail = tuple(
        TrailStep(
            str(step["path"]),
            Span(step["line"], step["column"], step["line"], step["column"]),
            str(step["message"]),
        )
        for step in value["trail"]
    )
    made, fix = value["fix"], None
    if made is not None:
        fix = Fix(str(made["applicability"]), str(made["title"]), note=str(made.get("note", "")))
    return Finding(
        str(value["code"]),
        str(value["name"]),
        Level(value["level"]),
        str(value["message"]),
        str(value["path"]),
        span,
        trail,
        fix,
        str(value.get("fingerprint", "")),
        str(value.get("fix_note", "")),
        tuple(Assumption(Assumed(one["kind"]), str(one["text"])) for one in value.get("assumes", ())),
        str(value.get("why", "")),
        str(value.get("help", "")),
    )
