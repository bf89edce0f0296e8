"""Answers: models are asked, for each combination of what a call is given and what is around it.

Where there are too many combinations, alternatives that are alike become one, and then one argument after the other
what all of its alternatives have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Mapping_
from dataclasses import replace
from functools import partial
from operator import is_
from typing import TypeVar

from amplint.flow.core.api import Arguments, SeveralAmbient
from amplint.flow.core.paths import Paths
from amplint.flow.state import values as kinds
from amplint.flow.state.conditions import (
    Condition,
    apply,
    atoms,
    both,
    branches,
    is_possible,
    leaves,
    select,
    within,
)
from amplint.flow.state.store import Ambient, generalised, merged
from amplint.flow.state.symbols import Symbol, is_of_a_round
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    Choice,
    ClassValue,
    Constant,
    External,
    FunctionValue,
    Instance,
    Mapping,
    ModuleFile,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

A = TypeVar("A", bound=Ambient)
M = TypeVar("M")
MOST_COMBINATIONS = 8
"""So many combinations of alternatives of the arguments of one call are told apart."""
MOST_TOGETHER = 4
"""So many are told apart where the values allow for more than MOST_COMBINATIONS, and their conditions for few; of names
as many as MOST_COMBINATIONS."""


class Answers(Paths):
    """What models answer, and what is taken where none does."""

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
        plain = [within(value, self.state.condition) for value in given.all]
        values = [self.told_apart(value) for value in plain]
        several = [index for index, value in enumerate(values) if isinstance(value, Choice)]
        if not several:
            return self._asked_with(given, values, function)
        count = 1
        for index in several:
            count *= sum(1 for _ in leaves(values[index]))
        if count > MOST_COMBINATIONS and self._are_many([values[index] for index in several]):
            self._make_few(plain, values, several)
        return self._resolved(given, values, several, function)

    def _make_few(self, plain: list[Value], values: list[Value], several: list[int]) -> None:
        """Takes alternatives that are alike for one, and then as many values as it needs for what all of their
        alternatives have in common: first the one about which the most is asked that the others do not depend on."""
        for index in several:
            values[index] = merged(values[index])
        left = list(several)
        while left and self._are_many([values[index] for index in left]):
            index = max(
                left, key=lambda one: _news(values[one], [values[other] for other in left if other != one])
            )
            left.remove(index)
            values[index] = generalised(plain[index]) if isinstance(plain[index], Choice) else plain[index]

    def _are_many(self, values: list[Value]) -> bool:
        """Whether there are too many combinations of values, those left out that cannot come about."""
        most = MOST_COMBINATIONS if all(map(_is_name, values)) else MOST_TOGETHER
        paths = [self.state.condition]
        for value in values:
            found: list[Condition] = []
            for path in paths:
                for where, _ in branches(within(value, path)):
                    if is_possible(where, path):
                        found.append(both(path, where))
                if len(found) > most:
                    return True
            paths = found
        return False

    def told_apart(self, value: Value) -> Value:
        """A list that a flag has filled in different ways: one of several lists. What a loop asks of each of many
        things tells no lists apart."""
        if isinstance(value, kinds.Sequence) and value.identity is not None:
            found = self.load(value.identity, "[]")
            found = within(found, self.state.condition) if found is not None else None
            if isinstance(found, Choice) and not any(map(is_of_a_round, atoms(found))):
                few = sum(1 for _ in leaves(found)) <= MOST_COMBINATIONS
                return found if few else value
        return value

    def _surrounded(
        self, kind: type[Ambient], given: Arguments, function: Callable[[Arguments], Value], one: Value
    ) -> Value:
        """One alternative of an ambient value; what the call has not changed is a choice again afterwards."""
        self.state.ambient = {**self.state.ambient, kind: one}
        return self.resolved(given, function)

    def _resolved(
        self,
        given: Arguments,
        values: list[Value],
        several: list[int],
        function: Callable[[Arguments], Value],
    ) -> Value:
        """``several``: the places of the values that are still to be told apart, in their order."""
        if not several:
            return self._asked_with(given, values, function)
        index, *further = several
        return self.each(
            values[index],
            lambda one: self._resolved(
                given, [*values[:index], one, *values[index + 1 :]], further, function
            ),
        )

    def _asked_with(
        self, given: Arguments, values: list[Value], function: Callable[[Arguments], Value]
    ) -> Value:
        """Calls a function with arguments none of which is a Choice, lists and dicts as they are now."""
        held = [self.contents(value) for value in values]
        for value in held:
            if isinstance(value, FunctionValue) and value.closure is not None:
                for captured in value.closure.names().values():
                    self._may_be_filled(self.contents(captured))
        if all(map(is_, held, given.all)):
            return function(given)
        return function(given.with_values(held))

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

    def unfollowed(self, given: Arguments, effects: bool, node: Node) -> Value:
        """What a call gives that is not followed, after all that it was given is forgotten."""
        for value in given.all:
            self.each_item(value, partial(self._given_away, node))

        def tell(nothing: Arguments) -> Value:
            found = self.registry.hooks.opaque(self.machine, given, effects, node)
            return found if found is not None else self.unknown(node)

        return self.resolved(Arguments(), tell)

    def _given_away(self, node: Node, value: Value, inside: frozenset[Symbol] = frozenset()) -> Value:
        """``inside``: the lists and dicts that hold the value, and the objects that do whose methods others call."""
        value = self.contents(value)
        self._may_be_filled(value)
        if isinstance(value, kinds.BoundMethod):
            self._called_by_others(value, node, inside)
        model = self.model_of(self.registry.havocs, value)
        if model is not None:
            model(self.machine, value, node)
        if isinstance(value, (kinds.Sequence, Mapping)) and value.identity not in inside:
            inside |= frozenset() if value.identity is None else {value.identity}
            for part in value.items if isinstance(value, kinds.Sequence) else value.values:
                self.each_item(part, partial(self._given_away, node, inside=inside))
        return NONE

    def _called_by_others(self, method: kinds.BoundMethod, node: Node, inside: frozenset[Symbol]) -> None:
        """``run(loss, self.scale)``: what a method with effects works on is in the hands of others."""
        receiver, function = method.receiver, method.function
        if function is None:
            self.each(receiver, partial(self._given_away, node, inside=inside))
        elif (
            isinstance(receiver, Instance)
            and receiver.identity not in inside
            and self.machine.has_effects(function)
        ):
            inside |= {receiver.identity}
            for held in self.machine.attributes_of(receiver).values():
                self.each(held, partial(self._given_away, node, inside=inside))

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
        if isinstance(value, Instance):
            return (*self.machine.outside(value), Instance)
        return (type(value),)

    def method_keys_of(self, value: Value) -> Sequence[type[Value] | str]:
        """The same for methods, which a class has as its objects do."""
        if isinstance(value, kinds.ClassValue):
            return (*self.machine.outside(value), kinds.ClassValue)
        return self.keys_of(value)

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

    def knows_method(self, value: Value, name: str) -> bool:
        """Whether a model is registered for a method of what a value is, rather than of whatever object it may be."""
        keys = (
            key for key in self.method_keys_of(value) if key not in ("", Unknown, Instance, kinds.ClassValue)
        )
        return any((key, name) in self.registry.methods for key in keys)


def _news(value: Value, others: list[Value]) -> tuple[int, int]:
    """How many questions tell the alternatives of a value apart that tell those of no other one, and how many there
    are."""
    return len(atoms(value) - frozenset().union(*map(atoms, others))), sum(1 for _ in leaves(value))


def _is_name(value: Value) -> bool:
    """Whether a value is for looking things up, ``getattr(module, name)``, whichever of its alternatives it is."""
    return all(isinstance(leaf, (ClassValue, Constant, External, ModuleFile)) for leaf in leaves(value))


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
