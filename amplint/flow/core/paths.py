"""Paths: conditions, branches, joins, events and notes. The half of the interpreter that knows no names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Mapping_
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from amplint.events import Event, Place
from amplint.flow.core import comparisons
from amplint.flow.core.api import Arguments, Dead, SeveralAmbient
from amplint.flow.core.machine import Frame, Machine
from amplint.flow.core.registry import Registry
from amplint.flow.state import values as kinds
from amplint.flow.state.conditions import (
    Condition,
    apply,
    asked,
    atoms,
    both,
    bounded,
    branches,
    either,
    is_none,
    is_true,
    leaves,
    narrowing,
    negation,
    news,
    select,
    within,
)
from amplint.flow.state.graph import Happens, together
from amplint.flow.state.store import (
    Ambient,
    Key,
    State,
    generalised,
    join,
    join_values,
    keep_apart,
    rejoined,
)
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    Choice,
    Constant,
    Exists,
    FunctionValue,
    Instance,
    Mapping,
    Note,
    Number,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

A = TypeVar("A", bound=Ambient)
N = TypeVar("N", bound=Note)
M = TypeVar("M")
MOST_COMBINATIONS = 8
"""So many combinations of alternatives of the arguments of one call are told apart."""


class Paths:
    """The present path, and how paths part and meet."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.state = State()
        self.state.ambient = {type(value): value for value in registry.ambients}
        self.base: dict[Key, Value] = {}
        """Attributes of objects that no path has set: what constructors and modules left."""
        self.frame: Frame
        self.silent = False
        self.steps = 0

    @property
    def machine(self) -> Machine:
        """The whole interpreter, of which this is a part."""
        return cast(Machine, self)

    # places and symbols

    def place(self, node: Node) -> Place:
        """Where a node stands."""
        program = self.frame.program
        number = node.number
        return Place(
            program.path,
            (program.path, program.root, number),
            lambda: program.locate(number),
            lambda: program.text_of(number),
        )

    def text(self, node: Node) -> str:
        """The text of a node."""
        return self.frame.program.text_of(node.number)

    def fresh(self, node: Node, *parts: str) -> Symbol:
        """A name for an object that is made at this node, in this call."""
        self.frame.makes = True
        return symbol("made", self.frame.context, node.number, *parts)

    def fresh_display(self, node: Node) -> Symbol:
        """A name for a list or dict that is written here."""
        return symbol("made", self.frame.context, node.number)

    def unknown(self, node: Node, kind: str | None = None) -> Unknown:
        """An unknown value that comes about at this node."""
        return Unknown(symbol("at", self.frame.context, node.number, *self.frame.rounds), kind)

    def number(self, node: Node) -> Number:
        """A number that is not known."""
        return Number(symbol("at", self.frame.context, node.number, *self.frame.rounds))

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
        return symbol("apart", self.frame.context, number, *self.frame.rounds)

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
            apart = symbol("apart", self.frame.context, node.number, index, *self.frame.rounds)
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
                apart = symbol("apart", self.frame.context, node.number, index, *self.frame.rounds)
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
        return asked(is_true(symbol("data", self.frame.context, self.steps, *self.frame.rounds)))

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
            self.frame.graph.items.append(Happens(self.state.condition, event))

    def read(self, key: Key) -> Value | None:
        """What the store has under a key, noting that it was read."""
        found = self.state.heap.get(key)
        frame = self.frame
        if frame.entry.get(key) is found:
            frame.reads.setdefault(key, found)
        return found if found is not None else self.base.get(key)

    def peek(self, key: Key) -> Value | None:
        """What the store has under a key, for a call that may be taken from a summary."""
        return self.state.heap.get(key)

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
        found = self.notes(owner, kind)
        value = self.read(_key(owner, kind))
        whole = value is not None and UNBOUND not in set(leaves(within(value, self.state.condition)))
        return found[0] if len(found) == 1 and whole else None

    def notes(self, owner: Symbol, kind: type[N]) -> tuple[N, ...]:
        """All notes of a kind that an object may have on this path."""
        value = self.read(_key(owner, kind))
        if value is None:
            return ()
        return tuple(leaf for leaf in leaves(within(value, self.state.condition)) if isinstance(leaf, kind))

    def where_noted(self, owner: Symbol, kind: type[Note]) -> Condition:
        """The condition under which an object has a note of a kind."""
        value = self.read(_key(owner, kind))
        if value is None:
            return FALSE
        return apply(partial(_is_kind, kind), within(value, self.state.condition))

    def set_note(self, owner: Symbol, note: Note) -> None:
        """Notes something of an object."""
        self.state.store(_key(owner, type(note)), note)

    def drop_note(self, owner: Symbol, kind: type[Note]) -> None:
        """Takes a note back."""
        if _key(owner, kind) in self.state.heap:
            self.state.store(_key(owner, kind), UNBOUND)

    def ambient(self, kind: type[A]) -> A:
        """The ambient value of a class."""
        found = within(self.state.ambient[kind], self.state.condition)
        if isinstance(found, Choice):
            raise SeveralAmbient
        assert isinstance(found, kind)
        return found

    def surround(self, value: Ambient) -> None:
        """Sets the ambient value of a class."""
        self.state.surround(value)

    def on_each(self, action: Callable[[], None]) -> None:
        """Does something for each combination of ambient values."""

        def run() -> Value:
            action()
            return NONE

        self.for_each_ambient(run)

    def for_each_ambient(self, function: Callable[[], Value]) -> Value:
        """The value of a function for each combination of ambient values."""
        for value in self.state.ambient.values():
            if isinstance(value, Choice):
                return self.resolved(Arguments(), lambda _: function())
        return function()

    def answered(self, given: Arguments, ask: Callable[[Arguments], Value | None]) -> Value | None:
        """What a model gives for each combination of arguments and ambient values; None if it knows nothing of one."""
        all_known = True

        def answer(one: Arguments) -> Value:
            nonlocal all_known
            found = ask(one)
            all_known = all_known and found is not None
            return found if found is not None else NONE

        result = self.resolved(given, answer)
        return result if all_known else None

    def resolved(self, given: Arguments, function: Callable[[Arguments], Value]) -> Value:
        """Calls a function with arguments and ambient values none of which is a Choice, for each combination."""
        for kind, value in self.state.ambient.items():
            if isinstance(value, Choice):
                return self.each(value, partial(self._surrounded, kind, given, function))
        values = [within(value, self.state.condition) for value in given.all]
        count = 1
        for value in values:
            count *= sum(1 for _ in leaves(value)) if isinstance(value, Choice) else 1
        if count > MOST_COMBINATIONS:
            values = [generalised(value) if isinstance(value, Choice) else value for value in values]
        return self._resolved(given, values, 0, function)

    def _surrounded(
        self, kind: type[Ambient], given: Arguments, function: Callable[[Arguments], Value], one: Value
    ) -> Value:
        """One alternative of an ambient value; what the call has not changed is a choice again afterwards."""
        self.state.ambient = {**self.state.ambient, kind: one}
        return self.resolved(given, function)

    def _resolved(
        self, given: Arguments, values: list[Value], index: int, function: Callable[[Arguments], Value]
    ) -> Value:
        if index == len(values):
            held = [self.contents(value) for value in values]
            for value in held:
                if isinstance(value, FunctionValue) and value.closure is not None:
                    for captured in value.closure.names().values():
                        self._may_be_filled(self.contents(captured))
            count = len(given.positional)
            names = [name for name, _ in given.keywords]
            return function(
                replace(
                    given,
                    positional=tuple(held[:count]),
                    keywords=tuple(zip(names, held[count:], strict=True)),
                )
            )
        return self.each(
            values[index],
            lambda one: self._resolved(
                given, [*values[:index], one, *values[index + 1 :]], index + 1, function
            ),
        )

    def contents(self, value: Value) -> Value:
        """A list or dict as it is now."""
        if isinstance(value, (kinds.Sequence, Mapping)) and value.identity is not None:
            found = self.load(value.identity, "[]")
            if found is not None:
                found = within(found, self.state.condition)
                if isinstance(found, Choice):
                    return generalised_contents(found, value)
                return found
        return value

    def is_noted(self, owner: Symbol) -> bool:
        """Whether something is known of an object: a note, an attribute."""
        return any(key[0] is owner for key in self.state.heap)

    def unfollowed(self, given: Arguments, effects: bool, node: Node) -> Value:
        """What a call gives that is not followed, after all that it was given is forgotten."""
        for value in given.all:
            self.each(value, partial(self._given_away, node))

        def tell(nothing: Arguments) -> Value:
            found = self.registry.hooks.opaque(self.machine, given, effects, node)
            return found if found is not None else self.unknown(node)

        return self.resolved(Arguments(), tell)

    def _given_away(self, node: Node, value: Value) -> Value:
        value = self.contents(value)
        self._may_be_filled(value)
        model = self.model_of(self.registry.havocs, value)
        if model is not None:
            model(self.machine, value, node)
        return NONE

    def _may_be_filled(self, held: Value) -> None:
        """An empty list or dict that code out of sight has been given, or a function that may append to it."""
        filled = kinds.to_be_filled(held)
        if (
            filled is not held
            and isinstance(filled, (kinds.Sequence, Mapping))
            and filled.identity is not None
        ):
            self.store(filled.identity, "[]", filled)

    def opaque(self, arguments: Arguments, node: Node) -> Value:
        """What a call gives that is not followed."""
        return self.unfollowed(arguments, True, node)

    def keys_of(self, value: Value) -> Sequence[type[Value] | str]:
        """The keys under which the tables of models may know a value, the most telling first."""
        if isinstance(value, Unknown):
            return (value.kind, "", Unknown) if value.kind is not None else ("", Unknown)
        if isinstance(value, (Instance, kinds.ClassValue)):
            return (*self.machine.outside(value), type(value))
        return (type(value),)

    def model_of(self, table: Mapping_[type[Value] | str, M], value: Value) -> M | None:
        """The model of a table for a value."""
        for key in self.keys_of(value):
            model = table.get(key)
            if model is not None:
                return model
        return None

    def knows(self, name: str) -> bool:
        """Whether a model is registered for calls of a qualified name."""
        return name in self.registry.calls

    def exists(self, value: Unknown) -> None:
        """Notes that an unknown value is an object: a method of it is called. Ends the path where it is None."""
        if is_none(value.symbol) in atoms(self.state.condition):
            self.assume(negation(asked(is_none(value.symbol))))
        if self.note(value.symbol, Exists) is None:
            self.set_note(value.symbol, Exists(apart=value.kind is not None))

    def identity_of(self, value: Value) -> Symbol | None:
        """What names an object."""
        if isinstance(value, Instance):
            return value.identity
        if isinstance(value, Unknown):
            return value.symbol
        found = getattr(value, "identity", None)
        return found if isinstance(found, Symbol) else None


def generalised_contents(tree: Value, like: Value) -> Value:
    """One collection for several that a list or dict may be: what may be in it."""
    if isinstance(like, Mapping):
        parts = [leaf for leaf in leaves(tree) if isinstance(leaf, Mapping)]
        keys = list(dict.fromkeys(key for part in parts for key, _ in part.items))
        items = []
        for key in keys:
            found: Value = UNBOUND
            for leaf in parts:
                held = leaf.get(key)
                condition = apply(partial(_is, leaf), tree)
                found = select(condition, held if held is not None else UNBOUND, found)
            items.append((key, found))
        rest = tuple(dict.fromkeys(value for part in parts for value in part.rest))
        return replace(like, items=tuple(items), rest=rest)
    assert isinstance(like, kinds.Sequence)
    lists = [leaf for leaf in leaves(tree) if isinstance(leaf, kinds.Sequence)]
    if lists and all(part.exact and len(part.items) == len(lists[0].items) for part in lists):
        whole = []
        for index in range(len(lists[0].items)):
            whole.append(apply(partial(_item, index), tree))
        return replace(like, items=tuple(whole), exact=True)
    found_items = tuple(dict.fromkeys(item for part in lists for item in part.items))
    return replace(like, items=found_items, exact=False)


def _is(leaf: Value, value: Value) -> Condition:
    return TRUE if value == leaf else FALSE


def _item(index: int, value: Value) -> Value:
    return value.items[index] if isinstance(value, kinds.Sequence) else UNBOUND


def _is_kind(kind: type[Note], leaf: Value) -> Condition:
    return TRUE if isinstance(leaf, kind) else FALSE


def _key(owner: Symbol, kind: type[Note]) -> Key:
    return owner, kind
