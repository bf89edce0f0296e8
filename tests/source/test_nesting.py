from __future__ import annotations

import ast

import pytest

from amplint.source.nesting import LIMIT, too_deep


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n" * 2000,
        "x = [" + "1, " * 5000 + "]",
        "f(" + "a, " * 5000 + ")",
        "x = a" + " < b" * 5000,
        "x = (\n" + "'a'\n" * 5000 + ")",
        "x = '''" + "\n" * 5000 + "'''",
        "x = a" + ".b" * 300,
        "if a:\n    pass\n" + "elif b:\n    pass\n" * 300,
    ],
)
def test_wide_or_ordinary_code_is_not_deep(text: str) -> None:
    assert not too_deep(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "x = a" + ".b" * 500,
        "x = a" + " + b" * 500,
        "x = a" + "\\\n and b" * 500,
        "x = a" + " and b" * 5000,
        "if a:\n    pass\n" + "elif b:\n    pass\n" * 500,
        "x = " + "not " * 500 + "a",
    ],
)
def test_chains_that_libcst_nests_are_deep(text: str) -> None:
    assert too_deep(ast.parse(text))


def test_the_limit_counts_levels() -> None:
    tree = ast.parse("x = " + "-" * 50 + "a")
    assert too_deep(tree, 20)
    assert not too_deep(tree, LIMIT)
