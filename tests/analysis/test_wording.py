"""How messages name places and quote code."""

from __future__ import annotations

import pytest

from amplint.events import Place
from amplint.findings import Span
from amplint.rules.wording import line_of, quoted


def place(path: str, text: str = "x") -> Place:
    return Place(path, (path, text), lambda: Span(12, 1, 12, 2), lambda: text)


@pytest.mark.parametrize(
    ("path", "seen_from", "shown"),
    [
        ("src/a.py", "src/a.py", "line 12"),
        ("src/a.py", "src/b.py", "line 12 of a.py"),
        ("src/core/a.py", "src/b.py", "line 12 of core/a.py"),
        ("src/core/a.py", "src/models/a.py", "line 12 of ../core/a.py"),
        ("a.py", "src/b.py", "line 12 of ../a.py"),
        ("src/a.py", "b.py", "line 12 of src/a.py"),
        ("/lib/a.py", "src/b.py", "line 12 of /lib/a.py"),
        ("/lib/core/a.py", "/lib/b.py", "line 12 of core/a.py"),
    ],
)
def test_a_line_of_another_file_is_named_by_its_path_from_here(path: str, seen_from: str, shown: str) -> None:
    assert line_of(place(path), place(seen_from)) == shown


def test_long_code_is_cut() -> None:
    assert quoted(place("a.py", "f(" + "x" * 37 + ")")) == f"`f({'x' * 37})`"
    assert quoted(place("a.py", "f(" + "x" * 38 + ")")) == f"`f({'x' * 35}...`"
    assert quoted(place("a.py", "f(" + "x" * 33 + ", more...")) == f"`f({'x' * 33}, ...`"
