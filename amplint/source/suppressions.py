"""Comments that silence findings: ``# amplint: ignore[name, …] reason``, ``# noqa: AMP101``, and for a whole
file ``# amplint: ignore-file[name, …]``.

A comment silences the whole statement that it stands on, however many lines that has; of a compound statement
the header, with its decorators. A comment on a line of its own silences the statement below it. Of ``# noqa``
only a bare one and our own codes count: the codes of other linters are theirs.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import NamedTuple

from amplint.findings import Span
from amplint.selectors import ALL, selects
from amplint.source.decoding import lines_of, split_lines

_OWN = re.compile(r"#\s*amplint:\s*(?P<act>ignore-file|ignore)(?![\w-])\s*(?P<opened>\[)?", re.IGNORECASE)
_NOQA = re.compile(
    r"#\s*noqa(?![\w-])(?P<colon>\s*:)?\s*(?P<codes>[A-Z]+[0-9]*(?:[\s,]+[A-Z]+[0-9]+)*\b)?", re.IGNORECASE
)

_LIST = re.compile(r"[^\s,](?:[^,]*[^\s,])?")
_CODE = re.compile(r"[^\s,]+")
_NEXT = re.compile(r"(?<![^\s\]])#(?!\d)")
"""Where another comment begins on the line of one, and not the number of an issue."""
_ANYWHERE = re.compile(r"\b(?:pylint|isort)\s*:")
"""Words that count without a sign of their own in front."""


@dataclass(frozen=True, slots=True)
class Selector:
    """One word of a comment, such as a name between the brackets. ``text`` is ALL where a comment lists none;
    ``span`` is the word, or the comment then. ``lines`` are the lines that it is for, None for the whole
    file."""

    text: str
    span: Span
    lines: frozenset[int] | None = None
    ours: bool = True
    """False for a bare ``# noqa``, which may be meant for another linter."""


@dataclass(frozen=True)
class Suppressions:
    """What a file's comments silence."""

    selectors: tuple[Selector, ...] = ()

    def covering(self, code: str, name: str, line: int) -> list[Selector]:
        """What silences a finding that begins on this line."""
        return [
            selector
            for text, same in self._by_text.items()
            if selects((text,), code, name)
            for selector in same
            if selector.lines is None or line in selector.lines
        ]

    @cached_property
    def _by_text(self) -> dict[str, list[Selector]]:
        found: dict[str, list[Selector]] = {}
        for selector in self.selectors:
            found.setdefault(selector.text, []).append(selector)
        return found


NONE = Suppressions()


def read_suppressions(text: str) -> Suppressions:
    """The suppressions in a file's text."""
    if "amplint:" not in text and "noqa" not in text.lower():
        return NONE
    comments = [comment for comment in _comments(text) if comment.words]
    if not comments:
        return NONE
    source = lines_of(text)
    extents = _extents(text, source)
    selectors = []
    for comment in comments:
        lines = None if comment.whole_file else frozenset(_silenced_lines(comment, extents, source))
        selectors += [Selector(word, span, lines, comment.ours) for word, span in comment.words]
    return Suppressions(tuple(selectors))


@dataclass(frozen=True, slots=True)
class _Written:
    """How a comment is written, by offsets in the text of the token."""

    start: int
    end: int
    whole_file: bool = False
    says: int = 0
    """Where the word ends that says what to do."""
    listed: tuple[int, int] | None = None
    """The stretch that lists rules, if there is one."""


@lru_cache(maxsize=64)
def _ours(text: str) -> list[_Written]:
    """The comments in our own words. Brackets that nobody closes list nothing."""
    return list(_found_ours(text))


def _found_ours(text: str) -> Iterator[_Written]:
    last = text.rfind("]")
    found = _OWN.search(text)
    while found is not None:
        end, listed = found.end(), None
        if found["opened"] and end <= last:
            listed = (end, text.index("]", end))
            end = listed[1] + 1
        elif found["opened"]:
            end -= 1
        whole_file = found["act"].lower() == "ignore-file"
        yield _Written(found.start(), end, whole_file, found.end("act"), listed)
        found = _OWN.search(text, end)


@lru_cache(maxsize=64)
def _noqas(text: str) -> list[_Written]:
    """The comments in the words of other linters; those with a colon but without codes as well."""
    return list(_found_noqas(text))


def _found_noqas(text: str) -> Iterator[_Written]:
    for found in _NOQA.finditer(text):
        listed = found.span("codes") if found["codes"] else None
        yield _Written(found.start(), found.end(), says=found.end("colon"), listed=listed)


@dataclass(frozen=True, slots=True)
class _Comment:
    line: int
    own_line: bool
    whole_file: bool
    words: tuple[tuple[str, Span], ...]
    ours: bool = True


def insertions(text: str, places: Iterable[tuple[int, str]], reason: str = "") -> list[tuple[int, int, str]]:
    """What to insert into a text, as (start, end, replacement), so that rules are silenced on lines: names
    are added to a comment of ours that silences the line already, or a comment is put at the end of a line of
    the statement that may have one, one comment a statement. ``places`` are lines and names of rules."""
    source = lines_of(text)
    extents = _extents(text, source)
    tokens = _tokens(text)
    if not extents or not tokens:
        return []
    comments = {token.start[0]: token for token in tokens if token.type == tokenize.COMMENT}
    closed = _lines_without_room(tokens, source)
    starts = [0, *accumulate(map(len, split_lines(text)))]
    rooms: dict[tuple[int, int], int | None] = {}
    wanted: dict[tuple[int, int], tuple[str, set[str]]] = {}
    for line, name in places:
        found = _own_comment(comments, line, extents, source)
        if found is not None:
            number, (first, last) = found
            token = comments[number]
            known = [part.strip() for part in token.string[first:last].split(",") if part.strip()]
            place = (starts[number - 1] + token.start[1] + last, 0)
            wanted.setdefault(place, (", " if known else "", set()))[1].add(name)
            continue
        around = [extent for extent in extents if extent[0] <= line <= extent[1]]
        statement = min(around, key=lambda extent: extent[1] - extent[0], default=(line, line))
        if statement not in rooms:
            rooms[statement] = _line_with_room(line, statement, closed)
        room = rooms[statement]
        if room is not None:
            place = (starts[room - 1] + len(source[room - 1].rstrip()), 1)
            wanted.setdefault(place, ("  # amplint: ignore[", set()))[1].add(name)
    end = f"] {reason}".rstrip()
    return [
        (offset, offset, before + ", ".join(sorted(names)) + (end if is_new else ""))
        for (offset, is_new), (before, names) in sorted(wanted.items())
    ]


class Removal(NamedTuple):
    """How a word of a comment is taken away: the stretch of the text that gives way to ``left``, which is what
    stays of ``comment``."""

    start: int
    end: int
    comment: str
    left: str


def removal(text: str, word: Span) -> Removal | None:
    """What to edit for a word of a comment to be gone. With its last word goes the comment with its reason, and
    the line if there is nothing else on it; comments of other tools stay."""
    column = word.column - 1
    for token in _tokens(text):
        if token.type == tokenize.COMMENT and token.start[0] == word.line and token.start[1] <= column:
            break
    else:
        return None
    lines = split_lines(text)
    before, line = lines[: word.line - 1], lines[word.line - 1]
    first, comment = token.start[1], token.string.rstrip()
    left = _without(comment, column - first)
    start = sum(map(len, before))
    if left:
        return Removal(start + first, start + first + len(comment), comment, left)
    body = line.rstrip("\r\n")
    if line[:first].strip():
        return Removal(start + len(line[:first].rstrip()), start + len(body), comment, "")
    if body == line and before:  # the last line has no end, and so will the one before it
        last = before[-1]
        return Removal(start - len(last) + len(last.rstrip("\r\n")), start + len(line), comment, "")
    return Removal(start, start + len(line), comment, "")


def _without(comment: str, at: int) -> str:
    """A comment without the word at an offset in it."""
    for written, kind in ((_ours, _LIST), (_noqas, _CODE)):
        every = written(comment)
        number = bisect_right(every, at, key=lambda one: one.start) - 1
        if number < 0 or at >= every[number].end:
            continue
        found = every[number]
        shift, last = found.listed or (0, 0)
        words = [part.span() for part in kind.finditer(comment[shift:last])]
        starts = [shift + start for start, _ in words]
        if len(words) > 1 and at in starts:
            number = starts.index(at)
            if number + 1 < len(words):
                return comment[:at] + comment[starts[number + 1] :]
            return comment[: shift + words[-2][1]] + comment[shift + words[-1][1] :]
        after = _NEXT.search(comment, found.end)
        end = after.start() if after is not None else len(comment)
        reason = comment[found.end : end].strip()
        kept = f"# {reason}  " if _ANYWHERE.search(reason) else ""
        left = (comment[: found.start] + kept + comment[end:]).rstrip()
        return left if left.strip("# \t") else ""
    return comment


def _own_comment(
    comments: dict[int, tokenize.TokenInfo],
    line: int,
    extents: list[tuple[int, int]],
    source: list[str],
) -> tuple[int, tuple[int, int]] | None:
    """The line of a comment of ours with names in brackets that silences a line, and where it lists them."""
    for number, token in comments.items():
        for written in _ours(token.string):
            if written.listed is None or written.whole_file:
                continue
            own_line = not token.line[: token.start[1]].strip()
            if line in _silenced_lines(_Comment(number, own_line, False, ()), extents, source):
                return number, written.listed
    return None


def _lines_without_room(tokens: Sequence[tokenize.TokenInfo], source: Sequence[str]) -> set[int]:
    """The lines whose end lies in a string, or that go on after a backslash."""
    closed = {number for number, line in enumerate(source, 1) if line.endswith("\\")}
    opened: list[int] = []
    for token in tokens:
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            opened.append(token.start[0])
        elif name.endswith("STRING_END"):
            closed.update(range(opened.pop(), token.end[0]))
        elif token.type == tokenize.STRING:
            closed.update(range(token.start[0], token.end[0]))
    return closed


def _line_with_room(line: int, statement: tuple[int, int], closed: set[int]) -> int | None:
    """The line of a statement nearest to this one that may have a comment."""
    room = [number for number in range(statement[0], statement[1] + 1) if number not in closed]
    return min(room, key=lambda number: (abs(number - line), -number), default=None)


@lru_cache(maxsize=4)
def _tokens(text: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    except (tokenize.TokenError, SyntaxError):
        return []


def _comments(text: str) -> Iterator[_Comment]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                yield from _read(token)
    except (tokenize.TokenError, SyntaxError):
        return  # the file has a syntax error, which is a finding of its own


def _read(token: tokenize.TokenInfo) -> Iterator[_Comment]:
    line, start = token.start
    own_line = not token.line[:start].strip()

    def at(first: int, last: int) -> Span:
        return Span(line, start + first + 1, line, start + last + 1)

    for found in _ours(token.string):
        if found.listed is None:
            words = [(ALL, at(found.start, found.says))]
        else:
            words = _words(_LIST, token.string, found.listed, at)
        yield _Comment(line, own_line, found.whole_file, tuple(words))
    for found in _noqas(token.string):
        if found.says < 0:
            yield _Comment(line, own_line, False, ((ALL, at(found.start, found.end)),), ours=False)
        elif found.listed is not None:
            words = _words(_CODE, token.string, found.listed, at)
            ours = tuple(word for word in words if word[0].upper().startswith("AMP"))
            yield _Comment(line, own_line, False, ours)


def _words(
    kind: re.Pattern[str], text: str, listed: tuple[int, int], at: Callable[[int, int], Span]
) -> list[tuple[str, Span]]:
    """The words in a stretch of a text, with their places."""
    shift = listed[0]
    found = kind.finditer(text[slice(*listed)])
    return [(part.group(), at(shift + part.start(), shift + part.end())) for part in found]


def _silenced_lines(comment: _Comment, extents: list[tuple[int, int]], source: list[str]) -> set[int]:
    lines = {comment.line}
    around = [extent for extent in extents if extent[0] <= comment.line <= extent[1]]
    if comment.own_line and not around:
        below = comment.line + 1
        while below <= len(source) and source[below - 1].lstrip().startswith("#"):
            below += 1
        around = [extent for extent in extents if extent[0] == below]
    for first, last in around:
        lines.update(range(first, last + 1))
    return lines


def _extents(text: str, source: list[str]) -> list[tuple[int, int]]:
    """First and last line of every simple statement and of the header of every compound one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    extents = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, _BLOCKS)]
        pending.extend(inner)
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            first = _first_line(node, source)
            extents.append((first, _last_line(node, first, inner, source)))
    return extents


_BLOCKS = (ast.stmt, ast.excepthandler, ast.match_case)


def _first_line(node: ast.AST, source: Sequence[str]) -> int:
    if isinstance(node, ast.match_case):
        line = node.pattern.lineno  # a case has no place of its own, and its pattern may begin below it
        while line > 1 and not source[line - 1].lstrip().startswith("case"):
            line -= 1
        return line
    decorators = getattr(node, "decorator_list", [])
    return int(min([getattr(node, "lineno", 1), *(decorator.lineno for decorator in decorators)]))


def _last_line(node: ast.AST, first: int, inner: Sequence[ast.AST], source: list[str]) -> int:
    if not inner:
        return int(getattr(node, "end_lineno", None) or first)
    last = min(_first_line(child, source) for child in inner) - 1
    while last > first and (not (line := source[last - 1].strip()) or line.startswith("#")):
        last -= 1
    return max(first, last)
