"""What a client may ask for, and how the server is started."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence

from lsprotocol import types as lsp

from amplint.api import Cache, rule_of
from amplint.server.actions import FIX_ALL, fix_all, quick_fixes
from amplint.server.app import Server

_WATCHED = ("**/*.{py,pyi,toml,cfg,txt,lock,yml,yaml}", "**/.gitignore")
"""Python, settings, and where the torch of a project is named."""


def serve(cache: Cache | None = None) -> int:
    """Serves one client by standard input and output until it goes: 0 if it has said that it would. ``cache``: where
    results are kept for texts that are on the disk."""
    gc.enable()  # which the command line switches off, for runs that end soon
    server = made(cache)
    protocol = os.dup(1)
    os.dup2(2, 1)  # whoever prints, prints into the log of the editor
    with os.fdopen(0, "rb", closefd=False) as given, os.fdopen(protocol, "wb") as told:
        server.start_io(given, told)
    return 0 if server.is_shut_down else 1


def made(cache: Cache | None = None) -> Server:
    """A server with all its features."""
    server = Server(cache)
    _follow_the_client(server)
    _follow_documents(server)
    _answer(server)
    return server


def _follow_the_client(server: Server) -> None:
    @server.feature(lsp.INITIALIZE)
    def initialize(params: lsp.InitializeParams) -> None:
        server.configure(params.initialization_options)
        server.start_over()

    @server.feature(lsp.INITIALIZED)
    def initialized(params: lsp.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace is not None else None
        if watching is not None and watching.dynamic_registration:
            watchers = [lsp.FileSystemWatcher(pattern) for pattern in _WATCHED]
            options = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
            method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = lsp.Registration("amplint-files", method, options)
            server.client_register_capability(lsp.RegistrationParams([registration]))

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def did_change_configuration(params: lsp.DidChangeConfigurationParams) -> None:
        server.configure(params.settings)
        server.start_over()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def did_change_workspace_folders(params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        server.start_over()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: lsp.DidChangeWatchedFilesParams) -> None:
        server.refresh(params.changes)

    @server.feature(lsp.SHUTDOWN)
    def shutdown(params: None) -> None:
        server.is_shut_down = True
        server.schedule.close()


def _follow_documents(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: lsp.DidOpenTextDocumentParams) -> None:
        server.changed(params.text_document.uri, delay=0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: lsp.DidChangeTextDocumentParams) -> None:
        server.changed(params.text_document.uri, delay=server.options.delay)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: lsp.DidSaveTextDocumentParams) -> None:
        server.changed(params.text_document.uri, delay=0)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: lsp.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)


def _answer(server: Server) -> None:
    kinds = [lsp.CodeActionKind.QuickFix, FIX_ALL]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(kinds, resolve_provider=True))
    async def code_action(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri, only = params.text_document.uri, params.context.only
        actions: list[lsp.CodeAction] = []
        if _is_wanted(lsp.CodeActionKind.QuickFix.value, only):
            texts = server.texts()
            for finding, shown in server.shown_at(uri, params.range):
                actions += quick_fixes(finding, shown, texts, server.shown[uri].path_of)
        if not _is_wanted(FIX_ALL, only) or not server.safe_fixes(uri):
            return actions
        if only is None and _resolves(server):
            return [*actions, fix_all(data=uri)]
        edit = await server.all_fixed(uri) if only is not None else None
        return [*actions, fix_all(edit=edit)] if edit is not None else actions

    @server.feature(lsp.CODE_ACTION_RESOLVE)
    async def resolve(action: lsp.CodeAction) -> lsp.CodeAction:
        if isinstance(action.data, str):
            action.edit = await server.all_fixed(action.data)
        return action

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        at = lsp.Range(params.position, params.position)
        pairs = server.shown_at(params.text_document.uri, at)
        if not pairs:
            return None
        text = "\n\n---\n\n".join(dict.fromkeys(rule_of(finding).page.strip() for finding, _ in pairs))
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), pairs[0][1].range)


def _is_wanted(kind: str, only: Sequence[lsp.CodeActionKind | str] | None) -> bool:
    """Whether a client that asks for these kinds of actions, or for all, wants one of a kind."""
    return only is None or any(f"{kind}.".startswith(f"{_plain(one)}.") for one in only)


def _plain(kind: lsp.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, lsp.CodeActionKind) else kind


def _resolves(server: Server) -> bool:
    document = server.client_capabilities.text_document
    action = document.code_action if document is not None else None
    support = action.resolve_support if action is not None else None
    return support is not None and "edit" in support.properties
