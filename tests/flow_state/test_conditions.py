"""Conditions against truth tables: what is said of a tree holds under every answer to its questions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.flow.state import conditions as c
from amplint.flow.state.atoms import equals, is_none, is_true
from amplint.flow.state.conditions import Condition
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import FALSE, NONE, TRUE, Choice, Constant, External, Value

UNKNOWN = symbol("conditions", "x")
WORLDS: list[dict[Symbol, bool]] = []
PLAIN = [is_true(symbol("conditions", name)) for name in "abc"]
ABOUT_X = [
    is_none(UNKNOWN),
    equals(UNKNOWN, Constant("fp16")),
    equals(UNKNOWN, Constant("")),
    is_true(UNKNOWN),
]
for _answers in product((False, True), repeat=len(PLAIN)):
    for _value in (None, "fp16", "", "bf16", 0, 1):
        WORLDS.append(
            dict(zip(PLAIN, _answers, strict=True))
            | dict(zip(ABOUT_X, (_value is None, _value == "fp16", _value == "", bool(_value)), strict=True))
        )
"""Every way in which the questions can be answered together."""


def outcome(tree: Value, world: dict[Symbol, bool]) -> Value:
    while isinstance(tree, Choice):
        tree = tree.then if world[tree.atom] else tree.other
    return tree


def holds(condition: Condition, world: dict[Symbol, bool]) -> bool:
    return outcome(condition, world) == TRUE


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> Condition:
    if depth == 0 or draw(st.booleans()):
        return c.asked(draw(st.sampled_from(PLAIN + ABOUT_X)))
    left, right = draw(conditions(depth=depth - 1)), draw(conditions(depth=depth - 1))
    return draw(st.sampled_from([c.both, c.either, lambda one, _: c.negation(one)]))(left, right)


@st.composite
def trees(draw: st.DrawFn) -> Value:
    leaf = st.sampled_from([Constant(1), Constant(2), NONE])
    return c.select(draw(conditions()), draw(leaf), c.select(draw(conditions()), draw(leaf), draw(leaf)))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(conditions(), conditions())
def test_both_either_negation(one: Condition, other: Condition) -> None:
    for world in WORLDS:
        assert holds(c.both(one, other), world) == (holds(one, world) and holds(other, world))
        assert holds(c.either(one, other), world) == (holds(one, world) or holds(other, world))
        assert holds(c.negation(one), world) == (not holds(one, world))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(conditions(), conditions())
def test_what_excludes_each_other_is_false(one: Condition, other: Condition) -> None:
    possible = any(holds(one, world) and holds(other, world) for world in WORLDS)
    if not possible:
        assert c.both(one, other) == FALSE
    assert c.is_possible(one, other) == (c.both(other, one) != FALSE)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(trees(), conditions())
def test_within_changes_nothing_where_the_condition_holds(tree: Value, condition: Condition) -> None:
    left = c.within(tree, condition)
    held = [world for world in WORLDS if holds(condition, world)]
    for world in held:
        assert outcome(left, world) == outcome(tree, world)
    if held and isinstance(left, Choice):
        assert set(c.leaves(left)) <= {outcome(tree, world) for world in held}


@settings(max_examples=300, deadline=None, derandomize=True)
@given(conditions(), st.sets(st.sampled_from(PLAIN)))
def test_without_holds_where_some_answer_makes_it_hold(condition: Condition, gone: set[Symbol]) -> None:
    left = c.without(condition, frozenset(gone))
    assert gone.isdisjoint(c.atoms(left))
    for world in WORLDS:
        others = [
            other
            for other in WORLDS
            if all(other[atom] == truth for atom, truth in world.items() if atom not in gone)
        ]
        assert holds(left, world) == any(holds(condition, other) for other in others)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(conditions(), st.integers(0, 4))
def test_bounded_holds_at_least_where_the_condition_does(condition: Condition, most: int) -> None:
    left = c.bounded(condition, most)
    assert len(c.atoms(left)) <= most
    assert all(holds(left, world) for world in WORLDS if holds(condition, world))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(conditions(), st.integers(0, 4))
def test_settled_holds_only_where_the_condition_does(condition: Condition, most: int) -> None:
    left = c.settled(condition, most)
    assert (left == FALSE) is (condition == FALSE)
    assert all(holds(condition, world) for world in WORLDS if holds(left, world))


def test_settled_leaves_so_many_questions_open() -> None:
    condition: Condition = FALSE
    for index in range(12):
        condition = c.either(condition, c.asked(is_true(symbol("conditions", "settled", index))))
    left = c.settled(condition, 8)
    forced = [atom for atom in c.atoms(left) if not c.is_possible(c.negation(c.asked(atom)), left)]
    assert len(c.atoms(left)) - len(forced) <= 8


@settings(max_examples=200, deadline=None, derandomize=True)
@given(conditions(), conditions())
def test_news_and_what_is_known_say_the_same_as_the_question(question: Condition, known: Condition) -> None:
    left = c.news(question, known)
    assert all(holds(left, world) == holds(question, world) for world in WORLDS if holds(known, world))


def test_what_narrows_a_path_is_not_forgotten() -> None:
    """A path that knows much forgets something else: ``if flag`` parts it all the same."""
    known = TRUE
    for index in range(c.MOST_ASKED):
        known = c.both(known, c.asked(is_true(symbol("conditions", "narrowed", index))))
    flag = c.asked(is_true(symbol("conditions", "flag")))
    yes, no = c.narrowing(known, flag), c.narrowing(known, c.negation(flag))
    assert c.both(yes, no) == FALSE
    assert c.atoms(flag) <= c.atoms(yes)
    assert max(len(c.atoms(yes)), len(c.atoms(no))) <= c.MOST_ASKED
    assert c.is_possible(known, yes)


def test_equal_conditions_are_the_same_object() -> None:
    a, b = map(c.asked, PLAIN[:2])
    assert c.both(a, b) is c.both(b, a)
    assert c.negation(c.negation(a)) is a
    assert c.negation(c.both(a, b)) is c.either(c.negation(a), c.negation(b))


def test_what_was_worked_out_is_kept_by_numbers_that_no_other_tree_gets() -> None:
    """By the identity of a tree, another one that comes after it in the same place would be taken for it."""
    c.start_over()
    a, b, x = (c.asked(is_true(symbol("conditions", "numbered", name))) for name in "abx")
    c.either(c.both(a, b), c.both(x, c.negation(b)))
    c.within(c.select(a, c.both(x, b), b), c.either(a, x))
    numbers = {node.number for node in c._nodes.values()}
    for table in (c._both_kept, c._either_kept, c._restricted_kept):
        assert table
        assert {number for key in table for number in key} <= numbers


def test_equal_conditions_stay_the_same_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summaries of calls hold conditions from one entry point to the next."""
    a, b = map(c.asked, PLAIN[:2])
    before = c.both(a, b)
    monkeypatch.setattr(c, "_MOST_KEPT", 0)
    c.forget()
    assert c.both(a, b) is before
    assert c.asked(PLAIN[0]) is a


def test_what_equals_something_that_models_know_may_be_true_or_not() -> None:
    """``dtype == torch.float16`` compares with a value that is no constant of Python."""
    x = symbol("conditions", "dtype")
    half, single = External("torch.float16"), External("torch.float32")
    is_half = c.asked(equals(x, half))
    assert c.both(is_half, c.asked(equals(x, single))) == FALSE
    assert c.both(is_half, c.asked(is_none(x))) == FALSE
    assert c.is_possible(is_half, c.asked(is_true(x)))
    assert c.is_possible(is_half, c.negation(c.asked(is_true(x))))
