"""Positions are those of LibCST's own provider."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from amplint.source.positions import positions_of

PACKAGE = Path(__file__).parents[2] / "amplint"
ODD = {
    "empty": "",
    "a comment": "# x",
    "no newline at the end": "x = (\n  1, # one\n  2)",
    "line ends of Windows": "def f(a,\r\n      b):\r\n    return '''\r\nx'''\r\n",
    "old line ends": "x = 1\ry = 2\r",
    "decorators": "@a\n# between\n@b(1)\nasync def f[T](x: T, /, *, y=2) -> T:\n    async with x as y, z: pass\n",
    "a class on one line": "class A(B, metaclass=C): x = 1; y = 2;\n",
    "tabs and form feeds": "if x:\n\ty\n\x0c\n\tz\n",
    "wide characters": "s = 'é😀'; t = f'{s!r:>{w}}' f'''\n{x}'''\n",
    "parentheses": "x = ((  a ) .b )[ 1 : , * c ]\nmatch x:\n    case {'a': [1, *_], **r} | A(b=c) if d: ...\n",
}


def same(text: str) -> bool:
    """Whether both say the same of each node."""
    module = cst.parse_module(text)
    theirs = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    ours = positions_of(module)
    assert len(ours) == len(theirs) > 0
    return all(
        ours[id(node)] == (place.start.line, place.start.column, place.end.line, place.end.column)
        for node, place in theirs.items()
    )


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_texts(text: str) -> None:
    assert same(text)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("rules/*.py"))[::4], ids=lambda path: path.name)
def test_real_files(path: Path) -> None:
    assert same(path.read_text(encoding="utf-8"))
