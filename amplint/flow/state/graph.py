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
from amplint.flow.state.conditions import (
    Condition,
    atoms,
    both,
    bounded,
    either,
    negation,
    subject_of,
    without,
)
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import FALSE, TRUE

MOST_PATHS = 96
MOST_ASKED = 24
"""A path knows how so many questions came out."""


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

    __slots__ = ("_asked_after", "_kinds", "items")

    def __init__(self) -> None:
        self.items: list[Happens | Calls] = []
        self._kinds: frozenset[type[Event]] | None = None
        self._asked_after: list[frozenset[Symbol]] | None = None

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

    def asked_after(self, index: int) -> frozenset[Symbol]:
        """What the conditions of the items after this one ask for, those of called functions included. Asked for when
        the graph is complete; -1 stands for all items."""
        if self._asked_after is None:
            found: frozenset[Symbol] = frozenset()
            after = [found]
            for item in reversed(self.items):
                own = frozenset(map(subject_of, atoms(item.condition)))
                if isinstance(item, Calls):
                    own |= item.graph.asked_after(-1)
                if not own <= found:
                    found = found | own
                after.append(found)
            self._asked_after = after[::-1]
        return self._asked_after[index + 1]

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
    condition: Condition
    """Under which the items so far have led to the state, as far as it is asked again."""
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
        return [path.state for path in self._walk(graph, [_Path(TRUE, start)], frozenset(), ())]

    def _walk(
        self, graph: Graph, paths: list[_Path[S]], later: frozenset[Symbol], calls: tuple[Place, ...]
    ) -> list[_Path[S]]:
        """``later``: what the callers ask for when the graph is through."""
        for index, item in enumerate(graph.items):
            if isinstance(item, Happens):
                if type(item.event) not in self.kinds:
                    continue
            elif self.kinds.isdisjoint(item.graph.kinds):
                continue
            inside, outside = self._divided(paths, item.condition)
            if isinstance(item, Calls):
                asked = later | graph.asked_after(index)
                inside = self._walk(item.graph, inside, asked, (*calls, item.place)) if inside else []
            elif inside:
                event = _reached_by(item.event, calls)
                for path in inside:
                    path.state = self.hear(path.state, event)
            paths = self._merged(inside + outside, graph, index, later)
        return paths

    def _divided(self, paths: list[_Path[S]], condition: Condition) -> tuple[list[_Path[S]], list[_Path[S]]]:
        """The paths on which a condition holds, and the others."""
        if condition == TRUE:
            return paths, []
        inside: list[_Path[S]] = []
        outside: list[_Path[S]] = []
        for path in paths:
            for side, question in ((inside, condition), (outside, negation(condition))):
                where = both(path.condition, question)
                if where != FALSE:
                    side.append(_Path(where, path.state))
        return inside, outside

    def _merged(
        self, paths: list[_Path[S]], graph: Graph, index: int, later: frozenset[Symbol]
    ) -> list[_Path[S]]:
        """One path for each state, under the conditions of all that had it. What is not asked again after the item
        of this index is dropped from them."""
        merged: dict[S, Condition] = {}
        for path in paths:
            before = merged.get(path.state)
            merged[path.state] = path.condition if before is None else either(before, path.condition)
        asked = later | graph.asked_after(index)
        result = [_Path(_still_asked(where, asked), state) for state, where in merged.items()]
        self.cut = self.cut or len(result) > MOST_PATHS
        return result[:MOST_PATHS]


def _still_asked(condition: Condition, asked: frozenset[Symbol]) -> Condition:
    for atom in atoms(condition):
        if subject_of(atom) not in asked:
            condition = without(condition, atom)
    return bounded(condition, MOST_ASKED)


def _reached_by(event: Event, calls: Sequence[Place]) -> Event:
    return replace(event, place=event.place.reached_by(tuple(calls))) if calls else event
