"""What a trace says, put together for a reader: modules as a tree, casts by rank, numbers per step."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from amplint.confirm.recording import NoRecording, Recording
from amplint.confirm.trace import CastRow, End, ModuleRow, OpRow, PairRow, Trace, added

PRECISIONS = ("float16", "bfloat16", "float32", "float64")
"""Types that have a colour of their own; others are shown as "other"."""
OUTSIDE = "outside modules"
ORDERS = ("bytes", "count", "line")
_FEWEST = 3
"""Modules of a class from which on one can stand out."""


class Unit(NamedTuple):
    """What numbers are divided by: ``number`` of ``word``."""

    number: int
    word: str


def trace_of(recording: Recording, source: object = "this recording") -> Trace:
    """The trace in a recording. Raises NoRecording."""
    if recording.trace is None:
        raise NoRecording(
            f"{source} holds no trace: it is from `amplint confirm` or from an older release; "
            "record one with `amplint trace --record FILE -- PROGRAM`"
        )
    return recording.trace


def unit_of(recording: Recording) -> Unit:
    """Optimizer steps; of a run without any backward passes, else forward passes, else the run."""
    trace = trace_of(recording)
    for number, word in (
        (recording.steps, "step"),
        (trace.backwards, "backward pass"),
        (trace.forwards, "forward pass"),
    ):
        if number:
            return Unit(number, word)
    return Unit(1, "run")


@dataclass(frozen=True)
class Mix:
    """Ops, and bytes of their results, by type."""

    ops: Counter[str] = field(default_factory=Counter)
    size: Counter[str] = field(default_factory=Counter)

    def add(self, dtype: str, count: int, size: int) -> None:
        """More of a type."""
        self.ops[dtype] += count
        self.size[dtype] += size

    def shares(self) -> list[tuple[str, float]]:
        """The types and their shares of the bytes, in the order of PRECISIONS."""
        return shares(self.size)

    @property
    def dominant(self) -> str:
        """The type of most bytes, or "" where nothing ran."""
        return max(self.size, key=lambda dtype: self.size[dtype], default="")


def shares(amounts: Mapping[str, int]) -> list[tuple[str, float]]:
    """Parts of a whole, the types of PRECISIONS first."""
    whole = sum(amounts.values())
    order = [*PRECISIONS, *sorted(set(amounts) - set(PRECISIONS))]
    return [(name, amounts[name] / whole) for name in order if amounts.get(name)] if whole else []


@dataclass
class ModuleView:
    """A module with what ran in it: ``total`` counts the modules in it as well."""

    name: str
    row: ModuleRow | None = None
    own: Mix = field(default_factory=Mix)
    total: Mix = field(default_factory=Mix)
    casts: int = 0
    """Bytes that casts for it, and in it, read, backward passes included."""
    odd: str = ""
    """Why it stands out."""
    children: list[ModuleView] = field(default_factory=list)

    @property
    def short(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def depth(self) -> int:
        """How many modules are around it."""
        return self.name.count(".")

    def walk(self) -> Iterator[ModuleView]:
        """The module and those in it."""
        yield self
        for child in self.children:
            yield from child.walk()


def tree(trace: Trace) -> list[ModuleView]:
    """The outermost modules, and what ran outside of any as the last."""
    views: dict[str, ModuleView] = {}
    roots: list[ModuleView] = []

    def view(name: str) -> ModuleView:
        known = views.get(name)
        if known is None:
            known = views[name] = ModuleView(name)
            around, dot, _ = name.rpartition(".")
            (view(around).children if dot else roots).append(known)
        return known

    for module in trace.modules:
        view(module.name).row = module
    for op in trace.ops:
        view(op.module or OUTSIDE).own.add(op.result, op.count, op.size)
    for cast in trace.casts:
        view(cast.module or OUTSIDE).casts += moved(cast)
    for root in roots:
        _sum(root)
    _find_odd(roots)
    roots.sort(key=lambda root: root.name == OUTSIDE)
    return roots


def _sum(view: ModuleView) -> None:
    view.children.sort(
        key=lambda child: (not child.short.isdigit(), int(child.short) if child.short.isdigit() else 0)
    )
    view.total.ops.update(view.own.ops)
    view.total.size.update(view.own.size)
    for child in view.children:
        _sum(child)
        view.total.ops.update(child.total.ops)
        view.total.size.update(child.total.size)
        view.casts += child.casts


def _find_odd(roots: Iterable[ModuleView]) -> None:
    """Marks modules whose type few others of their class have."""
    for root in roots:
        by_kind: defaultdict[str, list[ModuleView]] = defaultdict(list)
        for view in root.walk():
            if view.row is not None and view.total.dominant:
                by_kind[view.row.kind].append(view)
        for kind, views in by_kind.items():
            count = Counter(view.total.dominant for view in views)
            usual, most = count.most_common(1)[0]
            for view in views:
                dtype = view.total.dominant
                if len(views) >= _FEWEST and dtype != usual and 3 * count[dtype] <= len(views):
                    view.odd = f"{dtype}, where {most} of {len(views)} {kind} are {usual}"
        _keep_outermost(root, "")


def _keep_outermost(view: ModuleView, around: str) -> None:
    """Of modules in a module that stands out, those in its type are told by it; ``around`` is that type, if any."""
    if around and view.total.dominant == around:
        view.odd = ""
    for child in view.children:
        _keep_outermost(child, view.total.dominant if view.odd else around)


def odd_ones(roots: Iterable[ModuleView]) -> list[ModuleView]:
    """The modules that stand out."""
    return [view for root in roots for view in root.walk() if view.odd]


def moved(cast: CastRow) -> int:
    """Bytes that casts read, forward and backward."""
    return cast.size + cast.backward_size


@dataclass(frozen=True)
class CastView:
    """A row of casts, and the pairs that it is part of."""

    row: CastRow
    pairs: tuple[PairRow, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What else is to be said of it."""
        return [*self.pair_notes, *cache_notes(self.row)]

    @property
    def pair_notes(self) -> list[str]:
        """Where it was cast up before, or is cast down again."""
        found = []
        for pair in self.pairs:
            if pair.up == end_of(self.row):
                found.append(f"up, and down again for {pair.down.op} in line {pair.down.line}{between(pair)}")
            else:
                found.append(f"was up since {pair.up.op} in line {pair.up.line}{between(pair)}")
        return found


def cache_notes(row: CastRow) -> list[str]:
    """What the weight cache did for it."""
    return [f"weight cache: {row.hits} of {row.hits + row.count} reused"] if row.hits else []


def between(pair: PairRow) -> str:
    """How long a tensor was up."""
    return {0: "", 1: ", 1 op between"}.get(pair.between, f", {pair.between} ops between")


def end_of(row: CastRow) -> End:
    """A cast as pairs name it."""
    return End(row.path, row.span.line, row.op, row.module)


def casts_of(trace: Trace, order: str = "bytes", text: str = "") -> list[CastView]:
    """The casts by rank; only those that mention ``text``."""
    pairs: defaultdict[tuple[End, str, str], list[PairRow]] = defaultdict(list)
    for pair in trace.pairs:
        pairs[pair.up, pair.low, pair.high].append(pair)
        pairs[pair.down, pair.high, pair.low].append(pair)
    views = [
        CastView(row, tuple(pairs.get((end_of(row), row.source, row.to), ())) if row.what != "weight" else ())
        for row in trace.casts
    ]
    return sorted(
        (view for view in views if mentions(view.row, text)), key=lambda view: cast_key(view.row, order)
    )


def cast_key(row: CastRow, order: str) -> tuple[object, ...]:
    """The rank of a row."""
    place = (row.path, row.span, row.op, row.module)
    if order == "line":
        return place
    return (-(row.count + row.backward), *place) if order == "count" else (-moved(row), *place)


def mentions(row: OpRow | CastRow | ModuleRow, text: str) -> bool:
    """Whether a module, op, file or type of a row has the text in it; upper and lower case are one."""
    words = [row.path]
    if isinstance(row, ModuleRow):
        words += [row.name, row.kind]
    elif isinstance(row, CastRow):
        words += [row.module, row.op, row.source, row.to, row.what, row.by]
    else:
        words += [row.module, row.op, row.result, *row.operands]
    return any(text.lower() in word.lower() for word in words)


@dataclass(frozen=True)
class Line:
    """An op at a place in whatever modules, with the casts that were made for it. ``op`` is without a module."""

    op: OpRow
    casts: tuple[CastRow, ...]

    @property
    def size(self) -> int:
        """Bytes that were cast."""
        return sum(moved(cast) for cast in self.casts)


def lines_of(trace: Trace, order: str = "bytes", text: str = "") -> list[Line]:
    """The ops of each line. Casts for operands that differ in type are counted with the op that ran most."""
    casts: defaultdict[tuple[object, ...], list[CastRow]] = defaultdict(list)
    for cast in trace.casts:
        casts[cast.path, cast.span, cast.op, cast.region, cast.region_type].append(cast)
    ops = added(
        (replace(op, module="", phase="") for op in trace.ops if mentions(op, text)), ("count", "size")
    )
    found = []
    for op in sorted(ops, key=lambda op: -op.count):
        found.append(Line(op, tuple(casts.pop((op.path, op.span, op.op, op.region, op.region_type), ()))))
    for (_, _, name, region, region_type), left in casts.items():
        kept = [cast for cast in left if mentions(cast, text)]
        if kept:
            row = OpRow(kept[0].path, kept[0].span, str(name), "", (), "", str(region), str(region_type), "")
            found.append(Line(row, tuple(kept)))
    return sorted(found, key=lambda line: _line_key(line, order))


def _line_key(line: Line, order: str) -> tuple[object, ...]:
    place = (line.op.path, line.op.span, line.op.op)
    if order == "line":
        return place
    return (
        (-line.op.count, *place)
        if order == "count"
        else (-line.size, not line.op.region, -line.op.count, *place)
    )


@dataclass(frozen=True)
class Totals:
    """The sums of a trace, over the whole run."""

    ops: Mix
    by: Mapping[str, int]
    """Bytes that were cast, by who cast them."""
    what: Mapping[str, int]
    """Bytes that were cast, by what was cast; "gradient" holds what backward passes cast back."""
    casts: int
    size: int
    held: int
    pairs: int
    pair_size: int
    hits: int
    hit_size: int


def totals(trace: Trace) -> Totals:
    """The sums of a trace."""
    ops = Mix()
    for op in trace.ops:
        ops.add(op.result, op.count, op.size)
    by: Counter[str] = Counter()
    what: Counter[str] = Counter()
    for cast in trace.casts:
        by[cast.by] += moved(cast)
        what[cast.what] += cast.size
        what["gradient"] += cast.backward_size
    return Totals(
        ops,
        +by,
        +what,
        sum(cast.count + cast.backward for cast in trace.casts),
        sum(moved(cast) for cast in trace.casts),
        sum(cast.held for cast in trace.casts),
        sum(pair.count for pair in trace.pairs),
        sum(pair.size for pair in trace.pairs),
        sum(cast.hits for cast in trace.casts),
        sum(cast.hit_size for cast in trace.casts),
    )


def amount(size: float) -> str:
    """A number of bytes for people."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def times(count: int, unit: Unit) -> str:
    """How often per unit."""
    value = count / unit.number
    return (
        f"{value:.0f}"
        if value == round(value) or value >= 100
        else f"{value:.1f}"
        if value >= 0.1
        else "< 0.1"
    )


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.0f} %" if 200 * share >= 1 else "< 1 %"


_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}


def brief(dtype: str) -> str:
    """ "f16" for float16."""
    before, _, last = dtype.rpartition(" ")
    return f"{before} {_SHORT.get(last, last)}".strip()


def chosen(rows: Sequence[ModuleView], text: str) -> list[ModuleView]:
    """Modules, and those around them, that mention a text."""
    return [
        view
        for view in rows
        if any(
            text.lower() in f"{part.name} {part.row.kind if part.row else ''}".lower() for part in view.walk()
        )
    ]
