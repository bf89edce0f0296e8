"""Edits of a text, and where they leave what stood in it."""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from amplint.findings import Edit
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


class Move:
    """Where the lines of a text are after edits."""

    def __init__(self, text: str, edits: Iterable[Edit]) -> None:
        self._edits = sorted(set(edits))
        self._starts = [0, *accumulate(map(len, split_lines(text)))]
        self._new_starts = [0, *accumulate(map(len, split_lines(applied(text, self._edits))))]

    def line(self, line: int, column: int = 1) -> int:
        """The new line of what stood at a place."""
        offset = self._starts[min(line, len(self._starts)) - 1] + column - 1
        shift = 0
        for edit in self._edits:
            if edit.end <= offset:
                shift += len(edit.text) - (edit.end - edit.start)
            elif edit.start < offset:
                offset = edit.start
        return bisect_right(self._new_starts, offset + shift) if self._new_starts else 1


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
