"""How messages name places and quote code."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from amplint.events import Place, Region

_LONGEST = 40
"""Characters of code that a message quotes: the place is shown beside it."""


def line_of(place: Place, seen_from: Place) -> str:
    """ "line 12", or "line 12 of engine.py" when it is another file: its path from the folder of the one where it is
    read."""
    if place.path == seen_from.path:
        return place.line_name
    path, other = place.path, seen_from.path
    if posixpath.isabs(path) == posixpath.isabs(other):
        path = posixpath.relpath(path, posixpath.dirname(other) or ".")
    return f"{place.line_name} of {path}"


def quoted(place: Place) -> str:
    """The code of a place in backticks, cut where it is long."""
    return code(place.text)


def code(text: str) -> str:
    """A piece of code in backticks, cut where it is long."""
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 3].rstrip('.') + '...'}`"


def if_it_is_on(region: Region) -> str:
    """The clause of a region that a framework opens by a setting of which nothing is known; "" for another one."""
    return ", if mixed precision is on" if region.framework else ""


def happens_if(questions: Sequence[str]) -> str:
    """A sentence that says which questions of the code come out true where something happens; none for none."""
    if not questions:
        return ""
    *others, last = (f"`{question}`" for question in questions)
    return f"It happens if {', '.join(others)} and {last}." if others else f"It happens if {last}."
