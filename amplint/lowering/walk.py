"""All nodes of a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from amplint.lowering.program import (
    Argument,
    Case,
    Clause,
    Decorator,
    Handler,
    Node,
    Parameter,
    Program,
    WithItem,
)

_PARTS = (Node, Argument, Case, Clause, Decorator, Handler, Parameter, Program, WithItem)


def nodes(program: Program) -> Iterator[Node]:
    """The nodes of a program in the order of its text, those of the functions inside it and of its decorators and
    defaults, too."""
    pending: list[object] = [program]
    while pending:
        part = pending.pop()
        if isinstance(part, Node):
            yield part
        if isinstance(part, tuple):
            pending.extend(reversed(part))
        elif isinstance(part, _PARTS):
            pending.extend(getattr(part, name) for name in reversed(_names(part)))


_FIELDS: dict[object, tuple[str, ...]] = {Program: ("decorators", "parameters", "body")}


def _names(part: Any) -> tuple[str, ...]:
    """The fields in which other nodes may stand; of a program its decorators come first."""
    kind: object = type(part)
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(field.name for field in fields(part))
    return found
