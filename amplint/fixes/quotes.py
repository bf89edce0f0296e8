"""Strings written as the file writes its own."""

from __future__ import annotations

from collections import Counter

import libcst as cst

from amplint.fixes.parsed import ParsedFile, Refusal

_QUOTES = ('"', "'")


def quoted(file: ParsedFile, node: cst.CSTNode, text: str) -> cst.SimpleString:
    """A string to stand in the place of a node or in it, in the quotes that the file uses most: for the same string, if
    it has that. Before Python 3.12 an f-string around it takes the quotes for itself. Raises Refusal where it leaves
    none."""
    taken = {
        outer.start.lstrip("fFrRbBtT")
        for outer in (node, *file.parents(node))
        if isinstance(outer, cst.FormattedString)
    }
    for quote in _preferred(file, text):
        if quote not in taken:
            return cst.SimpleString(f"{quote}{text}{quote}")
    raise Refusal("the f-string around it leaves no quotes for a string")


def _preferred(file: ParsedFile, text: str) -> list[str]:
    """Both quotes, the one first that the file uses more often, for a text or for any other."""
    strings = file.nodes(cst.SimpleString)
    used = Counter(str(string.quote) for string in strings)
    for_it = Counter(str(string.quote) for string in strings if string.raw_value == text)
    return sorted(_QUOTES, key=lambda quote: (-for_it[quote], -used[quote]))
