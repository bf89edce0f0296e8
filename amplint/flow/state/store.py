"""The state of one path: names, objects, ambient values, and the condition under which it is taken.

Where paths meet there is one state again. What is noted of an object that one of them alone has made needs no
condition: on the other one there is no such object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from amplint.flow.state.conditions import (
    MOST_ALTERNATIVES,
    MOST_ATOMS,
    Condition,
    apply,
    asked,
    atoms,
    bounded,
    either,
    is_possible,
    leaves,
    named,
    select,
    within,
)
from amplint.flow.state.counts import JOINED, joined
from amplint.flow.state.symbols import LOST, LOST_OBJECT, Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    TRUE,
    UNBOUND,
    Choice,
    Constant,
    Instance,
    Iteration,
    Mapping,
    Note,
    Number,
    Sequence,
    Text,
    Unknown,
    Value,
)

Key = tuple[Symbol, str | type[Value]]
"""The identity of an object, and the name of an attribute or the class of a note."""


Attributes = dict[Symbol, set[str]]
"""The names of the attributes that each object was ever given, on whatever path."""


class Ambient(Value):
    """Base of what holds for a stretch of time rather than for an object, such as the open regions. There is one
    value of each class at a time; models see it resolved. While one that ``matters`` holds, all calls are followed."""

    __slots__ = ()


class _Log:
    """The keys of the heap that a state has written since it was forked, the objects that were made since then, and the
    log of what it was forked from."""

    __slots__ = ("depth", "keys", "made", "parent")

    def __init__(self, parent: _Log | None = None) -> None:
        self.keys: dict[Key, None] = {}
        self.made: set[Symbol] = set()
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent is not None else 0


class State:
    """Names and objects are dicts that forks share until one of them writes."""

    __slots__ = (
        "_heap_shared",
        "_log",
        "_names_shared",
        "ambient",
        "attributes",
        "condition",
        "heap",
        "names",
        "yielded",
    )

    def __init__(self, attributes: Attributes | None = None) -> None:
        self.names: dict[str, Value] = {}
        """The local names of the function that is being walked."""
        self.heap: dict[Key, Value] = {}
        """Attributes and notes of objects."""
        self.ambient: dict[type[Ambient], Value] = {}
        self.condition: Condition = TRUE
        """Under which this path is taken, seen from the beginning of the function that is being walked."""
        self.yielded = False
        """Whether the function that is being walked is a context manager's, and behind its ``yield``."""
        self._names_shared = self._heap_shared = False
        self._log = _Log()
        self.attributes: Attributes = attributes if attributes is not None else {}
        """Shared by all states of one interpreter."""

    def fork(self, condition: Condition | None = None) -> State:
        """A copy that can go its own way, under a further condition."""
        other = State.__new__(State)
        other.names, other.heap, other.ambient = self.names, self.heap, self.ambient
        other.attributes, other.yielded = self.attributes, self.yielded
        other.condition = self.condition if condition is None else condition
        for state in (self, other):
            state._names_shared = state._heap_shared = True
        before = self._log
        self._log, other._log = _Log(before), _Log(before)
        return other

    def bind(self, name: str, value: Value) -> None:
        """Assigns a local name."""
        if self._names_shared:
            self.names = dict(self.names)
            self._names_shared = False
        self.names[name] = value

    def forget(self, name: str) -> None:
        """Takes a local name back."""
        self.names = {known: value for known, value in self.names.items() if known != name}
        self._names_shared = False

    def enter_frame(self, names: dict[str, Value]) -> dict[str, Value]:
        """Takes new local names; gives back the old ones."""
        old, self.names, self._names_shared = self.names, names, False
        return old

    def store(self, key: Key, value: Value) -> None:
        """Sets an attribute or a note."""
        if self._heap_shared:
            self.heap = dict(self.heap)
            self._heap_shared = False
        self.heap[key] = value
        self._log.keys[key] = None
        self.note_attribute(key)

    def note_attribute(self, key: Key) -> None:
        """Notes that an object may have an attribute, or a note."""
        owner, name = key
        names = self.attributes.setdefault(owner, set())
        if isinstance(name, str):
            names.add(name)

    def drop(self, key: Key) -> None:
        """Forgets an attribute or a note."""
        if key in self.heap:
            if self._heap_shared:
                self.heap = dict(self.heap)
                self._heap_shared = False
            del self.heap[key]
            self._log.keys[key] = None

    def note_made(self, identity: Symbol) -> None:
        """Notes that an object is made."""
        self._log.made.add(identity)

    def made_since(self, before: State) -> frozenset[Symbol]:
        """The objects that were made since a state that this one was forked from."""
        return frozenset(_since(self._log, before._log)[2])

    def written_since(self, before: State) -> dict[Key, Value]:
        """What is different from the state that this one was forked from."""
        _, written, _, _ = _since(self._log, before._log)
        found = ((key, self.heap.get(key)) for key in written)
        return {key: value for key, value in found if value is not None and before.heap.get(key) is not value}

    def surround(self, value: Ambient) -> None:
        """Sets an ambient value."""
        self.ambient = {**self.ambient, type(value): value}


K = TypeVar("K", bound=Hashable)
Absent = Callable[[Key], Value | None]
"""What an attribute is as long as no path has set it, or None where there is no telling."""


def join(one: State, other: State, apart: Symbol, absent: Absent) -> State:
    """One state that stands for two. Values that differ are chosen by the condition that tells the two apart, or
    by the atom ``apart`` where none does."""
    if one.condition == FALSE or other.condition == FALSE:
        return other if one.condition == FALSE else one
    condition = bounded(either(one.condition, other.condition))
    if is_possible(one.condition, other.condition):
        first: Condition = asked(apart)
    else:
        first = within(one.condition, condition)
    return rejoined(one, other, first, condition, absent)


def rejoined(one: State, other: State, first: Condition, condition: Condition, absent: Absent) -> State:
    """One state that stands for two, neither of them dead: ``first`` tells the first one from the other, and
    ``condition`` is that of the paths that come here."""
    joined = one.fork(condition)
    joined.yielded = one.yielded or other.yielded
    if one.names is not other.names:
        joined.names = _joined(one.names, other.names, first, lambda name: UNBOUND)
        joined._names_shared = False
    if one.heap is not other.heap:
        _join_heaps(joined, one, other, first, absent)
    if one.ambient is not other.ambient:
        joined.ambient = {
            kind: _joined_ambient(first, one.ambient[kind], other.ambient[kind]) for kind in one.ambient
        }
    return joined


def _join_heaps(joined: State, one: State, other: State, first: Condition, absent: Absent) -> None:
    """Joins what either state has written since they parted."""
    joined.heap = dict(one.heap)
    joined._heap_shared = False
    shared, written, mine, yours = _since(one._log, other._log)
    joined._log = _Log(shared)
    joined._log.keys.update(written)
    joined._log.made = mine | yours
    on_one = mine ^ yours
    for key in written if shared is not None else dict.fromkeys((*one.heap, *other.heap)):
        value, beside = one.heap.get(key), other.heap.get(key)
        if value is not beside:
            is_note = not isinstance(key[1], str)
            if is_note and (value is None or beside is None) and key[0] in on_one:
                joined.heap[key] = value or beside or UNBOUND  # on the other way there is no such object
                continue
            value = absent(key) if value is None else value
            beside = absent(key) if beside is None else beside
            _put(joined.heap, key, first, value, beside, is_note=is_note)


def _since(one: _Log, other: _Log) -> tuple[_Log | None, dict[Key, None], set[Symbol], set[Symbol]]:
    """The log that two have in common, the keys that were written after it, and the objects that were made on either
    way."""
    written: dict[Key, None] = {}
    made: set[Symbol] = set()
    others: set[Symbol] = set()
    mine: _Log | None = one
    yours: _Log | None = other
    while mine is not yours:
        if yours is None or (mine is not None and mine.depth >= yours.depth):
            assert mine is not None
            written.update(mine.keys)
            made |= mine.made
            mine = mine.parent
        else:
            written.update(yours.keys)
            others |= yours.made
            yours = yours.parent
    return mine, written, made, others


def _joined_ambient(first: Condition, one: Value, other: Value) -> Value:
    """Ambient values are told apart as long as that is possible; then those of the first state stand for both."""
    found = select(first, one, other)
    return one if isinstance(found, Choice) and len(found.atoms) > MOST_ATOMS else found


def _joined(
    one: dict[K, Value], other: dict[K, Value], first: Condition, absent: Callable[[K], Value | None]
) -> dict[K, Value]:
    joined = dict(one)
    for key, value in one.items():
        beside = other.get(key)
        if beside is value:
            continue
        if beside is None:
            beside = absent(key)
        _put(joined, key, first, value, beside)
    for key, value in other.items():
        if key not in one:
            _put(joined, key, first, absent(key), value)
    return joined


def _put(
    joined: dict[K, Value],
    key: K,
    first: Condition,
    one: Value | None,
    other: Value | None,
    *,
    is_note: bool = False,
) -> None:
    if is_note and (_is_note(one) or _is_note(other)):
        note = _joined_notes(one, other, first)
        if note is None:
            joined.pop(key, None)
        else:
            joined[key] = note
    elif one is None or other is None:
        joined[key] = one if one is not None else other if other is not None else UNBOUND
    else:
        joined[key] = join_values(first, one, other)


def _is_note(value: Value | None) -> bool:
    """Whether a value is a note, on some path at least."""
    if isinstance(value, Choice):
        return any(isinstance(leaf, Note) for leaf in leaves(value))
    return isinstance(value, Note)


def _joined_notes(one: Value | None, other: Value | None, first: Condition) -> Value | None:
    known, beside = (one, other) if isinstance(one, Note) else (other, one)
    if isinstance(known, Note) and (beside is None or isinstance(beside, Note)):
        found = known.joined(beside)
        if found is not NotImplemented:
            return found
    chosen = select(first, one if one is not None else UNBOUND, other if other is not None else UNBOUND)
    forgotten = len(atoms(chosen)) > MOST_ATOMS and _is_forgettable(chosen)
    return None if forgotten else chosen


def _is_forgettable(value: Value) -> bool:
    """Whether a value is a note that may be forgotten, on some path at least."""
    return any(isinstance(leaf, Note) and leaf.forgettable for leaf in leaves(value))


def join_values(first: Condition, one: Value, other: Value) -> Value:
    """``one`` where the condition holds, else ``other``. Two that nobody needs to tell apart become one unknown;
    dicts and tuples of the same shape are joined part by part."""
    if one == other:
        return one
    if _is_plain(one) and _is_plain(other):
        numbers = isinstance(one, (Number, Constant)) and isinstance(other, (Number, Constant))
        made = joined(named(first), one, other)
        return Number(made) if numbers else Unknown(made)
    match one, other:
        case Unknown(), Unknown() if one.kind == other.kind and not (one.apart or other.apart):
            return Unknown(symbol(JOINED, named(first), one.symbol, other.symbol), one.kind)
        case Sequence(), Sequence() if (
            one.exact
            and other.exact
            and len(one.items) == len(other.items)
            and one.identity is other.identity
        ):
            items = zip(one.items, other.items, strict=True)
            return replace(one, items=tuple(join_values(first, a, b) for a, b in items))
        case Mapping(), Mapping() if one.identity is other.identity:
            return _joined_mappings(first, one, other)
    return keep_apart(first, one, other)


def keep_apart(first: Condition, one: Value, other: Value) -> Value:
    """``one`` where the condition holds, else ``other``, told apart as long as there are few alternatives."""
    found = select(first, one, other)
    if isinstance(found, Choice) and (len(found.atoms) > MOST_ATOMS or _count(found) > MOST_ALTERNATIVES):
        return generalised(found)
    return found


_DEEPEST = 3


def _is_plain(value: Value, depth: int = 0) -> bool:
    """Whether nobody asks which of several such values it is: data, numbers, texts, and collections of them. Flags,
    None and strings that are known tell something."""
    match value:
        case Unknown():
            return value.kind is None
        case Number() | Text():
            return True
        case Constant():
            return type(value.value) is int
        case Sequence() if value.identity is None:
            return depth < _DEEPEST and all(_is_plain(item, depth + 1) for item in value.items)
        case Iteration():
            return depth < _DEEPEST and _is_plain(value.each, depth + 1)
    return False


def with_kind(value: Value, kind: Callable[[], str | None]) -> Value:
    """A value whose alternatives of which nothing is known are of a kind, if there is one."""

    def one(leaf: Value) -> Value:
        found = kind() if isinstance(leaf, Unknown) and leaf.kind is None else None
        return replace(leaf, kind=found) if isinstance(leaf, Unknown) and found is not None else leaf

    return apply(one, value)


def _joined_mappings(first: Condition, one: Mapping, other: Mapping) -> Value:
    names = list(dict.fromkeys([key for key, _ in one.items] + [key for key, _ in other.items]))
    items = []
    for key in names:
        a, b = one.get(key), other.get(key)
        items.append(
            (key, join_values(first, a if a is not None else UNBOUND, b if b is not None else UNBOUND))
        )
    rest = tuple(dict.fromkeys((*one.rest, *other.rest)))
    return replace(one, items=tuple(items), rest=rest)


def _count(tree: Value) -> int:
    return sum(1 for _ in leaves(tree)) if isinstance(tree, Choice) else 1


def generalised(tree: Value) -> Value:
    """What the leaves of a tree have in common, which are too many; one unknown where that is nothing, of a kind if
    they all are."""
    different = list(leaves(tree))
    common = different[0].in_common(different[1:])
    if common is not None:
        return common
    kinds = {leaf.of_kind for leaf in different if not isinstance(leaf, Constant)}
    kind = kinds.pop() if len(kinds) == 1 else None
    missed = [] if kind is not None else [part for leaf in different for part in _more_than_data(leaf)]
    name = _named_tree(tree)
    if not missed:
        return Unknown(symbol("one of data", name), kind)
    objects = [_kinds_of_objects(part) for part in missed]
    if None in objects:
        return Unknown(symbol(LOST, name))
    return Unknown(symbol(LOST_OBJECT, name, *sorted({one for part in objects if part for one in part})))


def _kinds_of_objects(value: Value) -> tuple[str, ...] | None:
    """The kinds of what an object may be, as far as it has one; None if it may be something else."""
    if value.of_kind is not None:
        return (value.of_kind,)
    if isinstance(value, Unknown) and value.symbol.parts[0] == LOST_OBJECT:
        return tuple(kind for kind in value.symbol.parts[2:] if isinstance(kind, str))
    return () if isinstance(value, Instance) else None


def merged(tree: Value) -> Value:
    """A tree in which leaves that have something in common are one: tensors that two models make in one region."""
    groups: list[list[Value]] = []
    for leaf in leaves(tree):
        group = next((group for group in groups if group[0].in_common([*group[1:], leaf]) is not None), None)
        if group is None:
            groups.append([leaf])
        else:
            group.append(leaf)
    common = {leaf: group[0].in_common(group[1:]) for group in groups if len(group) > 1 for leaf in group}
    return apply(lambda leaf: common.get(leaf) or leaf, tree)


def _more_than_data(value: Value) -> Iterator[Value]:
    """What a value is, or holds, that is more than data: something that a call is followed for, an object, a kind."""
    parts: Iterable[Value] = ()
    match value:
        case Sequence():
            parts = value.items
        case Mapping():
            parts = (*(item for _, item in value.items), *value.rest)
        case Choice():
            parts = leaves(value)
        case Unknown():
            if not value.is_data:
                yield value
        case _ if value.matters or value.of_kind is not None or isinstance(value, Instance):
            yield value
    for part in parts:
        yield from _more_than_data(part)


def _named_tree(tree: Value) -> Symbol:
    return symbol("over", *sorted(atoms(tree), key=lambda atom: atom.order))
