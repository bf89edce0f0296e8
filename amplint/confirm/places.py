"""Places of a run: from a frame of the user's code to the text that it was running.

A place is a code object and the offset of an instruction in it. The span is worked out when somebody asks:
from ``co_positions`` (Python 3.11 and later) and the ``ast`` node that it belongs to; before 3.11 a place is
the logical line.
"""

from __future__ import annotations

import ast
import dis
import sys
import sysconfig
import tokenize
import weakref
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

import torch

from amplint.confirm.patches import UNCOUNTED
from amplint.confirm.recording import displayed
from amplint.events import Place
from amplint.findings import Span
from amplint.source.quoting import on_one_line

_MOST_CALLS = 12
_TORCH = str(Path(torch.__file__).parent)
_PYTHON = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_OWN = str(Path(__file__).parent)
_Position = tuple[int, int, int, int]
"""First line, column in bytes, last line, end column in bytes: as in ``ast``."""


@lru_cache(maxsize=4096)
def origin_of(file: str) -> str:
    """Whose code a file is: "probe", "torch", "python" (the standard library), or "library"."""
    if file.startswith(_OWN) or file == UNCOUNTED:
        return "probe"
    if file.startswith(_TORCH):
        return "torch"
    if file.startswith("<") or (file.startswith(_PYTHON) and "-packages" not in file):
        return "python"
    return "library"


class Site(Place):
    """The place of an instruction."""

    __slots__ = ("_arguments", "_node", "_text", "code", "offset")

    def __init__(self, path: str, code: CodeType, offset: int, calls: tuple[Place, ...] = ()) -> None:
        super().__init__(path, (id(code), offset), self._find_span, self._find_text, calls)
        self.code = code
        self.offset = offset
        self._node: ast.AST | str | None = ""
        self._text: str | None = None
        self._arguments: dict[tuple[int | str, str | None], Place] = {}

    @property
    def file(self) -> str:
        """The path by which Python knows the file."""
        return self.code.co_filename

    @property
    def node(self) -> ast.AST | None:
        """The expression or statement that the instruction was compiled from; None where only the line is
        known."""
        if isinstance(self._node, str):
            source = source_of(self.file)
            position = _position(self.code, self.offset)
            self._node = source.node_at(position, self.code, self.offset) if source and position else None
        return self._node

    @property
    def statement(self) -> ast.stmt | None:
        """The innermost statement around the instruction."""
        source = source_of(self.file)
        return source.statement_at(self._line()) if source is not None else None

    def argument(self, index: int | str, method: str | None = None) -> Place:
        """An operand of a call or operator by its number, or by the keyword it is given for. ``method`` is the
        name under which the operation is a method of its first operand."""
        known = self._arguments.get((index, method))
        if known is None:
            known = self._arguments[index, method] = self._argument(index, method)
        return known

    def _argument(self, index: int | str, method: str | None) -> Place:
        def part() -> ast.AST | None:
            return _operand(self.node, index, method)

        def locate() -> Span:
            node, source = part(), source_of(self.file)
            return source.span_of(node) if node is not None and source is not None else self.span

        def describe() -> str:
            node, source = part(), source_of(self.file)
            return source.text_of(node) if node is not None and source is not None else self.text

        return Place(self.path, (self.key, index), locate, describe, self.calls)

    def _line(self) -> int:
        position = _position(self.code, self.offset)
        return position[0] if position is not None else _line(self.code, self.offset)

    def _find_span(self) -> Span:
        source, node = source_of(self.file), self.node
        if source is not None and node is not None:
            return source.span_of(node)
        line = self._line()
        text = source.lines[line - 1] if source is not None and line <= len(source.lines) else ""
        bare = text.strip()
        start = len(text) - len(text.lstrip()) + 1
        return Span(line, start, line, start + len(bare))

    def _find_text(self) -> str:
        if self._text is None:
            self._text = self._read_text()
        return self._text

    def _read_text(self) -> str:
        source, node = source_of(self.file), self.node
        if source is not None and node is not None:
            return source.text_of(node)
        line = self._line()
        return source.lines[line - 1].strip() if source is not None and line <= len(source.lines) else ""


_Known = tuple[bool, CodeType | weakref.ref[CodeType], CodeType | None]
"""Of a code object: whether it is the user's, itself or a reference to it, and what it stands for if it is."""


class Sites:
    """Finds the user's code on the stack. ``root`` is what displayed paths are relative to."""

    def __init__(self, is_user_file: Callable[[str], bool], root: Path) -> None:
        self._is_user_file = is_user_file
        self._root = root.resolve()
        self._codes: dict[int, _Known] = {}
        self._firsts: dict[tuple[str, CodeType], CodeType] = {}
        """The user's code by file and content: code that is compiled anew stands for that of the first time."""
        self._files: dict[str, bool] = {}
        self._paths: dict[str, str] = {}
        self._places: dict[tuple[int, int], Site] = {}
        self._callers: dict[tuple[int, int], Site] = {}

    def frame(self, depth: int = 1) -> FrameType | None:
        """The innermost frame of the user's code, ``depth`` frames up or further."""
        frame: FrameType | None = sys._getframe(depth)
        codes = self._codes
        while frame is not None:
            code = frame.f_code
            known = codes.get(id(code))
            if known is None:
                known = self._learn(code)
            if known[0]:
                return frame
            frame = frame.f_back
        return None

    def here(self, depth: int = 2) -> Site | None:
        """The place that the user's code is at, or None where none of it is on the stack."""
        frame = self.frame(depth)
        return self.at(frame) if frame is not None else None

    def direct(self, frame: FrameType | None) -> FrameType | None:
        """The frame that called into torch or the probe, if it is the user's: no other library is between."""
        while frame is not None and not self.is_user(frame.f_code):
            if origin_of(frame.f_code.co_filename) == "library":
                return None
            frame = frame.f_back
        return frame

    def is_within_library(self) -> bool:
        """Whether the user's code is in a call of a library other than torch, whose code is running."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self.is_user(frame.f_code):
            if origin_of(frame.f_code.co_filename) == "library":
                return True
            frame = frame.f_back
        return False

    def at(self, frame: FrameType) -> Site:
        """The place that a frame is at. Its calls are those of the first time that it was seen."""
        code, offset = self._first(frame.f_code), frame.f_lasti
        key = (id(code), offset)
        site = self._places.get(key)
        if site is None:
            calls = tuple(reversed(list(islice(self._outer(frame), _MOST_CALLS))))
            site = self._places[key] = Site(self.display(code.co_filename), code, offset, calls)
        return site

    def now(self, frame: FrameType) -> Site:
        """The place that a frame is at, with the last of the calls that led there this time: none of a constructor."""
        site, most = self.at(frame), 0 if frame.f_code.co_name == "__init__" else 1
        return Site(site.path, site.code, site.offset, tuple(islice(self._outer(frame), most)))

    def key_of(self, frame: FrameType) -> tuple[int, int]:
        """What tells apart the places of the user's code."""
        return id(self._first(frame.f_code)), frame.f_lasti

    def _first(self, code: CodeType) -> CodeType:
        """What the user's code stands for: what was compiled from the same text before."""
        return (self._codes.get(id(code)) or self._learn(code))[2] or code

    def chain(self, frame: FrameType) -> tuple[tuple[int, int], ...]:
        """What tells apart the ways on which the user's code comes to a frame."""
        return (self.key_of(frame), *[(id(site.code), site.offset) for site in self._outer(frame)])

    def is_user(self, code: CodeType) -> bool:
        """Whether a code object is the user's."""
        return (self._codes.get(id(code)) or self._learn(code))[0]

    def _learn(self, code: CodeType) -> _Known:
        name, key = code.co_filename, id(code)
        mine = self._files.get(name)
        if mine is None:
            mine = self._files[name] = self._is_user_file(name)
        first = self._firsts.setdefault((name, code), code) if mine else None
        # an id stays its own: the user's code is kept, as places name it; what else is gone is forgotten
        kept = code if code is first else weakref.ref(code, lambda gone: self._forget(key, gone))
        self._codes[key] = known = (mine, kept, first)
        return known

    def _forget(self, key: int, gone: weakref.ref[CodeType]) -> None:
        known = self._codes.get(key)
        if known is not None and known[1] is gone:
            del self._codes[key]

    def _outer(self, frame: FrameType) -> Iterator[Site]:
        outer = frame.f_back
        while outer is not None:
            if self.is_user(outer.f_code):
                code = self._first(outer.f_code)
                key = (id(code), outer.f_lasti)
                site = self._callers.get(key)
                if site is None:
                    site = self._callers[key] = Site(self.display(code.co_filename), code, outer.f_lasti)
                yield site
            outer = outer.f_back

    def display(self, file: str) -> str:
        """A path as it is shown."""
        shown = self._paths.get(file)
        if shown is None:
            shown = self._paths[file] = displayed(file, self._root)
        return shown


class Source:
    """A file, its lines and its tree."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self._by_end: dict[tuple[int, int], list[ast.AST]] = {}
        self._statements: list[ast.stmt] = []
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.expr, ast.stmt)):
                end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
                self._by_end.setdefault(end, []).append(node)
            if isinstance(node, ast.stmt):
                self._statements.append(node)

    def node_at(self, position: _Position, code: CodeType, offset: int) -> ast.AST | None:
        """The node that an instruction with this position was compiled from. The position of a method call
        begins, from Python 3.12 on, at the name of the method: the end tells which call it is."""
        line, column, end_line, end_column = position
        around = [
            node
            for node in self._by_end.get((end_line, end_column), ())
            if (node.lineno, node.col_offset) <= (line, column)  # type: ignore[attr-defined]
        ]
        if not around:
            return None
        exact = [node for node in around if _start(node) == (line, column)]
        found = exact[-1] if exact else around[-1]
        if isinstance(found, ast.Expr):
            found = found.value
        if isinstance(found, (ast.With, ast.AsyncWith)):
            found = found.items[min(_ordinal(code, offset, position), len(found.items) - 1)].context_expr
        return found

    def statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement on a line."""
        around = [part for part in self._statements if part.lineno <= line <= (part.end_lineno or line)]
        return max(around, key=lambda part: part.lineno, default=None)

    def definition(self, code: CodeType) -> ast.FunctionDef | None:
        """The definition that a function was compiled from."""
        for part in self._statements:
            if isinstance(part, ast.FunctionDef) and part.name == code.co_name:
                lines = [part.lineno, *(decorator.lineno for decorator in part.decorator_list)]
                if min(lines) == code.co_firstlineno:
                    return part
        return None

    def name_of(self, node: ast.FunctionDef) -> Span:
        """Where the name of a function stands."""
        start = (
            self.lines[node.lineno - 1].find(node.name, self._points(node.lineno, node.col_offset) + 4) + 1
        )
        return Span(node.lineno, start, node.lineno, start + len(node.name))

    def span_of(self, node: ast.AST) -> Span:
        """Where a node stands."""
        line, column = _start(node)
        end_line = node.end_lineno or line  # type: ignore[attr-defined]
        end = node.end_col_offset or 0  # type: ignore[attr-defined]
        return Span(line, self._points(line, column) + 1, end_line, self._points(end_line, end) + 1)

    def text_of(self, node: ast.AST) -> str:
        """The text of a node on one line, shortened."""
        span = self.span_of(node)
        lines = self.lines[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return on_one_line("\n".join(line.rstrip("\r\n") for line in lines))

    def _points(self, line: int, column: int) -> int:
        return len(self.lines[line - 1].encode()[:column].decode(errors="replace"))


@lru_cache(maxsize=1024)
def source_of(file: str) -> Source | None:
    """A file as it is on the disk, or None if it cannot be read or parsed."""
    try:
        with tokenize.open(file) as opened:
            return Source(opened.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def _start(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def _position(code: CodeType, offset: int) -> _Position | None:
    if sys.version_info < (3, 11) or offset < 0:
        return None
    found = next(islice(code.co_positions(), offset // 2, None), None)
    if found is None or any(part is None for part in found):
        return None
    line, end_line, column, end_column = found
    return line, column, end_line, end_column


def _line(code: CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


def _ordinal(code: CodeType, offset: int, position: _Position) -> int:
    """Which item of a ``with`` statement an instruction enters: those that enter have the same position."""
    twins: list[int] = []
    name = None
    for instruction in dis.get_instructions(code):
        if instruction.offset == offset:
            name = instruction.opname
    for instruction in dis.get_instructions(code):
        if instruction.opname == name and _position(code, instruction.offset) == position:
            twins.append(instruction.offset)
    return twins.index(offset) if offset in twins else 0


def _operand(node: ast.AST | None, index: int | str, method: str | None) -> ast.AST | None:
    operands: list[ast.expr] = []
    if isinstance(index, str):
        keywords = node.keywords if isinstance(node, ast.Call) else []
        return next((part.value for part in keywords if part.arg == index), None)
    match node:
        case ast.Call(func=ast.Attribute(value=receiver, attr=name), args=arguments) if name == method:
            operands = [receiver, *arguments]
        case ast.Call(args=arguments):
            operands = arguments
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.Compare(left=left, comparators=others):
            operands = [left, *others]
        case ast.UnaryOp(operand=only):
            operands = [only]
        case ast.AugAssign(target=target, value=value):
            operands = [target, value]
    if any(isinstance(part, ast.Starred) for part in operands[: index + 1]):
        return None
    return operands[index] if index < len(operands) else None


def names_in(node: ast.AST) -> set[str]:
    """Names and attributes that an expression mentions."""
    found = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return found | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
