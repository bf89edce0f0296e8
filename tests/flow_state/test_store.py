"""Joining values of which there are too many alternatives."""

from __future__ import annotations

import pytest

from amplint.flow.models.torch.values import SCALER, Scaler, StateDict
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import FALSE, TRUE, choice
from amplint.flow.state.store import generalised, keep_apart
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import NONE, Constant, Instance, Mapping, Sequence, Text, Unknown, Value


def either(*values: Value) -> Value:
    """One of the values, by flags of its own."""
    whole = values[0]
    for number, value in enumerate(values[1:]):
        whole = keep_apart(choice(is_true(symbol("flag", number)), TRUE, FALSE), value, whole)
    return whole


MEETS = Unknown(symbol("a"))
LISTS = (
    Sequence((Constant(1),), identity=symbol("list", 1)),
    Sequence((), False, identity=symbol("list", 2)),
)


@pytest.mark.parametrize(
    ("value", "lost"),
    [
        (NONE, False),
        (Text("epoch "), False),
        (Unknown(symbol("b")), False),
        (Unknown(symbol("b"), SCALER), True),
        (Unknown(symbol("one of", symbol("c"))), True),
        (Instance(symbol("object")), True),
        (Scaler(symbol("scaler")), True),
        (StateDict(SCALER, symbol("scaler")), True),
        (Sequence((Scaler(symbol("scaler")),)), True),
        (Mapping((("scaler", Scaler(symbol("scaler"))),)), True),
        (Mapping((("epoch", Constant(1)),)), False),
    ],
)
def test_only_what_is_more_than_data_gets_lost(value: Value, lost: bool) -> None:
    found = generalised(either(MEETS, *LISTS, value))
    assert isinstance(found, Unknown)
    assert found.symbol.parts[0] == ("one of" if lost else "one of data")
