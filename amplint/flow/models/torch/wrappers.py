"""What gives back the module or function that it is given: DataParallel, DistributedDataParallel, weight_norm,
checkpoint; and copies of modules."""

from __future__ import annotations

from dataclasses import replace

from amplint.amp.wrappers import DATA_PARALLEL, PARALLEL, TRANSPARENT_CALLS
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.values import (
    MODULE,
    Buffers,
    CompiledNote,
    Frozen,
    Items,
    Parallel,
    ParametersCast,
    Prepared,
    Replicated,
    ShardedNote,
    Tensor,
)
from amplint.flow.models.torch.weights import is_module
from amplint.flow.state.conditions import apply
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import Instance, Mapping, Note, Sequence, Unknown, Value
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


@models.call(*sorted(PARALLEL))
def _parallel(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``DistributedDataParallel(model)``: the module that it runs."""
    module = _module(api, arguments, node)
    identity = api.identity_of(module)
    if identity is not None:
        api.set_note(identity, Parallel())
        if name in DATA_PARALLEL:
            api.set_note(identity, Replicated())
    return module


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


# copies ----------------------------------------------------------------------------------------------------------

_NOTES: tuple[type[Note], ...] = (
    ParametersCast,
    Frozen,
    Replicated,
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
    return _copied(api, first, api.fresh(node, "copy"), {}) if first is not None else api.unknown(node)


@models.call("copy.copy")
def _copy(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A shallow copy of a module has the same parameters."""
    return arguments.get(0, "x") or api.unknown(node)


def _copied(api: Api, value: Value, by: Symbol, done: dict[Symbol, Value]) -> Value:
    match value:
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
            copied = Unknown(symbol("copy", value.symbol, by), MODULE)
            _copy_notes(api, value.symbol, copied.symbol)
            return copied
        case Instance() if is_module(api, value):
            return _copied_module(api, value, by, done)
    return value


def _each(api: Api, value: Value, by: Symbol, done: dict[Symbol, Value]) -> Value:
    """A copy of what may depend on the path."""
    return apply(lambda one: _copied(api, one, by, done), value)


def _copied_module(api: Api, value: Instance, by: Symbol, done: dict[Symbol, Value]) -> Value:
    known = done.get(value.identity)
    if known is not None:
        return known
    copied = done[value.identity] = replace(value, identity=symbol("copy", value.identity, by))
    assert isinstance(copied, Instance)
    _copy_notes(api, value.identity, copied.identity)
    items = api.note(value.identity, Items)
    if items is not None:
        api.set_note(copied.identity, Items(_each(api, items.items, by, done)))
    for name, held in api.attributes_of(value).items():
        api.store(copied.identity, name, _each(api, held, by, done))
    return copied


def _copy_notes(api: Api, old: Symbol, new: Symbol) -> None:
    for kind in _NOTES:
        for note in api.notes(old, kind)[:1]:
            unsure = kind is ParametersCast and api.note(old, kind) is None
            api.set_note(new, ParametersCast(None) if unsure else note)
