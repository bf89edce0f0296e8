"""``amplint check --watch``: when to check again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

_PAUSE = 0.3
"""Seconds between two looks, at least."""
_SHARE = 10
"""Looking takes at most one part in so many of the time."""


def stamps_of(files: Iterable[str]) -> dict[str, Hashable]:
    """What tells that a file has changed: ``{"train.py": (mtime, size, inode)}``; None for one that is not there."""
    found: dict[str, Hashable] = {}
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116
            found[file] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            found[file] = None
    return found


def changes(look: Callable[[], Mapping[str, Hashable]]) -> Iterator[None]:
    """Yields at once, and then whenever ``look`` tells something else. It never ends by itself."""
    while True:
        seen = look()  # before the work, so that what changes meanwhile is noticed
        yield
        while True:
            start = time.monotonic()
            now = look()
            if now != seen:
                break
            time.sleep(max(_PAUSE, _SHARE * (time.monotonic() - start)))
