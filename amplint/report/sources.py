"""The texts of the files that findings name, read when they are needed, and how places in them are told.

A finding in a notebook speaks of the text of all its cells. Reports for people show each cell as a file of its own,
``a.ipynb:cell 3``; reports for services, which show the file itself, have the lines of its JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from amplint.check import CheckResult
from amplint.findings import Claim, Edit, Finding, Fix, Span
from amplint.source.cells import Cell, cell_at, cell_name, cells_of, is_notebook, restored
from amplint.source.decoding import Unreadable, lines_of, read_bytes, split_lines
from amplint.source.texts import text_of

if TYPE_CHECKING:
    from amplint.source.notebooks import Notebook


class Replacement(NamedTuple):
    """A stretch of a file, by lines and columns, and what comes there."""

    span: Span
    text: str


class Sources:
    """The files of a result by the names that findings call them, and the cells of notebooks by theirs."""

    def __init__(self, result: CheckResult) -> None:
        self._result = result
        self._texts: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}
        self._file_lines: dict[str, list[str]] = {}
        self._cells: dict[str, tuple[str, Cell]] = {}
        """What cells are called -> notebook and cell."""

    def text(self, display: str) -> str:
        """The text, with the line ends that are in the file; empty if it cannot be read any more."""
        if display not in self._texts:
            self._texts[display] = self._read(display)
        return self._texts[display]

    def lines(self, display: str) -> list[str]:
        """The lines without their ends, as they are shown."""
        if display not in self._lines:
            self._lines[display] = lines_of(self.shown(display, self.text(display)))
        return self._lines[display]

    def file_lines(self, display: str) -> list[str]:
        """The lines of the file itself, without their ends: of a notebook those of its JSON."""
        notebook = self._notebook(display)
        if notebook is None:
            return self.lines(display)
        if display not in self._file_lines:
            self._file_lines[display] = lines_of(notebook.raw)
        return self._file_lines[display]

    def shown(self, display: str, text: str) -> str:
        """A piece of the text of a file as it is shown: of a cell with its magics."""
        return restored(text) if display in self._cells or is_notebook(display) else text

    def place(self, display: str, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset in the text."""
        before = self.text(display)[:offset]
        if before.endswith("\r") and self.text(display)[offset : offset + 1] == "\n":
            before = before[:-1]  # between the two halves of one line end
        lines = lines_of(before)
        return len(lines), len(lines[-1]) + 1

    def in_cell(self, finding: Finding) -> Finding:
        """A finding that speaks of the cells of notebooks as of files, such as ``a.ipynb:cell 3``; any other is the
        same."""
        return replace(
            finding,
            path=self._name(finding.path, finding.span.line),
            span=self.local(finding.path, finding.span),
            trail=tuple(
                replace(
                    step, path=self._name(step.path, step.span.line), span=self.local(step.path, step.span)
                )
                for step in finding.trail
            ),
            fix=self._fix_in_cells(finding.fix),
        )

    def cell(self, display: str, line: int) -> int:
        """The number of the cell that a line of a notebook is in; 0 for any other file."""
        found = self._cell_at(display, line)
        return found.number if found is not None else 0

    def local(self, display: str, span: Span) -> Span:
        """A span in the lines of its cell; that of any other file is the same."""
        cell = self._cell_at(display, span.line)
        if cell is None:
            return span
        shift = cell.first - 1
        return replace(span, line=span.line - shift, end_line=span.end_line - shift)

    def on_disk(self, display: str, span: Span) -> Span:
        """A span in the lines of the file: of a notebook those of its JSON."""
        notebook = self._notebook(display)
        if notebook is None:
            return span
        start = notebook.on_disk(span.line, span.column)
        return Span(*start, *max(start, notebook.on_disk(span.end_line, span.end_column)))

    def preface(self, display: str, span: Span) -> str:
        """What a message begins with whose place is shown in the JSON of a notebook: "cell 3, line 2: "."""
        cell = self.cell(display, span.line)
        return f"cell {cell}, line {self.local(display, span).line}: " if cell else ""

    def written(self, display: str, edits: Iterable[Edit]) -> list[Replacement]:
        """What edits, by offsets in the text of a file, replace in the file. Nothing where that cannot be told."""
        if not is_notebook(display):
            return [
                Replacement(Span(*self.place(display, edit.start), *self.place(display, edit.end)), edit.text)
                for edit in sorted(edits)
            ]
        notebook = self._notebook(display)
        return [] if notebook is None else _written(notebook, edits)

    def _name(self, display: str, line: int) -> str:
        cell = self._cell_at(display, line)
        return display if cell is None else self._name_of(display, cell)

    def _name_of(self, display: str, cell: Cell) -> str:
        name = cell_name(display, cell)
        if name not in self._cells:
            self._cells[name] = (display, cell)
        return name

    def _cell_at(self, display: str, line: int) -> Cell | None:
        return cell_at(self.text(display), line) if is_notebook(display) else None

    def _fix_in_cells(self, fix: Fix | None) -> Fix | None:
        if fix is None or not any(is_notebook(path) for path, _ in fix.bases):
            return fix
        return replace(
            fix,
            edits=tuple(map(self._edit_in_cell, fix.edits)),
            claims=tuple(map(self._claim_in_cell, fix.claims)),
            minimum=self._fix_in_cells(fix.minimum),
        )

    def _edit_in_cell(self, edit: Edit) -> Edit:
        cells = cells_of(self.text(edit.path)) if is_notebook(edit.path) else ()
        cell = next((cell for cell in reversed(cells) if cell.start <= edit.start), None)
        if cell is None:
            return edit
        return Edit(self._name_of(edit.path, cell), edit.start - cell.start, edit.end - cell.start, edit.text)

    def _claim_in_cell(self, claim: Claim) -> Claim:
        cell = self._cell_at(claim.path, claim.first)
        if cell is None:
            return claim
        shift = cell.first - 1
        return Claim(self._name_of(claim.path, cell), claim.first - shift, claim.last - shift)

    def _notebook(self, display: str) -> Notebook | None:
        if not is_notebook(display):
            return None
        from amplint.source.notebooks import read_notebook

        try:
            return read_notebook(self._data(display))
        except Unreadable:
            return None

    def _read(self, display: str) -> str:
        try:
            if display in self._cells:
                path, cell = self._cells[display]
                return self.text(path)[cell.start : cell.end]
            return text_of(self._data(display), display)
        except Unreadable:
            return ""

    def _data(self, display: str) -> bytes:
        """The bytes of a file. Raises Unreadable."""
        known = self._result.contents.get(display)
        return read_bytes(self._result.sources.get(display, display)) if known is None else known


def _written(notebook: Notebook, edits: Iterable[Edit]) -> list[Replacement]:
    from amplint.fixes.edits import applied
    from amplint.source.notebooks import Unchangeable

    try:
        changes = notebook.changes(applied(notebook.text, edits))
    except Unchangeable:
        return []
    return [_smallest(notebook.raw, *change) for change in changes]


def _smallest(raw: str, start: int, end: int, new: str) -> Replacement:
    """A replacement without what stays of the text before and after it."""
    first = _shared(raw[start:end], new)
    old, new = raw[start + first : end], new[first:]
    same = _shared(old[::-1], new[::-1])
    places = (*_place(raw, start + first), *_place(raw, end - same))
    return Replacement(Span(*places), new[: len(new) - same])


def _shared(one: str, other: str) -> int:
    """With how many characters both texts begin."""
    differing = (at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its)
    return next(differing, min(len(one), len(other)))


def _place(text: str, offset: int) -> tuple[int, int]:
    lines = split_lines(text[:offset] + "x")
    return len(lines), len(lines[-1])
