"""The texts of the files that findings name, read when they are needed."""

from __future__ import annotations

from amplint.check import CheckResult
from amplint.source.decoding import Unreadable, lines_of, read_source


class Sources:
    """The files of a result by the names that findings call them."""

    def __init__(self, result: CheckResult) -> None:
        self._result = result
        self._texts: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}

    def text(self, display: str) -> str:
        """The text, with the line ends that are in the file; empty if it cannot be read any more."""
        if display not in self._texts:
            self._texts[display] = self._read(display)
        return self._texts[display]

    def lines(self, display: str) -> list[str]:
        """The lines without their ends."""
        if display not in self._lines:
            self._lines[display] = lines_of(self.text(display))
        return self._lines[display]

    def place(self, display: str, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset in the text."""
        before = self.text(display)[:offset]
        if before.endswith("\r") and self.text(display)[offset : offset + 1] == "\n":
            before = before[:-1]  # between the two halves of one line end
        lines = lines_of(before)
        return len(lines), len(lines[-1]) + 1

    def _read(self, display: str) -> str:
        if display in self._result.texts:
            return self._result.texts[display]
        try:
            return read_source(self._result.sources.get(display, display), display).text
        except Unreadable:
            return ""
