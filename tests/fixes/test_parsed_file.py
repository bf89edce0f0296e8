"""Changes of a tree become edits of the text, and nothing else of the text moves."""

from __future__ import annotations

import libcst as cst
import pytest

from amplint.findings import Edit, Span
from amplint.fixes.parsed import ParsedFile, Refusal


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


class _Renamed(cst.CSTTransformer):
    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value="new") if original_node.value == "old" else updated_node


TEXTS = {
    "CRLF": "def f():\r\n\told()\r\n",
    "mixed line ends": "a\r\nold\nb\rold",
    "form feeds": "\f\na\n\fold = 1\n\f\n\fdef f():\n    return old\n",
    "a blank line after a semicolon": "a;\n\n    # comment\nold\n",
    "no final newline": "if a:\n    old",
    "wide characters": "x = '\U0001f600', old, 'é'\n",
    "odd spacing": "f( a ,\n\told  # c\n   , ) ;  old\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_only_what_the_tree_says_is_changed(text: str) -> None:
    file = ParsedFile("a.py", text)
    edits = file.edits(file.module.visit(_Renamed()))
    assert applied(text, edits) == text.replace("old", "new")


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_nodes_stand_where_their_text_is(text: str) -> None:
    file = ParsedFile("a.py", text)
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    names = file.inside(cst.Name, Span(1, 1, len(lines), len(lines[-1]) + 1))
    assert {name.value for name in names} >= {"old"}
    for name in names:
        span = file.span(name)
        assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == name.value
        assert file.find(cst.Name, span) is name


def test_an_unchanged_tree_needs_no_edit() -> None:
    for text in TEXTS.values():
        file = ParsedFile("a.py", text)
        assert file.edits(file.module) == ()


def test_lines_that_move_out_are_edited_in_their_indentation_alone() -> None:
    text = "with region():\n    f()  # one\n\n    g(\n      1)\nend()\n"
    file = ParsedFile("a.py", text)
    region = file.find(cst.With, Span(1, 1, 5, 9))
    assert region is not None
    edits = file.edits(file.module.with_changes(body=[*region.body.body, *file.module.body[1:]]))
    assert applied(text, edits) == "f()  # one\n\ng(\n  1)\nend()\n"
    assert [(edit.end - edit.start, edit.text) for edit in edits][1:] == [(4, "")] * 3


def test_around_and_statement() -> None:
    text = "with a:\n    if b:\n        c(d)\n"
    file = ParsedFile("a.py", text)
    name = file.find(cst.Name, Span(3, 11, 3, 12))
    assert name is not None
    assert file.code(file.statement(name)).strip() == "c(d)"
    region = file.around(cst.With, file.span(name))
    assert region is file.module.body[0]
    assert file.claim(region) == ("a.py", 1, 3)


def test_a_text_that_libcst_cannot_parse_is_refused() -> None:
    with pytest.raises(Refusal):
        ParsedFile("a.py", "with :\n")


def test_what_libcst_loses_inside_of_a_change_is_refused() -> None:
    file = ParsedFile("a.py", "a\nc\n\fold = 1\nb\n")
    with pytest.raises(Refusal, match="form feed"):
        file.edits(cst.parse_module("a\nb\n"))
