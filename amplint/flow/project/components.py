"""Strongly connected components, by Tarjan's algorithm without recursion."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def components(start: Iterable[N], steps: Callable[[N], Iterable[N]]) -> list[list[N]]:
    """The components of what can be reached, each after all that it leads to."""
    order: dict[N, int] = {}
    lowest: dict[N, int] = {}
    open_nodes: list[N] = []
    is_open: set[N] = set()
    found: list[list[N]] = []
    for root in start:
        if root in order:
            continue
        order[root] = lowest[root] = len(order)
        open_nodes.append(root)
        is_open.add(root)
        pending = [(root, iter(steps(root)))]
        while pending:
            node, rest = pending[-1]
            for after in rest:
                if after not in order:
                    order[after] = lowest[after] = len(order)
                    open_nodes.append(after)
                    is_open.add(after)
                    pending.append((after, iter(steps(after))))
                    break
                if after in is_open:
                    lowest[node] = min(lowest[node], order[after])
            else:
                pending.pop()
                if pending:
                    above = pending[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == order[node]:
                    component: list[N] = []
                    while not component or component[-1] != node:
                        component.append(open_nodes.pop())
                        is_open.discard(component[-1])
                    found.append(component)
    return found
