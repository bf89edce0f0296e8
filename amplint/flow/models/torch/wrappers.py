"""What gives back the module or function that it is given: DataParallel, DistributedDataParallel, weight_norm,
checkpoint; and copies of modules."""

from __future__ import annotations

from dataclasses import replace

from amplint.amp.wrappers import DATA_PARALLEL, PARALLEL, TRANSPARENT_CALLS
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.copying import copied
from amplint.flow.models.torch.notes import (
    Buffers,
    CompiledNote,
    Frozen,
    Items,
    Parallel,
    ParametersCast,
    Prepared,
    ShardedNote,
)
from amplint.flow.models.torch.values import MODULE, Replicas, Tensor
from amplint.flow.models.torch.weights import is_module
from amplint.flow.state.conditions import apply, leaves
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import BoundMethod, Instance, Mapping, Note, Sequence, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_COMPILERS = frozenset(
    {"torch.compile", "torch.jit.script", "torch._dynamo.disable", "torch.compiler.disable"}
)
_OPTIONS_OF_CHECKPOINT = frozenset(
    {"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"}
)


@models.call(*sorted(TRANSPARENT_CALLS - PARALLEL - _COMPILERS))
def _same(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``weight_norm(layer)``."""
    return arguments.get(0, "module") or api.unknown(node)


@models.call(*sorted(PARALLEL - DATA_PARALLEL))
def _parallel(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``DistributedDataParallel(model)``: the module that it runs."""
    module = _module(api, arguments, node)
    identity = api.identity_of(module)
    if identity is not None:
        api.set_note(identity, Parallel())
    return module


@models.call(*sorted(DATA_PARALLEL))
def _replicas(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``nn.DataParallel(model)``."""
    module = _module(api, arguments, node)
    return Replicas(module) if isinstance(module, (Instance, Unknown)) else module


@models.into(models.attributes, Replicas)
def _attribute(api: Api, base: Replicas, name: str, node: Node) -> Value | None:
    """``wrapped.module``."""
    return base.module if name == "module" else None


@models.method(Replicas)
def _method(api: Api, base: Replicas, name: str, arguments: Arguments, node: Node) -> Value:
    """``wrapped.parameters()`` are those of the module."""
    result = api.call(BoundMethod(base.module, name), arguments, node)
    return base if result == base.module else result


def _module(api: Api, arguments: Arguments, node: Node) -> Value:
    """The first argument, which is a module if it is to be run in parallel."""
    first = arguments.get(0, "module") or api.unknown(node)
    return Unknown(first.symbol, MODULE) if isinstance(first, Unknown) else first


@models.call("torch.utils.checkpoint.checkpoint")
def _checkpoint(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``checkpoint(function, x)`` runs the function."""
    function = arguments.get(0, "function")
    if function is None:
        return api.unknown(node)
    keywords = tuple(
        part for part in arguments.keywords if part[0] not in _OPTIONS_OF_CHECKPOINT | {"function"}
    )
    given = replace(arguments.rest(1) if arguments.positional else arguments, keywords=keywords)
    return api.call(function, given, node)


@models.call("torch.utils.checkpoint.checkpoint_sequential")
def _checkpoint_sequential(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``checkpoint_sequential(functions, 2, x)`` runs them one after another."""
    functions, result = arguments.get(0, "functions"), arguments.get(2, "input")
    if functions is None or result is None:
        return api.unknown(node)
    if not isinstance(functions, Sequence):
        return api.call(functions, Arguments((result,), (), (node,)), node)
    if not functions.exact:
        return api.unknown(node)
    for function in functions.items:
        result = api.call(function, Arguments((result,), (), (node,)), node)
    return result


@models.call("torch.func.functional_call", "torch.nn.utils.stateless.functional_call")
def _functional_call(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``functional_call(model, weights, x)`` runs the model with other weights, which autocast casts anew: nothing is
    kept of it, and its result may have any type."""
    return api.unknown(node)


# copies ----------------------------------------------------------------------------------------------------------

_NOTES: tuple[type[Note], ...] = (
    ParametersCast,
    Frozen,
    Parallel,
    CompiledNote,
    ShardedNote,
    Prepared,
    Buffers,
)


@models.call("copy.deepcopy")
def _deepcopy(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``copy.deepcopy(model)`` is another module: what is cast or frozen from here on is the copy."""
    first = arguments.get(0, "x")
    if first is None:
        return api.unknown(node)
    if _holds_modules(api, first, set()):
        return _copied(api, first, api.fresh(node, "copy"), {})
    return copied(api, first, node, deep=True)


@models.call("copy.copy")
def _copy(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A shallow copy of a module has the same parameters."""
    first = arguments.get(0, "x")
    if first is None:
        return api.unknown(node)
    return first if is_module(api, first) else copied(api, first, node, deep=False)


def _holds_modules(api: Api, value: Value, seen: set[Symbol]) -> bool:
    """Whether a value is a module, a parameter, or a collection, an object of the project or a method of one, with such
    in it. ``seen``: the objects that were looked into."""
    parts: list[Value] = []
    match value:
        case Tensor():
            return value.parameter_of is not None
        case Sequence():
            parts = list(value.items)
        case Mapping():
            parts = [*(item for _, item in value.items), *value.rest]
        case BoundMethod():
            parts = [value.receiver]
        case Instance() if value.made_of is not None and value.identity not in seen:
            seen.add(value.identity)
            parts = [] if is_module(api, value) else list(api.attributes_of(value).values())
    return is_module(api, value) or any(
        _holds_modules(api, one, seen) for part in parts for one in leaves(part)
    )


def _copied(api: Api, value: Value, by: Symbol, done: dict[Symbol, Value]) -> Value:
    match value:
        case Replicas():
            inner = _copied(api, value.module, by, done)
            return Replicas(inner) if isinstance(inner, (Instance, Unknown)) else inner
        case Sequence():
            items = tuple(_each(api, item, by, done) for item in value.items)
            return replace(value, items=items, identity=None)
        case Mapping():
            pairs = tuple((key, _each(api, item, by, done)) for key, item in value.items)
            rest = tuple(_each(api, item, by, done) for item in value.rest)
            return replace(value, items=pairs, rest=rest, identity=None)
        case Tensor() if value.parameter_of is not None:
            owner = symbol("copy", value.parameter_of, by)
            _copy_notes(api, value.parameter_of, owner)
            return replace(value, parameter_of=owner)
        case Unknown() if is_module(api, value):
            made = Unknown(symbol("copy", value.symbol, by), MODULE)
            _copy_notes(api, value.symbol, made.symbol)
            return made
        case Instance() if is_module(api, value) or _holds_modules(api, value, set()):
            return _copied_object(api, value, by, done)
        case BoundMethod():
            return replace(value, receiver=_each(api, value.receiver, by, done))
    return value


def _each(api: Api, value: Value, by: Symbol, done: dict[Symbol, Value]) -> Value:
    """A copy of what may depend on the path."""
    return apply(lambda one: _copied(api, one, by, done), value)


def _copied_object(api: Api, value: Instance, by: Symbol, done: dict[Symbol, Value]) -> Value:
    known = done.get(value.identity)
    if known is not None:
        return known
    made = replace(value, identity=symbol("copy", value.identity, by))
    done[value.identity] = made
    _copy_notes(api, value.identity, made.identity)
    items = api.note(value.identity, Items)
    if items is not None:
        api.set_note(made.identity, Items(_each(api, items.items, by, done)))
    for name, held in api.attributes_of(value).items():
        api.store(made.identity, name, _each(api, held, by, done))
    return made


def _copy_notes(api: Api, old: Symbol, new: Symbol) -> None:
    for kind in _NOTES:
        for note in api.notes(old, kind)[:1]:
            unsure = kind is ParametersCast and api.note(old, kind) is None
            api.set_note(new, ParametersCast(None) if unsure else note)
