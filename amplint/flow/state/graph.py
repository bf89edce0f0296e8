"""Event graphs: what happens in a function, with the conditions under which it does.

A graph is a sequence. Each item has a condition, seen from the beginning of the function: an event, or the graph of a
function that is called there. Branches need no nodes of their own: what stands in one has its condition, and so
has what follows an early return.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from amplint.events import Event, Place
from amplint.flow.state.conditions import Condition, Known, evaluate, implied
from amplint.flow.state.values import FALSE, TRUE, Choice

MOST_PATHS = 96


@dataclass(frozen=True, slots=True, eq=False)
class Happens:
    """An event, where the condition holds."""

    condition: Condition
    event: Event


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """A function that is called at ``place``, where the condition holds; its graph is spliced in."""

    condition: Condition
    graph: Graph
    place: Place


class Graph:
    """The items of one function, in order."""

    __slots__ = ("_kinds", "items")

    def __init__(self) -> None:
        self.items: list[Happens | Calls] = []
        self._kinds: frozenset[type[Event]] | None = None

    @property
    def kinds(self) -> frozenset[type[Event]]:
        """The classes of all events in it, those of called functions included. Asked for when it is complete."""
        if self._kinds is None:
            found: set[type[Event]] = set()
            for item in self.items:
                if isinstance(item, Happens):
                    found.add(type(item.event))
                else:
                    found |= item.graph.kinds
            self._kinds = frozenset(found)
        return self._kinds

    def events(self) -> Iterator[Event]:
        """All events, each once for each call that leads to it, whatever their conditions."""
        for item in self.items:
            if isinstance(item, Happens):
                yield item.event
            else:
                yield from item.graph.events()


S = TypeVar("S", bound=Hashable)


@dataclass(slots=True)
class _Path(Generic[S]):
    known: Known
    state: S


@dataclass(slots=True)
class Run(Generic[S]):
    """Runs a state machine over a graph, along all paths that it can tell apart."""

    kinds: frozenset[type[Event]]
    hear: Callable[[S, Event], S]
    cut: bool = False
    """Whether there were more paths than MOST_PATHS."""

    def over(self, graph: Graph, start: S) -> list[S]:
        """The states at the end."""
        return [path.state for path in self._walk(graph, [_Path({}, start)], ())]

    def _walk(self, graph: Graph, paths: list[_Path[S]], calls: tuple[Place, ...]) -> list[_Path[S]]:
        for item in graph.items:
            if isinstance(item, Happens):
                if type(item.event) not in self.kinds:
                    continue
            elif self.kinds.isdisjoint(item.graph.kinds):
                continue
            inside, outside = self._divided(paths, item.condition)
            if isinstance(item, Calls):
                inside = self._walk(item.graph, inside, (*calls, item.place)) if inside else []
            elif inside:
                event = _reached_by(item.event, calls)
                for path in inside:
                    path.state = self.hear(path.state, event)
            paths = self._merged(inside + outside)
        return paths

    def _divided(self, paths: list[_Path[S]], condition: Condition) -> tuple[list[_Path[S]], list[_Path[S]]]:
        """The paths on which a condition holds, and the others."""
        if condition == TRUE:
            return paths, []
        inside: list[_Path[S]] = []
        outside: list[_Path[S]] = []
        pending = [(path, condition) for path in reversed(paths)]
        while pending:
            path, open_question = pending.pop()
            left = evaluate(open_question, path.known)
            if isinstance(left, Choice):
                for side, truth in ((left.other, False), (left.then, True)):
                    pending.append((_Path({**path.known, left.atom: truth}, path.state), side))
            else:
                (outside if left == FALSE else inside).append(path)
        return inside, outside

    def _merged(self, paths: list[_Path[S]]) -> list[_Path[S]]:
        """One path for each state, which knows what all that had it knew."""
        if len(paths) == 1:
            return paths
        merged: dict[S, _Path[S]] = {}
        for path in paths:
            known = merged.get(path.state)
            if known is None:
                merged[path.state] = path
            else:
                common = {
                    atom: truth
                    for atom, truth in known.known.items()
                    if path.known.get(atom) is truth or implied(atom, path.known) is truth
                }
                merged[path.state] = _Path(common, path.state)
        result = list(merged.values())
        self.cut = self.cut or len(result) > MOST_PATHS
        return result[:MOST_PATHS]


def _reached_by(event: Event, calls: Sequence[Place]) -> Event:
    return replace(event, place=event.place.reached_by(tuple(calls))) if calls else event
