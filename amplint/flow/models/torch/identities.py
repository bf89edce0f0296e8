"""What tells one optimizer, loss or object from another."""

from __future__ import annotations

from amplint.flow.models.torch.values import Optimizer
from amplint.flow.state.symbols import Symbol, is_one_of_many
from amplint.flow.state.values import Instance, Unknown, Value


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
