"""Copies of Python's own values. ``copy.copy`` and ``copy.deepcopy`` are models of those whose values need more than
this: they ask here for the rest."""

from __future__ import annotations

from dataclasses import replace

from amplint.flow.core.api import Api
from amplint.flow.models.python.lists import CONTENTS
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import External, Instance, Mapping, Sequence, Value
from amplint.lowering.program import Node

_DEEPEST = 3
"""So deep what a copy holds is copied, too."""


def copied(api: Api, value: Value, node: Node, *, deep: bool) -> Value:
    """A copy of a list, a dict or an object of a class that derives from nothing outside the project. Other values
    are what they were: an unknown one and its copy answer every question alike."""
    depth = _DEEPEST if deep else 0
    return api.each(value, lambda one: _copy_of(api, api.contents(one), node, depth, ()))


def _copy_of(api: Api, value: Value, node: Node, depth: int, parts: tuple[str, ...]) -> Value:
    match value:
        case Sequence():
            items = tuple(
                _inner(api, item, node, depth, (*parts, str(index))) for index, item in enumerate(value.items)
            )
            made = replace(value, items=items, identity=_own(api, value.identity, node, parts))
            return _kept(api, made)
        case Mapping():
            pairs = tuple(
                (key, _inner(api, item, node, depth, (*parts, str(key)))) for key, item in value.items
            )
            rest = tuple(
                _inner(api, item, node, depth, (*parts, str(index))) for index, item in enumerate(value.rest)
            )
            identity = _own(api, value.identity, node, parts)
            return _kept(api, replace(value, items=pairs, rest=rest, identity=identity))
        case Instance() if _is_plain(api, value):
            made_object = replace(value, identity=api.fresh(node, *parts))
            for name, held in api.attributes_of(value).items():
                copy = _inner(api, held, node, depth, (*parts, name))
                api.store(made_object.identity, name, copy)
            return made_object
    return value


def _inner(api: Api, value: Value, node: Node, depth: int, parts: tuple[str, ...]) -> Value:
    if not depth:
        return value
    return api.each_item(value, lambda one: _copy_of(api, api.contents(one), node, depth - 1, parts))


def _own(api: Api, identity: Symbol | None, node: Node, parts: tuple[str, ...]) -> Symbol | None:
    return api.fresh(node, *parts) if identity is not None else None


def _kept(api: Api, value: Sequence | Mapping) -> Value:
    if value.identity is not None:
        api.store(value.identity, CONTENTS, value)
    return value


def _is_plain(api: Api, value: Instance) -> bool:
    """Whether an object is of a class of the project that derives from nothing outside."""
    if value.made_of is None:
        return False
    return not any(isinstance(base, External) for base in api.bases(value.made_of))
