"""Notebooks as files: from JSON to the text of their Python cells, and back into the very places it comes from.

Only the ``source`` values of cells that have changed are written anew, line by line; every other byte stays.

A text that would not be read back as the same cells is refused.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from amplint.source.cells import cell_at, cells_of, ended, hidden, is_ambiguous, marked, shown
from amplint.source.decoding import Unreadable, decode, split_lines
from amplint.source.magics import python_of

_OLDEST = 4
"""The first nbformat with a list of cells; it came in 2014."""
_MARK = b"\xef\xbb\xbf"
_BLANK = re.compile(r"[ \t\r\n]*")
_UNIT = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
"""What stands for one character in a string of JSON."""
_ESCAPED = re.compile(r"\\u(?!00[0-7])[0-9a-fA-F]{4}")
_DECODER = json.JSONDecoder()


class Unchangeable(Exception):  # noqa: N818
    """A text is none that these cells can have; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Source(NamedTuple):
    """A ``source`` value: its offsets in the JSON, and the text it stands for."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Notebook:
    """A notebook that was read. ``raw`` is its JSON, without a byte order mark."""

    raw: str
    text: str
    """Its Python cells as one program (``amplint.source.cells``)."""
    flaws: tuple[Unreadable, ...]
    """Why cells cannot be parsed, each with its place in the text. They are hidden there."""
    sources: dict[int, Source]
    """By the number of the cell."""

    def on_disk(self, line: int, column: int) -> tuple[int, int]:
        """Line and column in the JSON for those in the text, from 1."""
        cell = cell_at(self.text, line)
        if cell is None:
            return 1, 1
        source = self.sources[cell.number]
        lines = split_lines(source.text)
        above = lines[: line - cell.first]
        here = lines[line - cell.first].rstrip("\r\n") if line - cell.first < len(lines) else ""
        offset = sum(map(len, above)) + min(column - 1, len(here))
        places = _places(self.raw, source)
        at = places[offset][0] if offset < len(places) else [(0, source.start), *places][-1][1]
        before = split_lines(self.raw[:at] + "x")
        return len(before), len(before[-1])

    def changes(self, text: str) -> list[tuple[int, int, str]]:
        """What to replace in the JSON for the cells to be those of a changed text: from where to where, by what. Raises
        Unchangeable."""
        cells = cells_of(text)
        if [cell.number for cell in cells] != [cell.number for cell in cells_of(self.text)]:
            raise Unchangeable("the change would reach from one cell into another")
        found = []
        for cell in cells:
            source = self.sources[cell.number]
            new = shown(text, cell)
            if not source.text.endswith("\n") and ended(new[:-1]) == new:
                new = new[:-1]
            if new != source.text:
                found.append((source.start, source.end, _rewritten(self.raw, source, new)))
        return found

    def with_text(self, text: str) -> str:
        """The JSON with the cells that a changed text has. Raises Unchangeable."""
        pieces, at = [], 0
        for start, end, new in self.changes(text):
            pieces += [self.raw[at:start], new]
            at = end
        return "".join([*pieces, self.raw[at:]])


@lru_cache(maxsize=4)
def read_notebook(data: bytes) -> Notebook:
    """The notebook that the bytes of a file are; without text if its kernel speaks another language than Python. Raises
    Unreadable."""
    raw = decode_json(data)
    document = _parsed(raw)
    if not _speaks_python(document):
        return Notebook(raw, "", (), {})
    pieces, flaws, sources = [], [], {}
    line = 1
    for number, (cell, source) in enumerate(_cells(raw, document), 1):
        if not _is_python(cell) or source is None:
            continue
        try:
            if is_ambiguous(source.text):
                raise Unreadable("it has marks of amplint's own in it")
            code = python_of(source.text)
        except Unreadable as error:
            message = f"this cell is not read: {error.message}"
            flaws.append(Unreadable(message, line + error.line, error.column))
            code = hidden(source.text)
        if code is None:
            continue
        sources[number] = source
        pieces.append(marked(number, code))
        line += len(split_lines(pieces[-1]))
    return Notebook(raw, "".join(pieces), tuple(flaws), sources)


def decode_json(data: bytes) -> str:
    """The JSON of a notebook, without a byte order mark. Raises Unreadable."""
    try:
        return data.removeprefix(_MARK).decode("utf-8")
    except UnicodeDecodeError:
        return decode(data)  # which says where


def written(text: str, like: bytes) -> bytes:
    """The bytes of a notebook whose cells have a text now, but are otherwise those of ``like``. Raises Unchangeable,
    and Unreadable for bytes that are no notebook."""
    mark = _MARK if like.startswith(_MARK) else b""
    data = mark + read_notebook(like).with_text(text).encode("utf-8", "surrogatepass")
    if read_notebook(data).text != text:
        raise Unchangeable("IPython would not read the cells like this")
    return data


def _parsed(raw: str) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except json.JSONDecodeError as error:
        raise Unreadable(f"the notebook is no JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:
        raise Unreadable(f"the notebook cannot be read: {error}") from None
    except RecursionError:
        raise Unreadable("the notebook cannot be read: it is nested too deeply") from None
    if not isinstance(document, dict):
        raise Unreadable("the file is no notebook: its JSON is no object")
    version = document.get("nbformat", _OLDEST)
    if not isinstance(version, int) or version < _OLDEST:
        raise Unreadable(
            f"the notebook has the format of version {version}, which is not read; "
            "`jupyter nbconvert --to notebook --inplace` converts it"
        )
    if not isinstance(document.get("cells"), list):
        raise Unreadable("the file is no notebook: it has no list of cells")
    return document


def _speaks_python(document: dict[str, Any]) -> bool:
    """What the notebook says of its kernel, if anything."""
    metadata = _object(document.get("metadata"))
    told = _object(metadata.get("language_info")).get("name") or _object(metadata.get("kernelspec")).get(
        "language"
    )
    return not isinstance(told, str) or told.lower().startswith(("python", "ipython"))


def _is_python(cell: dict[str, Any]) -> bool:
    """Whether a cell has code of the kernel; editors may mark one as of another language."""
    editor = _object(_object(cell.get("metadata")).get("vscode"))
    return cell.get("cell_type") == "code" and editor.get("languageId", "python") == "python"


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _cells(raw: str, document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Source | None]]:
    """The cells with the places of their sources. The JSON is known to be good."""
    start = 0
    for key, at, _, _ in _members(raw, _BLANK.match(raw, 0).end()):  # type: ignore[union-attr]
        if key == "cells":
            start = at
    for cell, at in zip(document["cells"], _elements(raw, start), strict=True):
        source = None
        for key, first, end, value in _members(raw, at) if isinstance(cell, dict) else ():
            if key == "source":
                lines = [value] if isinstance(value, str) else value
                is_text = isinstance(lines, list) and all(isinstance(line, str) for line in lines)
                source = Source(first, end, "".join(lines)) if is_text else None
        yield _object(cell), source


def _members(raw: str, start: int) -> Iterator[tuple[str, int, int, Any]]:
    """Key, beginning, end and value of each member of the object at an offset."""
    at = _skipped(raw, start + 1)
    while raw[at] != "}":
        key, at = _DECODER.raw_decode(raw, at)
        first = _skipped(raw, _skipped(raw, at) + 1)
        value, end = _DECODER.raw_decode(raw, first)
        yield key, first, end, value
        at = _skipped(raw, end)
        if raw[at] == ",":
            at = _skipped(raw, at + 1)


def _elements(raw: str, start: int) -> Iterator[int]:
    """Where each element of the array at an offset begins."""
    at = _skipped(raw, start + 1)
    while raw[at] != "]":
        yield at
        _, end = _DECODER.raw_decode(raw, at)
        at = _skipped(raw, end)
        if raw[at] == ",":
            at = _skipped(raw, at + 1)


def _skipped(raw: str, at: int) -> int:
    found = _BLANK.match(raw, at)
    return at if found is None else found.end()


def _places(raw: str, source: Source) -> list[tuple[int, int]]:
    """Where each character of a source stands in the JSON: from where to where."""
    starts = [source.start] if raw[source.start] == '"' else _elements(raw, source.start)
    places = []
    for start in starts:
        _, end = _DECODER.raw_decode(raw, start)
        places += [found.span() for found in _UNIT.finditer(raw, start + 1, end - 1)]
    return places


def _rewritten(raw: str, source: Source, new: str) -> str:
    """The ``source`` value with another text. Lines that stay keep their spelling, a list stays a list."""
    places = _places(raw, source)
    if not places or not new:
        return json.dumps(new if raw[source.start] == '"' else split_lines(new))
    lines = split_lines(source.text)
    between = _separator(raw, source, places)
    known: list[tuple[str, str]] = []
    """Of each line, as the JSON has it, what it is and what parts it from the next."""
    at = 0
    for line in lines:
        end = at + len(line)
        parted = raw[places[end - 1][1] : places[end][0]] if end < len(places) else between
        known.append((raw[places[at][0] : places[end - 1][1]], parted))
        at = end
    ascii_only = raw.isascii() and _ESCAPED.search(raw) is not None
    wanted = split_lines(new)
    written_lines: list[tuple[str, str]] = []
    matcher = difflib.SequenceMatcher(None, lines, wanted, autojunk=False)
    for tag, start, stop, first, last in matcher.get_opcodes():
        if tag == "equal":
            written_lines += known[start:stop]
        else:
            written_lines += [
                (json.dumps(line, ensure_ascii=ascii_only)[1:-1], between) for line in wanted[first:last]
            ]
    body = "".join(text + parted for text, parted in written_lines)
    body = body.removesuffix(written_lines[-1][1])
    return raw[source.start : places[0][0]] + body + raw[places[-1][1] : source.end]


def _separator(raw: str, source: Source, places: list[tuple[int, int]]) -> str:
    """What parts two lines in the JSON: nothing inside one string, else what stands between the first two, or what
    would in a list with one line."""
    if raw[source.start] == '"':
        return ""
    found = (raw[end:start] for (_, end), (start, _) in pairwise(places) if end != start)
    return next(found, '",' + (raw[source.start + 1 : places[0][0] - 1] or " ") + '"')
