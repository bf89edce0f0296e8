"""The text of a notebook: the sources of its Python cells, one after the other, as one program.

Above each cell stands a line with its number, ``'''%% cell 3'''``, which is the head of a block for a cell that begins
with an indented line, as IPython allows; and what only IPython understands, such as ``!ls``,
is the argument of a call, ``get_ipython('''!ls''')``, with as many lines as it has. So all lines of a cell stay, a
place before a magic keeps its column, names that a magic mentions are still to be found, and the text alone tells
which cell a line is in.
"""

from __future__ import annotations

import ast
import os
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

from amplint.source.decoding import split_lines

SUFFIX = ".ipynb"

_MARK = re.compile(r"(if )?'''%% cell (\d+)'''(?(1):)\n")
_STRING = r"'''(?:[^'\\\r\n]|\\[^\r\n])*'''"
_HIDDEN = re.compile(rf"get_ipython\(({_STRING}(?:,(?:\r\n|\r|\n){_STRING})*)\)")
_PIECE = re.compile(rf"({_STRING})|,(\r\n|\r|\n)")
_OURS = re.compile(r"get_ipython\('''|^(?:if )?'''%% cell ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell in the text. ``number`` counts all cells of the notebook, from 1; ``first`` is the line of the text that
    is its line 1; ``start`` and ``end`` are the offsets of its lines."""

    number: int
    first: int
    start: int
    end: int


def is_notebook(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this name is a notebook."""
    return os.fspath(path).endswith(SUFFIX)


def marked(number: int, source: str) -> str:
    """A cell as it stands in the text."""
    mark = f"'''%% cell {number}'''"
    head = f"if {mark}:" if _begins_indented(source) else mark
    return f"{head}\n{ended(source)}"


def _begins_indented(source: str) -> bool:
    """Whether the first line with code has blanks before it."""
    code = (line for line in split_lines(source) if line.strip() and not line.lstrip().startswith("#"))
    return next(code, "").startswith((" ", "\t"))


def ended(source: str) -> str:
    """The source of a cell with a line end behind its last line, if it has one."""
    return source if not source or source.endswith("\n") else f"{source}\n"


@lru_cache(maxsize=8)
def cells_of(text: str) -> tuple[Cell, ...]:
    """The cells in the text of a notebook."""
    found: list[tuple[int, int, int, int]] = []
    offset = 0
    for line, content in enumerate(split_lines(text), 1):
        mark = _MARK.fullmatch(content)
        if mark is not None:
            found.append((int(mark[2]), line + 1, offset, offset + len(content)))
        offset += len(content)
    ends = [start for _, _, start, _ in found[1:]] + [len(text)] * bool(found)
    return tuple(
        Cell(number, first, start, end) for (number, first, _, start), end in zip(found, ends, strict=True)
    )


def cell_name(path: str, cell: Cell) -> str:
    """What reports call a cell: "a.ipynb:cell 3"."""
    return f"{path}:cell {cell.number}"


def shown(text: str, cell: Cell) -> str:
    """A cell of the text as it is in the notebook, but for a line end behind it."""
    return restored(text[cell.start : cell.end])


def crosses(text: str, start: int, end: int) -> bool:
    """Whether a stretch of the text of a notebook is not within one cell."""
    return not any(cell.start <= start and end <= cell.end for cell in cells_of(text))


def cell_at(text: str, line: int) -> Cell | None:
    """The cell that a line of the text is in, or None if it is in none."""
    cells = cells_of(text)
    position = bisect_right([cell.first for cell in cells], line)
    return cells[position - 1] if position else None


def parts_of(path: str, text: str) -> list[str]:
    """What Python compiles by itself: each cell of a notebook, any other text as a whole."""
    if not is_notebook(path):
        return [text]
    cells = cells_of(text)
    starts = [0, *(cell.end for cell in cells)]
    return [text[start : cell.end] for start, cell in zip(starts, cells, strict=False)]


def line_name(path: str, text: str, line: int) -> str:
    """What messages call a line: "line 12", in a notebook "line 2 of cell 3"."""
    cell = cell_at(text, line) if is_notebook(path) else None
    return f"line {line}" if cell is None else f"line {line - cell.first + 1} of cell {cell.number}"


def hidden(source: str) -> str:
    """An expression that holds a text, line by line, without the line ends after it."""
    body = source.rstrip("\r\n")
    lines = split_lines(body)
    written = []
    for line in lines:
        content = line.rstrip("\r\n")
        end = line[len(content) :]
        written.append(_string(content) + ("," + end if end else ""))
    return f"get_ipython({''.join(written) or _string('')}){source[len(body) :]}"


def _string(content: str) -> str:
    """A text on one line as a string in quotes that say nothing of those that the notebook prefers."""
    quoted = repr('"' + content)  # which is in single quotes then
    return f"'''{quoted[2:-1]}'''"


def restored(text: str) -> str:
    """A text with what is hidden in it as it is in the notebook. It has the same lines."""
    return _HIDDEN.sub(_restored, text) if "get_ipython(" in text else text


def _restored(found: re.Match[str]) -> str:
    return "".join(
        ast.literal_eval(piece[1]) if piece[1] is not None else piece[2]
        for piece in _PIECE.finditer(found[1])
    )


def is_ambiguous(source: str) -> bool:
    """Whether the source of a cell holds what the text of a notebook has a meaning for."""
    return _OURS.search(source) is not None
