"""Which lines of the user's code ran, and how often: an op without half-precision operands is no event, and a line
that did not run is told from one that was harmless.

Uses ``sys.monitoring`` (Python 3.12 and later), else ``sys.settrace``, unless a debugger or a coverage tool has
taken it. A code object is counted up to a bound, so that hot loops run at their own speed after it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

MOST = 20_000
"""Lines that are counted in one code object."""

_NAME = "amplint"


class LineCounts:
    """Counts the lines of files that ``is_user_file`` accepts, between ``start`` and ``stop``."""

    def __init__(self, is_user_file: Callable[[str], bool]) -> None:
        self._is_user_file = is_user_file
        self._files: dict[str, bool] = {}
        self._codes: dict[CodeType, dict[int, int]] = {}
        self._left: dict[CodeType, int] = {}
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
        elif sys.gettrace() == self._trace:
            sys.settrace(None)
            threading.settrace(None)

    def _wanted(self, code: CodeType) -> dict[int, int] | None:
        """The counts of a code object, None if it is not to be counted or was counted enough."""
        name = code.co_filename
        mine = self._files.get(name)
        if mine is None:
            mine = self._files[name] = self._is_user_file(name)
        if not mine or self._left.setdefault(code, MOST) <= 0:
            return None
        return self._codes.setdefault(code, {})

    def _trace(self, frame: FrameType, what: str, argument: Any) -> Any:
        code = frame.f_code
        lines = self._wanted(code)
        if lines is None:
            return None
        left = self._left

        def local(frame: FrameType, what: str, argument: Any) -> Any:
            if what == "line":
                lines[frame.f_lineno] = lines.get(frame.f_lineno, 0) + 1
                left[code] -= 1
                if left[code] <= 0:
                    frame.f_trace_lines = False
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
