"""What tells findings apart."""

from __future__ import annotations

import pytest

from amplint.identity import code_of_line, fingerprint


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("    x =  1\t# one", "x = 1"),
        ("x = '#'  # a 'quoted' remark", "x = '#'"),
        ('x = "it\'s #1"  # no', 'x = "it\'s #1"'),
        (r"x = '\'#'  # no", r"x = '\'#'"),
        ("# amplint: ignore[x]", "# amplint: ignore[x]"),
        ('"""the first line # of a text', '"""the first line # of a text'),
        ("x = 1 \\", "x = 1 \\"),
        ("", ""),
    ],
)
def test_the_code_of_a_line(line: str, code: str) -> None:
    assert code_of_line(line) == code


def test_blanks_do_not_tell_lines_apart() -> None:
    one = fingerprint("AMP101", "a.py", "f(x, y)", 0)
    assert one == fingerprint("AMP101", "a.py", "f( x,y )", 0)
    others = [
        ("AMP102", "a.py", "f(x, y)", 0),
        ("AMP101", "b.py", "f(x, y)", 0),
        ("AMP101", "a.py", "f(x, z)", 0),
    ]
    assert one not in {fingerprint(*other) for other in (*others, ("AMP101", "a.py", "f(x, y)", 1))}


def test_a_line_full_of_quotes_takes_linear_time() -> None:
    line = "'" + "\\'" * 500_000
    assert code_of_line(line) == line  # in quadratic time nobody would wait for it
