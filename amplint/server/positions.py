"""Places in a text as a client counts them: from 0, in units of the encoding that both have agreed on."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from lsprotocol.types import Position, PositionEncodingKind, Range

from amplint.api import Span, split_lines

_BYTES = {
    PositionEncodingKind.Utf8.value: ("utf-8", 1),
    PositionEncodingKind.Utf16.value: ("utf-16-le", 2),
    PositionEncodingKind.Utf32.value: ("utf-32-le", 4),
}
"""For each encoding its codec and the bytes of one unit."""


class Places:
    """The places in one text, for one encoding: "utf-8", "utf-16" or "utf-32"."""

    def __init__(self, text: str, encoding: str) -> None:
        self._lines = split_lines(text)
        self._starts = [0, *accumulate(map(len, self._lines))]
        self._codec, self._unit = _BYTES[encoding]

    def range_of(self, span: Span) -> Range:
        """The stretch that a finding is about. What lies behind the end of the text is at its end."""
        return Range(
            self._position(span.line - 1, span.column - 1),
            self._position(span.end_line - 1, span.end_column - 1),
        )

    def range_between(self, start: int, end: int) -> Range:
        """The stretch between two offsets in the text, which count code points."""
        return Range(self._at(start), self._at(end))

    def _at(self, offset: int) -> Position:
        line = bisect_right(self._starts, offset) - 1
        return self._position(line, offset - self._starts[line])

    def _position(self, line: int, column: int) -> Position:
        if line >= len(self._lines):
            ends_open = bool(self._lines) and not self._lines[-1].endswith(("\n", "\r"))
            if not ends_open:
                return Position(len(self._lines), 0)
            line, column = len(self._lines) - 1, len(self._lines[-1])
        before = self._lines[line].rstrip("\r\n")[:column]
        return Position(line, len(before.encode(self._codec, "surrogatepass")) // self._unit)
