"""What a region may run of other files: calls in it whose callees could not be found, by the name of the method.
One group of files tells of them, and the definitions of such methods are walked inside the region afterwards."""

from __future__ import annotations

from typing import NamedTuple

from amplint.events import DType
from amplint.findings import Span

CALLED = "forward"
"""The name for an object that is called itself."""


class Spot(NamedTuple):
    """A piece of text, as it travels between processes."""

    path: str
    span: Span
    text: str


class Reached(NamedTuple):
    """A call of a method ``name`` inside an enabled region, on an object of unknown class."""

    name: str
    positional: int | None
    """How many arguments stand without a name; None where a star hides it."""
    keywords: tuple[str, ...]
    call: Spot
    opened: Spot
    device: str | None
    dtype: DType | None
    conditional: bool
    kinds: tuple[str, ...] = ()
    """The classes of the project that the code annotates the object with."""
    alone: bool = False
    """Whether one class of the project alone defines the method."""
    settings: tuple[tuple[str, str], ...] = ()
    """Attributes and the strings that they do not equal where the region is open."""
