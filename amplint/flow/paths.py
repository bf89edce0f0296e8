"""One way through the code: names, objects, open regions, and what is known of the conditions taken."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import cast

from amplint.events import Region, Regions
from amplint.flow.values import UNKNOWN, Alternatives, Constant, Scheduler, Unknown, Value

Facts = frozenset[tuple[Hashable, bool]]
Case = tuple[Facts, ...]
"""Ways in which a condition came out as it did, of which one holds."""

MAX_OPTIONS = 6
MAX_PATHS = 12
MAX_CASES = 6
_MOST_WAYS = 4


class Path:
    """A path is forked at each choice and joined with its siblings after. Dictionaries are shared until
    one side writes."""

    __slots__ = (
        "_facts_shared",
        "_heap_shared",
        "_names_shared",
        "base",
        "cases",
        "facts",
        "gradients",
        "heap",
        "iteration",
        "machines",
        "names",
        "regions",
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
        self.iteration = 0
        self.machines: Hashable = ()
        self._names_shared = self._heap_shared = self._facts_shared = False

    def fork(self) -> Path:
        """A copy that can go its own way."""
        other = Path.__new__(Path)
        other.names, other.heap, other.facts = self.names, self.heap, self.facts
        other.regions, other.gradients, other.iteration = self.regions, self.gradients, self.iteration
        other.machines, other.base, other.cases = self.machines, self.base, self.cases
        for path in (self, other):
            path._names_shared = path._heap_shared = path._facts_shared = True
        return other

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

    def knows(self, symbol: Hashable) -> bool | None:
        """The outcome of a test, or None."""
        known = self.facts.get(symbol)
        if known is not None:
            return known
        for case in self.cases:
            outcomes = {dict(way).get(symbol) for way in case if self.agrees(way)}
            if len(outcomes) == 1 and None not in outcomes:
                return outcomes.pop()
        return None

    def forget(self, symbol: Hashable) -> None:
        """Drops what is known of a test: it is made anew."""
        self.cases = tuple(case for case in self.cases if all(symbol not in dict(way) for way in case))
        if symbol in self.facts:
            self.facts = {other: truth for other, truth in self.facts.items() if other != symbol}
            self._facts_shared = False

    def agrees(self, facts: Facts) -> bool:
        """Whether nothing known here speaks against the facts."""
        return all(self.facts.get(symbol, truth) is truth for symbol, truth in facts)

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


def merge(paths: list[Path]) -> list[Path]:
    """Joins the paths that rules cannot tell apart; values that differ become alternatives."""
    if len(paths) < 2:
        return paths
    groups: dict[Hashable, list[Path]] = {}
    for path in paths:
        groups.setdefault((path.machines, path.regions, path.gradients), []).append(path)
    merged = [_join(group) for group in groups.values()]
    return merged[:MAX_PATHS]


def split(before: Path, paths: list[Path]) -> list[Path]:
    """The paths on which a condition came out alike. ``not (a and b)`` has two ways to be; when they are joined,
    the next ``a and b`` still comes out the same."""
    if len(paths) > 1:
        known = before.facts.items()
        case = tuple(frozenset(item for item in path.facts.items() if item not in known) for path in paths)
        if len(case) <= _MOST_WAYS and all(0 < len(way) <= _MOST_WAYS for way in case):
            for path in paths:
                path.cases = (*path.cases, case)[-MAX_CASES:]
    return paths


def _join(paths: list[Path]) -> Path:
    if len(paths) == 1:
        return paths[0]
    first = paths[0]
    result = first.fork()
    common = {
        symbol: truth
        for symbol, truth in first.facts.items()
        if all(path.facts.get(symbol) is truth for path in paths[1:])
    }
    rest = [frozenset(item for item in path.facts.items() if item[0] not in common) for path in paths]
    result.facts = common
    result._facts_shared = False
    result.cases = tuple(case for case in first.cases if all(case in path.cases for path in paths[1:]))
    result.iteration = max(path.iteration for path in paths)
    if any(path.names is not first.names for path in paths[1:]):
        result.names = cast("dict[str, Value]", _join_dicts([path.names for path in paths], rest))
        result._names_shared = False
    if any(path.heap is not first.heap for path in paths[1:]):
        result.heap = cast(
            "dict[tuple[Hashable, str], Value]", _join_dicts([path.heap for path in paths], rest)
        )
        result._heap_shared = False
    return result


def _join_dicts(dicts: list[dict], rest: list[Facts]) -> dict:  # type: ignore[type-arg]
    joined = dict(dicts[0])
    for other in dicts[1:]:
        for key in other:
            joined.setdefault(key, None)
    for key in joined:
        values = [part.get(key) for part in dicts]
        first = values[0]
        if all(value is first for value in values[1:]):
            joined[key] = first
        else:
            present = [(value, facts) for value, facts in zip(values, rest, strict=True) if value is not None]
            joined[key] = join_values(present)
    return joined


def join_values(options: Iterable[tuple[Value, Facts]]) -> Value:
    """One value that stands for several, each with the facts under which it holds."""
    flat: dict[Value, Facts] = {}
    schedulers: dict[Hashable, Value] = {}
    for value, facts in options:
        parts = value.options if isinstance(value, Alternatives) else ((value, frozenset()),)
        for part, own in parts:
            both = own | facts
            if isinstance(part, Scheduler):  # whichever kind of schedule it is
                part = schedulers.setdefault(part.optimizer, part)
            flat[part] = flat[part] & both if part in flat else both
    if len(flat) == 1:
        return next(iter(flat))
    if all(isinstance(value, Unknown) and value.kind is None for value in flat):
        return UNKNOWN
    if len(flat) > MAX_OPTIONS:
        kept = {v: f for v, f in flat.items() if not isinstance(v, (Unknown, Constant))}
        if len(kept) > MAX_OPTIONS or not kept:
            return UNKNOWN
        kept[UNKNOWN] = frozenset()
        flat = kept
    if all(isinstance(value, (Unknown, Constant)) and not _telling(value) for value in flat):
        return UNKNOWN
    return Alternatives(tuple(flat.items()))


def _telling(value: Value) -> bool:
    """Whether a constant matters to AMP on its own: flags, None, strings such as "bf16"; not numbers."""
    if isinstance(value, Unknown):
        return value.kind is not None
    return isinstance(value, Constant) and (value.value is None or isinstance(value.value, bool))
