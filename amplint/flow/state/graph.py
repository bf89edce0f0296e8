"""Event graphs: what happens in a function, with the conditions under which it does.

A graph is a sequence. Each item has a condition, seen from the beginning of the function: an event, or the graph of a
function that is called there. Branches need no nodes of their own: what stands in one has its condition, and so
has what follows an early return.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from amplint.events import Event, FunctionEnded, LoopEnded, LoopIterated, Place
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

MOST_PATHS = 64
MOST_REMEMBERED = 32
"""A path remembers how so many questions came out."""


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

    def different(self, kinds: frozenset[type[Event]]) -> Iterator[Event]:
        """All events of some classes, each once, however many calls lead to it."""
        seen = {self}
        pending = [self]
        while pending:
            for item in pending.pop().items:
                if isinstance(item, Happens):
                    if type(item.event) in kinds:
                        yield item.event
                elif item.graph not in seen and not kinds.isdisjoint(item.graph.kinds):
                    seen.add(item.graph)
                    pending.append(item.graph)


S = TypeVar("S", bound=Hashable)


@dataclass(slots=True)
class _Path(Generic[S]):
    condition: Condition
    """Under which the items so far have led to the state, as far as it is asked again."""
    state: S
    blurred: bool = False
    """Whether answers were forgotten that are asked for again: perhaps nothing runs along this path."""


_FRAMES = frozenset({LoopIterated, LoopEnded, FunctionEnded})
"""Events that tell how often others happen: a call with no others changes no state, and answers are not kept for
them alone."""


_Situation = tuple[Graph, S, Condition, bool, frozenset[Symbol]]


def _every(event: Event) -> bool:
    return True


def _never_mind(mute: bool) -> None:
    pass


@dataclass(slots=True, eq=False)
class _Part:
    """What a graph has for one state machine: its items, each with what the conditions of later ones ask for."""

    items: list[tuple[Happens | Calls, frozenset[Symbol]]]
    asks: frozenset[Symbol]
    """What the conditions of all items ask for."""


@dataclass(slots=True)
class Run(Generic[S]):
    """Runs a state machine over a graph, along all paths that it can tell apart:
    ``Run(kinds, hear).over(graph, start)``."""

    kinds: frozenset[type[Event]]
    hear: Callable[[S, Event], S]
    wants: Callable[[Event], bool] = _every
    """Which events of these classes it is to hear."""
    mute: Callable[[bool], None] = _never_mind
    """Called with True before the machine hears what comes on a path that may not be one, and with False after."""
    cut: bool = False
    """Whether there were more paths than MOST_PATHS, or more answers on one than are kept."""
    _parts: dict[Graph, _Part] = field(default_factory=dict)
    _known: dict[_Situation[S], list[_Path[S]]] = field(default_factory=dict)

    def over(self, graph: Graph, start: S) -> list[S]:
        """The states at the end."""
        return [path.state for path in self._walk(graph, [_Path(TRUE, start)], frozenset(), ())]

    def _part(self, graph: Graph) -> _Part:
        part = self._parts.get(graph)
        if part is None:
            items: list[tuple[Happens | Calls, frozenset[Symbol]]] = []
            asked: frozenset[Symbol] = frozenset()
            for item in reversed(graph.items):
                if isinstance(item, Happens):
                    if type(item.event) not in self.kinds or not self.wants(item.event):
                        continue
                elif self.kinds.isdisjoint(item.graph.kinds) or not self._part(item.graph).items:
                    continue
                items.append((item, asked))
                if isinstance(item, Happens) and type(item.event) in _FRAMES:
                    continue
                own = frozenset(map(subject_of, atoms(item.condition)))
                if isinstance(item, Calls):
                    own |= self._part(item.graph).asks
                if not own <= asked:
                    asked |= own
            if all(isinstance(item, Happens) and type(item.event) in _FRAMES for item, _ in items):
                items, asked = [], frozenset()
            part = self._parts[graph] = _Part(items[::-1], asked)
        return part

    def _walk(
        self, graph: Graph, paths: list[_Path[S]], later: frozenset[Symbol], calls: tuple[Place, ...]
    ) -> list[_Path[S]]:
        """``later``: what the callers ask for when the graph is through."""
        for item, after in self._part(graph).items:
            asked = later | after
            if isinstance(item, Happens):
                paths = self._heard(paths, item, calls, asked)
                continue
            paths = self._called(paths, item, calls, asked)
        return paths

    def _called(
        self, paths: list[_Path[S]], item: Calls, calls: tuple[Place, ...], asked: frozenset[Symbol]
    ) -> list[_Path[S]]:
        """The paths after a call. A path parts only where the call makes a difference to its state."""
        after: list[_Path[S]] = []
        for path in paths:
            where = both(path.condition, item.condition)
            ends = self._ends(item, replace(path, condition=where), calls, asked) if where != FALSE else []
            if all(end.state == path.state for end in ends):
                after.append(path)
                continue
            for end in ends:
                reached = both(where, end.condition)
                if reached != FALSE:
                    after.append(_Path(reached, end.state, end.blurred))
            elsewhere = both(path.condition, negation(item.condition))
            if elsewhere != FALSE:
                after.append(_Path(elsewhere, path.state, path.blurred))
        return paths if after == paths else self._merged(after, asked)

    def _ends(
        self, item: Calls, path: _Path[S], calls: tuple[Place, ...], asked: frozenset[Symbol]
    ) -> list[_Path[S]]:
        """The paths at the end of a called function for one that leads there. They are the same for all that have the
        same state and the same answers to what is asked inside: the function is walked once for them."""
        asks = self._part(item.graph).asks
        inside = self._remembered(path, asks)
        key = (item.graph, inside.state, inside.condition, inside.blurred, asked & asks)
        ends = self._known.get(key)
        if ends is None:
            ends = self._walk(item.graph, [inside], asked & asks, (*calls, item.place))
            self._known[key] = ends
        return ends

    def _heard(
        self, paths: list[_Path[S]], item: Happens, calls: tuple[Place, ...], asked: frozenset[Symbol]
    ) -> list[_Path[S]]:
        """The paths after an event. A path parts only where the event makes a difference to its state."""
        event: Event | None = None
        after: list[_Path[S]] = []
        for path in paths:
            where = both(path.condition, item.condition)
            if where == FALSE:
                after.append(path)
                continue
            event = event or _reached_by(item.event, calls)
            self.mute(path.blurred)
            state = self.hear(path.state, event)
            self.mute(False)
            if state == path.state:
                after.append(path)
                continue
            after.append(_Path(where, state, path.blurred))
            elsewhere = both(path.condition, negation(item.condition))
            if elsewhere != FALSE:
                after.append(_Path(elsewhere, path.state, path.blurred))
        return after if after == paths else self._merged(after, asked)

    def _merged(self, paths: list[_Path[S]], asked: frozenset[Symbol]) -> list[_Path[S]]:
        """One path for each state, under the conditions of all that had it. What is not asked again is dropped from
        them."""
        merged: dict[tuple[S, bool], Condition] = {}
        for path in paths:
            key = (path.state, path.blurred)
            before = merged.get(key)
            merged[key] = path.condition if before is None else either(before, path.condition)
        result = [
            self._remembered(_Path(where, state, blurred), asked)
            for (state, blurred), where in merged.items()
        ]
        self.cut = self.cut or len(result) > MOST_PATHS
        return result[:MOST_PATHS]

    def _remembered(self, path: _Path[S], asked: frozenset[Symbol]) -> _Path[S]:
        """A path with no more answers than are asked for again, and no more than are kept."""
        done = frozenset(atom for atom in atoms(path.condition) if subject_of(atom) not in asked)
        left = without(path.condition, done) if done else path.condition
        kept = bounded(left, MOST_REMEMBERED)
        self.cut = self.cut or kept is not left
        return _Path(kept, path.state, path.blurred or kept is not left)


def _reached_by(event: Event, calls: Sequence[Place]) -> Event:
    return replace(event, place=event.place.reached_by(tuple(calls))) if calls else event
