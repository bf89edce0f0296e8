"""Objects of classes of the project that are dicts: ``class Registry(dict)``. What one holds is that of a plain dict
beside it, once the constructor of ``dict`` was seen; the methods that its class has of its own come first."""

from __future__ import annotations

from dataclasses import replace

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.dicts import has_key, made_of, with_item
from amplint.flow.models.python.lists import CONTENTS
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    NONE,
    BoundMethod,
    Instance,
    Mapping,
    Value,
    to_be_filled,
)
from amplint.lowering.program import Node

models = Registry()

_DICT = "builtins.dict"


@models.call(f"{_DICT}.__init__")
def _init(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    base = arguments.receiver
    if isinstance(base, Instance):
        held = made_of(api, arguments.positional[:1], arguments, node)
        identity = symbol("held", base.identity)
        api.store(identity, CONTENTS, replace(held, identity=identity))
    return NONE


def _held(api: Api, base: Value) -> Mapping | None:
    """What such an object holds now; None if nobody knows."""
    if not isinstance(base, Instance) or not api.derives_from(base, _DICT) or _has(api, base, "__missing__"):
        return None
    identity = symbol("held", base.identity)
    if api.load(identity, CONTENTS) is None:
        api.attributes_of(base)  # its constructor may not have been walked yet
    if api.load(identity, CONTENTS) is None:
        return None
    found = api.contents(Mapping(identity=identity))
    return found if isinstance(found, Mapping) else None


def _has(api: Api, base: Instance, method: str) -> bool:
    return base.made_of is not None and api.find_method(base.made_of, method) is not None


@models.method(_DICT, "get", "values", "keys", "items", "copy", "update", "setdefault", "pop", "clear")
def _method(api: Api, base: Instance, name: str, arguments: Arguments, node: Node) -> Value | None:
    held = _held(api, base)
    return api.call(BoundMethod(held, name), arguments, node) if held is not None else None


@models.method(_DICT, "__getitem__")
def _get_item(api: Api, base: Instance, name: str, arguments: Arguments, node: Node) -> Value | None:
    held = _held(api, base)
    return api.subscript(held, arguments.positional, node) if held is not None else None


@models.method(_DICT, "__setitem__")
def _put_item(api: Api, base: Instance, name: str, arguments: Arguments, node: Node) -> Value | None:
    *keys, value = arguments.positional or (NONE,)
    return NONE if _put(api, base, tuple(keys), value) else None


@models.into(models.items, _DICT)
def _item(api: Api, base: Instance, keys: tuple[Value, ...], node: Node) -> Value | None:
    """``self[key]``."""
    held = _held(api, base)
    return api.subscript(held, keys, node) if held is not None else None


@models.into(models.item_stores, _DICT)
def _set_item(api: Api, base: Instance, keys: tuple[Value, ...], value: Value, node: Node) -> bool:
    """``self[key] = value``."""
    return not _has(api, base, "__setitem__") and _put(api, base, keys, value)


def _put(api: Api, base: Instance, keys: tuple[Value, ...], value: Value) -> bool:
    held = _held(api, base)
    if held is None or held.identity is None or len(keys) != 1:
        return False
    api.store(held.identity, CONTENTS, with_item(api, held, keys[0], value))
    return True


@models.into(models.iterations, _DICT)
def _one(api: Api, base: Instance, node: Node) -> Value | None:
    """``for name in self``."""
    held = _held(api, base) if not _has(api, base, "__iter__") else None
    return api.iterate(held, node) if held is not None else None


@models.into(models.operators, Instance)
def _is_in(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``key in self``."""
    held = _held(api, right) if operator == "in" and right is not None else None
    if held is None or not isinstance(right, Instance) or _has(api, right, "__contains__"):
        return None
    return has_key(held, left)


@models.into(models.havocs, _DICT)
def _given_away(api: Api, base: Instance, node: Node) -> None:
    """Code out of sight may put something into one that is empty."""
    held = _held(api, base)
    if held is not None and held.identity is not None:
        api.store(held.identity, CONTENTS, to_be_filled(held))
