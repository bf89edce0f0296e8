"""Where the nodes of a LibCST module stand in its text.

They are what LibCST's ``PositionProvider`` says, ``positions_of(module)[id(node)]``, without an object for each place
and a generator for each node, which is most of what that takes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import libcst as cst
from libcst._nodes.internal import CodegenState

_NEWLINE = re.compile(r"\r\n?|\n")


class Position(NamedTuple):
    """The stretch of a node: lines from 1, columns in characters from 0, the last one behind the node."""

    line: int
    column: int
    end_line: int
    end_column: int


class Writing(CodegenState):
    """Gives back the text of a module, and notes on the way where its nodes stand, by their ``id``."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.positions: dict[int, Position] = {}
        self._line, self._column = 1, 0
        self._starts: list[tuple[int, int]] = []

    def add_indent_tokens(self) -> None:
        """As LibCST has it."""
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        """As LibCST has it."""
        self.tokens.append(value)
        if "\n" in value or "\r" in value:
            parts = _NEWLINE.split(value)
            self._line += len(parts) - 1
            self._column = len(parts[-1])
        else:
            self._column += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        """As LibCST has it."""
        self._starts.append((self._line, self._column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        """As LibCST has it."""
        start = self._starts.pop()
        if id(node) not in self.positions:  # else without the whitespace around it
            self.positions[id(node)] = Position(*start, self._line, self._column)

    def record_syntactic_position(  # type: ignore[override]  # no generator
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Syntactic:
        """As LibCST has it."""
        return _Syntactic(self, node, start_node, end_node)

    def here(self) -> tuple[int, int]:
        """The line and the column that have been reached."""
        return self._line, self._column


class _Syntactic:
    """What is written inside of it is a node without the whitespace around it."""

    __slots__ = ("_end", "_from", "_node", "_start", "_writing")

    def __init__(
        self, writing: Writing, node: cst.CSTNode, start: cst.CSTNode | None, end: cst.CSTNode | None
    ) -> None:
        self._writing, self._node, self._start, self._end = writing, node, start, end

    def __enter__(self) -> None:
        self._from = self._writing.here()

    def __exit__(self, *raised: object) -> None:
        positions = self._writing.positions
        start, end = self._from, self._writing.here()
        if self._start is not None:
            start = positions[id(self._start)][:2]
        if self._end is not None:
            end = positions[id(self._end)][2:]
        positions[id(self._node)] = Position(*start, *end)


def positions_of(module: cst.Module) -> dict[int, Position]:
    """The positions of all nodes of a module, by their ``id``; they mean nothing once the module is gone."""
    writing = Writing(module)
    module._codegen(writing)
    return writing.positions
