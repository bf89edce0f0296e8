"""The gate as a run applies it: which of the files are worth reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amplint.catalog import UNUSED_SUPPRESSION
from amplint.config import Settings
from amplint.selectors import enabled_codes
from amplint.source.cells import is_notebook
from amplint.source.decoding import FOREIGN_MARKS, Unreadable, read_bytes
from amplint.source.gate import SUPPRESSION, Gate, has_words, passes, widened
from amplint.source.texts import text_of
from amplint.stopping import stop_if_asked

Gated = tuple[list[str], list[str]]
"""The files that pass and the others."""


def gate_of(settings: Settings) -> Gate:
    """The gate with what the settings ask for beside it."""
    from amplint.amp.gate import GATE

    code, name = UNUSED_SUPPRESSION
    chosen = enabled_codes({code: name}, {code}, settings.select, settings.extend_select, settings.ignore)
    rows = (*GATE, (SUPPRESSION,)) if chosen else GATE
    return widened(rows, (*settings.autocast_contexts, *settings.backward_functions))


def gated(
    files: Sequence[str],
    gate: Gate,
    *,
    refined: bool = False,
    changed: Mapping[str, bytes] = {},
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Gated:
    """The files that pass and the others. One that cannot be read passes: it is reported
    when it cannot be decoded either. ``refined``: what passes is looked at once more, with has_words. ``told`` hears
    how many files are done, of how many."""
    passed: list[str] = []
    others: list[str] = []
    for number, path in enumerate(files):
        told(number, len(files))
        stop_if_asked()
        try:
            data = changed[path] if path in changed else read_bytes(path)
        except Unreadable:
            passed.append(path)
            continue
        (passed if is_worth_reading(path, data, gate, refined=refined) else others).append(path)
    return passed, others


def _may_be_escaped(data: bytes, gate: Gate) -> bool:
    """Whether JSON may spell what is searched for in another way, as ``\\u00e9``."""
    return b"\\u" in data and any(not token.isascii() for row in gate for token in row)


def is_worth_reading(path: str, data: bytes, gate: Gate, *, refined: bool) -> bool:
    """Whether a file with these bytes passes the gate. Of a notebook the bytes are searched first, then its code."""
    if not passes(data, gate) and not (is_notebook(path) and _may_be_escaped(data, gate)):
        return False
    if is_notebook(path):
        try:
            data = text_of(data, path).encode("utf-8", "surrogatepass")
        except Unreadable:
            return True  # it is reported
        if not passes(data, gate):
            return False
    return (
        not refined
        or has_words(data, gate)
        or SUPPRESSION in data
        or data.startswith(FOREIGN_MARKS)
        or b"\0" in data
    )
