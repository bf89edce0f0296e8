"""The gate as a run applies it: which of the files are worth reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.catalog import UNUSED_SUPPRESSION
from amplint.config import Settings
from amplint.selectors import enabled_codes
from amplint.source.decoding import FOREIGN_MARKS, Unreadable, read_bytes
from amplint.source.gate import SUPPRESSION, Gate, passes, widened

Gated = tuple[list[tuple[str, int]], list[str]]
"""The files that pass, with their sizes, and the others."""


def gate_of(settings: Settings) -> Gate:
    """The gate with what the settings ask for beside it."""
    from amplint.amp.tokens import GATE

    code, name = UNUSED_SUPPRESSION
    chosen = enabled_codes({code: name}, {code}, settings.select, settings.extend_select, settings.ignore)
    rows = (*GATE, (SUPPRESSION,)) if chosen else GATE
    return widened(rows, (*settings.autocast_contexts, *settings.backward_functions))


def gated(
    files: Sequence[str], gate: Gate, *, refined: bool = False, changed: Mapping[str, bytes] = {}
) -> Gated:
    """The files that pass, with their sizes, and the others. One that cannot be read passes: it is reported
    when it cannot be decoded either. ``refined``: what passes is looked at once more, with is_worth_reading."""
    from amplint.amp.tokens import is_worth_reading

    passed: list[tuple[str, int]] = []
    others: list[str] = []
    for path in files:
        try:
            data = changed[path] if path in changed else read_bytes(path)
        except Unreadable:
            passed.append((path, 0))
            continue
        if passes(data, gate) and (
            not refined or is_worth_reading(data) or SUPPRESSION in data or data.startswith(FOREIGN_MARKS)
        ):
            passed.append((path, len(data)))
        else:
            others.append(path)
    return passed, others
