"""What the code sets to a constant and a user may set to something else: settings with a default.

``chosen(api, name, held)``: ``True`` becomes an unknown whose usual value is True. ``overlaid(api, config, values)``:
what is left of a dict after ``config[key] = value`` for keys that nobody knows, such as those of a file or of the
command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from amplint.flow.core.api import Api
from amplint.flow.state.conditions import apply, leaves
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    Constant,
    Mapping,
    Number,
    Text,
    Unknown,
    Usual,
    Value,
)

_CHOSEN = (Constant, Number, Text, Unknown)
"""What a user may give."""


def chosen(api: Api, own: Symbol, held: Value) -> Value:
    """What may be a constant, and anything else that the user chooses instead."""
    usual = [leaf for leaf in leaves(held) if isinstance(leaf, Constant)]
    if not usual:
        return held
    api.set_note(own, Usual(usual[0]))
    return apply(lambda leaf: Unknown(own) if isinstance(leaf, Constant) else leaf, held)


def overlaid(api: Api, held: Mapping, values: Iterable[Value]) -> Mapping:
    """A dict in which values are put under keys that nobody knows. Where these are no objects it is a configuration,
    and each constant in it a default."""
    values = tuple(values)
    rest = tuple(dict.fromkeys((*held.rest, *values)))
    given = (leaf for value in values for leaf in leaves(value))
    if held.identity is None or not any(isinstance(leaf, _CHOSEN) for leaf in given):
        return replace(held, rest=rest)
    items = tuple(
        (key, chosen(api, symbol("item", held.identity, symbol("constant", Constant(key))), value))
        for key, value in held.items
    )
    return replace(held, items=items, rest=rest)
