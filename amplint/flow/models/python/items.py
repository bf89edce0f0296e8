"""Collections as builtins take them, and the special methods that builtins call."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.state.short import MOST_ITEMS, is_short
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    BoundMethod,
    ClassValue,
    Constant,
    ContextManager,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Iteration,
    Mapping,
    ModuleFile,
    Number,
    Partial,
    Sequence,
    Super,
    Text,
    Unbound,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

_OF_PYTHON = (
    BoundMethod,
    ClassValue,
    Constant,
    ContextManager,
    Decorated,
    External,
    FunctionValue,
    Iteration,
    Mapping,
    ModuleFile,
    Number,
    Partial,
    Sequence,
    Super,
    Text,
    Unbound,
    Unknown,
)


def is_of_python(value: Value) -> bool:
    """Whether a value is none that models of other packages have added, and no object."""
    return isinstance(value, _OF_PYTHON)


def special(api: Api, value: Value, name: str, node: Node) -> Value | None:
    """What a special method such as ``__len__`` gives, for objects and for values that other models have added; None
    where there is no such method."""
    if isinstance(value, Instance):
        if value.made_of is not None and api.find_method(value.made_of, name) is not None:
            return api.call(api.attribute(value, name, node), Arguments(), node)
        if value.external is None or not api.knows(f"{value.external}.{name}"):
            return None
    elif is_of_python(value):
        return None
    return api.call(BoundMethod(value, name), Arguments(), node)


def known_items(value: Value | None) -> tuple[Value, ...] | None:
    """The items of a collection that is walked item by item, or None."""
    match value:
        case Sequence() if value.exact and is_short(value.items):
            return value.items
        case Mapping() if not value.rest and len(value.items) <= MOST_ITEMS:
            return tuple(map(Constant, keys_of(value)))
        case Constant(value=str() | tuple() as whole) if len(whole) <= MOST_ITEMS:
            return tuple(map(Constant, whole))
    return None


def item(api: Api, value: Value, node: Node) -> Value:
    """One item of a collection, nobody knows which."""
    return value.each if isinstance(value, Iteration) else api.iterate(value, node)


def rounds_of(value: Value) -> int | None:
    """How many items a collection has, if that is known."""
    match value:
        case Iteration():
            return value.rounds
        case Sequence() if value.exact:
            return len(value.items)
        case Mapping() if not value.rest:
            return len(keys_of(value))
        case Constant(value=str() | bytes() | tuple() as whole):
            return len(whole)
    return None


def keys_of(value: Mapping) -> tuple[object, ...]:
    """The constant keys of a dict, each once."""
    return tuple(dict.fromkeys(key for key, _ in value.items))


def collected(api: Api, value: Value, node: Node) -> tuple[tuple[Value, ...], bool]:
    """The items of a collection, and whether they are all there are, in order."""
    match value:
        case Sequence():
            return value.items, value.exact
        case Mapping() if not value.rest:
            return tuple(map(Constant, keys_of(value))), True
        case Constant(value=str() | tuple() as whole) if len(whole) <= MOST_ITEMS:
            return tuple(map(Constant, whole)), True
        case Iteration() if value.rounds == 0:
            return (), True
    return (item(api, value, node),), False


def named(value: Value) -> Symbol | None:
    """What stands for a value in the name of a question about it, or None."""
    match value:
        case Unknown() | Number():
            return value.symbol
        case Text():
            return value.symbol
        case Constant():
            return symbol("constant", value)
        case Instance():
            return symbol("object", value.identity)
        case External():
            return value.symbol
        case ClassValue():
            return symbol("class", value.file.display, value.outline.qualified)
        case ModuleFile():
            return symbol("module", value.file.display)
    return None


def in_order(
    api: Api, items: tuple[Value, ...], arguments: Arguments, node: Node
) -> tuple[Value, ...] | None:
    """The items in order, if what they are ordered by is known of each: ``sorted(hooks, key=lambda h: h.priority)``."""
    key = arguments.keyword("key") or NONE
    backwards = arguments.keyword("reverse") or FALSE
    keys = [item if key == NONE else api.call(key, Arguments((item,), (), (node,)), node) for item in items]
    numbers = [one.value for one in keys if isinstance(one, Constant) and isinstance(one.value, (int, float))]
    texts = [one.value for one in keys if isinstance(one, Constant) and isinstance(one.value, str)]
    if len(items) not in (len(numbers), len(texts)) or not isinstance(backwards, Constant):
        return None
    ranks = [sorted({*numbers}).index(one) for one in numbers] or [
        sorted({*texts}).index(one) for one in texts
    ]
    order = sorted(range(len(items)), key=ranks.__getitem__, reverse=bool(backwards.value))
    return tuple(items[index] for index in order)
