"""Places as clients count them."""

from __future__ import annotations

import pytest

pytest.importorskip("pygls", reason="the language server needs the extra lsp")

from lsprotocol.types import Position

from amplint.api import Span
from amplint.server.positions import Places

TEXT = 'a = "\N{FIRE}\xe4"\r\n\fb = 1\rc\n'


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 11), ("utf-16", 8), ("utf-32", 7)])
def test_a_column_counts_units_of_the_encoding(encoding: str, column: int) -> None:
    found = Places(TEXT, encoding).range_of(Span(1, 5, 1, 8))
    assert (found.start, found.end) == (Position(0, 4), Position(0, column))


def test_lines_end_where_they_end_for_a_client() -> None:
    places = Places(TEXT, "utf-16")
    assert places.range_between(TEXT.index("b"), TEXT.index("c")).start == Position(1, 1)
    assert places.range_between(0, TEXT.index("c")).end == Position(2, 0)


def test_what_lies_between_the_two_halves_of_a_line_end_is_before_it() -> None:
    assert Places("a\r\nb", "utf-16").range_between(2, 3).start == Position(0, 1)


@pytest.mark.parametrize(
    ("text", "end"),
    [("a\n", Position(1, 0)), ("a\nb", Position(1, 1)), ("", Position(0, 0)), ("a\r", Position(1, 0))],
)
def test_what_lies_behind_the_text_is_at_its_end(text: str, end: Position) -> None:
    places = Places(text, "utf-16")
    assert places.range_between(0, len(text)).end == end
    assert places.range_of(Span(1, 1, 9, 9)).end == end


def test_a_lone_surrogate_is_one_unit() -> None:
    assert Places("\ud800x", "utf-16").range_between(1, 2).start == Position(0, 1)
