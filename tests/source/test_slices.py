from __future__ import annotations

import libcst as cst
import libcst.matchers as matchers
import pytest

from amplint.findings import Span
from amplint.source.decoding import split_lines
from amplint.source.slices import Slice


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\nb\n", ["a\n", "b\n"]),
        ("a\r\nb\r\n", ["a\r\n", "b\r\n"]),
        ("a\rb\r", ["a\r", "b\r"]),
        ("a\r\rb\n", ["a\r", "\r", "b\n"]),
        ("a\n\r\nb\rc", ["a\n", "\r\n", "b\r", "c"]),
        ("a\fb\n", ["a\fb\n"]),
        ("a\u2028b\x0bc\x85d\n", ["a\u2028b\x0bc\x85d\n"]),
    ],
)
def test_lines_end_where_python_says(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines
    assert "".join(lines) == text


def name(piece: Slice, text: str) -> cst.CSTNode:
    return matchers.findall(piece.module, matchers.Name(text))[0]


TEXT = """\
import a

def f():
    first = 1
    return first

class C:
    def m(self):
        ä = 'ö'; second = 2
"""


@pytest.mark.parametrize(
    ("first", "last", "word", "span"),
    [
        (1, 1, "a", Span(1, 8, 1, 9)),
        (3, 5, "first", Span(4, 5, 4, 10)),
        (4, 5, "first", Span(4, 5, 4, 10)),
        (8, 9, "second", Span(9, 18, 9, 24)),
        (9, 9, "second", Span(9, 18, 9, 24)),
    ],
)
def test_places_are_those_of_the_file(first: int, last: int, word: str, span: Span) -> None:
    piece = Slice(split_lines(TEXT), first, last)
    assert piece.span(name(piece, word)) == span


def test_the_body_of_an_indented_piece_is_what_was_cut_out() -> None:
    (function,) = Slice(split_lines(TEXT), 8, 9).body
    assert isinstance(function, cst.FunctionDef)
    assert function.name.value == "m"


def test_the_body_of_several_statements() -> None:
    assert len(Slice(split_lines(TEXT), 4, 5).body) == 2


def test_a_piece_keeps_its_text() -> None:
    assert Slice(split_lines(TEXT), 4, 5).text == "    first = 1\n    return first\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_of_any_kind(newline: str) -> None:
    piece = Slice(split_lines(TEXT.replace("\n", newline)), 4, 5)
    assert piece.span(name(piece, "first")) == Span(4, 5, 4, 10)


def test_tabs_count_as_one_column() -> None:
    piece = Slice(["if a:\n", "\tx = 1\n"], 2, 2)
    assert piece.span(name(piece, "x")) == Span(2, 2, 2, 3)


def test_strings_over_several_lines_are_not_shifted() -> None:
    piece = Slice(["class C:\n", "    x = '''\n", "left\n", "'''\n", "    y = 1\n"], 2, 5)
    assert piece.span(name(piece, "y")) == Span(5, 5, 5, 6)


def test_code_is_on_one_line_and_not_long() -> None:
    piece = Slice(["f(\n", "    a,\n", "    b)\n"], 1, 3)
    assert piece.code(piece.body[0]) == "f( a, b)"
    long = Slice([f"x = {'a' * 90}\n"], 1, 1)
    assert len(long.code(long.body[0])) == 60


def test_what_is_no_python_is_told() -> None:
    with pytest.raises(cst.ParserSyntaxError):
        Slice(["x = (\n"], 1, 1)
