"""Methods of lists, sets, tuples and deques. What a list holds now is in the store, under its identity."""

from __future__ import annotations

from dataclasses import replace

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.items import collected, in_order
from amplint.flow.state.values import NONE, Constant, Iteration, Sequence, Value
from amplint.lowering.program import Node

models = Registry()

CONTENTS = "[]"
"""The attribute under which the store keeps what a list or dict holds."""
MOST_KEPT = 64
"""So many items of a list are kept; nothing is known of what is added to more."""


@models.method(Sequence, "append", "add", "appendleft")
def _append(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    if arguments.positional:
        _grow(api, base, arguments.positional[:1], exact=True, first=name == "appendleft")
    return NONE


@models.method(Sequence, "extend", "update", "extendleft")
def _extend(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    for source in arguments.positional:
        items, exact = collected(api, source, node)
        if name == "extendleft":
            items = tuple(reversed(items))
        _grow(api, base, items, exact=exact, first=name == "extendleft")
    return NONE


@models.method(Sequence, "insert")
def _insert(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) == 2:
        first = arguments.positional[0] == Constant(0)
        _grow(api, base, arguments.positional[1:], exact=first, first=first)
    return NONE


def _grow(api: Api, base: Sequence, new: tuple[Value, ...], *, exact: bool, first: bool = False) -> None:
    """Puts items at the end of a list, or at its beginning. In a long loop there may be more of them."""
    if base.identity is None:
        return
    simple = base.exact and exact and not api.in_long_loop
    added = new if simple else tuple(item for item in new if item not in base.items)
    if len(base.items) + len(added) > MOST_KEPT:
        api.store(base.identity, CONTENTS, replace(base, exact=False, prefix=0))
        return
    items = (*added, *base.items) if first else (*base.items, *added)
    prefix = 0 if first or simple else len(base.items) if base.exact else base.prefix
    api.store(base.identity, CONTENTS, Sequence(items, simple, prefix, base.identity))


@models.method(Sequence, "pop", "popleft", "popitem")
def _pop(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    index = arguments.positional[0] if arguments.positional else Constant(0 if name == "popleft" else -1)
    position = index.value if isinstance(index, Constant) else None
    known = base.exact and isinstance(position, int) and not api.in_long_loop
    if not known or not isinstance(position, int) or not -len(base.items) <= position < len(base.items):
        if base.identity is not None:
            api.store(base.identity, CONTENTS, replace(base, exact=False, prefix=0))
        return api.iterate(base, node)
    items = list(base.items)
    found = items.pop(position)
    if base.identity is not None:
        api.store(base.identity, CONTENTS, replace(base, items=tuple(items)))
    return found


@models.method(Sequence, "clear")
def _clear(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    if base.identity is not None:
        api.store(base.identity, CONTENTS, Sequence((), identity=base.identity))
    return NONE


@models.method(Sequence, "sort")
def _sort(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    if base.identity is not None and len(base.items) > 1:
        ordered = in_order(api, base.items, arguments, node) if base.exact else None
        sorted_ = (
            replace(base, items=ordered) if ordered is not None else replace(base, exact=False, prefix=0)
        )
        api.store(base.identity, CONTENTS, sorted_)
    return NONE


@models.method(Sequence, "remove", "discard", "rotate")
def _in_other_order(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    if base.identity is not None and (len(base.items) > 1 or name in ("remove", "discard")):
        api.store(base.identity, CONTENTS, replace(base, exact=False, prefix=0))
    return NONE


@models.method(Sequence, "reverse")
def _reverse(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    if base.identity is not None:
        api.store(base.identity, CONTENTS, replace(base, items=tuple(reversed(base.items)), prefix=0))
    return NONE


@models.method(Sequence, "copy", "__copy__")
def _copy(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    return replace(base, identity=api.fresh(node)) if base.identity is not None else base


@models.method(Sequence, "index", "count", "__len__")
def _number(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    return api.number(node)


@models.method(Sequence, "union", "intersection", "difference", "symmetric_difference")
def _combined(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    items = list(base.items)
    for source in arguments.positional if name != "difference" else ():
        items += collected(api, source, node)[0]
    return Sequence(tuple(dict.fromkeys(items)), exact=False)


@models.method(Sequence, "__getitem__")
def _item(api: Api, base: Sequence, name: str, arguments: Arguments, node: Node) -> Value:
    key = arguments.positional[0] if arguments.positional else NONE
    if base.exact and isinstance(key, Constant) and type(key.value) is int:
        position: int = key.value
        if -len(base.items) <= position < len(base.items):
            return base.items[position]
    return api.iterate(base, node)


@models.method(Sequence)
@models.method(Iteration)
def _any_other(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """Progress bars go for what they run over: ``bar.set_postfix(…)`` changes nothing that it is given."""
    return api.unknown(node)
