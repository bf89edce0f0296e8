"""Changes as people read them: unified diffs, and the small one below a finding."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from amplint.findings import Fix
from amplint.fixes.edits import applied
from amplint.report.frame import LONGEST
from amplint.report.sources import Sources
from amplint.report.text import Style, escaped
from amplint.source.decoding import split_lines

_CONTEXT = 1
"""Lines around a change below a finding."""


def unified_diff(name: str, before: str, after: str, style: Style) -> str:
    """The difference between two texts as ``git diff`` and ``patch -p1`` know it. Where it does not go to a
    terminal, tabs, form feeds and carriage returns stay, so that it can be applied; all other control
    characters are escaped."""
    kept = "\t" if style.color or style.width else "\t\f\r"
    lines = difflib.unified_diff(
        split_lines(before), split_lines(after), f"a/{escaped(name)}", f"b/{escaped(name)}"
    )
    result = []
    for number, line in enumerate(lines):
        body = line.rstrip("\n")
        text = body if number < 2 else _shown(body.rstrip("\r") if "\r" not in kept else body, kept)
        result.append(style.paint(text, _color(line, number)) + "\n")
        if not line.endswith(("\n", "\r")):
            result.append("\\ No newline at end of file\n")
    return "".join(result)


def _color(line: str, number: int) -> str:
    if number < 2:
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "plain")


def _shown(text: str, kept: str) -> str:
    return "".join(character if character in kept else escaped(character) for character in text)


class Row(NamedTuple):
    """A line below a fix: with its number, if it is one of the file, and a sign: ``|`` for one that stays, ``-`` for
    one that goes, ``+`` for a new one; or, without a sign, dots for lines that are left out."""

    number: int | None
    sign: str
    text: str


_DOTS = Row(None, "", "...")


@lru_cache(maxsize=4)
def _lines(text: str) -> Sequence[str]:
    """The lines of a whole file, of which many fixes change something."""
    return split_lines(text)


def changes(fix: Fix, sources: Sources) -> list[tuple[str, list[Row]]]:
    """What a fix changes, piece by piece, each with the path of its file and a line of context."""
    found: list[tuple[str, list[Row]]] = []
    for claim in fix.claims:
        text = sources.text(claim.path)
        source = _lines(text)
        starts = [0, *accumulate(map(len, source))]
        if claim.last > len(starts):
            continue  # the file is no longer what was read
        begin, end = starts[claim.first - 1], starts[min(claim.last, len(source))]
        if any(len(line) > LONGEST for line in source[claim.first - 1 : claim.last]):
            continue
        edits = [
            replace(edit, start=edit.start - begin, end=edit.end - begin)
            for edit in fix.edits
            if edit.path == claim.path
            and begin <= edit.start
            and (edit.start < end or edit.start == end == len(text))
        ]
        new = split_lines(sources.shown(claim.path, applied(text[begin:end], edits)))
        old = _lines(sources.shown(claim.path, text))
        piece = list(_piece(old, claim.first, claim.last, new))
        if piece:
            found.append((claim.path, piece))
    return found


def size_of(pieces: Sequence[tuple[str, Sequence[Row]]]) -> int:
    """How many lines go or come."""
    return sum(row.sign in ("-", "+") for _, rows in pieces for row in rows)


def fix_lines(pieces: Sequence[tuple[str, Sequence[Row]]], path: str, style: Style, gutter: int) -> list[str]:
    """Changes as they are shown. Pieces of other files than ``path`` have the name above them."""
    wall = style.paint("|", "blue")
    lines: list[str] = []
    previous = path
    for name, rows in pieces:
        if name != previous:
            first = next(row.number for row in rows if row.number is not None)
            lines.append(f"{' ' * gutter}{style.paint(' ::: ', 'blue')}{escaped(name)}:{first}")
        elif lines:
            lines.append(style.paint("...", "blue"))
        previous = name
        lines += [_shown_row(row, style, gutter) for row in rows]
    return [f"{' ' * gutter} {wall}", *lines, f"{' ' * gutter} {wall}"] if lines else []


def _piece(source: Sequence[str], first: int, last: int, new: Sequence[str]) -> Iterator[Row]:
    old = list(source[first - 1 : last])
    before = list(source[max(first - 1 - _CONTEXT, 0) : first - 1])
    after = list(source[last : last + _CONTEXT])
    old, new = before + old + after, before + list(new) + after
    offset = first - len(before)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    groups = list(matcher.get_grouped_opcodes(_CONTEXT))
    for position, group in enumerate(groups):
        if position:
            yield _DOTS
        for tag, start, stop, new_start, new_stop in group:
            if tag == "equal":
                for number in range(start, stop):
                    yield Row(offset + number, "|", old[number])
                continue
            for number in range(start, stop):
                yield Row(offset + number, "-", old[number])
            for number in range(new_start, new_stop):
                yield Row(None, "+", new[number])


def _shown_row(row: Row, style: Style, gutter: int) -> str:
    if not row.sign:
        return style.paint(row.text, "blue")
    color = {"-": "red", "+": "green"}.get(row.sign, "blue")
    text = escaped(row.text.rstrip("\r\n").expandtabs(4)).rstrip()
    shown = style.paint(f"{row.number if row.number is not None else '':>{gutter}}", "blue")
    if row.sign != "|":
        text = style.paint(text, color)
    return f"{shown} {style.paint(row.sign, color)} {text}".rstrip()
