"""``functools``: arguments given before a call, and decorators that leave a function what it is. Whether what a
function gives is kept (``cache``), or read like an attribute (``cached_property``), the project tells."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.values import (
    BoundMethod,
    ClassValue,
    Decorated,
    External,
    FunctionValue,
    Partial,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

_CALLABLE = (BoundMethod, ClassValue, Decorated, External, FunctionValue, Partial)


@models.call("functools.partial", "functools.partialmethod")
def _partial(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if not arguments.positional:
        return api.unknown(node)
    function, *given = arguments.positional
    if isinstance(function, Partial):
        named = {key for key, _ in arguments.keywords}
        kept = tuple(item for item in function.keywords if item[0] not in named)
        return Partial(function.function, (*function.positional, *given), (*kept, *arguments.keywords))
    return Partial(function, tuple(given), arguments.keywords)


@models.call("functools.wraps")
def _wraps(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``wraps(function)``: what it decorates stays itself."""
    return Partial(External("functools.update_wrapper"))


@models.call("functools.singledispatch", "functools.singledispatchmethod")
def _dispatched(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """Which of the functions that are registered with it is called depends on the type of the first argument: one that
    is out of sight."""
    return External("functools.singledispatch.registered")


@models.call("functools.update_wrapper", "functools.total_ordering")
def _itself(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return arguments.positional[0] if arguments.positional else api.unknown(node)


@models.call("functools.lru_cache", "functools.cache", "functools.cached_property")
def _kept(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """With a function, or with settings and then with a function."""
    first = arguments.get(0, "user_function")
    return first if isinstance(first, _CALLABLE) else Partial(External(name))
