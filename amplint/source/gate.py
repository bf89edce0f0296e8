"""The byte gate: most files have no AMP in them, and a search in their bytes is enough to know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from amplint.source.decoding import FOREIGN_MARKS

Gate = Sequence[Sequence[bytes]]
"""A file passes if for one of the rows all tokens occur in it."""

SUPPRESSION = b"amplint:"
"""What a comment of ours has in it. A file with one is read even without AMP: then the comment is unused."""


_WORDS = bytes(
    code if code > 127 or chr(code).isalnum() or code == ord("_") else ord(" ") for code in range(256)
)
"""Turns all bytes that are part of no identifier into blanks."""


def identifiers(data: bytes) -> frozenset[bytes]:
    """All that may be an identifier in a text, words of comments and strings included. It takes linear time."""
    return frozenset(data.translate(_WORDS).split())


@lru_cache(maxsize=4096)
def last_identifier(data: bytes) -> bytes:
    """The last of them, ``b"train"`` for ``b"= train("``."""
    return data.translate(_WORDS).split()[-1]


def has_words(data: bytes, gate: Gate) -> bool:
    """Whether a file that passed the gate has all tokens of a row as words: ``half`` is no ``behalf``."""
    words = identifiers(data)
    return any(words.issuperset(token.strip(b".") for token in row) for row in gate)


def passes(data: bytes, gate: Gate) -> bool:
    """Whether the file is worth reading. A file in UTF-16 or UTF-32, where no token could be found, passes if its mark
    says so, or its tokens have null bytes in them: it is to be reported."""
    known: dict[bytes, bool] = {}
    for row in gate:
        for token in row:
            found = known.get(token)
            if found is None:
                found = known[token] = token in data
            if not found:
                break
        else:
            return True
    return data.startswith(FOREIGN_MARKS) or (b"\0" in data and passes(data.replace(b"\0", b""), gate))


def widened(gate: Gate, names: Sequence[str]) -> Gate:
    """The gate with further tokens: the last component of each dotted name, such as a project's own wrapper.

    Within a row the tokens that many rows share come first: where they are absent, as in most files, the
    others need not be searched for."""
    tokens = {name.rpartition(".")[2].encode() for name in names} - {b""}
    shared = Counter(token for row in gate for token in set(row))
    return [
        *(sorted(row, key=lambda token: -shared[token]) for row in gate),
        *([token] for token in sorted(tokens)),
    ]
