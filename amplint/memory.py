"""What this process found in projects, for one that runs on, such as a server for an editor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplint.cache import Cache, Entry
from amplint.kept import Kept

if TYPE_CHECKING:
    from amplint.scope import View
    from amplint.source.words import Asked


class Memory(Cache):
    """The last result for each project, kept as long as this process runs, for texts that are on no disk as well. What
    is on the disk is also looked up and kept in another cache, if there is one."""

    def __init__(self, behind: Cache | None = None) -> None:
        super().__init__()
        self._behind = behind
        self._documents: dict[Path, tuple[Path, Mapping[str, Any]]] = {}

    def of(self, view: View, changed: Mapping[str, bytes] = {}) -> Entry:
        """As for every cache."""
        behind = self._behind.of(view, changed) if self._behind is not None else None
        return _Remembered(self._documents, view, changed, behind)


class _Remembered(Entry):
    """One of a Memory, and where the same is kept on the disk."""

    def __init__(
        self,
        documents: dict[Path, tuple[Path, Mapping[str, Any]]],
        view: View,
        changed: Mapping[str, bytes],
        behind: Entry | None,
    ) -> None:
        super().__init__(view.root, view, changed)
        self._documents = documents
        self._behind = behind

    def get(self) -> Kept | None:
        kept, document = super().get(), self._read()
        if self._behind is None:
            return kept
        if kept is None or document is None:
            return self._behind.get()
        self._behind.take(document)
        return kept

    def put(self, kept: Kept, asked: Asked, unreadable: Sequence[str]) -> None:
        super().put(kept, asked, unreadable)
        if self._behind is not None:
            self._behind.put(kept, asked, unreadable)

    def _read(self) -> Mapping[str, Any] | None:
        path, document = self._documents.get(self._view.root, (None, None))
        return document if path == self.path else None

    def _write(self, document: Mapping[str, Any]) -> None:
        self._documents[self._view.root] = self.path, json.loads(json.dumps(document))

    def _touch(self) -> None:
        pass
