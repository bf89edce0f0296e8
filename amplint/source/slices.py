"""Pieces of a file parsed with LibCST, with the offset that leads back to the whole file."""

from __future__ import annotations

import libcst as cst

from amplint.findings import Span
from amplint.source.positions import Position, positions_of
from amplint.source.quoting import on_one_line

_NEWLINES = ("\r\n", "\n", "\r")


class Slice:
    """Lines of a file as a LibCST module of their own.

    An indented piece gets a header line ``if True:`` so that it parses; ``body`` is what stands below it.
    """

    def __init__(self, lines: list[str], first: int, last: int) -> None:
        """``first`` and ``last`` are line numbers of the file, from 1, both included."""
        self.first, self.last = first, last
        text = "".join(lines[first - 1 : last])
        head = lines[first - 1]
        self.indented = head[:1] in (" ", "\t", "\f") and bool(head.strip())
        """Whether it stands in a class, function or block."""
        self.text = text
        self._shift = first - 1
        if self.indented:
            newline = next((end for end in _NEWLINES if head.endswith(end)), "\n")
            text = f"if True:{newline}{text}"
            self._shift -= 1
        self.module = cst.parse_module(text)
        self._positions: dict[int, Position] | None = None

    @property
    def body(self) -> list[cst.BaseStatement]:
        """The statements of the slice."""
        statements = list(self.module.body)
        if self.indented and isinstance(statements[0], cst.If):
            return [part for part in statements[0].body.body if isinstance(part, cst.BaseStatement)]
        return [part for part in statements if isinstance(part, cst.BaseStatement)]

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node of this slice stands in the file. Positions are computed on the first call."""
        if self._positions is None:
            self._positions = positions_of(self.module)
        line, column, end_line, end_column = self._positions[id(node)]
        return Span(line + self._shift, column + 1, end_line + self._shift, end_column + 1)

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node on one line, shortened."""
        return on_one_line(self.module.code_for_node(node))
