from __future__ import annotations

import pytest

from amplint.source.suppressions import read_suppressions, removal

RULE = ("AMP101", "backward-in-autocast")


def silenced(text: str) -> list[int]:
    """The lines on which backward-in-autocast is silenced."""
    suppressions = read_suppressions(text)
    return [line for line in range(1, text.count("\n") + 2) if suppressions.covering(*RULE, line)]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: E501",
        "# noqa: E501,W291 and AMP101 in words",
        "# noqa: because",
        "# noqa-something",
        "# flake8: noqa",
        "# ruff: noqa",
        "# noqa: AMP102",
        "# amplint: ignore[half-model]",
        "# amplint: ignore[]",
        "# amplint: ignored",
        "# amplint ignore",
        "'# noqa: AMP101'",
        '"# amplint: ignore"',
    ],
)
def test_what_silences_nothing_of_ours(comment: str) -> None:
    assert silenced(f"x = 1; {comment}\n") == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# NoQA",
        "# noqa: AMP101",
        "# noqa:E501,AMP101",
        "# noqa: E501 AMP101",
        "# noqa: AMP1",
        "# type: ignore # noqa: AMP101 # pylint: disable=all",
        "# amplint: ignore",
        "#amplint:ignore[AMP101]",
        "# amplint: ignore[backward-in-autocast] the loss is tiny",
        "# amplint: ignore[half-model, backward-in-autocast]",
        "# amplint: ignore[AMP10]",
        "# amplint: ignore[ALL]",
    ],
)
def test_what_silences_a_line(comment: str) -> None:
    assert silenced(f"x = 0\ny = 1  {comment}\nz = 2\n") == [2]


STATEMENTS = {
    "several lines are one statement": ("f(\n    a,  # noqa\n    b,\n)\ng()\n", [1, 2, 3, 4]),
    "the header of a with": ("with (\n    a(),\n):  # noqa\n    f()\n", [1, 2, 3]),
    "not the body of a with": ("with a():\n    f()  # noqa\n    g()\n", [2]),
    "decorators and def": ("@a  # noqa\n@b\ndef f(\n    x\n):\n    g()\n", [1, 2, 3, 4, 5]),
    "a comment line above": ("f()\n# noqa\n# a reason\ng(\n)\nh()\n", [2, 4, 5]),
    "not over an empty line": ("# noqa\n\ng()\n", [1]),
    "a comment line within": ("f(\n    # noqa\n    a,\n)\n", [1, 2, 3, 4]),
    "a comment line at the top of a body": ("with a():\n    # noqa\n    f()\n    g()\n", [2, 3]),
    "after a string of several lines": ('x = """\n# no comment\n"""  # noqa\n', [1, 2, 3]),
    "one-line compound": ("with a(): f()  # noqa\n", [1]),
    "elif": ("if a:\n    f()\nelif (\n    b  # noqa\n):\n    g()\n", [3, 4, 5]),
    "except": ("try:\n    f()\nexcept (\n    E,  # noqa\n):\n    g()\n", [3, 4, 5]),
    "case": ("match x:\n    case (\n        1  # noqa\n    ):\n        g()\n", [2, 3, 4]),
    "form feed": ("x = 1\n\f\nf(\n)  # noqa\n", [3, 4]),
    "CRLF": ("f(\r\n)  # noqa\r\ng()\r\n", [1, 2]),
}


@pytest.mark.parametrize(("text", "lines"), STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_comment_silences_its_statement(text: str, lines: list[int]) -> None:
    assert silenced(text) == lines


def test_ignore_file() -> None:
    assert silenced("x = 1\n# amplint: ignore-file\ny = 2") == [1, 2, 3]
    assert silenced("# amplint: ignore-file[AMP1] generated\n") == [1, 2]
    assert silenced("# amplint: ignore-file[AMP2]\n") == []


def test_broken_code_silences_line_by_line() -> None:
    assert silenced("f(  # noqa\n") == [1]
    assert silenced("x = 1  # noqa\n  y = ]\n") == [1]


@pytest.mark.parametrize(
    ("text", "number", "after"),
    [
        ("x = 1  # amplint: ignore[a]\n", 0, "x = 1\n"),
        ("x = 1  # amplint: ignore[a] for now \ny = 2\n", 0, "x = 1\ny = 2\n"),
        ("x = 1  # amplint: ignore[a, b, c]\n", 0, "x = 1  # amplint: ignore[b, c]\n"),
        ("x = 1  # amplint: ignore[a, b, c] why\n", 1, "x = 1  # amplint: ignore[a, c] why\n"),
        ("x = 1  # amplint: ignore[a, b, c]\n", 2, "x = 1  # amplint: ignore[a, b]\n"),
        ("x = 1  # amplint: ignore[a], see #12\n", 0, "x = 1\n"),
        ("x = 1  # amplint: ignore\n", 0, "x = 1\n"),
        ("x = 1  # type: ignore  # amplint: ignore[a]\n", 0, "x = 1  # type: ignore\n"),
        ("x = 1  # amplint: ignore[a] why # noqa: E501\n", 0, "x = 1  # noqa: E501\n"),
        ("x = 1  # amplint: ignore[a] pylint: disable=b\n", 0, "x = 1  # pylint: disable=b\n"),
        ("x = 1  # words # amplint: ignore[a] # fmt: skip\n", 0, "x = 1  # words # fmt: skip\n"),
        ("x = 1  # amplint: ignore[a] # amplint: ignore[b]\n", 1, "x = 1  # amplint: ignore[a]\n"),
        ("x = 1  # noqa: AMP101\n", 0, "x = 1\n"),
        ("x = 1  # noqa: AMP101, E501\n", 0, "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: E501 AMP101 why\n", 0, "x = 1  # noqa: E501 why\n"),
        ("# amplint: ignore[a]\nx = 1\n", 0, "x = 1\n"),
        ("if x:\r\n    # amplint: ignore-file[a]\r\n    y = 1\r\n", 0, "if x:\r\n    y = 1\r\n"),
        ("x = 1\n    # amplint: ignore[a]", 0, "x = 1"),
        ("# amplint: ignore[a]", 0, ""),
        ("x = '#é'  # amplint: ignore[a]", 0, "x = '#é'"),
    ],
)
def test_a_word_is_taken_away(text: str, number: int, after: str) -> None:
    found = removal(text, read_suppressions(text).selectors[number].span)
    assert found is not None
    assert text[: found.start] + found.left + text[found.end :] == after
