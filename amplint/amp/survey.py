"""Which files without a token of their own take part in AMP: those that use what files with tokens define."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DEFINITION = re.compile(rb"^(?:async\s+)?def\s+(\w+)", re.MULTILINE)
_METHOD_WITH_CONTEXT = re.compile(
    rb"^[ \t]+def\s+(\w+)\([^)]*\)[^:\n]*:\r?\n(?:(?![ \t]*def\s)[^\n]*\n){0,25}?[ \t]+return\s[^\n]*autocast\(",
    re.MULTILINE,
)
_TOUCHES = re.compile(rb"autocast|GradScaler|\.half\(")
_MAKES_CONTEXT = re.compile(rb"return\s[^\n]*autocast|autocast[^\n]*:\r?\n\s*yield")
_UNTELLING = frozenset({b"main", b"forward", b"run", b"test", b"step"})

MOST_FILES = 600
"""Above so many other files only contexts are looked for: the search for every function costs too much, and
packages of that size are no training scripts."""


def second_gate(gated: Iterable[tuple[str, bytes]], others: int) -> Sequence[tuple[bytes, ...]]:
    """Rows of tokens as for the gate: for each function of a file that touches AMP, its name and the name of
    its module; for each method that returns an autocast context, its name. ``gated`` are names without suffix
    and bytes of the files that passed, ``others`` counts those that did not."""
    rows: set[tuple[bytes, ...]] = set()
    for stem, data in gated:
        if _TOUCHES.search(data) is None:
            continue
        rows.update((name,) for name in _METHOD_WITH_CONTEXT.findall(data) if len(name) > 4)
        found = list(_DEFINITION.finditer(data))
        for definition, following in zip(found, [*found[1:], None]):
            end = following.start() if following is not None else len(data)
            name = definition.group(1)
            body = data[definition.start() : end]
            if name in _UNTELLING or _TOUCHES.search(body) is None:
                continue
            if others <= MOST_FILES or _MAKES_CONTEXT.search(body) is not None:
                rows.add((stem.encode("utf-8", "surrogateescape"), name, b"import"))
    return sorted(rows)
