"""One way through the code: names, objects, open regions, and what is known of the conditions taken."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from amplint.events import Region, Regions
from amplint.flow.values import (
    UNBOUND,
    UNKNOWN,
    Alternatives,
    Constant,
    Mapping,
    Number,
    Optimizer,
    Scheduler,
    Unknown,
    Value,
)

Facts = frozenset[tuple[Hashable, bool]]
Case = tuple[Facts, ...]
"""Ways in which a condition came out as it did, of which one holds."""
_Key = TypeVar("_Key", bound=Hashable)
_Item = TypeVar("_Item")

MAX_OPTIONS = 6
MAX_PATHS = 12
MAX_CASES = 6
_MOST_WAYS = 4

ZEROED, SCALER_STEPPED, STEPPED, HANDED_OUT = 1, 2, 4, 8
"""What may have been done on a path: gradients were dropped, a scaler stepped, an optimizer stepped without one, code
out of sight got a module, its parameters or an optimizer."""
OUTSIDE = "<outside>"
"""The attribute that notes of an object that it was made out of sight, so that its attributes have a value
before anybody in sight sets them."""


class Path:
    """A path is forked at each choice and joined with its siblings after. Dictionaries are shared until
    one side writes."""

    __slots__ = (
        "_facts_shared",
        "_heap_shared",
        "_names_shared",
        "base",
        "cases",
        "done",
        "facts",
        "gradients",
        "heap",
        "idle",
        "iteration",
        "machines",
        "made",
        "names",
        "regions",
        "round",
    )

    def __init__(self, base: dict[tuple[Hashable, str], Value] | None = None) -> None:
        self.base = base if base is not None else {}
        """What constructors left behind: shared by all paths, never changed by one."""
        self.names: dict[str, Value] = {}
        self.heap: dict[tuple[Hashable, str], Value] = {}
        self.facts: dict[Hashable, bool] = {}
        self.cases: tuple[Case, ...] = ()
        """What is known of conditions with several parts once the paths through them are joined."""
        self.regions: Regions = ()
        self.gradients = True
        self.idle = False
        """Whether a scaler is switched off or left out, or a region: such a path has the least to tell."""
        self.made: frozenset[Hashable] = frozenset()
        """The optimizers that were made on this path."""
        self.iteration = 0
        self.done = 0
        """What was done since the present call began: ZEROED and so on."""
        self.round = 0
        """What was done since the present round of the innermost loop began."""
        self.machines: Hashable = ()
        self._names_shared = self._heap_shared = self._facts_shared = False

    def fork(self) -> Path:
        """A copy that can go its own way."""
        other = Path.__new__(Path)
        other.names, other.heap, other.facts = self.names, self.heap, self.facts
        other.regions, other.gradients, other.iteration = self.regions, self.gradients, self.iteration
        other.machines, other.base, other.cases = self.machines, self.base, self.cases
        other.made, other.idle, other.done, other.round = self.made, self.idle, self.done, self.round
        for path in (self, other):
            path._names_shared = path._heap_shared = path._facts_shared = True
        return other

    def did(self, what: int) -> None:
        """Notes what was done."""
        self.done |= what
        self.round |= what

    def bind(self, name: str, value: Value) -> None:
        """Assigns a local name."""
        if self._names_shared:
            self.names = dict(self.names)
            self._names_shared = False
        self.names[name] = value

    def enter_scope(self, names: dict[str, Value]) -> dict[str, Value]:
        """Takes new local names; gives back the old ones, for leave_scope."""
        old = self.names
        self.names = names
        self._names_shared = False
        return old

    def leave_scope(self, names: dict[str, Value]) -> None:
        """Takes the caller's names back. They may be shared with other paths."""
        self.names = names
        self._names_shared = True

    def store(self, owner: Hashable, attribute: str, value: Value) -> None:
        """Sets an attribute of an object."""
        if self._heap_shared:
            self.heap = dict(self.heap)
            self._heap_shared = False
        self.heap[owner, attribute] = value

    def load(self, owner: Hashable, attribute: str) -> Value | None:
        """An attribute of an object, or None if it was never set."""
        key = (owner, attribute)
        found = self.heap.get(key)
        return found if found is not None else self.base.get(key)

    def learn(self, symbol: Hashable, truth: bool) -> None:
        """Notes the outcome of a test."""
        if self._facts_shared:
            self.facts = dict(self.facts)
            self._facts_shared = False
        self.facts[symbol] = truth

    def learn_one_of(self, ways: list[Facts]) -> None:
        """Notes what is known when one of several ways was taken."""
        for symbol, truth in frozenset.intersection(*ways):
            self.learn(symbol, truth)
        case = tuple(ways)
        if len(case) > 1 and case not in self.cases:
            self.cases = (*self.cases, case)[-MAX_CASES:]

    def knows(self, symbol: Hashable) -> bool | None:
        """The outcome of a test, or None."""
        known = self.facts.get(symbol)
        if known is not None:
            return known
        for case in self.cases:
            told = [next((truth for other, truth in way if other == symbol), None) for way in case]
            if any(truth is not None for truth in told):
                outcomes = {truth for truth, way in zip(told, case, strict=True) if self.agrees(way)}
                if len(outcomes) == 1 and None not in outcomes:
                    return outcomes.pop()
        return None

    def forget(self, symbol: Hashable) -> None:
        """Drops what is known of a test: it is made anew."""
        self.cases = tuple(case for case in self.cases if all(symbol not in dict(way) for way in case))
        if symbol in self.facts:
            self.facts = {other: truth for other, truth in self.facts.items() if other != symbol}
            self._facts_shared = False

    def rename_optimizer(self, old: Hashable, new: Hashable) -> None:
        """Gives an optimizer the identity of another one."""
        self.names = {name: _renamed(value, old, new) for name, value in self.names.items()}
        self.heap = {key: _renamed(value, old, new) for key, value in self.heap.items()}
        self.made = self.made - {old} | {new}
        self._names_shared = self._heap_shared = False

    def agrees(self, facts: Facts) -> bool:
        """Whether nothing known here speaks against the facts."""
        return _agree(self.facts, facts)

    def allows(self, facts: Facts) -> bool:
        """Whether the facts go together with what is known here, and with one way of each case."""
        if not self.agrees(facts):
            return False
        if not facts or not self.cases:
            return True
        given = dict(facts)
        return all(any(_agree(given, way) for way in case) for case in self.cases)

    def enter(self, region: Region) -> None:
        """Opens a region."""
        self.regions = (*self.regions, region)

    def leave(self, region: Region) -> bool:
        """Closes the latest region with that identity. False if it is not open."""
        for index in range(len(self.regions) - 1, -1, -1):
            if self.regions[index].identity == region.identity:
                self.regions = self.regions[:index] + self.regions[index + 1 :]
                return True
        return False


def _agree(known: dict[Hashable, bool], facts: Facts) -> bool:
    for symbol, truth in facts:  # noqa: SIM110 - a generator would take twice the time
        if known.get(symbol, truth) is not truth:
            return False
    return True


def _renamed(value: Value, old: Hashable, new: Hashable) -> Value:
    if isinstance(value, Optimizer) and value.identity == old:
        return replace(value, identity=new)
    if isinstance(value, Scheduler) and value.optimizer == old:
        return replace(value, optimizer=new)
    return value


def merge(paths: list[Path]) -> list[Path]:
    """Joins the paths that rules cannot tell apart; values that differ become alternatives."""
    if len(paths) < 2:
        return paths
    groups: list[list[Path]] = []
    for path in paths:
        for group in groups:
            if _looks_like(path, group[0]):
                group.append(path)
                break
        else:
            groups.append([path])
    merged = [_join(group) for group in groups]
    if any(path.idle for path in merged):
        merged.sort(key=lambda path: path.idle)
    return merged[:MAX_PATHS]


def _looks_like(path: Path, other: Path) -> bool:
    """Whether rules cannot tell two paths apart."""
    return (
        path.machines == other.machines
        and path.regions == other.regions
        and path.gradients is other.gradients
    )


def split(before: Path, paths: list[Path]) -> list[Path]:
    """The paths on which a condition came out alike. ``not (a and b)`` has two ways to be; when they are joined,
    the next ``a and b`` still comes out the same."""
    if len(paths) > 1:
        case = tuple(learnt(before.facts, path.facts) for path in paths)
        if len(case) <= _MOST_WAYS and all(0 < len(way) <= _MOST_WAYS for way in case):
            for path in paths:
                path.cases = (*path.cases, case)[-MAX_CASES:]
    return paths


def _join(paths: list[Path]) -> Path:
    if len(paths) == 1:
        return paths[0]
    first = paths[0]
    result = first.fork()
    if any(path.cases is not first.cases for path in paths[1:]):
        result.cases = tuple(case for case in first.cases if all(case in path.cases for path in paths[1:]))
    unsure = _differing([path.facts for path in paths])
    rest = [_ways(path, unsure, result.cases) for path in paths]
    if unsure:
        result.facts = dict(first.facts)
        result._facts_shared = False
        for symbol in unsure:
            result.facts.pop(symbol, None)
    result.iteration = max(path.iteration for path in paths)
    result.idle = all(path.idle for path in paths)
    for path in paths:
        result.done |= path.done
        result.round |= path.round
    _share_optimizers(paths)
    result.made = frozenset().union(*(path.made for path in paths))
    if any(path.names is not first.names for path in paths[1:]):
        result.names = _join_dicts([path.names for path in paths], rest, {})
        result._names_shared = False
    if any(path.heap is not first.heap for path in paths[1:]):
        result.heap = _join_dicts([path.heap for path in paths], rest, first.base)
        result._heap_shared = False
    return result


def _ways(path: Path, unsure: Iterable[Hashable], cases: tuple[Case, ...]) -> list[Facts]:
    """What a path knows that the joined one will not know, in each of the ways in which it may have come about."""
    own = frozenset((symbol, path.facts[symbol]) for symbol in unsure if symbol in path.facts)
    ways = [own]
    for case in path.cases if path.cases is not cases else ():
        if case not in cases and len(ways) * len(case) <= _MOST_WAYS:
            ways = [known | way for known in ways for way in case if path.agrees(way)] or ways
    return ways


def _share_optimizers(paths: list[Path]) -> None:
    """Gives one identity to optimizers of which each path has made its own, alike and under one name: whatever
    flag chose their class, it is one optimizer to all that follows."""
    first, *others = paths
    for path in others:
        if path.made == first.made:
            continue
        pairs = [(value, first.names.get(name)) for name, value in path.names.items()]
        pairs += [(value, first.heap.get(key)) for key, value in path.heap.items()]
        for value, kept in pairs:
            if (
                isinstance(value, Optimizer)
                and isinstance(kept, Optimizer)
                and value == replace(kept, identity=value.identity)
                and _only_made(value.identity, path, first)
                and _only_made(kept.identity, first, path)
            ):
                path.rename_optimizer(value.identity, kept.identity)


def _only_made(optimizer: Hashable, path: Path, other: Path) -> bool:
    """Whether an optimizer was made on one of two paths, and nothing more is known of it."""
    if optimizer not in path.made or optimizer in other.made:
        return False
    return all(owner != optimizer for owner, _ in path.heap)


def learnt(before: dict[Hashable, bool], after: dict[Hashable, bool]) -> Facts:
    """The facts that were not known before."""
    return frozenset((symbol, after[symbol]) for symbol in _differing([before, after]) if symbol in after)


def _differing(dicts: list[dict[_Key, _Item]]) -> dict[_Key, None]:
    """The keys under which the dicts do not all have the same object. Paths part late: their dicts begin with
    the same keys in the same order, and of these no hash, which may be that of a large tuple, is worked out."""
    found: dict[_Key, None] = {}
    first, *others = dicts
    for other in others:
        if other is first:
            continue
        alike = 0
        for (key, item), (other_key, other_item) in zip(first.items(), other.items(), strict=False):
            if key is not other_key:
                break
            if item is not other_item:
                found[key] = None
            alike += 1
        for key in islice(first, alike, None):
            if other.get(key) is not first[key]:
                found[key] = None
        for key in islice(other, alike, None):
            if key not in first:
                found[key] = None
    return found


def _join_dicts(
    dicts: list[dict[_Key, Value]], rest: list[list[Facts]], base: dict[_Key, Value]
) -> dict[_Key, Value]:
    differing = _differing(dicts)
    joined: dict[_Key, Value] = dict(dicts[0])
    for key in differing:
        joined.setdefault(key, UNKNOWN)
    for key in differing:
        unset = base.get(key) or _outside(joined, key)
        options: list[tuple[Value, Facts]] = []
        for part, ways in zip(dicts, rest, strict=True):
            value = part.get(key, unset)
            if value is None and isinstance(key, str) and all(ways):
                # without facts it would only be tried in vain
                value = UNBOUND
            if value is not None:
                options += [(value, facts) for facts in ways]
        joined[key] = join_values(options)
    return joined


def _outside(joined: dict[_Key, Value], key: _Key) -> Value | None:
    """What an attribute of an object from out of sight is as long as nobody in sight has set it, or None."""
    if not isinstance(key, tuple) or key[1][0] == "<" or (key[0], OUTSIDE) not in joined:
        return None
    return Unknown(key)


def bound(value: Value) -> Value:
    """A value without the ways on which its name is not bound."""
    if not isinstance(value, Alternatives):
        return value
    options = [option for option in value.options if option[0] != UNBOUND]
    return join_values(options) if options else UNKNOWN


def join_values(options: Iterable[tuple[Value, Facts]]) -> Value:
    """One value that stands for several, each with the facts under which it holds."""
    options = list(options)
    if all(isinstance(value, Unknown) and value.kind is None for value, _ in options):
        one = options[0][0] if options else UNKNOWN
        return one if all(value == one for value, _ in options) else UNKNOWN
    flat: dict[Value, list[Facts]] = {}
    schedulers: dict[Hashable, Value] = {}
    for value, facts in options:
        parts = value.options if isinstance(value, Alternatives) else ((value, frozenset()),)
        for part, own in parts:
            if isinstance(part, Scheduler):  # whichever kind of schedule it is
                part = schedulers.setdefault(part.optimizer, part)
            _add(flat.setdefault(part, []), own | facts)
    if sum(isinstance(value, Mapping) for value in flat) > 1:
        flat = _without_details(flat)
    if len(flat) == 1:
        return next(iter(flat))
    if UNBOUND in flat and not flat[UNBOUND][0]:
        return join_values(_pairs({value: ways for value, ways in flat.items() if value != UNBOUND}))
    if all(isinstance(value, Unknown) and value.kind is None for value in flat):
        return UNKNOWN
    if len(flat) > MAX_OPTIONS:
        kept = {v: f for v, f in flat.items() if not isinstance(v, (Unknown, Constant))}
        if len(kept) > MAX_OPTIONS or not kept:
            return UNKNOWN
        kept[UNKNOWN] = [frozenset()]
        flat = kept
    if all(isinstance(value, (Unknown, Constant)) and not _telling(value) for value in flat):
        return UNKNOWN
    return Alternatives(tuple(_pairs(flat)))


def _pairs(options: dict[Value, list[Facts]]) -> Iterable[tuple[Value, Facts]]:
    return ((value, facts) for value, ways in options.items() for facts in ways)


def _add(ways: list[Facts], facts: Facts) -> None:
    """Adds a way in which a value comes about. Ways that say more than another one tell nothing, nor does a
    condition that comes out either way."""
    if any(known <= facts for known in ways):
        return
    for known in ways:
        if _are_either_way(known, facts):
            ways.remove(known)
            _add(ways, known & facts)
            return
    ways[:] = [known for known in ways if not facts <= known]
    ways.append(facts)
    if len(ways) > _MOST_WAYS:
        ways[:] = [frozenset.intersection(*ways)]


def _are_either_way(first: Facts, second: Facts) -> bool:
    """Whether two ways differ in the outcome of one condition alone, and in what follows from that."""
    differing = first ^ second
    if not 2 <= len(differing) <= 3:
        return False
    symbols = {symbol for symbol, _ in differing}
    return len(symbols - {("none", symbol) for symbol in symbols}) == 1 and any(
        {(symbol, True), (symbol, False)} <= differing for symbol in symbols
    )


def _without_details(options: dict[Value, list[Facts]]) -> dict[Value, list[Facts]]:
    """The options, with dicts made one that differ only in values of which nothing is known."""
    alike: dict[Value, list[Value]] = {}
    for value in options:
        alike.setdefault(_outlined(value) if isinstance(value, Mapping) else value, []).append(value)
    joined: dict[Value, list[Facts]] = {}
    for outlined, values in alike.items():
        ways = joined.setdefault(outlined if len(values) > 1 else values[0], [])
        for value in values:
            for facts in options[value]:
                _add(ways, facts)
    return joined


def _outlined(value: Value) -> Value:
    match value:
        case Mapping():
            items = tuple((key, _outlined(item)) for key, item in value.items)
            return replace(value, items=items, rest=tuple(map(_outlined, value.rest)))
        case Unknown():
            return Unknown(None, value.kind)
        case Number():
            return Number()
    return value


def _telling(value: Value) -> bool:
    """Whether a constant matters to AMP on its own: flags, None, strings such as "bf16"; not numbers."""
    if isinstance(value, Unknown):
        return value.kind is not None
    return isinstance(value, Constant) and (value.value is None or isinstance(value.value, bool))
