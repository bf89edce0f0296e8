"""What tells one optimizer, loss or object from another."""

from __future__ import annotations

from functools import lru_cache

from amplint.flow.models.torch.values import Optimizer
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import Instance, Unknown, Value

ONE_OF_MANY = "one of many"
"""Marks the symbol of what a loop takes out of a collection that is not known: another one in each round."""


def identity_of(value: Value | None) -> Symbol | None:
    """What names a loss, an optimizer or an object; None where it is another one each time."""
    match value:
        case Optimizer() | Instance():
            found = value.identity
        case Unknown():
            found = value.symbol
        case _:
            return None
    return None if is_one_of_many(found) else found


@lru_cache(maxsize=4096)
def is_one_of_many(name: Symbol) -> bool:
    """Whether a symbol stands for another object in each round of a loop."""
    return any(
        part == ONE_OF_MANY or (isinstance(part, Symbol) and is_one_of_many(part)) for part in name.parts
    )
