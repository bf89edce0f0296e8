"""Fixes of findings as code actions and edits of documents."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from lsprotocol.types import (
    CodeAction,
    CodeActionKind,
    Diagnostic,
    OptionalVersionedTextDocumentIdentifier,
    TextDocumentEdit,
    TextEdit,
    WorkspaceEdit,
)

from amplint.api import Edit, Finding, Fix, digest_of, silencing, split_lines
from amplint.server.diagnostics import PathOf, Texts

FIX_ALL = f"{CodeActionKind.SourceFixAll.value}.amplint"


def quick_fixes(finding: Finding, shown: Diagnostic, texts: Texts, path_of: PathOf) -> Iterator[CodeAction]:
    """What can be done about one finding: its fix, the safe one instead of an unsafe one, and a comment."""
    fix = finding.fix
    for one in (fix, fix.minimum) if fix is not None else ():
        if one is None or not one.edits or not _is_about(one, texts, path_of):
            continue
        yield CodeAction(
            one.title if one.is_safe else f"{one.title} (unsafe)",
            CodeActionKind.QuickFix,
            [shown],
            is_preferred=True if one.is_safe else None,
            edit=_edit_of(one.edits, texts, path_of),
        )
    edits = silencing(texts.text(path_of(finding.path)), finding)
    if edits:
        title = f"Ignore {finding.name} here with a comment"
        edit = _edit_of(edits, texts, path_of)
        yield CodeAction(title, CodeActionKind.QuickFix, [shown], edit=edit)


def fix_all(data: object = None, edit: WorkspaceEdit | None = None) -> CodeAction:
    """The action that makes all safe fixes in a file."""
    return CodeAction("Make all safe fixes of amplint", FIX_ALL, data=data, edit=edit)


def edit_between(changes: Mapping[str, tuple[str, str]], texts: Texts) -> WorkspaceEdit:
    """What makes new texts of old ones; ``changes`` has both by absolute path."""
    edits = [edit for path, (old, new) in changes.items() for edit in _difference(path, old, new)]
    return _edit_of(edits, texts, lambda path: path)


def _is_about(fix: Fix, texts: Texts, path_of: PathOf) -> bool:
    """Whether the files still have the texts that a fix is about."""
    return all(digest_of(texts.text(path_of(name))) == digest for name, digest in fix.bases)


def _edit_of(edits: Iterable[Edit], texts: Texts, path_of: PathOf) -> WorkspaceEdit:
    by_path: dict[str, list[Edit]] = {}
    for edit in sorted(set(edits)):
        by_path.setdefault(path_of(edit.path), []).append(edit)
    changes = {
        path: [
            TextEdit(texts.places_in(path).range_between(edit.start, edit.end), edit.text) for edit in found
        ]
        for path, found in by_path.items()
    }
    if not texts.has_versions:
        return WorkspaceEdit(changes={texts.uri(path): found for path, found in changes.items()})
    return WorkspaceEdit(
        document_changes=[
            TextDocumentEdit(
                OptionalVersionedTextDocumentIdentifier(texts.uri(path), texts.version(path)), list(found)
            )
            for path, found in changes.items()
        ]
    )


def _difference(path: str, old: str, new: str) -> Iterator[Edit]:
    """The edits by which whole lines of a text become those of another."""
    before, after = split_lines(old), split_lines(new)
    starts = [0, *accumulate(map(len, before))]
    for tag, first, last, begin, end in difflib.SequenceMatcher(None, before, after, False).get_opcodes():
        if tag != "equal":
            yield Edit(path, starts[first], starts[last], "".join(after[begin:end]))
