"""What is compiled, recorded or captured: torch.compile, torch.jit and CUDA graphs."""

from __future__ import annotations

from amplint.amp.wrappers import CAPTURES
from amplint.events import Captured, CompiledBegan, CompiledEnded, Place
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.notes import CompiledNote
from amplint.flow.models.torch.values import MODULE, Autocast, Compiled
from amplint.flow.models.torch.weights import is_module, takes_gradients
from amplint.flow.state.values import (
    TRUE,
    BoundMethod,
    ContextManager,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Partial,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

_TRACES = tuple(name for name in CAPTURES if name.startswith("torch.jit.trace"))
_GRAPHS = tuple(name for name in CAPTURES if name.endswith(".graph"))
_GRAPHED = tuple(name for name in CAPTURES if name.endswith("make_graphed_callables"))
_AS_THEY_ARE = (
    "torch._dynamo.disable",
    "torch._dynamo.allow_in_graph",
    "torch.compiler.disable",
    "torch.compiler.allow_in_graph",
    "torch.jit.ignore",
    "torch.jit.unused",
    "torch.jit.export",
    "torch.jit.optimize_for_inference",
    "torch.jit.freeze",
)
"""Calls that give back the function or module which they are given, as far as AMP can tell."""


@models.call("torch.compile", weight=Weight.EFFECT)
def _compile(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.get(0, "model")
    if first is None:
        return Partial(External(name), (), arguments.keywords)
    return compiled(api, first, node)


def compiled(api: Api, value: Value, node: Node) -> Value:
    """What torch.compile gives back: the module, with a note; or the function, in a context of its own."""
    place = api.place(node)
    identity = api.identity_of(value)
    if identity is not None and is_module(api, value):
        api.set_note(identity, CompiledNote(place))
        return value
    if isinstance(value, (FunctionValue, BoundMethod, Decorated, Partial)):
        return Decorated(value, Compiled(place))
    return value


@models.into(models.enters, Compiled)
def _enter(api: Api, context: Compiled, node: Node) -> Value:
    if gradients(api):
        api.emit(CompiledBegan(api.place(node), regions(api), context.place))
    return context


@models.into(models.exits, Compiled)
def _leave(api: Api, context: Compiled, node: Node) -> None:
    if gradients(api):
        api.emit(CompiledEnded(api.place(node), regions(api)))


@models.call(*_AS_THEY_ARE)
def _as_it_is(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if arguments.positional:
        return arguments.positional[0]
    return Partial(External(name), (), arguments.keywords)


# recorded --------------------------------------------------------------------------------------------------------


@models.call("torch.jit.script", weight=Weight.EFFECT)
def _script(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.get(0, "obj") or api.unknown(node)
    _tell(api, name, first, node)
    return first


@models.call(*_TRACES, weight=Weight.EFFECT)
def _trace(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.get(0, "func") or arguments.keyword("mod") or api.unknown(node)
    _tell(api, name, first, node, again=arguments.get(3, "check_trace") in (None, TRUE))
    return api.unknown(node, MODULE)


@models.call(*_GRAPHED, weight=Weight.EFFECT)
def _graphed(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.get(0, "callables") or api.unknown(node)
    _tell(api, name, first, node)
    return first


@models.call(*_GRAPHS, weight=Weight.EFFECT)
def _graph(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    _tell(api, name, api.unknown(node), node)
    return ContextManager("null")


def _tell(api: Api, name: str, first: Value, node: Node, *, again: bool = True) -> None:
    """Tells that a callable is recorded, or that what follows is. What the parameters of a module from out of sight are
    nobody knows: it may have been quantized, cast or frozen to be recorded."""
    identity = api.identity_of(first)
    known = isinstance(first, Instance) and is_module(api, first)
    trains = known and identity is not None and takes_gradients(api, identity)
    place = _decorated_at(api, first)
    api.emit(Captured(api.place(node), regions(api), CAPTURES[name], trains, place, again))


def _decorated_at(api: Api, value: Value) -> Place | None:
    """Where the autocast context was made that decorates a function, if one does."""
    if isinstance(value, Decorated):
        own = value.context.place if isinstance(value.context, Autocast) else None
        return own or _decorated_at(api, value.function)
    if isinstance(value, FunctionValue) and not value.undecorated:
        found = [part.place for part in api.decorators(value) if isinstance(part, Autocast)]
        return found[0] if found else None
    return None
