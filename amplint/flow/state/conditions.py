"""Conditions as values: decision diagrams over atoms.

An atom is a question about an unknown: is it true, is it None, does it equal a constant. A condition is a tree of
Choice nodes whose leaves are ``TRUE`` and ``FALSE``; a value that depends on conditions is such a tree with other
leaves. Atoms are met in the order of their symbols on every branch, so that equal conditions are equal trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import FALSE, NONE, TRUE, Choice, Constant, Value

Condition = Value
"""A tree with leaves TRUE and FALSE."""
Known = dict[Symbol, bool]
"""Atoms with the outcome that is assumed on one branch."""

MOST_ALTERNATIVES = 12
MOST_NODES = 40


# atoms -----------------------------------------------------------------------------------------------------------


def is_true(of: Symbol) -> Symbol:
    """The atom "it is true", for ``if x``."""
    return symbol("is true", of)


def is_none(of: Symbol) -> Symbol:
    """The atom "it is None", for ``x is None``."""
    return symbol("is None", of)


def equals(of: Symbol, constant: Value) -> Symbol:
    """The atom "it equals this constant", for ``x == "fp16"``."""
    return is_none(of) if constant == NONE else symbol("equals", of, constant)


def implied(atom: Symbol, known: Known) -> bool | None:
    """The outcome of an atom where others have come out as ``known``, or None: what equals "a" does not equal "b",
    is not None, and is true."""
    found = known.get(atom)
    if found is not None:
        return found
    if not known or len(atom.parts) < 2:
        return None
    kind, of = atom.parts[0], atom.parts[1]
    if kind not in ("is true", "is None", "equals"):
        return None
    for other, truth in known.items():
        if len(other.parts) < 2 or other.parts[1] is not of:
            continue
        outcome = _follows(kind, atom, other, truth)
        if outcome is not None:
            return outcome
    return None


def _follows(kind: object, atom: Symbol, other: Symbol, truth: bool) -> bool | None:
    """What one atom about an unknown says of another one about the same."""
    match other.parts[0], truth:
        case "equals", True:
            constant = other.parts[2]
            assert isinstance(constant, Constant)
            return bool(constant.value) if kind == "is true" else False
        case "is None", True:
            return False
        case "is true", True:
            if kind == "is None":
                return False
            constant = atom.parts[2] if kind == "equals" else None
            return False if isinstance(constant, Constant) and not constant.value else None
        case "is true", False:
            constant = atom.parts[2] if kind == "equals" else None
            return False if isinstance(constant, Constant) and constant.value else None
    return None


# trees -----------------------------------------------------------------------------------------------------------


def choice(atom: Symbol, then: Value, other: Value) -> Value:
    """``then`` where the atom holds, else ``other``."""
    return select(Choice(atom, TRUE, FALSE), then, other)


def select(condition: Condition, then: Value, other: Value) -> Value:
    """``then if condition else other``, for trees."""
    if condition is TRUE or then == other:
        return then
    if condition is FALSE:
        return other
    if then is TRUE and other is FALSE:
        return condition
    top = _top(condition, then, other)
    if top is None:
        return then if condition == TRUE else other
    yes = select(_side(condition, top, True), _side(then, top, True), _side(other, top, True))
    no = select(_side(condition, top, False), _side(then, top, False), _side(other, top, False))
    return yes if yes == no else Choice(top, yes, no)


def _top(*trees: Value) -> Symbol | None:
    found: Symbol | None = None
    for tree in trees:
        if isinstance(tree, Choice) and (found is None or tree.atom.order < found.order):
            found = tree.atom
    return found


def _side(tree: Value, atom: Symbol, truth: bool) -> Value:
    if isinstance(tree, Choice) and tree.atom is atom:
        return tree.then if truth else tree.other
    return tree


def both(one: Condition, other: Condition) -> Condition:
    """``one and other``. FALSE where the two exclude each other."""
    found = select(one, other, FALSE)
    return found if found in (TRUE, FALSE) else within(found, TRUE)


def either(one: Condition, other: Condition) -> Condition:
    """``one or other``."""
    return select(one, TRUE, other)


def negation(condition: Condition) -> Condition:
    """``not condition``."""
    return select(condition, FALSE, TRUE)


def within(tree: Value, condition: Condition) -> Value:
    """The tree without the branches that cannot be taken where the condition holds. A tree all of whose branches are
    out of reach stays as it is."""
    if not isinstance(tree, Choice):
        return tree
    found = _within(tree, condition, {})
    return tree if found is None else found


def _within(tree: Value, condition: Condition, known: Known) -> Value | None:
    if condition == FALSE:
        return None
    top = _top(tree, condition)
    if top is None:
        return tree
    outcome = implied(top, known)
    if outcome is not None:
        return _within(_side(tree, top, outcome), _side(condition, top, outcome), known)
    sides = []
    for truth in (True, False):
        known[top] = truth
        sides.append(_within(_side(tree, top, truth), _side(condition, top, truth), known))
        del known[top]
    yes, no = sides
    if yes is None or no is None:
        return no if yes is None else yes
    return yes if yes == no else select(Choice(top, TRUE, FALSE), yes, no)


def is_possible(condition: Condition, where: Condition = TRUE) -> bool:
    """Whether a condition can hold where another one does."""
    return both(where, condition) != FALSE


def apply(function: Callable[[Value], Value], tree: Value) -> Value:
    """A tree with a function applied to each of its leaves. The function may give trees."""
    if not isinstance(tree, Choice):
        return function(tree)
    return choice(tree.atom, apply(function, tree.then), apply(function, tree.other))


def leaves(tree: Value) -> Iterator[Value]:
    """The different values that a tree may come out as."""
    seen: set[Value] = set()
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, Choice):
            pending += [value.other, value.then]
        elif value not in seen:
            seen.add(value)
            yield value


def branches(tree: Value) -> Iterator[tuple[Condition, Value]]:
    """Each different leaf with the condition under which the tree comes out as it."""
    for leaf in list(leaves(tree)):
        yield apply(partial(_is, leaf), tree), leaf


def _is(leaf: Value, value: Value) -> Condition:
    return TRUE if value == leaf else FALSE


def atoms(tree: Value) -> set[Symbol]:
    """The atoms that a tree asks for."""
    found: set[Symbol] = set()
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, Choice):
            found.add(value.atom)
            pending += [value.then, value.other]
    return found


def size(tree: Value) -> int:
    """How many choices a tree has."""
    if not isinstance(tree, Choice):
        return 0
    return 1 + size(tree.then) + size(tree.other)


def without(condition: Condition, atom: Symbol) -> Condition:
    """What is left of a condition if nothing is known of an atom: it holds if it may."""
    if not isinstance(condition, Choice):
        return condition
    if condition.atom is atom:
        return either(condition.then, condition.other)
    return choice(condition.atom, without(condition.then, atom), without(condition.other, atom))


def bounded(condition: Condition) -> Condition:
    """A condition of at most MOST_NODES choices that holds at least where this one does."""
    while size(condition) > MOST_NODES:
        condition = without(condition, max(atoms(condition), key=lambda atom: atom.order))
    return condition


def evaluate(condition: Condition, known: Known) -> Condition:
    """What is left of a condition where atoms have come out as ``known``."""
    while isinstance(condition, Choice):
        outcome = implied(condition.atom, known)
        if outcome is None:
            return condition
        condition = condition.then if outcome else condition.other
    return condition
