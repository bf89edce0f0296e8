"""Source lines with marks below them, aligned in a terminal whatever the lines hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amplint.findings import Span
from amplint.report.text import Style, shown, width_of

_TAB = 4
_FEW_LINES = 4
"""A marked stretch of more lines than this is marked on its first line only."""
LONGEST = 5_000
"""A line of more characters is not shown: a program wrote it."""
_WIDEST = 160
"""Columns of source shown where the width of the terminal is unknown."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch to underline, and what to write beside it. The primary mark has carets, the others dashes."""

    span: Span
    label: str
    primary: bool


def frame(source: Sequence[str], marks: Sequence[Mark], style: Style, color: str, gutter: int) -> list[str]:
    """The marked lines of a file, with numbers in a gutter of the given width; none if the file has none of
    them. Left-out lines in between are shown as dots, a single one as itself."""
    marks = [
        mark
        for mark in marks
        if 0 < mark.span.line <= len(source) and len(source[mark.span.line - 1]) <= LONGEST
    ]
    if not marks:
        return []
    by_line: dict[int, list[Mark]] = {}
    for mark in sorted(marks, key=lambda mark: (mark.span.line, mark.primary)):
        for line in _marked_lines(mark.span, len(source)):
            by_line.setdefault(line, []).append(mark)
    wall = style.paint("|", "blue")
    lines = [f"{' ' * gutter} {wall}"]
    previous = min(by_line) - 1
    for number in sorted(by_line):
        if number - previous == 2:
            lines.append(_source_line(number - 1, source, [], style, gutter)[0])
        elif number - previous > 2:
            lines.append(style.paint("...", "blue"))
        text, window = _source_line(number, source, by_line[number], style, gutter)
        lines.append(text)
        for mark in by_line[number]:
            lines.append(
                f"{' ' * gutter} {wall} {_underline(number, source, mark, window, style, color)}".rstrip()
            )
        previous = number
    lines.append(f"{' ' * gutter} {wall}")
    return lines


def _marked_lines(span: Span, count: int) -> range:
    last = min(span.end_line, count)
    if span.end_column == 1 and last > span.line:
        last -= 1  # it ends before the first character of that line
    return range(span.line, last + 1) if last - span.line < _FEW_LINES else range(span.line, span.line + 1)


@dataclass(frozen=True, slots=True)
class _Window:
    """The columns of a rendered line that are shown; long lines are cut around what is marked."""

    start: int
    end: int


def _source_line(
    number: int, source: Sequence[str], marks: Sequence[Mark], style: Style, gutter: int
) -> tuple[str, _Window]:
    cells = _cells(source[number - 1].rstrip())
    window = _window(number, source, cells, marks, style, gutter)
    text, column = "", 0
    for cell, width in cells:
        if window.start <= column and column + width <= window.end:
            text += cell
        column += width
    cut_left, cut_right = window.start > 0, column > window.end
    text = ("…" if cut_left else "") + text + ("…" if cut_right else "")
    number_text = style.paint(f"{number:>{gutter}}", "blue")
    return f"{number_text} {style.paint('|', 'blue')} {text}".rstrip(), window


def _window(
    number: int,
    source: Sequence[str],
    cells: Sequence[tuple[str, int]],
    marks: Sequence[Mark],
    style: Style,
    gutter: int,
) -> _Window:
    room = max((style.width or _WIDEST) - gutter - 5, 20)
    total = sum(width for _, width in cells)
    if total <= room:
        return _Window(0, total)
    first = min((_columns(number, source, mark)[0] for mark in marks), default=0)
    if first < room * 3 // 4:
        return _Window(0, room)
    wanted = first - room // 4
    column = 0
    for _, width in cells:  # do not begin in the middle of a wide character or an escape
        if column >= wanted:
            break
        column += width
    return _Window(column, column + room)


def _underline(
    number: int, source: Sequence[str], mark: Mark, window: _Window, style: Style, color: str
) -> str:
    start, end = _columns(number, source, mark)
    shift = 1 if window.start else 0
    start = min(max(start, window.start), window.end) - window.start + shift
    end = max(min(end, window.end) - window.start + shift, start + 1)
    line = ("^" if mark.primary else "-") * (end - start)
    painted = style.paint(line, color if mark.primary else "blue")
    last = _marked_lines(mark.span, len(source))[-1]
    label = "".join(shown(character) for character in mark.label) if number == last else ""
    if mark.span.end_line > last + 1 and not mark.primary:
        label += f" (to line {mark.span.end_line})"
    return " " * start + painted + (" " + style.paint(label.strip(), "blue") if label else "")


def _columns(number: int, source: Sequence[str], mark: Mark) -> tuple[int, int]:
    """The columns of the rendered line between which the mark lies."""
    text = source[number - 1].rstrip()
    span = mark.span
    blank = len(text) - len(text.lstrip())
    first = span.column - 1 if number == span.line else blank
    last = span.end_column - 1 if number == span.end_line else len(text)
    cells = _cells(text)
    before = sum(width for _, width in cells[:first]) + max(first - len(cells), 0)
    return before, before + max(sum(width for _, width in cells[first:last]), 1)


def _cells(text: str) -> list[tuple[str, int]]:
    """Each character as it is shown, with the columns that it takes."""
    cells: list[tuple[str, int]] = []
    column = 0
    for character in text:
        if character == "\t":
            width = _TAB - column % _TAB
            cell = " " * width
        else:
            cell = shown(character)
            width = width_of(cell) if len(cell) == 1 else len(cell)
        cells.append((cell, width))
        column += width
    return cells
