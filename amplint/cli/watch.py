"""``amplint check --watch``: when to check again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

_PAUSE = 0.3
"""Seconds between two looks, at least."""
_SHARE = 10
"""Looking takes at most one part in so many of the time."""


def changes(look: Callable[[], Mapping[str, object]]) -> Iterator[None]:
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
