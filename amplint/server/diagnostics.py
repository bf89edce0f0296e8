"""Findings as diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from lsprotocol.types import (
    CodeDescription,
    Diagnostic,
    DiagnosticRelatedInformation,
    DiagnosticSeverity,
    DiagnosticTag,
    Location,
)
from pygls.uris import from_fs_path

from amplint.api import Finding, Level, Span, Workspace, rule_file, rule_of
from amplint.server.positions import Places

SOURCE = "amplint"
_SEVERITIES = {
    Level.ERROR: DiagnosticSeverity.Error,
    Level.WARNING: DiagnosticSeverity.Warning,
    Level.ADVICE: DiagnosticSeverity.Information,
}
_TAGS = {"deprecated": DiagnosticTag.Deprecated, "unnecessary": DiagnosticTag.Unnecessary}


@dataclass(frozen=True)
class Document:
    """A text that is open in the editor, as it is in one version. ``path`` is absolute; None for a text in no file."""

    uri: str
    version: int | None
    text: str
    path: str | None

    @property
    def key(self) -> str:
        """What stands for its path."""
        return self.path or self.uri


class Texts:
    """The texts of the files that findings and fixes name: those that are open, and those on the disk."""

    def __init__(
        self, workspace: Workspace, documents: Iterable[Document], encoding: str, *, has_versions: bool
    ) -> None:
        """``encoding`` is that of positions; ``has_versions``: the client takes edits of versions of documents."""
        self._workspace = workspace
        self._open = {document.key: document for document in documents}
        self._encoding = encoding
        self.has_versions = has_versions
        self.places_in = lru_cache(maxsize=None)(self._places_in)

    def version(self, path: str) -> int | None:
        """The version of an open text."""
        document = self._open.get(path)
        return document.version if document is not None else None

    def uri(self, path: str) -> str:
        """The URI of a file, as the client spells it if it is open."""
        document = self._open.get(path)
        return document.uri if document is not None else from_fs_path(path) or path

    def text(self, path: str) -> str:
        """The text of a file; empty if it cannot be read, and for a notebook, in which each place is its beginning."""
        document = self._open.get(path)
        return document.text if document is not None else self._workspace.text(path) or ""

    def _places_in(self, path: str) -> Places:
        return Places(self.text(path), self._encoding)


PathOf = Callable[[str], str]
"""The absolute path of what a finding names."""


def diagnostic_of(finding: Finding, texts: Texts, path_of: PathOf) -> Diagnostic:
    """What the editor shows of a finding."""

    def location(name: str, span: Span) -> Location:
        path = path_of(name)
        return Location(texts.uri(path), texts.places_in(path).range_of(span))

    tag = _TAGS.get(rule_of(finding).tag)
    more = " ".join(part for part in (finding.why, finding.help) if part)
    return Diagnostic(
        range=location(finding.path, finding.span).range,
        message=f"{finding.message}\n{more}" if more else finding.message,
        severity=_SEVERITIES[finding.level],
        code=finding.name,
        code_description=CodeDescription(from_fs_path(str(rule_file(finding))) or ""),
        source=SOURCE,
        tags=[tag] if tag is not None else None,
        related_information=[
            DiagnosticRelatedInformation(location(step.path, step.span), step.message)
            for step in finding.trail
        ]
        or None,
    )
