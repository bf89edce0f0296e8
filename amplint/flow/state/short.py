"""Which collections are gone through item by item."""

from __future__ import annotations

from amplint.flow.state.conditions import leaves
from amplint.flow.state.values import Instance, Value

MOST_ITEMS = 8
"""So many items of a collection are gone through one by one."""
MOST_OBJECTS = 32
"""So many objects of different classes are: what one of the ``hooks`` does no other one need do."""


def is_short(items: tuple[Value, ...]) -> bool:
    """Whether a collection is gone through item by item, rather than that some rounds stand for all."""
    if len(items) <= MOST_ITEMS:
        return True
    return len(items) <= MOST_OBJECTS and are_several(items)


def are_several(items: tuple[Value, ...]) -> bool:
    """Whether a collection holds nothing but objects, and of different classes."""
    classes = set()
    for item in items:
        for leaf in leaves(item):
            if not isinstance(leaf, Instance):
                return False
            classes.add((leaf.made_of, leaf.external))
    return len(classes) > 1
