"""SARIF 2.1.0, for GitHub code scanning and other viewers.

The trail of a finding is told twice: as related locations, and as a code flow that ends at the finding. What comments
silence is not in it, nor what is in the baseline: GitHub would show it as an alert. With a baseline each result says
that it is new. https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import amplint
from amplint.check import CheckResult
from amplint.findings import Finding, Fix, Level, Span
from amplint.report.places import uri
from amplint.report.sources import Sources
from amplint.report.text import Style, baselined

if TYPE_CHECKING:
    from amplint.rules.base import Rule
    from amplint.unreadable import UnreadableFile

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.ADVICE: "note"}
_SEVERITIES = {Level.ERROR: "error", Level.WARNING: "warning", Level.ADVICE: "recommendation"}
_PRECISIONS = {Level.ERROR: "very-high", Level.WARNING: "high", Level.ADVICE: "high"}
"""docs/levels.md has what they rest on."""


def render(result: CheckResult, style: Style) -> str:
    """The report, in ASCII."""
    from amplint.rules import all_rules
    from amplint.unreadable import UnreadableFile

    sources = Sources(result)
    rules: list[Rule | UnreadableFile] = [*all_rules(), UnreadableFile()]
    rules.sort(key=lambda rule: rule.code)
    index = {rule.code: number for number, rule in enumerate(rules)}
    driver = {
        "name": "amplint",
        "semanticVersion": amplint.__version__,
        "rules": [_rule(rule) for rule in rules],
    }
    state = {"baselineState": "new"} if result.compared else {}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(result)],
        "results": [_result(finding, index[finding.code], sources) | state for finding in result.findings],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule | UnreadableFile) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.page, "markdown": rule.page},
        "defaultConfiguration": {"enabled": rule.default, "level": _LEVELS[rule.level]},
        "properties": {
            "tags": ["pytorch", "mixed-precision"],
            "precision": _PRECISIONS[rule.level],
            "problem.severity": _SEVERITIES[rule.level],
        },
    }


def _invocation(result: CheckResult) -> dict[str, Any]:
    left_alone = [_notification(name, f"not fixed: {why}") for name, why in sorted(result.skipped.items())]
    crashes = [_notification(crash.path, crash.reason, "error") for crash in result.crashes]
    told = [{"level": "note", "message": {"text": line}} for line in baselined(result)]
    notifications = [*left_alone, *crashes, *told]
    more = {"toolExecutionNotifications": notifications} if notifications else {}
    return {"executionSuccessful": not result.crashes, **more}


def _notification(path: str, text: str, level: str = "warning") -> dict[str, Any]:
    location = {"physicalLocation": {"artifactLocation": _artifact(path)}}
    return {"level": level, "message": {"text": text}, "locations": [location]}


def _result(finding: Finding, number: int, sources: Sources) -> dict[str, Any]:
    value: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": number,
        "level": _LEVELS[finding.level],
        "message": {"text": sources.preface(finding.path, finding.span) + finding.text},
        "locations": [_location(finding.path, finding.span, sources)],
        "partialFingerprints": {
            "amplint/v1": finding.fingerprint,
            "primaryLocationLineHash": finding.fingerprint,
        },
    }
    if finding.assumes:
        value["properties"] = {
            "assumes": [{"kind": one.kind.value, "text": one.text} for one in finding.assumes]
        }
    if finding.trail:
        steps = [_location(step.path, step.span, sources, step.message) for step in finding.trail]
        value["relatedLocations"] = [{"id": nth, **step} for nth, step in enumerate(steps, 1)]
        flow = [*steps, _location(finding.path, finding.span, sources, finding.message)]
        value["codeFlows"] = [{"threadFlows": [{"locations": [{"location": step} for step in flow]}]}]
    if finding.fix is not None and finding.fix.edits:
        value["fixes"] = [_fix(finding.fix, sources)]
    return value


def _location(path: str, span: Span, sources: Sources, message: str = "") -> dict[str, Any]:
    region = _region(sources.on_disk(path, span))
    value: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(path), "region": region}}
    text = sources.preface(path, span) + message if message else ""
    return {**value, "message": {"text": text}} if text else value


def _region(span: Span) -> dict[str, int]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _artifact(path: str) -> dict[str, str]:
    address = uri(path)
    return {"uri": address} if address.startswith("file:") else {"uri": address, "uriBaseId": "%SRCROOT%"}


def _fix(fix: Fix, sources: Sources) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for path in dict.fromkeys(edit.path for edit in sorted(fix.edits)):
        changes[path] = [
            {"deletedRegion": _region(made.span), "insertedContent": {"text": made.text}}
            for made in sources.written(path, [edit for edit in fix.edits if edit.path == path])
        ]
    note = f" ({fix.applicability}: {fix.note})" if fix.note else f" ({fix.applicability})"
    return {
        "description": {"text": fix.title + note},
        "artifactChanges": [
            {"artifactLocation": _artifact(path), "replacements": replacements}
            for path, replacements in changes.items()
        ],
    }
