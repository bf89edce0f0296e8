"""The account of a traced run: how often which op ran and what was cast for it. It grows with the places and the
modules of the program, not with the length of the run."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from torch import Tensor

from amplint.confirm.held import Held, bytes_of
from amplint.confirm.module_names import ModuleNames, Node
from amplint.confirm.places import Site
from amplint.confirm.provenance import Notes
from amplint.confirm.timeline import Recorder
from amplint.confirm.trace import (
    CAST_SUMS,
    CastRow,
    End,
    OpRow,
    PairRow,
    Trace,
    added,
)
from amplint.events import Region

_MOST = 50_000
"""Rows that are kept: code that is made anew all the time must not fill the memory."""
_FURTHEST = 16
"""Ops in the wide type after which a tensor is no longer taken for one that was only cast up."""


@dataclass(slots=True, eq=False)
class OpEntry:
    """An op at a place, in a module, with operands and a result of certain types."""

    site: Site
    name: str
    module: Node | None
    operands: tuple[str, ...]
    result: str
    region: Region | None
    phase: str
    works: bool
    """Whether it computes something that is no view of its operands."""
    caller: str
    """Whose code called it: CODE, LIBRARY or TORCH."""
    count: int = 0
    size: int = 0


@dataclass(slots=True, eq=False)
class CastEntry:
    """Casts of one kind for an op."""

    op: OpEntry
    what: str
    source: str
    to: str
    by: str
    count: int = 0
    size: int = 0
    written: int = 0
    backward: int = 0
    backward_size: int = 0
    held: int = 0
    hits: int = 0
    hit_size: int = 0

    def add(self, source: Tensor, result: Tensor) -> None:
        """One more."""
        self.count += 1
        self.size += bytes_of(source)
        self.written += bytes_of(result)


@dataclass(frozen=True, slots=True)
class Raised:
    """What is known of a tensor that was cast up, or was computed from nothing but such ones: by which cast, the bytes
    that it read, and how many ops ago."""

    cast: CastEntry
    size: int
    ops: int = 0


@dataclass(slots=True)
class Pair:
    """A tensor that was cast up and down again."""

    between: int = 0
    count: int = 0
    size: int = 0


@dataclass
class Ledger:
    """What a run did so far. ``lock`` is held by whoever writes in it or reads all of it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    modules: ModuleNames = field(default_factory=ModuleNames)
    held: Held[CastEntry] = field(default_factory=Held)
    raised: Notes[Raised] = field(default_factory=Notes)
    ops: dict[Hashable, OpEntry] = field(default_factory=dict)
    casts: dict[Hashable, CastEntry] = field(default_factory=dict)
    pairs: dict[tuple[CastEntry, CastEntry], Pair] = field(default_factory=dict)
    backwards: int = 0
    forwards: int = 0
    is_full: bool = False

    def __post_init__(self) -> None:
        self.timeline = Recorder(self.held.size)

    def cast(self, op: OpEntry, what: str, source: str, to: str, by: str) -> CastEntry:
        """The entry for such casts."""
        key = (op, what, source, to, by)
        entry = self.casts.get(key)
        if entry is None:
            entry = CastEntry(op, what, source, to, by)
            self.keep(self.casts, key, entry)
        return entry

    def keep(
        self, where: dict[Hashable, OpEntry] | dict[Hashable, CastEntry], key: Hashable, entry: object
    ) -> None:
        """Keeps an entry, if there is room for it."""
        if len(where) < _MOST:
            where[key] = entry  # type: ignore[assignment]
        else:
            self.is_full = True

    def lowered(self, source: Tensor, down: CastEntry) -> None:
        """A tensor was cast down. If it was cast up before, the two are a pair."""
        raised = self.raised.of(source)
        if raised is not None and raised.cast.source == down.to:
            pair = self.pairs.setdefault((raised.cast, down), Pair())
            pair.count += 1
            pair.size += raised.size + bytes_of(source)
            pair.between = max(pair.between, raised.ops)

    def computed(self, tensors: list[Tensor], result: Tensor, works: bool) -> None:
        """A tensor in the wide type that was computed from nothing but such as were cast up is one itself."""
        known: Raised | None = None
        for tensor in tensors:
            if tensor.is_leaf and tensor.requires_grad:
                continue  # weights
            if tensor.dtype is result.dtype:
                known = self.raised.of(tensor)
                if known is None:
                    return
        if known is not None and known.ops + works <= _FURTHEST:
            self.raised.note(result, Raised(known.cast, known.size, known.ops + works))

    def backward_begins(self) -> None:
        """Notes what the casts hold at the beginning of a backward pass."""
        self.backwards += 1
        sizes: dict[CastEntry, int] = {}
        for entry, size in self.held.alive():
            sizes[entry] = sizes.get(entry, 0) + size
        for entry, size in sizes.items():
            entry.held = max(entry.held, size)

    def forget(self) -> None:
        """Begins anew, in a process that was forked off."""
        self.lock = threading.RLock()
        self.held.forget()
        self.timeline.forget()
        self.modules.forget()
        self.pairs.clear()
        self.backwards = self.forwards = 0
        for op in self.ops.values():
            op.count = op.size = 0
        for cast in self.casts.values():
            for name in CAST_SUMS:
                setattr(cast, name, 0)

    def trace(self) -> Trace:
        """All that was seen so far, as data."""
        with self.lock:
            names = self.modules.names()
            return Trace(
                backwards=self.backwards,
                forwards=self.forwards,
                modules=added(self.modules.rows(names), ("calls",)),
                ops=added(_op_rows(list(self.ops.values()), names), ("count", "size")),
                casts=added(_cast_rows(list(self.casts.values()), names), CAST_SUMS),
                pairs=added(_pair_rows(dict(self.pairs), names), ("count", "size"), ("between",)),
                timeline=self.timeline.made(names),
            )


def _named(node: Node | None, names: dict[Node, str]) -> str:
    return names.get(node.standing(), "") if node is not None else ""


def _described(region: Region | None) -> tuple[str, str]:
    """Where the region was opened, and what it does."""
    if region is None:
        return "", ""
    dtype = region.dtype.value if region.dtype is not None else "half"
    return f"{region.place.path}:{region.place.line}", dtype if region.enabled else "off"


def _op_rows(entries: list[OpEntry], names: dict[Node, str]) -> Iterator[OpRow]:
    for op in entries:
        if op.works and op.count:
            region, kind = _described(op.region)
            yield OpRow(
                op.site.path,
                op.site.span,
                op.name,
                _named(op.module, names),
                op.operands,
                op.result,
                region,
                kind,
                op.phase,
                op.count,
                op.size,
            )


def _cast_rows(entries: list[CastEntry], names: dict[Node, str]) -> Iterator[CastRow]:
    for cast in entries:
        if not (cast.count or cast.hits):
            continue
        op = cast.op
        region, kind = _described(op.region)
        yield CastRow(
            op.site.path,
            op.site.span,
            op.name,
            _named(op.module, names),
            cast.source,
            cast.to,
            cast.what,
            cast.by,
            region,
            kind,
            op.phase,
            op.site.text,
            **{name: getattr(cast, name) for name in CAST_SUMS},
        )


def _pair_rows(pairs: dict[tuple[CastEntry, CastEntry], Pair], names: dict[Node, str]) -> Iterator[PairRow]:
    for (up, down), pair in pairs.items():
        yield PairRow(
            _end(up, names), _end(down, names), up.source, up.to, pair.between, pair.count, pair.size
        )


def _end(cast: CastEntry, names: dict[Node, str]) -> End:
    op = cast.op
    return End(op.site.path, op.site.span.line, op.name, _named(op.module, names))
