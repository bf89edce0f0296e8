"""Which collections are gone through item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from amplint.flow.state.conditions import Condition, apply, leaves, select, within
from amplint.flow.state.values import FALSE, TRUE, UNBOUND, Constant, Instance, Mapping, Sequence, Value

MOST_ITEMS = 8
"""So many items of a collection are gone through one by one."""
MOST_OBJECTS = 32
"""So many objects of different classes are: what one of the ``hooks`` does no other one need do."""


def is_short(items: tuple[Value, ...]) -> bool:
    """Whether a collection is gone through item by item, rather than that some rounds stand for all."""
    if len(items) <= MOST_ITEMS:
        return True
    return len(items) <= MOST_OBJECTS and are_several(items)


def singles(value: Value) -> Iterator[Value]:
    """All that a value may be, with the items of lists in their place."""
    for leaf in leaves(value):
        if isinstance(leaf, Sequence):
            for item in leaf.items:
                yield from singles(item)
        else:
            yield leaf


def are_several(items: tuple[Value, ...]) -> bool:
    """Whether a collection holds nothing but objects, and of different classes."""
    classes = set()
    for item in items:
        for leaf in leaves(item):
            if not isinstance(leaf, Instance):
                return False
            classes.add((leaf.made_of, leaf.external))
    return len(classes) > 1


def where_there(row: Value) -> Condition:
    """The condition under which something is there that is UNBOUND on some paths."""
    return apply(lambda leaf: FALSE if leaf == UNBOUND else TRUE, row)


def by_path(
    rows: tuple[Value, ...], made: Callable[[tuple[Value, ...]], Value], done: tuple[Value, ...] = ()
) -> Value:
    """A collection of the rows that are there: one for each way in which those may be there that are UNBOUND on some
    paths, ``[x for x in (a, b) if x is not None]``."""
    if not rows:
        return made(done)
    row, *others = rows
    rest, there = tuple(others), where_there(row)
    with_it = by_path(rest, made, (*done, within(row, there)))
    return with_it if there == TRUE else select(there, with_it, by_path(rest, made, done))


def with_keys(held: Value, value: Value) -> Value:
    """The keys of a dict where some paths lack one of them, as a loop goes through it; any other ``value``, of which
    ``held`` are the contents, as it is."""
    if not isinstance(held, Mapping) or held.rest:
        return value
    found = {key: held.get(key) or UNBOUND for key, _ in held.items}
    sometimes = [value for value in found.values() if UNBOUND in leaves(value)]
    if not sometimes:
        return value
    rows = tuple(select(where_there(value), Constant(key), UNBOUND) for key, value in found.items())
    if len(sometimes) == 1:
        return by_path(rows, Sequence)
    return Sequence(tuple(map(Constant, found)), exact=False, rows=rows)
