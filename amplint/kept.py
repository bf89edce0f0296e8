"""What was found in a project, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amplint.findings import (
    Assumed,
    Assumption,
    Claim,
    Edit,
    Finding,
    Fix,
    Level,
    Reworded,
    Span,
    TrailStep,
)


@dataclass(frozen=True, slots=True)
class Kept:
    """What was found in all files of a project. ``sources``: displayed name -> path."""

    findings: tuple[Finding, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    entries: int = 0
    cut: int = 0


def encoded(kept: Kept) -> dict[str, Any]:
    """What was found, as JSON has it."""
    return {
        "findings": [_of_finding(finding) for finding in kept.findings],
        "sources": dict(kept.sources),
        "entries": kept.entries,
        "cut": kept.cut,
    }


def decoded(document: Mapping[str, Any]) -> Kept:
    """What was found, from what ``encoded`` has made of it. Raises KeyError, TypeError and ValueError."""
    return Kept(
        tuple(map(_finding, document["findings"])),
        document["sources"],
        document["entries"],
        document["cut"],
    )


def _of_span(span: Span) -> list[int]:
    return [span.line, span.column, span.end_line, span.end_column]


def _of_finding(finding: Finding) -> list[Any]:
    return [
        finding.code,
        finding.name,
        finding.level.value,
        finding.message,
        finding.path,
        _of_span(finding.span),
        [[step.path, _of_span(step.span), step.message] for step in finding.trail],
        _of_fix(finding.fix),
        finding.fingerprint,
        finding.fix_note,
        [[part.kind.value, part.text] for part in finding.assumes],
        finding.why,
        finding.help,
        finding.line,
        finding.number,
    ]


def _finding(row: Sequence[Any]) -> Finding:
    (
        code,
        name,
        level,
        message,
        path,
        span,
        trail,
        fix,
        fingerprint,
        fix_note,
        assumes,
        why,
        help,
        *identity,
    ) = row
    return Finding(
        code,
        name,
        Level(level),
        message,
        path,
        Span(*span),
        tuple(TrailStep(file, Span(*place), text) for file, place, text in trail),
        _fix(fix),
        fingerprint,
        fix_note,
        tuple(Assumption(Assumed(kind), text) for kind, text in assumes),
        why,
        help,
        *identity,
    )


def _of_fix(fix: Fix | None) -> list[Any] | None:
    if fix is None:
        return None
    return [
        fix.applicability,
        fix.title,
        [[edit.path, edit.start, edit.end, edit.text] for edit in fix.edits],
        fix.claims,
        fix.note,
        _of_fix(fix.minimum),
        fix.bases,
        fix.comments,
        sorted(fix.brings),
    ]


def _fix(row: Sequence[Any] | None) -> Fix | None:
    if row is None:
        return None
    applicability, title, edits, claims, note, minimum, bases, comments, brings = row
    return Fix(
        applicability,
        title,
        tuple(Edit(*edit) for edit in edits),
        tuple(Claim(*claim) for claim in claims),
        note,
        _fix(minimum),
        tuple((path, digest) for path, digest in bases),
        tuple(Reworded(*comment) for comment in comments),
        frozenset(brings),
    )
