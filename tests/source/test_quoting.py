"""Code as messages quote it."""

from __future__ import annotations

import pytest

from amplint.source.quoting import on_one_line


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("f(x)", "f(x)"),
        ("f(  # why\n    x,  # not\n    '# this'\n)", "f( x, '# this' )"),
        ("with a(  # why\n    b\n):\n    c()  # that", "with a( b ): c()"),
        ("f('#')", "f('#')"),
        ("f(\n    'a\n", "f( 'a"),
        ("f(" + "x" * 80 + ")", "f(" + "x" * 55 + "..."),
    ],
)
def test_code_on_one_line(code: str, text: str) -> None:
    assert on_one_line(code) == text
