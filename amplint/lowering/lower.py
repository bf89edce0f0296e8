"""What turns definitions, modules and single lines of a file into programs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import libcst as cst

from amplint.findings import Span
from amplint.lowering.program import Block, Evaluate, Program
from amplint.lowering.statements import Lowering
from amplint.source.outline import FunctionOutline
from amplint.source.project import ProjectFile
from amplint.source.slices import Slice


class _Places:
    """The syntax trees of an outermost program. Positions are worked out, slice by slice, for the first node that
    somebody asks for."""

    def __init__(self, file: ProjectFile) -> None:
        self.line_name = file.line_name
        self.nodes: list[cst.CSTNode] = []
        self._slices: list[Slice] = []
        self._starts: list[int] = []

    def begin(self, piece: Slice) -> None:
        """The nodes that are numbered from now on are of this slice."""
        self._starts.append(len(self.nodes))
        self._slices.append(piece)

    def locate(self, number: int) -> Span:
        """The span of a node."""
        if not self._slices:  # a module without statements
            return Span(1, 1, 1, 1)
        return self._slice(number).span(self.nodes[number])

    def text_of(self, number: int) -> str:
        """The text of a node on one line, shortened."""
        node = self.nodes[number]
        if isinstance(node, cst.BaseCompoundStatement):
            node = node.with_changes(leading_lines=())  # comments above it are none of its own
        return self._slice(number).code(node)

    def _slice(self, number: int) -> Slice:
        return self._slices[bisect_right(self._starts, number) - 1]


def lower_function(file: ProjectFile, outline: FunctionOutline) -> Program | None:
    """The program of a function or method, or None if LibCST cannot parse it."""
    try:
        piece = file.slice(outline.line, outline.end_line)
    except cst.ParserSyntaxError:
        return None
    node = next((part for part in piece.body if isinstance(part, cst.FunctionDef)), None)
    if node is None:
        return None
    places = _Places(file)
    places.begin(piece)
    lowering = Lowering(file.display, (outline.line, 0), places)
    return lowering.function(node, lowering.count(node))


def lower_module(file: ProjectFile) -> Program | None:
    """The statements of a module but for its functions and classes, in order, or None if LibCST cannot parse one."""
    ranges = _merged([*file.outline.chunks, *file.outline.import_lines])
    return _lower_pieces(file, ranges, (0, 0), "")


def lower_lines(file: ProjectFile, first: int, last: int, owner: str = "") -> Program | None:
    """Some statements of a module or of the body of a class, or None if LibCST cannot parse them. ``owner`` is the
    name of the class, which tells the body of a class on one line, ``class A: x = 1``, from a class as a statement."""
    return _lower_pieces(file, [(first, last)], (first, last), owner)


def lower_expression(file: ProjectFile, piece: Slice, node: cst.BaseExpression) -> Program:
    """An expression of a slice as a program of one statement."""
    places = _Places(file)
    places.begin(piece)
    lowering = Lowering(file.display, (0, 0), places)
    value = lowering.expression(node)
    program = lowering.program(0, "<expression>", "module")
    program.body = (Evaluate(value.number, value),)
    return program


def _lower_pieces(
    file: ProjectFile, ranges: Sequence[tuple[int, int]], root: tuple[int, int], owner: str
) -> Program | None:
    places = _Places(file)
    lowering = Lowering(file.display, root, places)
    body: Block = ()
    is_class = bool(owner)
    try:
        for first, last in ranges:
            piece = file.slice(first, last)
            statements = _own_statements(piece, owner)
            is_class = is_class or piece.indented
            places.begin(piece)
            lowering.count(statements[0])  # the place of the program, for the first of them
            body += lowering.block(statements)
    except cst.ParserSyntaxError:
        return None
    program = lowering.program(0, owner or "<module>", "class" if is_class else "module")
    program.body = body
    return program


def _own_statements(piece: Slice, owner: str) -> Sequence[cst.CSTNode]:
    """The statements of a slice. That of a class body on one line is the class itself."""
    match piece.body:
        case [cst.ClassDef(name=cst.Name(value=name), body=cst.SimpleStatementSuite() as suite)] if (
            name == owner
        ):
            return suite.body
    return piece.body


def _merged(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, those that share a line as one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
