"""Which lines of the user's code ran, and how often: an op without half-precision operands is no event, and a line
that did not run is told from one that was harmless.

Uses ``sys.monitoring`` (Python 3.12 and later), else ``sys.settrace``, unless a debugger or a coverage tool has
taken it. A code object is counted up to a bound, so that hot loops run at their own speed after it. A trace function is
called for each function that runs, whosever it is: it goes once all that is asked for has run.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from amplint.confirm.asked import AskedFile, Stretch
from amplint.confirm.recording import digest_of

MOST = 20_000
"""Lines that are counted in one code object."""

_NAME = "amplint"


class LineCounts:
    """Counts the lines of files that ``is_user_file`` accepts, between ``start`` and ``stop``.

    ``asked`` is what somebody will ask for: of other files, and of functions without any of these lines, nothing is
    counted. None: everything is. ``displayed`` gives the path of a file as findings have it.
    """

    def __init__(
        self,
        is_user_file: Callable[[str], bool],
        asked: Sequence[AskedFile] | None = None,
        displayed: Callable[[str], str] = str,
    ) -> None:
        self._is_user_file = is_user_file
        self._displayed = displayed
        self._asked = asked
        self._files: dict[str, tuple[Stretch, ...] | None] = {}
        """What is asked for of a file; None: nothing."""
        self._codes: dict[CodeType, dict[int, int]] = {}
        self._left: dict[CodeType, int] = {}
        self._unmet = list(asked or ())
        """The files that are asked for and did not run yet."""
        self._unseen: dict[str, set[Stretch]] = {}
        """The stretches that did not run yet, of files that did."""
        self.active = False

    def counts(self) -> dict[str, dict[int, int]]:
        """File name, as Python knows it -> line -> how often it ran."""
        found: dict[str, dict[int, int]] = {}
        for code, lines in list(self._codes.items()):
            total = found.setdefault(code.co_filename, {})
            for line, count in list(lines.items()):
                total[line] = total.get(line, 0) + count
        return found

    def forget(self) -> None:
        """Begins to count anew."""
        for lines in self._codes.values():
            lines.clear()

    def start(self) -> None:
        """Begins to count, if nobody else watches lines."""
        if self._is_content:
            return
        if sys.version_info >= (3, 12):
            self._monitor()
        elif sys.gettrace() is None:
            threading.settrace(self._trace)
            sys.settrace(self._trace)
            self.active = True

    def stop(self) -> None:
        """Ends it."""
        if not self.active:
            return
        self.active = False
        if sys.version_info >= (3, 12):
            monitoring: Any = sys.monitoring
            monitoring.set_events(monitoring.COVERAGE_ID, 0)
            monitoring.free_tool_id(monitoring.COVERAGE_ID)
        else:
            self._let_go()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Counts nothing of this thread meanwhile: importing torch calls a trace function a million times."""
        if sys.gettrace() != self._trace:
            yield
            return
        sys.settrace(None)
        try:
            yield
        finally:
            if self.active and sys.gettrace() is None:
                sys.settrace(self._trace)

    @property
    def _is_content(self) -> bool:
        """Whether all that is asked for was seen to run."""
        return self._asked is not None and not self._unmet and not self._unseen

    def _let_go(self) -> None:
        """Takes the trace function away. Other threads do it when they next come to call it."""
        if sys.gettrace() == self._trace:
            sys.settrace(None)
        if getattr(threading, "_trace_hook", None) == self._trace:
            threading.settrace(None)

    def _wanted(self, code: CodeType) -> dict[int, int] | None:
        """The counts of a code object, None if it is not to be counted or was counted enough."""
        name = code.co_filename
        if name not in self._files:
            self._files[name] = self._met(name)
        stretches = self._files[name]
        if stretches is None or self._left.setdefault(code, MOST) <= 0:
            return None
        known = self._codes.get(code)
        if known is None:
            known = self._codes[code] = {}
            if self._asked is not None and not _has_any(code, stretches):
                self._left[code] = 0
                return None
        return known

    def _met(self, name: str) -> tuple[Stretch, ...] | None:
        """What is asked for of a file that begins to run."""
        if not self._is_user_file(name):
            return None
        if self._asked is None:
            return ()
        path, digest = self._displayed(name), digest_of(Path(name))
        here = [file for file in self._asked if file.is_that(path, digest)]
        self._unmet = [file for file in self._unmet if file not in here]
        stretches = tuple(part for file in here for part in file.in_content(digest))
        if stretches:
            self._unseen[name] = set(stretches)
        return stretches if here else None

    def _first(self, name: str, line: int) -> None:
        """A line runs for the first time."""
        unseen = self._unseen.get(name)
        if unseen is None:
            return
        unseen -= {(first, last) for first, last in unseen if first <= line <= last}
        if not unseen:
            self._unseen.pop(name, None)

    def _trace(self, frame: FrameType, what: str, argument: Any) -> Any:
        if not self.active or self._is_content:
            self._let_go()
            return None
        code = frame.f_code
        lines = self._wanted(code)
        if lines is None:
            return None
        left = self._left

        def local(frame: FrameType, what: str, argument: Any) -> Any:
            if what == "line":
                line = frame.f_lineno
                count = lines[line] = lines.get(line, 0) + 1
                left[code] -= 1
                if left[code] <= 0:
                    frame.f_trace_lines = False
                if count == 1:
                    self._first(code.co_filename, line)
                    if self._is_content:
                        self._let_go()
            return local

        return local

    def _monitor(self) -> None:
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined]
        if monitoring.get_tool(monitoring.COVERAGE_ID) is not None:
            return
        monitoring.use_tool_id(monitoring.COVERAGE_ID, _NAME)
        started, line_ran = monitoring.events.PY_START, monitoring.events.LINE

        def start(code: CodeType, offset: int) -> Any:
            if self._wanted(code) is not None:
                monitoring.set_local_events(monitoring.COVERAGE_ID, code, line_ran)
            return monitoring.DISABLE

        def line(code: CodeType, number: int) -> Any:
            lines = self._codes.get(code)
            if lines is None:
                return monitoring.DISABLE
            lines[number] = lines.get(number, 0) + 1
            self._left[code] -= 1
            return monitoring.DISABLE if self._left[code] <= 0 else None

        monitoring.register_callback(monitoring.COVERAGE_ID, started, start)
        monitoring.register_callback(monitoring.COVERAGE_ID, line_ran, line)
        monitoring.set_events(monitoring.COVERAGE_ID, started)
        self.active = True


def _has_any(code: CodeType, stretches: Sequence[Stretch]) -> bool:
    """Whether a code object has a line of one of the stretches."""
    lines = {line for _, _, line in code.co_lines() if line is not None}
    return any(first <= line <= last for line in lines for first, last in stretches)
