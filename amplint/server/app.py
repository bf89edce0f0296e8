"""The server: what a client says, and what it is told.

Texts and versions are taken as they are when an analysis begins; its result is told only of documents that are still
the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path, uri_scheme
from pygls.workspace import TextDocument

from amplint import __version__
from amplint.api import (
    Cache,
    CheckResult,
    ConfigError,
    Crash,
    Finding,
    Workspace,
)
from amplint.server.actions import edit_between
from amplint.server.diagnostics import Document, PathOf, Texts, diagnostic_of
from amplint.server.options import Options, options_of
from amplint.server.progress import Telling
from amplint.server.schedule import Schedule, Stop, Work

_SCHEMES = ("file", "untitled")
"""Of documents that somebody writes: others are old versions, cells or parts of something."""


@dataclass(frozen=True)
class Shown:
    """What the editor shows of one version of a document: diagnostics, each with its finding."""

    document: Document
    pairs: tuple[tuple[Finding, lsp.Diagnostic], ...]
    path_of: PathOf

    @property
    def diagnostics(self) -> list[lsp.Diagnostic]:
        return [diagnostic for _, diagnostic in self.pairs]


class Server(LanguageServer):
    """One client, its open documents, and what is known of them."""

    def __init__(self, cache: Cache | None = None) -> None:
        # whole texts: pygls splits lines at form feeds, too, and would put changes of parts elsewhere
        super().__init__("amplint", __version__, lsp.TextDocumentSyncKind.Full)
        self.cache = cache
        self.options = Options()
        self.store = Workspace(cache=cache)
        self.shown: dict[str, Shown] = {}
        """By the URI of the document."""
        self.projects: dict[str, Hashable] = {}
        """What the document with a URI is analysed with: the root of its project, or its URI if it is in no file."""
        self.told: set[str] = set()
        self.is_shut_down = False
        self._schedule: Schedule | None = None

    @property
    def schedule(self) -> Schedule:
        """When what is analysed; it belongs to the loop that handlers run in."""
        if self._schedule is None:
            telling = Telling(self)
            self._schedule = Schedule(self._prepared, self.failed, lambda key: telling.begin(str(key)))
        return self._schedule

    # what is open --------------------------------------------------------------------------------------------

    def documents(self) -> list[Document]:
        """The Python texts that are open."""
        return [_document(text) for text in self.workspace.text_documents.values() if _is_python(text)]

    def document(self, uri: str) -> Document | None:
        """One of them."""
        return next((document for document in self.documents() if document.uri == uri), None)

    def changed(self, uri: str, *, delay: float, anew: bool = False) -> None:
        """Takes the text that a document has now, and has its project analysed in ``delay`` seconds. What is at work
        for it goes on if the text is the same, unless all is to be done ``anew``."""
        document = self.document(uri)
        if document is None:
            return
        is_other = document.path is None or self.store.set_text(document.path, document.text)
        if uri not in self.projects:
            self.projects[uri] = self._project_of(document)
        self.schedule.ask(self.projects[uri], delay, anew=anew or is_other)

    def closed(self, uri: str) -> None:
        """Forgets the text of a document; what else is open of its project is judged by the disk again."""
        path = to_fs_path(uri)
        is_other = path is not None and self.store.set_text(path, None)
        project = self.projects.pop(uri, None)
        if self.shown.pop(uri, None) is not None:
            self._publish(uri, None, [])
        if project in self.projects.values():
            self.schedule.ask(project, anew=is_other)
        else:
            self.schedule.drop(project)

    def start_over(self) -> None:
        """Looks for projects and settings anew, and analyses all that is open."""
        self.store = Workspace(self._folders(), self.options.settings, self.cache)
        self.projects.clear()
        for document in self.documents():
            self.changed(document.uri, delay=0, anew=True)

    def refresh(self, changes: Iterable[lsp.FileEvent]) -> None:
        """Files have changed on the disk: finds projects anew and analyses them, unless their texts are open."""
        known = {document.path for document in self.documents()}
        if all(
            change.type == lsp.FileChangeType.Changed and to_fs_path(change.uri) in known
            for change in changes
        ):
            return
        self.projects = {document.uri: self._project_of(document) for document in self.documents()}
        for project in dict.fromkeys(self.projects.values()):
            self.schedule.ask(project, self.options.delay)

    def configure(self, given: object) -> None:
        """Takes options, if there are some; those that are wrong are told of, and the ones from before stay."""
        if not given:
            return
        try:
            options = options_of(given)
            Workspace(options=options.settings)
        except ConfigError as error:
            self.tell(str(error))
        else:
            self.options = options

    def _folders(self) -> list[str]:
        uris = [folder.uri for folder in self.workspace.folders.values()]
        if not uris and self.workspace.root_uri:
            uris = [self.workspace.root_uri]
        return [path for uri in uris if (path := to_fs_path(uri)) is not None]

    def _project_of(self, document: Document) -> Hashable:
        if document.path is None:
            return document.uri
        try:
            return self.store.project_of(document.path)
        except ConfigError as error:
            self.tell(str(error))
            return Path(document.path).parent

    # analyses ------------------------------------------------------------------------------------------------

    def _prepared(self, key: Hashable) -> tuple[Work, Callable[[Any], None]]:
        """What to do about a project as it is now, or about a text in no file."""
        store, texts = self.store, self.texts()
        mine = [document for document in self.documents() if self.projects.get(document.uri) == key]

        def work(stop: Stop) -> tuple[list[Shown], tuple[Crash, ...]]:
            shown: list[Shown] = []
            crashes: list[Crash] = []
            paths = [one.path for one in mine if one.path is not None and not store.excludes(one.path)]
            checked = _checked(store, paths, stop)
            crashes += checked.crashes
            for document in mine:
                result, path_of = checked, _paths_in(checked)
                if document.path is None:
                    result = store.check_alone(Path.cwd() / "untitled.py", document.text, stop=stop)
                    crashes += result.crashes
                    path_of = _always(document.uri)
                pairs = tuple(
                    (finding, diagnostic_of(finding, texts, path_of))
                    for finding in result.findings
                    if path_of(finding.path) == document.key
                )
                shown.append(Shown(document, pairs, path_of))
            return shown, tuple(crashes)

        return work, self._finish

    def _finish(self, result: tuple[list[Shown], tuple[Crash, ...]]) -> None:
        shown, crashes = result
        self.told.clear()
        for crash in crashes:
            where = f" in the rule {crash.rule}" if crash.rule else ""
            self.log(f"internal error{where}: {crash.path}: {crash.reason}\n{crash.traceback}")
        versions = {document.uri: document.version for document in self.documents()}
        for one in shown:
            uri = one.document.uri
            if versions.get(uri, ...) != one.document.version:
                continue
            before, self.shown[uri] = self.shown.get(uri), one
            is_same = before is not None and before.document.version == one.document.version
            if not is_same or before is None or before.diagnostics != one.diagnostics:
                self._publish(uri, one.document.version, one.diagnostics)

    def failed(self, error: Exception) -> None:
        """Tells of an analysis that gave no result. What is shown stays."""
        if isinstance(error, ConfigError):
            self.tell(str(error))
            return
        crash = Crash.of("", "", error)
        self.log(f"internal error: {crash.reason}\n{crash.traceback}")

    def texts(self) -> Texts:
        """What the texts are now, in the units of the client."""
        edits = self.client_capabilities.workspace and self.client_capabilities.workspace.workspace_edit
        encoding = self.workspace.position_encoding or lsp.PositionEncodingKind.Utf16
        return Texts(
            self.store,
            self.documents(),
            lsp.PositionEncodingKind(encoding).value,
            has_versions=bool(edits and edits.document_changes),
        )

    def shown_at(self, uri: str, place: lsp.Range) -> list[tuple[Finding, lsp.Diagnostic]]:
        """The findings that touch a stretch of a document, if they are about the text that it has now."""
        shown, now = self.shown.get(uri), self.document(uri)
        if shown is None or now is None or shown.document.version != now.version:
            return []
        return [pair for pair in shown.pairs if _touch(pair[1].range, place)]

    def safe_fixes(self, uri: str) -> bool:
        """Whether something in a document can be fixed safely, as far as it is known."""
        shown = self.shown.get(uri)
        return shown is not None and any(
            finding.fix is not None and finding.fix.chosen(unsafe=False) is not None
            for finding, _ in shown.pairs
        )

    async def all_fixed(self, uri: str) -> lsp.WorkspaceEdit | None:
        """The edits that make all safe fixes of a document; None if there are none."""
        document, store, texts = self.document(uri), self.store, self.texts()
        if document is None or document.path is None:
            return None
        path = document.path
        changes = await self.schedule.run(self.projects.get(uri), lambda stop: store.fixed(path, stop=stop))
        now = self.document(uri)
        is_same = now is not None and now.version == document.version
        return edit_between(changes, texts) if changes and is_same else None

    # what is told --------------------------------------------------------------------------------------------

    def _publish(self, uri: str, version: int | None, diagnostics: list[lsp.Diagnostic]) -> None:
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics, version))

    def tell(self, text: str) -> None:
        """Shows the user what is wrong with the settings, once."""
        if text not in self.told:
            self.told.add(text)
            self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Error, f"amplint: {text}"))

    def log(self, text: str) -> None:
        """Writes into the log of the editor."""
        self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, f"amplint: {text}"))


def _checked(store: Workspace, paths: list[str], stop: Stop) -> CheckResult:
    if not paths:
        return CheckResult((), 0)
    return store.check(*paths, stop=stop)


def _paths_in(result: CheckResult) -> PathOf:
    return lambda name: result.sources.get(name) or str(Path(name).absolute())


def _always(path: str) -> PathOf:
    return lambda name: path


def _document(text: TextDocument) -> Document:
    path = to_fs_path(text.uri) if uri_scheme(text.uri) == "file" else None
    return Document(text.uri, text.version, text.source, os.path.normpath(path) if path else None)


def _is_python(text: TextDocument) -> bool:
    return text.language_id == "python" and uri_scheme(text.uri) in _SCHEMES


def _touch(one: lsp.Range, other: lsp.Range) -> bool:
    return _key(one.start) <= _key(other.end) and _key(other.start) <= _key(one.end)


def _key(position: lsp.Position) -> tuple[int, int]:
    return position.line, position.character
