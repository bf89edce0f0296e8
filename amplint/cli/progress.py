"""A progress bar on standard error, for runs in a terminal that take longer than a second."""

from __future__ import annotations

import sys
import time

_PATIENCE = 1.0
_CELLS = 30


class ProgressBar:
    """Draws itself when it is called with the work done and the work in all; ``clear`` takes it away."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._drawn = 0
        self._terminal = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if not self._terminal or time.monotonic() - self._start < _PATIENCE:
            return
        filled = _CELLS * done // max(total, 1)
        line = f"[{'#' * filled}{'.' * (_CELLS - filled)}] {done}/{total} files"
        sys.stderr.write("\r" + line.ljust(self._drawn))
        sys.stderr.flush()
        self._drawn = len(line)

    def clear(self) -> None:
        """Leave the line empty."""
        if self._drawn:
            sys.stderr.write("\r" + " " * self._drawn + "\r")
            sys.stderr.flush()
            self._drawn = 0
