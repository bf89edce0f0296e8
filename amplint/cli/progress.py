"""What a run is at, in the last line of a terminal, for runs that take longer than a moment.

A thread draws it, so that it comes in time and goes on whatever the run is busy with. It writes with one system call
and takes no lock of Python's streams: processes that are forked off meanwhile find none that is held.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TextIO

_PATIENCE = 0.4
"""Seconds before anything is shown: a run that ends before needs nothing, and one that does not says so within the
first second, the start of Python included."""
_PAUSE = 0.1
"""Seconds between two drawings."""
_CELLS = 20


class ProgressBar:
    """A line on standard error, if that is a terminal: ``with ProgressBar() as progress: progress("reading", 3, 10)``.
    At the end nothing of it is left."""

    def __init__(self, wanted: bool = True) -> None:
        stream = sys.stderr
        self._stream = stream if wanted and _is_terminal(stream) else None
        self._start = time.monotonic()
        self._state = ("", 0, 0)
        self._drawn = 0
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> ProgressBar:
        if self._stream is not None:
            self._thread = threading.Thread(target=self._go_on, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, phase: str, done: int, total: int) -> None:
        """What the run is at; ``total`` is 0 where nobody knows how much there is to do."""
        self._state = (phase, done, total)

    def clear(self) -> None:
        """Ends it and leaves the line empty."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._drawn:
            self._write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def draw(self) -> None:
        """Draws the line as it is now, if it is time to."""
        spent = time.monotonic() - self._start
        if self._stream is None or spent < _PATIENCE or not self._state[0]:
            return
        # in the last column some terminals begin a new line
        line = _line(*self._state, spent)[: _width(self._stream) - 1]
        self._write("\r" + line.ljust(self._drawn))
        self._drawn = len(line)

    def _go_on(self) -> None:
        while not self._end.wait(_PAUSE):
            self.draw()

    def _write(self, text: str) -> None:
        if self._stream is not None:
            try:
                os.write(self._stream.fileno(), text.encode("ascii"))
            except (OSError, ValueError):
                self._stream = None  # nobody looks any more


def _line(phase: str, done: int, total: int, spent: float) -> str:
    filled = _CELLS * done // total if total else 0
    bar = (
        f" [{'#' * filled}{'.' * (_CELLS - filled)}] {done}/{total}" if total else f" {done}" if done else ""
    )
    return f"{phase}{bar}, {spent:.0f} s"


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a line can be drawn again there: a dumb terminal cannot, or says that it cannot."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def _width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
