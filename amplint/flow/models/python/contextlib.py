"""``contextlib``: functions that are contexts, stacks of contexts, and contexts that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    NONE,
    ContextManager,
    Decorated,
    FunctionValue,
    Partial,
    Sequence,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

_HELD = "held"
"""The attribute under which a stack keeps what it will leave."""
_NOTHING_TO_DO = (
    "contextlib.suppress",
    "contextlib.redirect_stdout",
    "contextlib.redirect_stderr",
    "contextlib.chdir",
)


@dataclass(frozen=True, slots=True)
class Held(Value):
    """Something on a stack: a context that was entered at a node, or a call that is made at the end."""

    context: Value
    node: Node
    is_call: bool = False


# functions that are contexts -------------------------------------------------------------------------------------


@models.call("contextlib.contextmanager", "contextlib.asynccontextmanager")
def _contextmanager(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """What was put around the function lasts while the generator is made, and not while the block runs."""
    function = arguments.positional[0] if arguments.positional else api.unknown(node)
    while isinstance(function, Decorated):
        function = function.function
    return replace(function, manages_context=True) if isinstance(function, FunctionValue) else function


@models.into(models.decorates, ContextManager)
def _decorated(api: Api, context: ContextManager, function: Value, node: Node) -> Value:
    return Decorated(function, context) if context.kind == "generator" else function


@models.method(ContextManager, "__call__")
def _around(api: Api, context: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    if not arguments.positional:
        return api.unknown(node)
    function = arguments.positional[0]
    return Decorated(function, context) if context.kind == "generator" else function


@models.method(ContextManager, "__enter__", "__aenter__")
def _enter_by_hand(api: Api, context: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    return api.enter(context, node)


@models.method(ContextManager, "__exit__", "__aexit__")
def _leave_by_hand(api: Api, context: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    api.leave(context, node)
    return NONE


# contexts --------------------------------------------------------------------------------------------------------


@models.call("contextlib.nullcontext")
def _null(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return ContextManager("null", None, arguments.get(0, "enter_result"))


@models.call(*_NOTHING_TO_DO)
def _nothing(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return ContextManager("null", None, arguments.positional[0] if arguments.positional else None)


@models.call("contextlib.closing", "contextlib.aclosing")
def _closing(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return ContextManager("closing", None, arguments.get(0, "thing"))


@models.into(models.enters, ContextManager)
def _enter(api: Api, context: ContextManager, node: Node) -> Value | None:
    match context.kind:
        case "null" | "closing":
            return context.call if context.call is not None else NONE
        case "stack" | "progress":
            return context
    return None


@models.into(models.exits, ContextManager)
def _leave(api: Api, context: ContextManager, node: Node) -> None:
    if context.kind == "closing" and context.call is not None:
        _do(api, api.attribute(context.call, "close", node), node)
    elif context.kind == "stack" and context.identity is not None:
        _unwind(api, context.identity, node)


@models.method(ContextManager)
def _any_other(api: Api, context: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    return api.unknown(node)


# stacks ----------------------------------------------------------------------------------------------------------


@models.call("contextlib.ExitStack", "contextlib.AsyncExitStack")
def _stack(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    identity = api.fresh(node)
    api.store(identity, _HELD, Sequence())
    return ContextManager("stack", identity)


@models.method(ContextManager, "enter_context", "enter_async_context")
def _enter_context(api: Api, stack: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    context = arguments.get(0, "cm")
    if context is None or stack.identity is None:
        return api.unknown(node)
    result = api.enter(context, node)
    _push(api, stack.identity, Held(context, node))
    return result


@models.method(ContextManager, "push", "push_async_exit")
def _push_exit(api: Api, stack: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    """Leaves at the end what somebody else has entered."""
    if not arguments.positional or stack.identity is None:
        return api.unknown(node)
    _push(api, stack.identity, Held(arguments.positional[0], node))
    return arguments.positional[0]


@models.method(ContextManager, "callback", "push_async_callback")
def _callback(api: Api, stack: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    if not arguments.positional or stack.identity is None:
        return api.unknown(node)
    function, *given = arguments.positional
    call = Partial(function, tuple(given), arguments.keywords)
    _push(api, stack.identity, Held(call, node, is_call=True))
    return function


@models.method(ContextManager, "pop_all")
def _pop_all(api: Api, stack: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    """Another stack that holds what this one held."""
    if stack.identity is None:
        return api.unknown(node)
    other = api.fresh(node)
    api.store(other, _HELD, api.load(stack.identity, _HELD) or Sequence())
    api.store(stack.identity, _HELD, Sequence())
    return ContextManager("stack", other)


@models.method(ContextManager, "close", "aclose")
def _close(api: Api, stack: ContextManager, name: str, arguments: Arguments, node: Node) -> Value:
    if stack.identity is not None:
        _unwind(api, stack.identity, node)
    return NONE


def _push(api: Api, stack: Symbol, new: Held) -> None:
    _each_held(api, stack, lambda held: api.store(stack, _HELD, Sequence((*held.items, new))))


def _unwind(api: Api, stack: Symbol, node: Node) -> None:
    """Leaves what a stack holds, the latest first."""

    def unwind(held: Sequence) -> None:
        api.store(stack, _HELD, Sequence())
        for item in reversed(held.items):
            api.each_item(item, leave)

    def leave(item: Value) -> Value:
        if isinstance(item, Held):
            if item.is_call:
                _do(api, item.context, item.node)
            else:
                api.leave(item.context, item.node)
        return NONE

    _each_held(api, stack, unwind)


def _each_held(api: Api, stack: Symbol, function: Callable[[Sequence], None]) -> None:
    """Does something with what a stack holds, on each path that tells another content."""

    def run(held: Value) -> Value:
        if isinstance(held, Sequence):
            function(held)
        return NONE

    api.each(api.load(stack, _HELD) or Sequence(), run)


def _do(api: Api, function: Value, node: Node) -> None:
    """Makes a call whose result nobody needs."""
    api.call(function, Arguments(), node)
