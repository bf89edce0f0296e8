"""Calls of modules: those of the project are followed, those from out of sight give what autocast likely makes of
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from amplint.events import (
    Certainty,
    DType,
    Forward,
    Operand,
    Regions,
    ThreadBegan,
    ThreadEnded,
    enabled_region,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.layers import call_layer, layer_of
from amplint.flow.models.torch.modules import OF_TORCH
from amplint.flow.models.torch.operations import operand, resolved
from amplint.flow.models.torch.values import (
    MODULE,
    Compiled,
    CompiledNote,
    OpenRegions,
    Prepared,
    Replicated,
    Tensor,
)
from amplint.flow.models.torch.weights import is_module, may_be_cast, trains
from amplint.flow.state.values import BoundMethod, FunctionValue, Instance, Unknown, Value
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


@models.method(MODULE, "__call__")
def _call_unknown(api: Api, value: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    """``model(x)`` of a module from out of sight."""
    return call_module(api, value, arguments, node)


def call_module(api: Api, value: Instance | Unknown, arguments: Arguments, node: Node) -> Value:
    """``module(x)``: its forward, in the threads of nn.DataParallel or compiled if it was asked for."""
    identity = api.identity_of(value)
    assert identity is not None
    inside = _replicated(regions(api)) if api.notes(identity, Replicated) else None
    if inside is not None:
        return _in_threads(api, inside, lambda: run(api, value, arguments, node), node)
    note = api.note(identity, CompiledNote)
    if note is None:
        return run(api, value, arguments, node)
    api.enter(Compiled(note.place), node)
    result = run(api, value, arguments, node)
    api.leave(Compiled(note.place), node)
    return result


def run(api: Api, value: Instance | Unknown, arguments: Arguments, node: Node) -> Value:
    """The forward of a module, in the thread that is being walked."""
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
    api.emit(
        Forward(api.place(node), regions(api), value.identity, trains(api, value.identity), gradients(api))
    )
    result = api.call(BoundMethod(value, "forward", forward), arguments, node)
    prepared = api.note(value.identity, Prepared)
    return api.unknown(node) if prepared is not None and prepared.float32_out else result


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
    count = len(arguments.positional)
    names = [name for name, _ in arguments.keywords]

    def call(values: tuple[Value, ...]) -> Value:
        keywords = tuple(zip(names, values[count:], strict=True))
        return function(replace(arguments, positional=values[:count], keywords=keywords))

    return resolved(api, arguments.all, call, node)


def _opaque(api: Api, value: Instance | Unknown, arguments: Arguments, node: Node) -> Value:
    """The result of a module from out of sight. Most end in a layer that autocast runs in half precision; what holds
    for the whole output need not hold for its parts."""
    identity = api.identity_of(value)
    assert identity is not None
    place = api.place(node)
    inputs = _inputs(api, arguments) if isinstance(value, Unknown) and not may_be_cast(api, identity) else ()
    api.emit(Forward(place, regions(api), identity, trains(api, identity), gradients(api), True, inputs))
    prepared = api.note(identity, Prepared)
    if prepared is not None and prepared.float32_out:
        return Tensor(DType.FLOAT32, whole_output=True)
    region = enabled_region(regions(api))
    if region is None or region.dtype is None or not region.dtype.is_half or region.framework:
        return api.unknown(node)
    return Tensor(region.dtype, Certainty.LIKELY, born=place, born_in=region, whole_output=True)


def _inputs(api: Api, arguments: Arguments) -> tuple[Operand, ...]:
    """The tensors among the arguments that the code itself has cast to half precision."""
    return tuple(
        operand(api, item, written)
        for item, written in zip(arguments.positional, arguments.nodes, strict=False)
        if isinstance(item, Tensor) and item.is_half and item.half_by_user is not None
    )


# nn.DataParallel -------------------------------------------------------------------------------------------------


def _replicated(outside: Regions) -> Regions | None:
    """The regions in which nn.DataParallel runs its replicas, if they differ from those around it: it keeps
    whether autocast is on, and not the type (torch/nn/parallel/parallel_apply.py of torch 2.13.0)."""
    region = enabled_region(outside)
    if region is None or region.framework or region.assumed or region.dtype is not DType.BFLOAT16:
        return None
    return (replace(region, dtype=DType.FLOAT16, identity=("replica", region.identity)),)


def _in_threads(api: Api, inside: Regions, action: Callable[[], Value], node: Node) -> Value:
    """Runs something as a thread of nn.DataParallel does."""
    outside = regions(api)
    place = api.place(node)
    api.surround(OpenRegions(inside))
    api.emit(ThreadBegan(place, inside, "nn.DataParallel", outside))
    result = action()
    api.surround(OpenRegions(inside))
    api.emit(ThreadEnded(place, inside))
    api.surround(OpenRegions(outside))
    return result
