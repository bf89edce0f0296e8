"""Paths: conditions, branches, joins, events and notes. The part of the interpreter that knows no names.

A branch forks the state, and both sides are joined after it. Where neither has ended anything, the condition is that
from before, and the question of the branch tells what came of either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar, cast

from amplint.events import Event, Place
from amplint.flow.core import comparisons
from amplint.flow.core.api import Dead
from amplint.flow.core.machine import Frame, Machine
from amplint.flow.core.registry import Registry
from amplint.flow.state.atoms import OF_DATA, is_none, is_true
from amplint.flow.state.conditions import (
    Condition,
    apply,
    asked,
    atoms,
    both,
    bounded,
    branches,
    either,
    leaves,
    narrowing,
    negation,
    news,
    within,
)
from amplint.flow.state.graph import Happens, together
from amplint.flow.state.store import Key, State, join, join_values, keep_apart, rejoined
from amplint.flow.state.symbols import AT, Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    Choice,
    Constant,
    Exists,
    Instance,
    Note,
    Number,
    Unknown,
    Value,
)
from amplint.lowering.program import Node, Program

N = TypeVar("N", bound=Note)


class Paths:
    """The present path, and how paths part and meet."""

    def __init__(self, registry: Registry) -> None:
        self.machine = cast(Machine, self)
        """The whole interpreter, of which this is a part."""
        self.registry = registry
        self.state = State()
        self.state.ambient = {type(value): value for value in registry.ambients}
        self.base: dict[Key, Value] = {}
        """Attributes of objects that no path has set: what constructors and modules left."""
        self.frame: Frame
        self.silent = False
        self.steps = 0
        self.odd: dict[tuple[object, ...], set[str]] = {}
        """By the parts of the key of a place, and a role, the odd values that an operand had there on some path; see
        ``Registry.odd``."""

    # places and symbols

    def place(self, node: Node) -> Place:
        """Where a node stands."""
        return self.place_in(self.frame.program, node.number)

    def place_in(self, program: Program, number: int) -> Place:
        """Where a node of a program stands."""
        return Place(
            program.path,
            (program.path, program.root, number),
            lambda: program.locate(number),
            lambda: program.text_of(number),
            named=program.line_name,
        )

    def meet(self, node: Node, value: Value, role: str = "") -> None:
        """Notes a value that an operand has on the present path, if it is an odd one. ``role`` is that of the operand
        if the node is the op."""
        for leaf in leaves(value) if type(value) is Choice else (value,):
            known = self.registry.odd.get(type(leaf))
            name = known(leaf) if known is not None else None
            if name is not None:
                program = self.frame.program
                self.odd.setdefault((program.path, program.root, node.number, role), set()).add(name)

    def text(self, node: Node) -> str:
        """The text of a node."""
        return self.frame.program.text_of(node.number)

    def fresh(self, node: Node, *parts: str) -> Symbol:
        """A name for an object that is made at this node, in this call."""
        self.frame.makes = True
        made = symbol("made", self.frame.context, node.number, *parts)
        self.note_made((made,))
        return made

    def note_made(self, identities: Iterable[Symbol]) -> None:
        """Notes that objects are made on the present path, and were not before. Later rounds of a loop make objects of
        the same names again."""
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.loops and any(frame.rounds):
                return
            frame = frame.caller
        for identity in identities:
            self.state.note_made(identity)

    def fresh_display(self, node: Node) -> Symbol:
        """A name for a list or dict that is written here."""
        return symbol("made", self.frame.context, node.number)

    def unknown(self, node: Node, kind: str | None = None) -> Unknown:
        """An unknown value that comes about at this node."""
        return Unknown(symbol(AT, self.frame.context, node.number, *self.frame.rounds_around), kind)

    def number(self, node: Node) -> Number:
        """A number that is not known."""
        return Number(symbol(AT, self.frame.context, node.number, *self.frame.rounds_around))

    # paths

    def dead(self) -> bool:
        """Whether the present path has ended."""
        return self.state.condition == FALSE

    def end(self) -> None:
        """Ends the present path."""
        self.state = self.state.fork(FALSE)

    def attempt(self, action: Callable[[], None]) -> None:
        """Runs an action; where the path ends in it, the present state is dead."""
        try:
            action()
        except Dead:
            self.end()

    def narrowed(self, condition: Condition) -> Condition:
        """The condition of the present path where another one holds, too."""
        return narrowing(self.state.condition, condition)

    def can(self, condition: Condition) -> bool:
        """Whether a condition can hold on the present path."""
        return both(self.state.condition, condition) != FALSE

    def assume(self, condition: Condition) -> None:
        """Goes on only where a condition holds."""
        narrowed = self.narrowed(condition)
        if narrowed == FALSE:
            raise Dead
        self.state.condition = narrowed

    def branch(
        self, condition: Condition, node: Node, then: Callable[[], None], other: Callable[[], None]
    ) -> None:
        """Runs ``then`` where a condition holds and ``other`` where not, and joins the two."""
        yes, no = self.narrowed(condition), self.narrowed(negation(condition))
        if no == FALSE or yes == FALSE:
            self.attempt(then if no == FALSE else other)
            return
        before = self.state
        self.state = before.fork(yes)
        self.attempt(then)
        first = self.state
        self.state = before.fork(no)
        self.attempt(other)
        if first.condition is yes and self.state.condition is no:  # neither side ends anything
            question = news(condition, before.condition)
            self.state = rejoined(first, self.state, question, before.condition, self.absent)
        else:
            self.state = join(first, self.state, self._apart(node), self.absent)

    def selected(
        self,
        condition: Condition,
        node: Node,
        then: Callable[[], Value],
        other: Callable[[], Value],
        *,
        flags: bool = False,
    ) -> Value:
        """The value of ``then`` where a condition holds, else that of ``other``. ``flags``: the two are tested, so that
        unknowns are told apart, too."""
        join_ = keep_apart if flags else join_values
        return self._alternatives([(condition, then), (negation(condition), other)], node, join_)

    def each(self, value: Value, function: Callable[[Value], Value]) -> Value:
        """Calls a function for each alternative of a value, on a path of its own, and joins the results."""
        if not isinstance(value, Choice):
            return function(value)
        value = within(value, self.state.condition)
        if not isinstance(value, Choice):
            return function(value)
        parts = list(branches(value))
        ways = [(condition, partial(function, leaf)) for condition, leaf in parts if leaf != UNBOUND]
        return self._alternatives(ways, None, whole=len(ways) == len(parts))

    def each_item(self, item: Value, function: Callable[[Value], Value]) -> Value:
        """The same for an item of a list or dict; where there is none, UNBOUND, that stays so and the path goes on."""
        value = within(item, self.state.condition)
        if UNBOUND not in leaves(value):
            return self.each(value, function)

        def of(leaf: Value) -> Value:
            return leaf if leaf == UNBOUND else function(leaf)

        return self._alternatives([(found, partial(of, leaf)) for found, leaf in branches(value)], None)

    def _alternatives(
        self,
        ways: Sequence[tuple[Condition, Callable[[], Value]]],
        node: Node | None,
        join_: Callable[[Condition, Value, Value], Value] = join_values,
        *,
        whole: bool = True,
    ) -> Value:
        """Takes each of several ways, under its condition; they exclude each other. ``whole``: one of them is taken."""
        possible = [
            (narrowed, way, condition)
            for condition, way in ways
            if (narrowed := self.narrowed(condition)) != FALSE
        ]
        if not possible:
            raise Dead
        if len(possible) == 1:
            self.state.condition = possible[0][0]
            return possible[0][1]()
        before = self.state
        ends: list[tuple[State, Value]] = []
        items = self.frame.graph.items
        first, told = len(items), len(items)
        for narrowed, way, _ in possible:
            self.state = before.fork(narrowed)
            try:
                result = way()
                ends.append((self.state, result))
            except Dead:
                whole = False
            whole = whole and self.state.condition is narrowed
            if first < told < len(items):
                items[first:] = together(items[first:told], items[told:])
            told = len(items)
        if not ends:
            self.state = before
            raise Dead
        state, result = ends[0]
        if whole:  # all of them have come to their end
            either_of = possible[0][2]
            for (other, value), (_, _, condition) in zip(ends[1:], possible[1:], strict=True):
                question = news(either_of, before.condition)
                state = rejoined(state, other, question, before.condition, self.absent)
                result = join_(question, result, value)
                either_of = either(either_of, condition)
            self.state = state
            return result
        for other, value in ends[1:]:
            merged = join(state, other, self._apart(node), self.absent)
            result = join_(self._first(state, other, merged, node), result, value)
            state = merged
        self.state = state
        return result

    def _apart(self, node: Node | None) -> Symbol:
        number = node.number if node is not None else -1
        return symbol("apart", self.frame.context, number, *self.frame.rounds_around)

    def _first(self, one: State, other: State, merged: State, node: Node | None) -> Condition:
        """What tells the first of two states from the other."""
        if both(one.condition, other.condition) != FALSE:
            return asked(self._apart(node))
        return within(one.condition, merged.condition)

    def join(self, states: Sequence[State], node: Node) -> State:
        """One state for several."""
        live = [state for state in states if state.condition != FALSE]
        if not live:
            return states[0] if states else self.state.fork(FALSE)
        joined = live[0]
        for index, state in enumerate(live[1:]):
            apart = symbol("apart", self.frame.context, node.number, index, *self.frame.rounds_around)
            joined = join(joined, state, apart, self.absent)
        return joined

    def joined_results(self, ends: Sequence[tuple[State, Value]], node: Node) -> Value:
        """One value for those that several paths give."""
        live = [(state, value) for state, value in ends if state.condition != FALSE]
        if not live:
            return NONE
        state, result = live[0]
        condition = state.condition
        for index, (other, value) in enumerate(live[1:]):
            if both(condition, other.condition) != FALSE:
                apart = symbol("apart", self.frame.context, node.number, index, *self.frame.rounds_around)
                first: Condition = asked(apart)
            else:
                first = within(condition, either(condition, other.condition))
            result = join_values(first, result, value)
            condition = bounded(either(condition, other.condition))
        return result

    # truth

    def truth(self, value: Value) -> Condition:
        """The condition under which a value is true."""
        return apply(partial(comparisons.truth, self.machine), value)

    def truth_of_data(self) -> Condition:
        """The condition under which data is true of which nothing is known, such as a tensor."""
        return asked(is_true(symbol(OF_DATA, self.frame.context, self.steps, *self.frame.rounds_around)))

    def known_truth(self, value: Value) -> bool | None:
        """Whether a value is true on this path, or None."""
        found = within(self.truth(value), self.state.condition)
        return bool(found.value) if isinstance(found, Constant) else None

    def both_truths(self, operator: str, left: Value, right: Value) -> Condition:
        """``left & right`` or ``left | right`` of two flags."""
        combine = both if operator == "&" else either
        return combine(self.truth(left), self.truth(right))

    # events and notes

    def emit(self, event: Event) -> None:
        """Tells that something happens, on this path."""
        if not self.silent:
            self.frame.graph.items.append(Happens(self.state.condition, event, self.state.yielded))

    def read(self, key: Key) -> Value | None:
        """What the store has under a key, noting that it was read."""
        found = self.state.heap.get(key)
        frame = self.frame
        if frame.entry.get(key) is found:
            frame.reads.setdefault(key, found)
        return found if found is not None else self.base.get(key)

    def load(self, owner: Symbol, name: str) -> Value | None:
        """An attribute that was set on an object, or None."""
        return self.read((owner, name))

    def store(self, owner: Symbol, name: str, value: Value) -> None:
        """Sets an attribute of an object."""
        self.state.store((owner, name), value)

    def absent(self, key: Key) -> Value | None:
        """What an attribute is as long as no path has set it."""
        found = self.base.get(key)
        if found is not None or not isinstance(key[1], str) or key[0].parts[0] == "made":
            return found
        return None if key[1] == "[]" else Unknown(symbol("attribute", key[0], key[1]))

    def note(self, owner: Symbol, kind: type[N]) -> N | None:
        """The note of a kind on an object, if all paths that led here agree on it."""
        value = self.noted(owner, kind)
        found = set(leaves(value)) if value is not None else set()
        one = next(iter(found)) if len(found) == 1 else None
        return one if isinstance(one, kind) else None

    def notes(self, owner: Symbol, kind: type[N]) -> tuple[N, ...]:
        """All notes of a kind that an object may have on this path."""
        value = self.noted(owner, kind)
        return tuple(leaf for leaf in leaves(value) if isinstance(leaf, kind)) if value is not None else ()

    def noted(self, owner: Symbol, kind: type[Note]) -> Value | None:
        """The notes of a kind that an object may have on this path."""
        value = self.read(_key(owner, kind))
        return within(value, self.state.condition) if value is not None else None

    def where_noted(self, owner: Symbol, kind: type[Note]) -> Condition:
        """The condition under which an object has a note of a kind."""
        value = self.noted(owner, kind)
        return apply(partial(_is_kind, kind), value) if value is not None else FALSE

    def set_note(self, owner: Symbol, note: Note) -> None:
        """Notes something of an object."""
        self.state.store(_key(owner, type(note)), note)

    def drop_note(self, owner: Symbol, kind: type[Note]) -> None:
        """Takes a note back."""
        if _key(owner, kind) in self.state.heap:
            self.state.store(_key(owner, kind), UNBOUND)

    def is_noted(self, owner: Symbol) -> bool:
        """Whether something is known of an object: a note, an attribute."""
        return owner in self.state.attributes and any(key[0] is owner for key in self.state.heap)

    def exists(self, value: Unknown, *, apart: bool = False) -> None:
        """Notes that an unknown value is an object: a method of it is called. Ends the path where it is None."""
        if is_none(value.symbol) in atoms(self.state.condition):
            self.assume(negation(asked(is_none(value.symbol))))
        if self.note(value.symbol, Exists) is None:
            self.set_note(value.symbol, Exists(apart=apart or value.kind is not None))

    def identity_of(self, value: Value) -> Symbol | None:
        """What names an object."""
        if isinstance(value, Instance):
            return value.identity
        if isinstance(value, Unknown):
            return value.symbol
        found = getattr(value, "identity", None)
        return found if isinstance(found, Symbol) else None


def _is_kind(kind: type[Note], leaf: Value) -> Condition:
    return TRUE if isinstance(leaf, kind) else FALSE


def _key(owner: Symbol, kind: type[Note]) -> Key:
    return owner, kind
