"""Calls of modules: those of the project are followed, those from out of sight give what autocast likely makes of
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amplint.events import (
    Certainty,
    DType,
    Forward,
    GivenArguments,
    enabled_region,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.layers import call_layer, layer_of
from amplint.flow.models.torch.modules import OF_TORCH
from amplint.flow.models.torch.notes import CompiledNote, FromPackage, Prepared
from amplint.flow.models.torch.operations import operand, resolved
from amplint.flow.models.torch.threads import in_thread, replicated
from amplint.flow.models.torch.values import MODULE, Compiled, Replicas, Tensor
from amplint.flow.models.torch.weights import is_module, may_be_cast, parts_of, trains
from amplint.flow.state.conditions import apply, leaves
from amplint.flow.state.symbols import Symbol, made_from, symbol
from amplint.flow.state.values import NONE, BoundMethod, FunctionValue, Instance, Unknown, Value
from amplint.lowering.program import Node

models = Registry()


@models.into(models.instances, OF_TORCH)
def _call(api: Api, value: Instance, name: str, arguments: Arguments, node: Node) -> Value:
    """``model(x)`` of a class that inherits from one of torch.nn."""
    return call_module(api, value, arguments, node)


@models.method(Instance, "__call__")
def _call_other(api: Api, value: Instance, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``model(x)`` of a class that inherits from one of another package and has a forward."""
    return call_module(api, value, arguments, node) if is_module(api, value) else None


@models.method(OF_TORCH, "forward")
@models.method(MODULE, "__call__", "forward")
def _call_unknown(api: Api, value: Instance | Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    """``model(x)``, or ``model.forward(x)``, of a module from out of sight; ``layer.forward(x)``."""
    return call_module(api, value, arguments, node)


@models.method(Tensor, "__call__")
def _call_cast(api: Api, value: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``model(x)`` after ``model = build(config).float()``: what is called was a module, and no tensor."""
    if value.name is None:
        return api.unknown(node)
    return call_module(api, Unknown(value.name, MODULE), arguments, node)


@models.method(Replicas, "__call__", "forward")
def _call_replicas(api: Api, value: Replicas, name: str, arguments: Arguments, node: Node) -> Value:
    """``nn.DataParallel(model)(x)``: in threads, if the regions in them differ from those around."""
    inside = replicated(api)
    if inside is None:
        return call_module(api, value.module, arguments, node)
    return in_thread(
        api, "nn.DataParallel", lambda: call_module(api, value.module, arguments, node), node, inside
    )


def call_module(api: Api, value: Instance | Unknown, arguments: Arguments, node: Node) -> Value:
    """``module(x)``: its forward, compiled if that was asked for."""
    identity = value.identity if isinstance(value, Instance) else value.symbol
    note = api.note(identity, CompiledNote)
    if note is None:
        return run(api, value, arguments, node)
    api.enter(Compiled(note.place), node)
    result = run(api, value, arguments, node)
    api.leave(Compiled(note.place), node)
    return result


def run(api: Api, value: Instance | Unknown, arguments: Arguments, node: Node) -> Value:
    """The forward of a module, in the thread that is being walked, and in the region that a framework runs it in."""
    identity = value.identity if isinstance(value, Instance) else value.symbol
    prepared = api.note(identity, Prepared)
    if prepared is None:
        return _run(api, value, arguments, node)
    if prepared.context is None:
        return _run(api, value, _given_to_region(arguments), node)
    # each module has a context of its own
    context = replace(prepared.context, identity=symbol("around", prepared.context.identity, identity))
    api.enter(context, node)
    result = _run(api, value, arguments, node)
    api.leave(context, node)
    return apply(_in_float32, result) if prepared.float32_out else result


def _given_to_region(arguments: Arguments) -> Arguments:
    """The arguments of a forward of which a setting out of sight decides whether it runs in a region: one that the code
    has cast to half may meet float32 weights there."""

    def plain(value: Value) -> Value:
        return replace(value, half_by_user=None) if isinstance(value, Tensor) else value

    positional = tuple(apply(plain, value) for value in arguments.positional)
    keywords = tuple((name, apply(plain, value)) for name, value in arguments.keywords)
    return replace(arguments, positional=positional, keywords=keywords)


def _in_float32(value: Value) -> Value:
    if not isinstance(value, Tensor) or not value.is_half:
        return value
    return Tensor(DType.FLOAT32, device=value.device)


def _run(api: Api, value: Instance | Unknown, arguments: Arguments, node: Node) -> Value:
    patched = _set_on(api, value)
    if patched is not None:
        _tell(api, value, arguments, node)
        return api.call(patched, arguments, node)
    forward = _forward_of(api, value)
    if isinstance(value, Instance) and forward is None:
        name = layer_of(api, value)
        if name is not None:

            def call(given: Arguments) -> Value:
                found = call_layer(api, value, name, given, node)
                return found if found is not None else _opaque(api, value, given, node)

            return _each(api, arguments, call, node)
    if forward is None:
        return _each(api, arguments, lambda given: _opaque(api, value, given, node), node)
    assert isinstance(value, Instance)
    _tell(api, value, arguments, node)
    result = api.call(BoundMethod(value, "forward", forward), arguments, node)
    prepared = api.note(value.identity, Prepared)
    return api.unknown(node) if prepared is not None and prepared.float32_out else result


def _set_on(api: Api, value: Instance | Unknown) -> Value | None:
    """The function that was put in the place of the forward of one object: ``model.forward = wrapped``."""
    found = api.attributes_of(value).get("forward") if isinstance(value, Instance) else None
    return found if isinstance(found, (FunctionValue, BoundMethod)) else None


def _forward_of(api: Api, value: Value) -> FunctionValue | None:
    """The forward that runs, if it is in sight."""
    if not isinstance(value, Instance) or value.made_of is None:
        return None
    forward = api.find_method(value.made_of, "forward")
    if forward is not None and forward.outline is not None and forward.outline.abstract:
        return None
    return forward


def _each(api: Api, arguments: Arguments, function: Callable[[Arguments], Value], node: Node) -> Value:
    """Calls a function with arguments none of which depends on the path."""
    return resolved(api, arguments.all, lambda values: function(arguments.with_values(values)), node)


def _opaque(api: Api, value: Instance | Unknown, arguments: Arguments, node: Node) -> Value:
    """The result of a module from out of sight. Most end in a layer that autocast runs in half precision; what holds
    for the whole output need not hold for its parts."""
    identity = _tell(api, value, arguments, node, opaque=True)
    prepared = api.note(identity, Prepared)
    if prepared is not None and prepared.float32_out:
        return Tensor(DType.FLOAT32, whole_output=True)
    region = enabled_region(regions(api))
    if region is None or region.dtype is None or not region.dtype.is_half or region.framework:
        return api.unknown(node)
    return Tensor(region.dtype, Certainty.LIKELY, born=api.place(node), born_in=region, whole_output=True)


def _tell(
    api: Api, value: Instance | Unknown, arguments: Arguments, node: Node, *, opaque: bool = False
) -> Symbol:
    """Tells that a module runs."""
    identity = value.identity if isinstance(value, Instance) else value.symbol
    given = zip(arguments.positional, arguments.nodes, strict=False)
    halves = [(argument, written) for argument, written in given if any(map(_cast_by_hand, leaves(argument)))]
    if halves and _may_be_cast(api, value):
        halves = []

    def tell(values: tuple[Value, ...]) -> Value:
        inputs = tuple(
            operand(api, item, written)
            for item, (_, written) in zip(values, halves, strict=True)
            if _cast_by_hand(item)
        )
        trained, recorded = trains(api, identity), gradients(api)
        given = _given(api, value, arguments) if opaque and isinstance(value, Unknown) else None
        api.emit(Forward(api.place(node), regions(api), identity, trained, recorded, opaque, inputs, given))
        return NONE

    resolved(api, tuple(argument for argument, _ in halves), tell, node)
    return identity


def given_by(arguments: Arguments) -> GivenArguments:
    """What a call hands over, as events tell it."""
    names = frozenset(name for name, _ in arguments.keywords)
    return GivenArguments(len(arguments.positional), names, arguments.unclear)


def _given(api: Api, value: Unknown, arguments: Arguments) -> GivenArguments:
    notes = [api.note(one, FromPackage) for one in (value.symbol, *made_from(value.symbol))]
    package = next((note.package for note in notes if note is not None), "")
    return replace(given_by(arguments), package=package)


def _cast_by_hand(value: Value) -> bool:
    return isinstance(value, Tensor) and value.is_half and value.half_by_user is not None


def _may_be_cast(api: Api, module: Instance | Unknown) -> bool:
    """Whether parameters of a module may have been cast, which then needs inputs of their type."""
    parts = parts_of(api, module) if isinstance(module, Instance) else (module.symbol,)
    return any(may_be_cast(api, part) for part in parts)
