"""Conditions as values: decision diagrams over atoms.

An atom is a question about an unknown: is it true, is it None, does it equal a constant. A condition is a tree of
Choice nodes whose leaves are ``TRUE`` and ``FALSE``; a value that depends on conditions is such a tree with other
leaves. Atoms are met in the same order on every branch, those about the same unknown side by side: so what one
answer says of the others is found where a node is made, and equal conditions are equal trees.

One that grows too large forgets older answers, but never what tells the two sides of a branch apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from amplint.flow.state.atoms import follows, subject_of
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import FALSE, TRUE, Choice, Value

Condition = Value
"""A tree with leaves TRUE and FALSE."""

MOST_ALTERNATIVES = 12
MOST_ATOMS = 10
"""A value depends on so many questions."""
MOST_ASKED = 128
"""A condition under which something happens is made of so many."""
MOST_NODES = 2048
"""A condition under which something happens has so many nodes."""


# trees -----------------------------------------------------------------------------------------------------------

_MOST_KEPT = 200_000
_forgotten = 0
_nodes: dict[tuple[Symbol, Hashable, Hashable], Choice] = {}
_selected: dict[tuple[Hashable, Hashable, Hashable], Value] = {}
_both_kept: dict[tuple[int, int], Condition] = {}
_either_kept: dict[tuple[int, int], Condition] = {}
_restricted_kept: dict[tuple[int, int], Value | None] = {}
_told_kept: dict[tuple[int, Symbol, bool], Value] = {}
_bounded_kept: dict[tuple[Condition, int], Condition] = {}
_small: dict[int, bool] = {}
_named_kept: dict[int, Symbol] = {}
_subjects_kept: dict[frozenset[Symbol], frozenset[Symbol]] = {}
_WORKED_OUT: tuple[dict[Any, Any], ...] = (
    _selected,
    _both_kept,
    _either_kept,
    _restricted_kept,
    _told_kept,
    _bounded_kept,
    _small,
    _named_kept,
    _subjects_kept,
)
"""What was worked out of trees, by their numbers."""
_NOTHING: frozenset[Symbol] = frozenset()


def _key(value: Value) -> Hashable:
    if type(value) is Choice:
        return value.number
    # the two most frequent leaves, whose hash is not worth working out
    return True if value is TRUE else False if value is FALSE else value


def forget() -> None:
    """Drops what was worked out of trees, if that is much."""
    if any(len(table) > _MOST_KEPT for table in _WORKED_OUT):
        for table in _WORKED_OUT:
            table.clear()


def is_full() -> bool:
    """Whether so many trees were made that it is time to start over."""
    return len(_nodes) > _MOST_KEPT


def made() -> int:
    """How many trees there are that were made since the latest start over."""
    return len(_nodes)


def start_over() -> None:
    """Drops all trees that nobody holds. Those that somebody holds are not the same objects as equal ones that are
    made later: that costs time, and is right all the same."""
    for table in (*_WORKED_OUT, _nodes):
        table.clear()


def _node(atom: Symbol, then: Value, other: Value) -> Value:
    """``then`` where the atom holds, else ``other``; both ask for what comes after it alone."""
    if then is other:
        return then
    about = atom.about
    if about is not None:
        if type(then) is Choice and then.atom.about is about:
            then = _told(then, atom, True)
        if type(other) is Choice and other.atom.about is about:
            other = _told(other, atom, False)
            if _same(then, _told(other, atom, True)):
                return other
        elif then is other:
            return then
        if (
            type(then) is Choice
            and then.atom.about is about
            and atom.parts[0] == "is true"
            and _same(other, _told(then, atom, False))
        ):
            return then
    if type(then) is not Choice and type(other) is not Choice and then == other:
        return other if about is not None else then
    key = (
        atom,
        then.number if type(then) is Choice else _key(then),
        other.number if type(other) is Choice else _key(other),
    )
    found = _nodes.get(key)
    if found is None:
        found = _nodes[key] = Choice(atom, then, other)
    return found


def _same(one: Value, other: Value) -> bool:
    return one is other or (type(one) is not Choice and type(other) is not Choice and one == other)


def _told(tree: Value, atom: Symbol, truth: bool) -> Value:
    """What is left of a tree where an atom has come out, which comes before all of its own. Questions about the same
    unknown stand side by side: those that follow are at the top."""
    about = atom.about
    if not truth and atom.parts[0] != "is true":  # it may be anything else
        return tree
    while type(tree) is Choice and tree.atom.about is about:
        outcome = follows(tree.atom, atom, truth)
        if outcome is None:
            key = (tree.number, atom, truth)
            found = _told_kept.get(key)
            if found is None:
                then, other = _told(tree.then, atom, truth), _told(tree.other, atom, truth)
                found = _told_kept[key] = _node(tree.atom, then, other)
            return found
        tree = tree.then if outcome else tree.other
    return tree


def _atoms(tree: Value) -> frozenset[Symbol]:
    return tree.atoms if isinstance(tree, Choice) else _NOTHING


def asked(atom: Symbol) -> Condition:
    """The condition that an atom holds."""
    return _node(atom, TRUE, FALSE)


def choice(atom: Symbol, then: Value, other: Value) -> Value:
    """``then`` where the atom holds, else ``other``."""
    return select(asked(atom), then, other)


def select(condition: Condition, then: Value, other: Value) -> Value:
    """``then if condition else other``, for trees."""
    if type(condition) is not Choice:
        return then if condition == TRUE else other
    if then is other:
        return then
    if then is TRUE and other is FALSE:
        return condition
    key = (condition.number, _key(then), _key(other))
    found = _selected.get(key)
    if found is None:
        top = condition.atom
        if type(then) is Choice and then.atom.rank < top.rank:
            top = then.atom
        if type(other) is Choice and other.atom.rank < top.rank:
            top = other.atom
        (if_yes, if_no), (then_yes, then_no) = _sides(condition, top), _sides(then, top)
        other_yes, other_no = _sides(other, top)
        found = _node(top, select(if_yes, then_yes, other_yes), select(if_no, then_no, other_no))
        _selected[key] = found
    return found


def _sides(tree: Value, atom: Symbol) -> tuple[Value, Value]:
    """A tree where an atom, which comes before all of its own or is the first of them, holds, and where it does not."""
    if type(tree) is Choice:
        if tree.atom is atom:
            return tree.then, tree.other
        if atom.about is not None and tree.atom.about is atom.about:
            return _told(tree, atom, True), _told(tree, atom, False)
    return tree, tree


def _first(one: Value, other: Value) -> Symbol:
    """The atom that comes first in two trees, one of which asks for any."""
    if type(one) is not Choice:
        assert type(other) is Choice
        return other.atom
    return other.atom if type(other) is Choice and other.atom.rank < one.atom.rank else one.atom


def both(one: Condition, other: Condition) -> Condition:
    """``one and other``. FALSE where the two exclude each other."""
    if type(one) is not Choice:
        return other if one is TRUE or one == TRUE else FALSE
    if type(other) is not Choice:
        return one if other is TRUE or other == TRUE else FALSE
    if one is other:
        return one
    key = (one.number, other.number) if one.number < other.number else (other.number, one.number)
    found = _both_kept.get(key)
    if found is None:
        top, one_yes, one_no, other_yes, other_no = _parted(one, other)
        found = _both_kept[key] = _node(top, both(one_yes, other_yes), both(one_no, other_no))
    return found


def either(one: Condition, other: Condition) -> Condition:
    """``one or other``."""
    if type(one) is not Choice:
        return TRUE if one is TRUE or one == TRUE else other
    if type(other) is not Choice:
        return TRUE if other is TRUE or other == TRUE else one
    if one is other:
        return one
    key = (one.number, other.number) if one.number < other.number else (other.number, one.number)
    found = _either_kept.get(key)
    if found is None:
        top, one_yes, one_no, other_yes, other_no = _parted(one, other)
        found = _either_kept[key] = _node(top, either(one_yes, other_yes), either(one_no, other_no))
    return found


def _parted(one: Choice, other: Choice) -> tuple[Symbol, Value, Value, Value, Value]:
    """The atom that comes first in two trees, and both where it holds and where it does not."""
    top, second = one.atom, other.atom
    if top is second:
        return top, one.then, one.other, other.then, other.other
    if top.rank < second.rank:
        if top.about is not None and second.about is top.about:
            return top, one.then, one.other, _told(other, top, True), _told(other, top, False)
        return top, one.then, one.other, other, other
    if second.about is not None and second.about is top.about:
        return second, _told(one, second, True), _told(one, second, False), other.then, other.other
    return second, one, one, other.then, other.other


def negation(condition: Condition) -> Condition:
    """``not condition``."""
    return select(condition, FALSE, TRUE)


def within(tree: Value, condition: Condition) -> Value:
    """The tree without the branches that cannot be taken where the condition holds. A tree all of whose branches are
    out of reach stays as it is."""
    if type(tree) is not Choice or condition is TRUE:
        return tree
    found = _restricted(tree, condition)
    return tree if found is None else found


def news(question: Condition, condition: Condition) -> Condition:
    """What a question asks beyond what a condition has settled."""
    if type(question) is not Choice or type(condition) is not Choice:
        return question
    if _subjects(question.atoms).isdisjoint(_subjects(condition.atoms)):
        return question
    return within(question, condition)


def _subjects(atoms_: frozenset[Symbol]) -> frozenset[Symbol]:
    found = _subjects_kept.get(atoms_)
    if found is None:
        found = _subjects_kept[atoms_] = frozenset(map(subject_of, atoms_))
    return found


def _restricted(tree: Value, condition: Condition) -> Value | None:
    """``within``; None where the condition never holds."""
    if type(condition) is not Choice:
        return None if condition == FALSE else tree
    if type(tree) is not Choice:
        return tree
    key = (tree.number, condition.number)
    if key in _restricted_kept:
        return _restricted_kept[key]
    top = _first(tree, condition)
    if tree.atom is not top and subject_of(top) not in _subjects(tree.atoms):
        # the tree does not ask for it, and is not to ask for more than it does
        found = _restricted(tree, either(condition.then, condition.other))
    else:
        (tree_yes, tree_no), (if_yes, if_no) = _sides(tree, top), _sides(condition, top)
        yes, no = _restricted(tree_yes, if_yes), _restricted(tree_no, if_no)
        found = (no if yes is None else yes) if yes is None or no is None else _node(top, yes, no)
    _restricted_kept[key] = found
    return found


def is_possible(condition: Condition, where: Condition = TRUE) -> bool:
    """Whether a condition can hold where another one does."""
    return both(where, condition) != FALSE


def apply(function: Callable[[Value], Value], tree: Value) -> Value:
    """A tree with a function applied to each of its leaves. The function may give trees."""
    return _applied(function, tree, {}) if type(tree) is Choice else function(tree)


def _applied(function: Callable[[Value], Value], part: Value, done: dict[Hashable, Value]) -> Value:
    key = _key(part)
    found = done.get(key)
    if found is None:
        if type(part) is Choice:
            then, other = _applied(function, part.then, done), _applied(function, part.other, done)
            found = _put_together(part.atom, then, other)
        else:
            found = function(part)
        done[key] = found
    return found


def _put_together(atom: Symbol, then: Value, other: Value) -> Value:
    """``choice``, where the atoms of the parts mostly come after this one."""
    for part in (then, other):
        if isinstance(part, Choice) and part.atom.rank <= atom.rank:
            return choice(atom, then, other)
    return _node(atom, then, other)


def leaves(tree: Value) -> tuple[Value, ...]:
    """The different values that a tree may come out as."""
    if type(tree) is not Choice:
        return (tree,)
    if tree.leaves is None:
        found: dict[Hashable, Value] = {}
        seen: set[int] = set()
        pending: list[Value] = [tree]
        while pending:
            value = pending.pop()
            if type(value) is not Choice:
                found.setdefault(_key(value), value)
            elif value.leaves is not None:
                for leaf in value.leaves:
                    found.setdefault(_key(leaf), leaf)
            elif value.number not in seen:
                seen.add(value.number)
                pending += (value.other, value.then)
        tree.leaves = tuple(found.values())
    return tree.leaves


def branches(tree: Value) -> Iterator[tuple[Condition, Value]]:
    """Each different leaf with the condition under which the tree comes out as it."""
    if type(tree) is Choice and type(tree.then) is not Choice and type(tree.other) is not Choice:
        yield _node(tree.atom, TRUE, FALSE), tree.then
        yield _node(tree.atom, FALSE, TRUE), tree.other
        return
    for leaf in leaves(tree):
        yield apply(partial(_is, leaf), tree), leaf


def _is(leaf: Value, value: Value) -> Condition:
    return TRUE if value == leaf else FALSE


def atoms(tree: Value) -> frozenset[Symbol]:
    """The atoms that a tree asks for."""
    return _atoms(tree)


def without(condition: Condition, forgotten: frozenset[Symbol]) -> Condition:
    """What is left of a condition if nothing is known of some atoms: it holds if it may."""
    last = max((atom.rank for atom in forgotten), default=-1)
    return _without(condition, forgotten, last, {})


def _without(
    part: Condition, forgotten: frozenset[Symbol], last: int, done: dict[int, Condition]
) -> Condition:
    if type(part) is not Choice or part.atom.rank > last:
        return part
    found = done.get(part.number)
    if found is None:
        then = _without(part.then, forgotten, last, done)
        other = _without(part.other, forgotten, last, done)
        found = either(then, other) if part.atom in forgotten else _node(part.atom, then, other)
        done[part.number] = found
    return found


def remembering(condition: Condition, subjects: frozenset[Symbol], done: dict[int, Condition]) -> Condition:
    """What is left of a condition if nothing is known but the answers to questions about some unknowns: it holds if it
    may. ``done`` keeps what was found for these unknowns."""
    if not isinstance(condition, Choice):
        return condition
    found = done.get(condition.number)
    if found is None:
        then = remembering(condition.then, subjects, done)
        other = remembering(condition.other, subjects, done)
        atom = condition.atom
        found = _node(atom, then, other) if subject_of(atom) in subjects else either(then, other)
        done[condition.number] = found
    return found


def named(condition: Condition) -> Symbol:
    """What stands for a condition in the name of a value."""
    if type(condition) is not Choice:
        return symbol("is", condition)
    found = _named_kept.get(condition.number)
    if found is None:
        found = symbol("if", condition.atom, named(condition.then), named(condition.other))
        _named_kept[condition.number] = found
    return found


_ARBITRARY = frozenset({"apart", "raised", "handler", "item", "fits", "set by"})
"""Atoms that nobody asks for a second time."""


def forgotten() -> int:
    """How often something was left out of a condition so far, which holds more often since."""
    return _forgotten


def bounded(condition: Condition, most: int = MOST_ASKED) -> Condition:
    """A condition with at most so many atoms, and with few nodes, that holds at least where this one does."""
    global _forgotten
    if not isinstance(condition, Choice) or _asks_few(condition, most):
        return condition
    _forgotten += 1
    found = _bounded_kept.get((condition, most))
    if found is None:
        ranked = sorted(condition.atoms, key=lambda atom: (atom.parts[0] in _ARBITRARY, atom.order))
        kept = min(most, len(ranked) - 1)
        found = without(condition, frozenset(ranked[kept:]))
        while not _is_small(found):
            fewer = max(kept - 4, 0)
            found = without(found, frozenset(ranked[fewer:kept]))
            kept = fewer
        _bounded_kept[condition, most] = found
    return found


def settled(condition: Condition, most: int) -> Condition:
    """A condition that holds only where this one does, with at most so many questions that may come out either way: of
    the others one outcome is taken, that they hold if that is possible."""
    ranked = sorted(atoms(condition), key=lambda atom: (atom.parts[0] in _ARBITRARY, atom.order))
    for atom in ranked[most:]:
        taken = both(condition, asked(atom))
        condition = taken if taken != FALSE else condition
    return condition


def narrowing(before: Condition, condition: Condition) -> Condition:
    """``before and condition``. Where that is too large, something of ``before`` is given up: the two sides of a branch
    exclude each other, whatever else is forgotten."""
    global _forgotten
    found, room = both(before, condition), MOST_ASKED
    while not _asks_few(found, MOST_ASKED):
        _forgotten += 1
        room -= 4
        if room <= 0:
            return bounded(condition)
        found = both(bounded(before, room), condition)
    return found


def _asks_few(condition: Condition, most: int) -> bool:
    """Whether a condition has no more than so many atoms, and few nodes."""
    if type(condition) is not Choice or condition.size <= min(most, MOST_NODES):
        return True
    return len(condition.atoms) <= most and _is_small(condition)


def _is_small(condition: Condition) -> bool:
    """Whether a condition has no more than MOST_NODES nodes."""
    if type(condition) is not Choice or condition.size <= MOST_NODES:
        return True
    found = _small.get(condition.number)
    if found is None:
        found = _small[condition.number] = (
            sum(1 for _ in islice(_nodes_of(condition), MOST_NODES + 1)) <= MOST_NODES
        )
    return found


def _nodes_of(condition: Condition) -> Iterator[Choice]:
    seen: set[int] = set()
    pending = [condition]
    while pending:
        part = pending.pop()
        if isinstance(part, Choice) and part.number not in seen:
            seen.add(part.number)
            pending += (part.then, part.other)
            yield part
