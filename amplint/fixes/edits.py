"""Edits of a text, and where they leave what stood in it."""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from amplint.findings import Edit
from amplint.source.cells import cells_of, crosses, is_notebook
from amplint.source.decoding import split_lines


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text with the edits made."""
    pieces = []
    place = 0
    for edit in sorted(set(edits)):
        assert edit.start >= place, "edits overlap"
        pieces += [text[place : edit.start], edit.text]
        place = edit.end
    return "".join([*pieces, text[place:]])


def crosses_cells(path: str, text: str, edits: Iterable[Edit]) -> bool:
    """Whether edits of a notebook reach from one cell into another; those of any other file do not."""
    if not is_notebook(path):
        return False
    edits = tuple(edits)
    before, after = ([cell.number for cell in cells_of(one)] for one in (text, applied(text, edits)))
    return before != after or any(crosses(text, edit.start, edit.end) for edit in edits)


class Move:
    """Where the lines of a text are after edits that lie apart."""

    def __init__(self, text: str, edits: Iterable[Edit]) -> None:
        self._edits = sorted(set(edits))
        self._ends = [edit.end for edit in self._edits]
        growths = (len(edit.text) - (edit.end - edit.start) for edit in self._edits)
        self._shifts = [0, *accumulate(growths)]
        self._starts = [0, *accumulate(map(len, split_lines(text)))]
        self._new_starts = [0, *accumulate(map(len, split_lines(applied(text, self._edits))))]

    def line(self, line: int, column: int = 1, *, with_inserted: bool = False) -> int:
        """The new line of what stood at a place, or of what is put in right before it."""
        return bisect_right(self._new_starts, self.offset(line, column, with_inserted=with_inserted))

    def offset(self, line: int, column: int = 1, *, with_inserted: bool = False) -> int:
        """Where in the new text it is that stood at a place, or that is put in right before it."""
        offset = self._starts[min(line, len(self._starts)) - 1] + column - 1
        number = bisect_right(self._ends, offset)
        if with_inserted:
            while number and self._edits[number - 1].start == offset:
                number -= 1
        elif number < len(self._edits) and self._edits[number].start < offset:
            offset = self._edits[number].start
        return offset + self._shifts[number]

    def offset_in_new(self, line: int, column: int) -> int:
        """The offset of a place in the new text."""
        return self._new_starts[min(line, len(self._new_starts)) - 1] + column - 1

    def written(self) -> list[tuple[int, int]]:
        """The stretches of the new text that the edits have put there, in order."""
        starts = (edit.start + shift for edit, shift in zip(self._edits, self._shifts, strict=False))
        return [(start, start + len(edit.text)) for start, edit in zip(starts, self._edits, strict=True)]


def comments_of(text: str) -> Counter[str]:
    """The comments of a text, each with its number."""
    comments: Counter[str] = Counter()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                comments[token.string.rstrip()] += 1
    except (tokenize.TokenError, SyntaxError):
        pass  # what follows cannot be read in the text before the fix either: else it would not compile
    return comments
