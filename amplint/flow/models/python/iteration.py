"""What makes collections and goes through them: ``range``, ``enumerate``, ``list``, ``map``, progress bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.items import collected, in_order, item, known_items, rounds_of
from amplint.flow.state.values import (
    NONE,
    Constant,
    ContextManager,
    Instance,
    Iteration,
    Mapping,
    Number,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

MOST_NUMBERS = 2
"""A ``range`` of so many numbers is walked number by number."""
MOST_REPEATED = 8
"""So many factors that ``repeat=`` makes of one are told apart."""


# numbers ---------------------------------------------------------------------------------------------------------


@models.call("builtins.range", "tqdm.trange", "tqdm.auto.trange", "tqdm.tqdm.trange")
def _range(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    bounds: list[int] = []
    for part in arguments.positional[:3]:
        if not isinstance(part, Constant) or not isinstance(part.value, int):
            return Iteration(api.number(node))
        bounds.append(part.value)
    if not bounds or arguments.unclear or bounds[2:] == [0]:
        return Iteration(api.number(node))
    numbers = range(*bounds)
    # len() is for what fits into memory
    count = max(-((numbers.start - numbers.stop) // numbers.step), 0)
    if count <= MOST_NUMBERS:
        return Sequence(tuple(map(Constant, numbers)))
    return Iteration(api.number(node), count)


@models.call("itertools.count")
def _count(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return Iteration(api.number(node))


# several at once -------------------------------------------------------------------------------------------------


@models.call("builtins.enumerate")
def _enumerate(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.get(0, "iterable")
    if source is None:
        return api.unknown(node)
    start = arguments.get(1, "start") or Constant(0)
    items = known_items(source)
    if items is not None and isinstance(start, Constant) and isinstance(start.value, int):
        first = start.value
        return Sequence(tuple(Sequence((Constant(first + number), one)) for number, one in enumerate(items)))
    return Iteration(Sequence((api.number(node), item(api, source, node))), rounds_of(source))


@models.call("builtins.zip", "itertools.zip_longest")
def _zip(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if arguments.unclear:
        return _turned(api, arguments) or Iteration(api.unknown(node))
    columns = [known_items(source) for source in arguments.positional]
    if columns and name == "builtins.zip":
        known = [column for column in columns if column is not None]
        if len(known) == len(columns):
            return Sequence(tuple(Sequence(row) for row in zip(*known, strict=False)))
    counts = [rounds_of(source) for source in arguments.positional]
    told = [count for count in counts if count is not None]
    return Iteration(
        Sequence(tuple(item(api, source, node) for source in arguments.positional)),
        min(told) if told and name == "builtins.zip" and len(told) == len(counts) else None,
    )


def _turned(api: Api, arguments: Arguments) -> Value | None:
    """``zip(*rows)`` of rows of one length, however many there are: the columns."""
    rows = [api.contents(row) for row in arguments.starred]
    known = [row.items for row in rows if isinstance(row, Sequence) and row.exact]
    if arguments.positional or not known or len(known) < len(rows) or len(set(map(len, known))) > 1:
        return None
    return Sequence(
        tuple(Sequence(tuple(dict.fromkeys(column)), exact=False) for column in zip(*known, strict=True))
    )


@models.call("itertools.product")
def _product(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``product(rows, columns)``, ``product(points, repeat=2)``: one item for each factor that the call has."""
    times = arguments.keyword("repeat") or Constant(1)
    count = times.value if isinstance(times, Constant) else None
    if arguments.unclear or not isinstance(count, int) or not 0 < count <= MOST_REPEATED:
        return Iteration(api.unknown(node))
    sources = arguments.positional * count
    return Iteration(Sequence(tuple(item(api, source, node) for source in sources)))


@models.call("builtins.map", "itertools.starmap")
def _map(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    function, *sources = arguments.positional or (api.unknown(node),)
    if not sources:
        return Iteration(api.unknown(node))
    stars = name == "itertools.starmap"

    def call(values: tuple[Value, ...]) -> Value:
        if stars:
            first = api.contents(values[0])
            exact = isinstance(first, Sequence) and first.exact
            values = first.items if isinstance(first, Sequence) and exact else ()
            return api.call(function, Arguments(values, (), (node,) * len(values), unclear=not exact), node)
        return api.call(function, Arguments(values, (), (node,) * len(values)), node)

    columns = [known_items(source) for source in sources]
    known = [column for column in columns if column is not None]
    if len(known) == len(columns):
        return Sequence(tuple(call(row) for row in zip(*known, strict=False)))
    return Sequence((call(tuple(item(api, source, node) for source in sources)),), exact=False)


@models.call("builtins.filter", "itertools.filterfalse", "itertools.takewhile", "itertools.dropwhile")
def _filter(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.positional[-1] if len(arguments.positional) > 1 else api.unknown(node)
    return Sequence(source.items, exact=False) if isinstance(source, Sequence) else source


@models.call("itertools.chain")
def _chain(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return _joined(api, arguments.positional, node, exact=not arguments.unclear)


@models.call("itertools.chain.from_iterable")
def _chain_of(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.positional[0] if arguments.positional else api.unknown(node)
    parts, exact = collected(api, source, node)
    return _joined(api, parts, node, exact=exact)


def _joined(api: Api, parts: tuple[Value, ...], node: Node, *, exact: bool) -> Value:
    items: list[Value] = []
    for part in parts:
        more, all_of_it = collected(api, api.contents(part), node)
        items += more
        exact = exact and all_of_it
    return Sequence(tuple(items), exact)


@models.call("itertools.islice")
def _islice(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.positional[0] if arguments.positional else api.unknown(node)
    stop = arguments.positional[1] if len(arguments.positional) == 2 else NONE
    count = stop.value if isinstance(stop, Constant) and type(stop.value) is int else None
    items = known_items(source)
    if items is not None and count is not None:
        return Sequence(items[:count])
    return Iteration(item(api, source, node), count)


@models.call("itertools.cycle", "itertools.repeat", "itertools.accumulate", "itertools.compress")
def _again_and_again(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if not arguments.positional:
        return Iteration(api.unknown(node))
    first = arguments.positional[0]
    return Iteration(first if name == "itertools.repeat" else item(api, first, node))


# made of others --------------------------------------------------------------------------------------------------


@models.call("builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset", "collections.deque")
def _collection(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A new collection. What is made of something that only its own models know stays that: they know how to go
    through it."""
    identity = api.fresh(node) if name in ("builtins.list", "collections.deque") else None
    source = arguments.positional[0] if arguments.positional else Sequence()
    match source:
        case Sequence() | Mapping() | Iteration() | Constant() | Instance():
            items, exact = collected(api, source, node)
        case _:
            return source
    if name.endswith("set"):
        return Sequence(tuple(dict.fromkeys(items)), exact=exact and len(items) < 2)
    return Sequence(items, exact, _prefix(source), identity)


def _prefix(source: Value) -> int:
    return source.prefix if isinstance(source, Sequence) and not source.exact else 0


@models.call("builtins.sorted", "builtins.reversed")
def _in_other_order(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.positional[0] if arguments.positional else Sequence()
    if not isinstance(source, (Sequence, Mapping, Iteration, Instance)):
        return source
    items, exact = collected(api, source, node)
    identity = api.fresh(node) if name == "builtins.sorted" else None
    if name == "builtins.reversed":
        items = tuple(reversed(items))
    elif len(items) > 1:
        ordered = in_order(api, items, arguments, node) if exact else None
        items, exact = ordered or items, ordered is not None
    return Sequence(items, exact, identity=identity)


@models.call(
    "builtins.iter",
    "builtins.aiter",
    "tqdm.tqdm",
    "tqdm.auto.tqdm",
    "tqdm.autonotebook.tqdm",
    "tqdm.notebook.tqdm",
    "tqdm.rich.tqdm",
    "tqdm.std.tqdm",
    "rich.progress.track",
    "fastprogress.progress_bar",
    "fastprogress.fastprogress.progress_bar",
    "progressbar.progressbar",
    "alive_progress.alive_it",
)
def _same_items(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """What goes through the items of its first argument. It is no list: a progress bar has methods of its own."""
    source = arguments.get(0, "iterable")
    match source:
        case Sequence():
            return replace(source, identity=None)
        case None | Constant(value=None):
            return ContextManager("progress")
    return source


@models.call("builtins.next", "builtins.anext")
def _next(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return api.iterate(arguments.positional[0], node) if arguments.positional else api.unknown(node)


# folded ----------------------------------------------------------------------------------------------------------


@models.call("builtins.sum", "math.fsum")
def _sum(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.positional[0] if arguments.positional else api.unknown(node)
    start = arguments.get(1, "start")
    items = known_items(source)
    if items is not None:
        parts = items if start is None else (start, *items)
        return _folded(api, parts, node) if parts else Constant(0)
    one = item(api, source, node)
    return api.each(one, lambda value: _several(api, value, node))


def _several(api: Api, value: Value, node: Node) -> Value:
    """The sum of many values like this one."""
    match value:
        case Constant() | Number():
            return api.number(node)
        case Unknown(kind=None):
            return api.unknown(node)
    return api.operate("+", value, value, node)


def _folded(api: Api, parts: tuple[Value, ...], node: Node) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = _both(api, total, part, lambda left, right: _added(api, left, right, node))
    return total


def _both(api: Api, one: Value, other: Value, function: Callable[[Value, Value], Value]) -> Value:
    """Calls a function for each combination of the alternatives of two values."""
    return api.each(one, lambda left: api.each(other, lambda right: function(left, right)))


def _added(api: Api, left: Value, right: Value, node: Node) -> Value:
    if isinstance(left, Constant) and isinstance(right, Constant):
        numbers = isinstance(left.value, (int, float)) and isinstance(right.value, (int, float))
        return Constant(left.value + right.value) if numbers else api.unknown(node)  # type: ignore[operator]
    return api.operate("+", left, right, node)


@models.call("functools.reduce")
def _reduce(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) < 2:
        return api.unknown(node)
    function, source, *start = arguments.positional
    items = known_items(source)
    if items is None:
        one = item(api, source, node)
        items = (*start, one) if start else (one, one)
    else:
        items = (*start, *items)
    if not items:
        return api.unknown(node)
    total = items[0]
    for one in items[1:]:
        total = api.call(function, Arguments((total, one), (), (node, node)), node)
    return total
