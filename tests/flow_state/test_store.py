"""Joining values of which there are too many alternatives."""

from __future__ import annotations

import pytest

from amplint.flow.models.torch.notes import ParametersCast
from amplint.flow.models.torch.values import MODULE, SCALER, Replicas, Scaler, StateDict
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import FALSE, TRUE, asked, choice, negation
from amplint.flow.state.store import MOST_ATOMS, State, generalised, join, keep_apart
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    NONE,
    Choice,
    Constant,
    Exists,
    Instance,
    Mapping,
    Note,
    Sequence,
    Text,
    Unknown,
    Value,
)


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


LOST_VALUE, LOST_OBJECT, DATA = "one of", "one of objects", "one of data"
REPLICAS = Replicas(Unknown(symbol("net"), MODULE))


@pytest.mark.parametrize(
    ("value", "lost"),
    [
        (NONE, (DATA,)),
        (Text("epoch "), (DATA,)),
        (Unknown(symbol("b")), (DATA,)),
        (Unknown(symbol("b"), SCALER), (LOST_OBJECT, SCALER)),
        (Unknown(symbol("one of", symbol("c"))), (LOST_VALUE,)),
        (Unknown(symbol("one of objects", symbol("c"), MODULE)), (LOST_OBJECT, MODULE)),
        (Instance(symbol("object")), (LOST_OBJECT,)),
        (REPLICAS, (LOST_OBJECT, MODULE)),
        (Sequence((REPLICAS, Instance(symbol("object")))), (LOST_OBJECT, MODULE)),
        (Scaler(symbol("scaler")), (LOST_VALUE,)),
        (StateDict(SCALER, symbol("scaler")), (LOST_VALUE,)),
        (Sequence((Scaler(symbol("scaler")), REPLICAS)), (LOST_VALUE,)),
        (Mapping((("scaler", Scaler(symbol("scaler"))),)), (LOST_VALUE,)),
        (Mapping((("epoch", Constant(1)),)), (DATA,)),
    ],
)
def test_only_what_is_more_than_data_gets_lost(value: Value, lost: tuple[str, ...]) -> None:
    found = generalised(either(MEETS, *LISTS, value))
    assert isinstance(found, Unknown)
    first, _, *kinds = found.symbol.parts
    assert (first, *kinds) == lost


def test_what_is_of_one_kind_keeps_it() -> None:
    found = generalised(either(REPLICAS, Unknown(symbol("a"), MODULE), Unknown(symbol("b"), MODULE)))
    assert isinstance(found, Unknown)
    assert found.kind == MODULE
    assert found.symbol.parts[0] == DATA


OBJECT = symbol("object")


def noted(note: Note, questions: int) -> Value | None:
    """What an object has of a note that it gets where one of so many questions has the answer yes."""
    key = (OBJECT, type(note))
    state = State()
    for number in range(questions):
        yes = asked(is_true(symbol("path", number)))
        other = state.fork(yes)
        other.store(key, note)
        state = join(other, state.fork(negation(yes)), symbol("apart", number), lambda key: None)
    return state.heap.get(key)


@pytest.mark.parametrize(("note", "kept"), [(Exists(apart=True), False), (ParametersCast(None), True)])
def test_of_many_paths_only_what_may_be_missed_is_noted(note: Note, kept: bool) -> None:
    assert isinstance(noted(note, MOST_ATOMS), Choice)
    assert isinstance(noted(note, MOST_ATOMS + 1), Choice) is kept


def test_a_note_of_an_object_that_one_way_has_made_asks_for_nothing() -> None:
    yes, key = asked(is_true(symbol("flag"))), (symbol("object"), ParametersCast)
    before = State()
    for makes in (True, False):
        one = before.fork(yes)
        if makes:
            one.note_made(key[0])
        one.store(key, ParametersCast(None))
        joined = join(one, before.fork(negation(yes)), symbol("apart"), lambda key: None)
        assert isinstance(joined.heap[key], ParametersCast if makes else Choice)
        assert joined.made_since(before) == ({key[0]} if makes else set())


def test_an_object_that_both_ways_make_may_have_a_note() -> None:
    yes, key = asked(is_true(symbol("flag"))), (symbol("object"), ParametersCast)
    before = State()
    one, other = before.fork(yes), before.fork(negation(yes))
    one.note_made(key[0])
    other.note_made(key[0])
    one.store(key, ParametersCast(None))
    assert isinstance(join(one, other, symbol("apart"), lambda key: None).heap[key], Choice)
