"""A whole file parsed with LibCST, and how changes of its tree become edits of its text.

LibCST does not give every text back as it was: a form feed before a statement and a blank line after a
trailing semicolon are lost. The tree is therefore compared with itself, before and after a change, and the
difference is carried over to the text as it is on the disk.
"""

from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import libcst as cst
from libcst._nodes.internal import CodegenState

from amplint.findings import Claim, Edit, Span
from amplint.source.cells import line_name
from amplint.source.decoding import split_lines
from amplint.source.positions import Writing

Node = TypeVar("Node", bound=cst.CSTNode)
T = TypeVar("T")


class Refusal(Exception):  # noqa: N818
    """Why no fix is offered, in a few words for the user. Returned or raised by a builder."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_STATEMENTS = (cst.SimpleStatementLine, cst.BaseCompoundStatement)


class _Writing(Writing):
    """Notes all nodes on the way as well, in the order of the text, and their parents."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(module)
        self.nodes: list[cst.CSTNode] = []
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.statements: dict[cst.CSTNode, tuple[int, int]] = {}
        """The tokens of each statement: the first one, and that after the last."""
        self._around: list[cst.CSTNode] = []

    def before_codegen(self, node: cst.CSTNode) -> None:
        super().before_codegen(node)
        self.nodes.append(node)
        if self._around:
            self.parents[node] = self._around[-1]
        self._around.append(node)
        if isinstance(node, _STATEMENTS):
            self.statements[node] = (len(self.tokens), 0)

    def after_codegen(self, node: cst.CSTNode) -> None:
        super().after_codegen(node)
        self._around.pop()
        if isinstance(node, _STATEMENTS):
            self.statements[node] = (self.statements[node][0], len(self.tokens))


class ParsedFile:
    """A file as text and as a LibCST module. ``path`` is what reports call it; ``text`` is as on the disk,
    line ends included, without a byte order mark. Do not change ``module``: derive a new one from it."""

    def __init__(self, path: str, text: str) -> None:
        """Raises Refusal where LibCST cannot parse the text."""
        self.path = path
        self.text = text
        try:
            self.module = cst.parse_module(text)
        except cst.ParserSyntaxError as error:
            raise Refusal("LibCST cannot parse the whole file") from error
        writing = _Writing(self.module)
        self.module._codegen(writing)
        self._positions = writing.positions
        self._nodes = writing.nodes
        self._parents = writing.parents
        self._known_places: dict[_Block, dict[int, int]] = {}
        self._code = "".join(writing.tokens)
        offsets = [0, *accumulate(map(len, writing.tokens))]
        self._stretches = {
            node: (offsets[first], offsets[min(last, len(offsets) - 1)])
            for node, (first, last) in writing.statements.items()
        }
        self._shifts = _shifts(self._code, text)
        self._by_class: dict[type[cst.CSTNode], list[Any]] = {}
        self._found: dict[Callable[[ParsedFile], Any], Any] = {}

    def find(self, kind: type[Node], span: Span) -> Node | None:
        """The node of this class that stands exactly at a span, the outermost if there are several."""
        return next(
            (
                node
                for node in self._by_line.get(span.line, ())
                if isinstance(node, kind) and self.span(node) == span
            ),
            None,
        )

    def expression(self, span: Span) -> cst.BaseExpression | None:
        """The expression that stands exactly at a span."""
        return self.find(cst.BaseExpression, span)  # type: ignore[type-abstract]

    def inside(self, kind: type[Node], span: Span) -> list[Node]:
        """The nodes of this class that lie within a span, in the order of their beginnings."""
        lines = range(span.line, span.end_line + 1)
        found = [
            node
            for line in lines
            for node in self._by_line.get(line, ())
            if isinstance(node, kind) and _within(self.span(node), span)
        ]
        return sorted(found, key=self.span)

    def around(self, kind: type[Node], span: Span) -> Node | None:
        """The smallest node of this class that holds a span."""
        best: Node | None = None
        for node in self._instances(kind):
            if self._positions[id(node)].line <= span.line:
                place = self.span(node)
                if _within(span, place) and (best is None or _within(place, self.span(best))):
                    best = node
        return best

    def _instances(self, kind: type[Node]) -> list[Node]:
        if kind not in self._by_class:
            self._by_class[kind] = [node for node in self._nodes if isinstance(node, kind)]
        return self._by_class[kind]

    def once(self, find: Callable[[ParsedFile], T]) -> T:
        """What a function finds in the file: it looks once, however often it is asked."""
        if find not in self._found:
            self._found[find] = find(self)
        found: T = self._found[find]
        return found

    def nodes(self, kind: type[Node]) -> list[Node]:
        """The nodes of a class, in the order of the text."""
        return self._kinds.get(kind, [])  # type: ignore[return-value]

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node of ``module`` stands in the text; a statement without the comments above it."""
        line, column, end_line, end_column = self._positions[id(node)]
        if not self._shifts and end_line <= len(self._code_lines):
            return Span(line, column + 1, end_line, end_column + 1)
        start = self._place(self._text_offset(self._offset_in_code(line, column)))
        end = self._place(self._text_offset(self._offset_in_code(end_line, end_column)))
        return Span(*start, *end)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that a node of ``module`` is a part of."""
        return self._parents.get(node)

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, from the inside out."""
        around = self.parent(node)
        while around is not None:
            yield around
            around = self.parent(around)

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement:
        """The statement that a node belongs to: the node itself, or the nearest around it."""
        for candidate in (node, *self.parents(node)):
            if isinstance(candidate, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                return candidate
        raise Refusal("the code stands in no statement")

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node."""
        return self.module.code_for_node(node)

    def line_text(self, line: int) -> str:
        """A line of the text, without its end."""
        start = self._text_lines[line - 1]
        end = self._text_lines[line] if line < len(self._text_lines) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def line_name(self, node: cst.CSTNode) -> str:
        """What messages call the line on which a node begins."""
        return line_name(self.path, self.text, self.span(node).line)

    def claim(self, node: cst.CSTNode) -> Claim:
        """The lines of a statement, with all that is in it and its decorators."""
        span = self.span(node)
        last = span.end_line if span.end_column > 1 or span.end_line == span.line else span.end_line - 1
        decorators = node.decorators if isinstance(node, cst.FunctionDef | cst.ClassDef) else ()
        first = min([span.line, *(self.span(decorator).line for decorator in decorators)])
        return Claim(self.path, first, last)

    def line(self, offset: int) -> int:
        """The number of the line that holds an offset in the text."""
        return self._place(offset)[0]

    def edits(self, changed: cst.Module) -> tuple[Edit, ...]:
        """What has to be edited for the text to become that of a module derived from ``module``. Raises
        Refusal where LibCST's losses cannot be told from the change."""
        edits = []
        for start, end, text in _apart(self._differences(changed)):
            first, last = self._text_offset(start), self._text_offset(end)
            if last - first != end - start:
                raise Refusal("a form feed or a stray semicolon stands in the way")
            edits.append(Edit(self.path, first, last, text))
        return tuple(edits)

    def _differences(self, changed: cst.Module) -> Iterator[tuple[int, int, str]]:
        """(start, end, replacement) of the stretches in which the code of a derived module differs. Only statements
        that are not the very same ones are written out and compared."""
        pieces = list(self._changed(self.module, changed, []))
        if None in pieces:
            yield from _differences(self._code, changed.code)
            return
        for start, end, text in filter(None, pieces):
            for first, last, new in _differences(self._code[start:end], text):
                yield start + first, start + last, new

    def _changed(self, old: _Block, new: _Block, indents: list[str]) -> Iterator[tuple[int, int, str] | None]:
        """The stretches of the code that hold what differs between two blocks, with their new text; None where it
        cannot be told so. ``indents`` are those of the lines in the block."""
        places = self._places(old)
        kept = [(number, places[id(part)]) for number, part in enumerate(new.body) if id(part) in places]
        order = [place for _, place in kept]
        if sorted(set(order)) != order or not _is_framed_alike(old, new) or not old.body:
            yield None
            return
        before = (-1, -1)
        for at in [*kept, (len(new.body), len(old.body))]:
            gone, come = old.body[before[1] + 1 : at[1]], new.body[before[0] + 1 : at[0]]
            if gone or come:
                yield from self._exchanged(old, gone, come, before[1] + 1, indents)
            before = at

    def _places(self, block: _Block) -> dict[int, int]:
        """The numbers of the statements in a block of the file."""
        found = self._known_places.get(block)
        if found is None:
            found = {id(statement): number for number, statement in enumerate(block.body)}
            self._known_places[block] = found
        return found

    def _exchanged(
        self,
        block: _Block,
        gone: Sequence[cst.CSTNode],
        come: Sequence[cst.CSTNode],
        at: int,
        indents: list[str],
    ) -> Iterator[tuple[int, int, str] | None]:
        if len(gone) == len(come) == 1:
            old, new = getattr(gone[0], "body", None), getattr(come[0], "body", None)
            if (
                isinstance(old, cst.IndentedBlock)
                and isinstance(new, cst.IndentedBlock)
                and _is_same_but_for_body(gone[0], come[0])
            ):
                indent = self.module.default_indent if old.indent is None else old.indent
                yield from self._changed(old, new, [*indents, indent])
                return
        if gone:
            start, end = self._stretches[gone[0]][0], self._stretches[gone[-1]][1]
        else:
            following = block.body[at : at + 1]
            start = self._stretches[following[0]][0] if following else self._stretches[block.body[-1]][1]
            end = start
        if end == len(self._code) and not self.module.has_trailing_newline:
            yield None
            return
        writing = CodegenState(self.module.default_indent, self.module.default_newline)
        for indent in indents:
            writing.increase_indent(indent)
        for statement in come:
            statement._codegen(writing)
        yield start, end, "".join(writing.tokens)

    def numbers_of(self, nodes: Iterable[cst.CSTNode]) -> list[int]:
        """Which statements of the module are among some nodes, by their numbers."""
        places = self._places(self.module)
        return [places[id(node)] for node in nodes if id(node) in places]

    @cached_property
    def _kinds(self) -> dict[type[cst.CSTNode], list[cst.CSTNode]]:
        kinds: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        for node in self._nodes:
            kinds.setdefault(type(node), []).append(node)
        return kinds

    @cached_property
    def _by_line(self) -> dict[int, list[cst.CSTNode]]:
        """The nodes by the line on which they begin, the outer ones before those that they hold."""
        places: dict[int, list[cst.CSTNode]] = {}
        for node in self._nodes:
            line = self.span(node).line if self._shifts else self._positions[id(node)].line
            places.setdefault(line, []).append(node)
        return places

    @cached_property
    def _code_lines(self) -> list[int]:
        return _line_starts(self._code)

    @cached_property
    def _text_lines(self) -> list[int]:
        return _line_starts(self.text)

    def _offset_in_code(self, line: int, column: int) -> int:
        if line > len(self._code_lines):  # LibCST counts a final line end that the text lacks
            return len(self._code)
        return self._code_lines[line - 1] + column

    def _text_offset(self, offset: int) -> int:
        """The offset in the text for one in what LibCST gives back."""
        number = bisect_right(self._shifts, (offset, len(self.text)))
        return offset + (self._shifts[number - 1][1] if number else 0)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._text_lines, offset)
        return line, offset - self._text_lines[line - 1] + 1


_Block = cst.Module | cst.IndentedBlock


def _is_framed_alike(old: _Block, new: _Block) -> bool:
    """Whether two blocks have the same around their statements."""
    if isinstance(old, cst.Module) and isinstance(new, cst.Module):
        same = _are_same(old.header, new.header) and old.has_trailing_newline == new.has_trailing_newline
    else:
        same = isinstance(old, cst.IndentedBlock) and isinstance(new, cst.IndentedBlock)
        same = same and old.indent == new.indent and old.header is new.header  # type: ignore[union-attr]
    return same and _are_same(old.footer, new.footer) and bool(new.body)


def _is_same_but_for_body(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    """Whether all parts of two statements but their bodies are the very same ones."""
    if type(old) is not type(new):
        return False
    for field in fields(old):
        one, other = getattr(old, field.name), getattr(new, field.name)
        if field.name == "body" or one is other:
            continue
        if not isinstance(one, Sequence) or not isinstance(other, Sequence) or not _are_same(one, other):
            return False
    return True


def _are_same(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(left is right for left, right in zip(one, other, strict=True))


def _within(inner: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (
        inner.end_line,
        inner.end_column,
    ) <= (outer.end_line, outer.end_column)


def _line_starts(text: str) -> list[int]:
    """Where the lines of a text begin; after a final line end there is one more, empty line."""
    lines = split_lines(text)
    starts = [0, *accumulate(map(len, lines))]
    return starts if not lines or lines[-1].endswith(("\n", "\r")) else starts[:-1]


def _shifts(code: str, text: str) -> list[tuple[int, int]]:
    """(offset in the code, how much further the same character lies in the text) wherever that changes.
    Raises Refusal if there is more between the two than lost spacing."""
    if code == text:
        return []
    shifts: list[tuple[int, int]] = []
    place = 0
    for offset, character in enumerate(code):
        if text[place : place + 1] != character:
            while text[place : place + 1] != character and text[place : place + 1].isspace():
                place += 1
            shifts.append((offset, place - offset))
        if text[place : place + 1] != character:
            raise Refusal("LibCST does not give the text of the file back as it is")
        place += 1
    if text[place:].strip():
        raise Refusal("LibCST does not give the text of the file back as it is")
    return shifts


def _apart(differences: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The differences; what is put in at a place where another one ends or begins is made one with it."""
    result: list[tuple[int, int, str]] = []
    for start, end, text in differences:
        touches = bool(result) and result[-1][1] == start
        if touches and (start == end or result[-1][0] == result[-1][1]):
            start, text = result[-1][0], result[-1][2] + text
            result.pop()
        result.append((start, end, text))
    return result


def _differences(before: str, after: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, replacement) of the stretches in which the texts differ, line by line."""
    old, new = split_lines(before), split_lines(after)
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    old_middle, new_middle = old[first : len(old) - last], new[first : len(new) - last]
    starts = [0, *accumulate(map(len, old))]
    matcher = difflib.SequenceMatcher(
        None, [line.strip() for line in old_middle], [line.strip() for line in new_middle]
    )
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        blocks = [(start, end, new_start, new_end)]
        if tag == "equal" or end - start == new_end - new_start:  # lines that were moved in or out
            blocks = [
                (start + n, start + n + 1, new_start + n, new_start + n + 1) for n in range(end - start)
            ]
        for begin, stop, new_begin, new_stop in blocks:
            yield from _trimmed(
                starts[first + begin],
                "".join(old_middle[begin:stop]),
                "".join(new_middle[new_begin:new_stop]),
            )


def _trimmed(offset: int, old: str, new: str) -> Iterator[tuple[int, int, str]]:
    if old == new:
        return
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    yield offset + head, offset + len(old) - tail, new[head : len(new) - tail]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of items with which both begin."""
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))
