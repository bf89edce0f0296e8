"""Event graphs: what happens in a function, with the conditions under which it does.

A graph is a sequence. Each item has a condition, seen from the beginning of the function: an event, or the graph of a
function that is called there. Branches need no nodes of their own: what stands in one has its condition, and so
has what follows an early return.

``Run`` lets a rule hear a graph: paths part only where its state differs, and meet again where it is the same. Where
a path would have to remember too many answers, one outcome of some questions is taken and the others are given up: so
what is told happens on paths that exist, and some of these are not walked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from amplint.events import Event, FunctionEnded, Handled, LoopEnded, LoopIterated, Place
from amplint.flow.state.atoms import subject_of
from amplint.flow.state.conditions import (
    MOST_ASKED,
    Condition,
    atoms,
    both,
    either,
    negation,
    remembering,
    settled,
    within,
)
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import FALSE, TRUE, Choice

MOST_PATHS = 64
MOST_KEPT = 10
"""A path may keep answers about so many unknowns that nobody asks for again."""
MOST_REMEMBERED = 32
"""A path remembers how so many questions came out."""


@dataclass(frozen=True, slots=True, eq=False)
class Happens:
    """An event, where the condition holds. ``late``: behind the ``yield`` of a context manager's function."""

    condition: Condition
    event: Event
    late: bool = False

    def is_like(self, other: Happens | Calls) -> bool:
        """Whether the same happens, if perhaps under another condition."""
        same = isinstance(other, Happens) and (other.event is self.event or other.event == self.event)
        return same and other.late is self.late


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """A function that is called at ``place``, where the condition holds; its graph is spliced in. ``late`` as in
    Happens."""

    condition: Condition
    graph: Graph
    place: Place
    late: bool = False

    def is_like(self, other: Happens | Calls) -> bool:
        """Whether the same is called, if perhaps under another condition."""
        same = isinstance(other, Calls) and other.graph is self.graph and other.place == self.place
        return same and other.late is self.late


def together(some: Sequence[Happens | Calls], others: Sequence[Happens | Calls]) -> list[Happens | Calls]:
    """The items of two ways that exclude each other, in the order of each: what happens on both is one item."""
    found: list[Happens | Calls] = []
    rest, own = list(some), list[Happens | Calls]()
    for item in others:
        index = next((index for index, one in enumerate(rest) if one.is_like(item)), None)
        condition = either(rest[index].condition, item.condition) if index is not None else FALSE
        if index is None or len(atoms(condition)) > MOST_ASKED:
            own.append(item)
            continue
        found += [*rest[:index], *own, replace(rest[index], condition=condition)]
        rest, own = rest[index + 1 :], []
    return [*found, *rest, *own]


def repeats(items: Iterable[Happens | Calls]) -> bool:
    """Whether something happens in loops."""
    kinds: set[type[Event]] = set()
    for item in items:
        kinds |= {type(item.event)} if isinstance(item, Happens) else item.graph.kinds
    return LoopIterated in kinds and not kinds <= _SILENT


class Graph:
    """The items of one function, in order."""

    __slots__ = ("_kinds", "end", "items")

    def __init__(self) -> None:
        self.items: list[Happens | Calls] = []
        self.end: Condition = TRUE
        """Under which the function comes to its end: it raises and does not exit."""
        self._kinds: frozenset[type[Event]] | None = None

    def without_late(self) -> Graph:
        """Takes out what is behind the ``yield``: what happens when the context is left."""
        rest = Graph()
        rest.items = [replace(item, late=False) for item in self.items if item.late]
        self.items = [item for item in self.items if not item.late]
        return rest

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


def _within(item: Happens | Calls, condition: Condition) -> Happens | Calls:
    """An item as it is seen where a condition holds."""
    found = within(item.condition, condition)
    return item if found is item.condition else replace(item, condition=found)


def _is_handled(item: Happens | Calls) -> bool:
    return isinstance(item, Happens) and type(item.event) is Handled


S = TypeVar("S", bound=Hashable)


@dataclass(slots=True)
class _Path(Generic[S]):
    condition: Condition
    """Under which the items so far have led to the state, as far as it is asked again."""
    state: S


_FRAMES = frozenset({LoopIterated, LoopEnded, FunctionEnded})
"""Events that tell how often others happen: a call with no others changes no state, and answers are not kept for
them alone."""


_SILENT = _FRAMES | {Handled}
"""Events that change no state."""


_Situation = tuple[Graph, S, Condition, frozenset[Symbol]]


def _nobody(condition: Condition, event: Event) -> None:
    """Nobody wants to know."""


@dataclass(slots=True, eq=False)
class _Part:
    """What a graph has for one state machine: its items, each with what the conditions of later ones ask for."""

    items: list[tuple[Happens | Calls, frozenset[Symbol]]]
    asks: frozenset[Symbol]
    """What the conditions of all items ask for."""
    end: Condition
    """Under which it is walked."""
    last: Condition
    """Under which a path comes to its end, where others are walked, too."""


class Relevant:
    """The items of graphs in which there are events of some classes, by what the events are about: runs that hear of
    one subject each share it. ``about`` gives the subjects of an event, None if it is of use to all."""

    def __init__(
        self,
        kinds: frozenset[type[Event]],
        about: Callable[[Event], Collection[Hashable] | None] = lambda event: None,
    ) -> None:
        self._kinds = kinds
        self._about = about
        self._known: dict[Graph, tuple[list[int], dict[Hashable, list[int]]]] = {}

    def of(self, graph: Graph, subject: Hashable) -> Iterator[Happens | Calls]:
        """The items of a graph that are of use to all or about the subject, in order."""
        common, own = self._known.get(graph) or self._sorted(graph)
        return map(graph.items.__getitem__, sorted([*common, *own.get(subject, ())]))

    def _sorted(self, graph: Graph) -> tuple[list[int], dict[Hashable, list[int]]]:
        common: list[int] = []
        own: dict[Hashable, list[int]] = {}
        for index, item in enumerate(graph.items):
            if isinstance(item, Calls):
                if not self._kinds.isdisjoint(item.graph.kinds):
                    common.append(index)
                continue
            kind = type(item.event)
            about = self._about(item.event) if kind in self._kinds else () if kind is not Handled else None
            if about is None:
                common.append(index)
            else:
                for subject in dict.fromkeys(about):
                    own.setdefault(subject, []).append(index)
        self._known[graph] = common, own
        return common, own


@dataclass(slots=True)
class Run(Generic[S]):
    """Runs a state machine over a graph, along all paths that it can tell apart:
    ``Run(kinds, hear).over(graph, start)``."""

    kinds: frozenset[type[Event]]
    hear: Callable[[S, Event], S]
    under: Callable[[Condition, Event], None] = _nobody
    """Is told under which condition which event happens, as far as the path remembers it, before the event is heard.
    Once paths were given up it is that of the event's own function alone."""
    keep: frozenset[Symbol] = frozenset()
    """What paths remember the answers about, whether it is asked again or not."""
    relevant: Relevant | None = None
    """Which items of graphs are of use to it; None for all that have events of these classes."""
    subject: Hashable = None
    cut: bool = False
    """Whether there were more paths than MOST_PATHS, or some were given up: they would have to remember more answers
    than are kept, and without one of them perhaps nothing runs along them."""
    _parts: dict[Graph, _Part] = field(default_factory=dict)
    _known: dict[_Situation[S], list[_Path[S]]] = field(default_factory=dict)
    _left: dict[tuple[int, frozenset[Symbol]], Condition] = field(default_factory=dict)
    """For a condition and what is asked again: what is left of it."""
    _answers: dict[frozenset[Symbol], dict[int, Condition]] = field(default_factory=dict)

    def over(self, graph: Graph, start: S) -> list[S]:
        """The states at the end."""
        return [path.state for path in self._walk(graph, [_Path(TRUE, start)], self.keep, ())]

    def keeping(self, wanted: Callable[[Symbol], bool], graph: Graph) -> Run[S]:
        """The same run, but that paths through a graph remember more: all answers about what is wanted, if that is
        little. Much of it would make conditions grow without end."""
        keep = frozenset(filter(wanted, self._part(graph).asks))
        few = keep if len(keep) <= MOST_KEPT else frozenset[Symbol]()
        return Run(self.kinds, self.hear, self.under, few, self.relevant, self.subject)

    def _part(self, graph: Graph) -> _Part:
        part = self._parts.get(graph)
        if part is None:
            items: list[tuple[Happens | Calls, frozenset[Symbol]]] = []
            heard, end = self._heard_to_the_end(graph)
            last = graph.end if end == TRUE else TRUE
            asked = frozenset(map(subject_of, atoms(last)))
            for item in reversed(heard):
                items.append((item, asked))
                if isinstance(item, Happens) and type(item.event) in _FRAMES:
                    continue
                own = frozenset(map(subject_of, atoms(item.condition)))
                if isinstance(item, Calls):
                    own |= self._part(item.graph).asks
                if not own <= asked:
                    asked |= own
            if all(isinstance(item, Happens) and type(item.event) in _SILENT for item, _ in items):
                items, asked, end, last = [], frozenset(), TRUE, TRUE
            part = self._parts[graph] = _Part(
                items[::-1], asked | frozenset(map(subject_of, atoms(end))), end, last
            )
        return part

    def _heard_to_the_end(self, graph: Graph) -> tuple[list[Happens | Calls], Condition]:
        """What is heard of a graph, and the condition under which it is walked. Where all of it also happens on paths
        that come to the end of the function, these alone are walked: what has to hold for that need not be asked
        again and again."""
        heard: list[Happens | Calls] = []
        if self.relevant is None:
            self.relevant = Relevant(self.kinds)
        for item in self.relevant.of(graph, self.subject):
            if _is_handled(item):
                # what was tried does something: that no exception was raised is taken for granted from here on
                if any(both(one.condition, item.condition) == FALSE for one in heard):
                    heard.append(item)
            elif self._is_heard(item):
                heard.append(item)
        if any(both(item.condition, graph.end) == FALSE for item in heard if not _is_handled(item)):
            return heard, TRUE
        return [_within(item, graph.end) for item in heard], graph.end

    def _is_heard(self, item: Happens | Calls) -> bool:
        return isinstance(item, Happens) or bool(self._part(item.graph).items)

    def _walk(
        self, graph: Graph, paths: list[_Path[S]], later: frozenset[Symbol], calls: tuple[Place, ...]
    ) -> list[_Path[S]]:
        """``later``: what the callers ask for when the graph is through."""
        part = self._part(graph)
        if part.end != TRUE:
            ended = [replace(path, condition=both(path.condition, part.end)) for path in paths]
            paths = [path for path in ended if path.condition != FALSE]
        for item, after in part.items:
            asked = later | after
            if _is_handled(item):
                paths = self._without(paths, item.condition, asked)
            elif isinstance(item, Happens):
                paths = self._heard(paths, item, calls, asked)
            else:
                paths = self._called(paths, item, calls, asked)
        if part.last != TRUE:
            ended = [replace(path, condition=both(path.condition, part.last)) for path in paths]
            paths = self._merged([path for path in ended if path.condition != FALSE], later)
        return paths

    def _without(
        self, paths: list[_Path[S]], condition: Condition, asked: frozenset[Symbol]
    ) -> list[_Path[S]]:
        """The paths on which a condition does not hold."""
        left = [replace(path, condition=both(path.condition, negation(condition))) for path in paths]
        return self._merged([path for path in left if path.condition != FALSE], asked)

    def _called(
        self, paths: list[_Path[S]], item: Calls, calls: tuple[Place, ...], asked: frozenset[Symbol]
    ) -> list[_Path[S]]:
        """The paths after a call. A path parts only where the call makes a difference to its state."""
        after: list[_Path[S]] = []
        for path in paths:
            where = both(path.condition, item.condition)
            if where == FALSE:
                after.append(path)
                continue
            ends = self._ends(item, _Path(where, path.state), calls, asked)
            if ends and all(end.state == path.state for end in ends):
                after.append(path)
                continue
            reached = (_Path(both(where, end.condition), end.state) for end in ends)
            after += [end for end in reached if end.condition != FALSE]
            elsewhere = both(path.condition, negation(item.condition))
            if elsewhere != FALSE:
                after.append(_Path(elsewhere, path.state))
        return paths if after == paths else self._merged(after, asked)

    def _ends(
        self, item: Calls, path: _Path[S], calls: tuple[Place, ...], asked: frozenset[Symbol]
    ) -> list[_Path[S]]:
        """The paths at the end of a called function for one that leads there. They are the same for all that have the
        same state and the same answers to what is asked inside: the function is walked once for them."""
        asks = self._part(item.graph).asks | self.keep
        condition = self._remembered(path.condition, asks)
        if condition == FALSE:
            return []
        key = (item.graph, path.state, condition, asked & asks)
        ends = self._known.get(key)
        if ends is None:
            inside = [_Path(condition, path.state)]
            ends = self._known[key] = self._walk(item.graph, inside, asked & asks, (*calls, item.place))
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
            self.under(item.condition if self.cut else where, event)
            state = self.hear(path.state, event)
            if state == path.state:
                after.append(path)
                continue
            after.append(_Path(where, state))
            elsewhere = both(path.condition, negation(item.condition))
            if elsewhere != FALSE:
                after.append(_Path(elsewhere, path.state))
        return after if after == paths else self._merged(after, asked)

    def _merged(self, paths: list[_Path[S]], asked: frozenset[Symbol]) -> list[_Path[S]]:
        """One path for each state, under the conditions of all that had it. What is not asked again is dropped from
        them."""
        merged: dict[S, Condition] = {}
        for path in paths:
            before = merged.get(path.state)
            merged[path.state] = path.condition if before is None else either(before, path.condition)
        left = (_Path(self._remembered(condition, asked), state) for state, condition in merged.items())
        result = [path for path in left if path.condition != FALSE]
        self.cut = self.cut or len(result) > MOST_PATHS
        return result[:MOST_PATHS]

    def _remembered(self, condition: Condition, asked: frozenset[Symbol]) -> Condition:
        """What a path keeps of its condition: the answers that are asked for again. If these are too many, some of the
        paths that it stands for are given up."""
        if not isinstance(condition, Choice):
            return condition
        key = (condition.number, asked)
        found = self._left.get(key)
        if found is None:
            found = remembering(condition, asked, self._answers.setdefault(asked, {}))
            if len(atoms(found)) > MOST_REMEMBERED:
                found = settled(found, MOST_REMEMBERED)
                self.cut = True
            self._left[key] = found
        return found


def _reached_by(event: Event, calls: Sequence[Place]) -> Event:
    return replace(event, place=event.place.reached_by(tuple(calls))) if calls else event
