"""Syntax that only a newer Python can parse."""

from __future__ import annotations

import pytest

from amplint.source.newer import is_for_a_newer_python

ALIAS = "type X = int\n"
ELSE = "elif x:\n    pass\n"

TEXTS = {
    "alias": (ALIAS, True),
    "parameter": ("def first[T](items: list[T]) -> T:\n    return items[0]\n", True),
    "f-string": ("text = f'{names['x']}'\n", True),
    "Python 2": ("print 'x'\n", False),
    "no colon": ("with open(name)\n    pass\n", False),
    "open text": ('text = """\n', False),
    "indentation": ("if x:\n    y\n  z\n", False),
    # what LibCST had better not see
    "brackets": (f"{ALIAS}x = {'(' * 2_000}1{')' * 2_000}\n", False),
    "attributes": (f"{ALIAS}x = a{'.b' * 20_000}\n", False),
    "branches": (f"{ALIAS}if x:\n    pass\n{ELSE * 20_000}", False),
}


@pytest.mark.parametrize(("text", "newer"), TEXTS.values(), ids=TEXTS.keys())
def test_newer(text: str, newer: bool) -> None:
    assert is_for_a_newer_python(text) is newer
