"""Dicts: how they are made, and their methods. What a dict holds now is in the store, under its identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.items import collected, keys_of, named
from amplint.flow.models.python.lists import CONTENTS
from amplint.flow.state.atoms import equals
from amplint.flow.state.conditions import apply, asked, leaves, select
from amplint.flow.state.short import MOST_ITEMS, by_path, where_there
from amplint.flow.state.store import keep_apart
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    UNBOUND,
    Choice,
    Constant,
    Mapping,
    Number,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()


# made ------------------------------------------------------------------------------------------------------------


@models.call("builtins.dict", "collections.OrderedDict", "collections.ChainMap", "types.MappingProxyType")
def _dict(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return made_of(api, arguments.positional[:1], arguments, node)


@models.call("collections.defaultdict")
def _defaultdict(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """What is under a key that nobody has set is made by the first argument."""
    made = made_of(api, arguments.positional[1:2], arguments, node)
    factory = arguments.positional[0] if arguments.positional else NONE
    if factory == NONE:
        return made
    return replace(made, rest=(*made.rest, api.call(factory, Arguments(), node)), factory=factory)


@models.call("collections.Counter")
def _counter(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return Mapping((), (api.number(node),), api.fresh(node), api.place(node))


def made_of(api: Api, sources: tuple[Value, ...], arguments: Arguments, node: Node) -> Mapping:
    """The dict that ``dict(source, a=1)`` makes."""
    items: list[tuple[object, Value]] = []
    rest: list[Value] = []
    for source in sources:
        more = _as_mapping(api, source, node)
        items += more.items
        rest += more.rest
    items += arguments.keywords
    if arguments.unclear:
        rest.append(api.unknown(node))
    return Mapping(tuple(items), tuple(rest), api.fresh(node), api.place(node))


def _as_mapping(api: Api, source: Value, node: Node) -> Mapping:
    """What ``dict(source)`` holds: another dict, or pairs."""
    if isinstance(source, Mapping):
        return source
    items: list[tuple[object, Value]] = []
    rest: list[Value] = []
    pairs, exact = collected(api, source, node)
    for pair in pairs:
        held = api.contents(pair)
        if not isinstance(held, Sequence) or not held.exact or len(held.items) != 2:
            rest.append(api.unknown(node))
        elif exact and isinstance(held.items[0], Constant):
            items.append((held.items[0].value, held.items[1]))
        else:
            rest.append(held.items[1])
    if not exact and not rest:
        rest.append(api.unknown(node))
    return Mapping(tuple(items), tuple(rest))


# read ------------------------------------------------------------------------------------------------------------


@models.method(Mapping, "get")
def _get(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    key = arguments.get(0, "key")
    default = arguments.get(1, "default") or NONE
    return found_under(api, base, key, default, node) if key is not None else default


def found_under(api: Api, base: Mapping, key: Value, default: Value, node: Node) -> Value:
    """What a dict has under a key, or the default."""
    if isinstance(key, Constant):
        found = base.get(key.value)
        if found is None:
            return _unknown_under(api, base, key, default, node) if base.rest else default
        return _or_default(found, default)
    if base.rest or len(base.items) > MOST_ITEMS:
        return _unknown_under(api, base, key, default, node)
    if not isinstance(key, (Unknown, Number)):
        return api.iterate(Sequence((*(value for _, value in base.items), default), exact=False), node)
    chosen = default
    for constant in reversed(keys_of(base)):
        held = base.get(constant)
        if held is not None:
            chosen = keep_apart(
                asked(equals(key.symbol, Constant(constant))), _or_default(held, default), chosen
            )
    return chosen


@models.method(Unknown, "get")
def _get_of_unknown(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``config.get("amp", False)``: has one answer, however often it is asked, and without a default that counts the
    same as ``config["amp"]``."""
    key, default = arguments.get(0, "key"), arguments.get(1, "default") or NONE
    if key is None:
        return None
    asked_for, otherwise = named(key), named(default)
    if asked_for is None or otherwise is None:
        return None
    if isinstance(default, Constant) and not default.value:
        return api.subscript(base, (key,), node)
    return Unknown(symbol("item", base.symbol, asked_for, otherwise))


def has_key(held: Mapping, key: Value) -> Value | None:
    """``key in held``; None if nobody knows."""
    if not isinstance(key, Constant):
        return None
    found = held.get(key.value)
    if found is None:
        return FALSE if not held.rest else None
    return where_there(found)


def _unknown_under(api: Api, base: Mapping, key: Value, default: Value, node: Node) -> Unknown:
    """What a dict has under a key of which nothing is known: the same each time, as long as nothing else is put in."""
    asked_for = named(key)
    if base.identity is None or asked_for is None:
        return api.unknown(node)
    return Unknown(symbol("item", base.identity, asked_for, base.rest, default))


def _or_default(found: Value, default: Value) -> Value:
    """What was found, or the default on the paths that have nothing under the key."""
    if UNBOUND not in set(leaves(found)):
        return found
    return apply(lambda one: default if one == UNBOUND else one, found)


@models.method(Mapping, "values", "keys", "items")
def _views(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    held = [(key, value) for key in keys_of(base) if (value := base.get(key)) is not None]
    sometimes = [key for key, value in held if UNBOUND in set(leaves(value))]
    row: dict[str, Callable[[tuple[Value, Value]], Value]] = {
        "values": lambda pair: pair[1],
        "keys": lambda pair: pair[0],
        "items": lambda pair: Sequence(pair),
    }

    def shown(key: object, value: Value) -> Value:
        return UNBOUND if value == UNBOUND else row[name]((Constant(key), value))

    all_rows = tuple(apply(partial(shown, key), value) for key, value in held) if not base.rest else ()
    if len(sometimes) == 1 and not base.rest:
        return by_path(all_rows, Sequence)
    there = [(key, value) for key, one in held if (value := _where_it_is(one)) is not None]
    rows: list[tuple[Value, Value]] = [(Constant(key), value) for key, value in there]
    rows += [(api.unknown(node), value) for value in base.rest]
    exact = not base.rest and not sometimes
    return Sequence(tuple(map(row[name], rows)), exact, rows=all_rows if sometimes else ())


def _where_it_is(held: Value) -> Value | None:
    """What is under a key on the paths that have it; None if there are none."""
    if not isinstance(held, Choice):
        return held if held != UNBOUND else None
    then, other = _where_it_is(held.then), _where_it_is(held.other)
    if then is None or other is None:
        return then if then is not None else other
    return select(asked(held.atom), then, other)


@models.method(Mapping, "copy", "__copy__")
def _copy(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    return replace(base, identity=api.fresh(node))


@models.method(Mapping)
def _any_other(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    return api.unknown(node)


# changed ---------------------------------------------------------------------------------------------------------


@models.method(Mapping, "update")
def _update(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    _keep(api, merged(api, base, made_of(api, arguments.positional[:1], arguments, node)))
    return NONE


def merged(api: Api, held: Mapping, more: Mapping) -> Mapping:
    """``held.update(more)``."""
    new = {key for key, _ in more.items}
    kept = replace(held, items=tuple(item for item in held.items if item[0] not in new))
    kept = api.overlaid(kept, more.rest) if more.rest else kept
    return replace(kept, items=(*kept.items, *more.items))


def with_item(api: Api, held: Mapping, key: Value, item: Value) -> Mapping:
    """``held[key] = item``."""
    more = Mapping(((key.value, item),)) if isinstance(key, Constant) else Mapping(rest=(item,))
    return merged(api, held, more)


@models.method(Mapping, "setdefault")
def _setdefault(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    if not arguments.positional:
        return api.unknown(node)
    key, default = arguments.positional[0], arguments.get(1, "default") or NONE
    if not isinstance(key, Constant):
        if default not in base.rest:
            _keep(api, replace(base, rest=(*base.rest, default)))
        return api.iterate(Sequence((default, *base.rest), exact=False), node)
    found = found_under(api, base, key, default, node)
    kept = tuple(item for item in base.items if item[0] != key.value)
    _keep(api, replace(base, items=(*kept, (key.value, found))))
    return found


@models.method(Mapping, "pop")
def _pop(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    if not arguments.positional:
        return api.unknown(node)
    key = arguments.positional[0]
    default = arguments.get(1, "default")
    found = found_under(api, base, key, default if default is not None else api.unknown(node), node)
    if isinstance(key, Constant):
        _keep(api, replace(base, items=tuple(item for item in base.items if item[0] != key.value)))
    return found


@models.method(Mapping, "clear")
def _clear(api: Api, base: Mapping, name: str, arguments: Arguments, node: Node) -> Value:
    _keep(api, replace(base, items=(), rest=()))
    return NONE


def _keep(api: Api, value: Mapping) -> None:
    if value.identity is not None:
        api.store(value.identity, CONTENTS, value)
