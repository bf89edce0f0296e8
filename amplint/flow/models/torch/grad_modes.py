"""Contexts and decorators that switch the recording of gradients.

Source: ``torch/autograd/grad_mode.py`` of torch 2.13.0. All of them know generators: around one they hold while its
code runs, and not while that of its caller does.
"""

from __future__ import annotations

from collections.abc import Callable

from amplint.amp.regions import GRAD_OFF, GRAD_ON
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.values import GradientMode, GradientSwitch
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    BoundMethod,
    ClassValue,
    Constant,
    Decorated,
    FunctionValue,
    Partial,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

_INFERENCE = frozenset(name for name in GRAD_OFF if name.endswith("inference_mode"))
_SET = (
    "torch.set_grad_enabled",
    "torch.autograd.set_grad_enabled",
)
_CALLABLE = (FunctionValue, BoundMethod, Decorated, Partial, ClassValue)


@models.call(*GRAD_OFF, *GRAD_ON)
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else None
    switch = GradientSwitch(name in GRAD_ON)
    if isinstance(first, _CALLABLE):
        return Decorated(first, switch)
    mode = arguments.get(0, "mode")
    if name in _INFERENCE and mode is not None:
        # inference_mode(False) records gradients, whatever is around it
        return _by_flag(api, mode, lambda on: GradientSwitch(not on))
    return switch


@models.call(*_SET)
def _set(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.set_grad_enabled(train)`` switches at once; as a context it goes back at its end."""
    flag = arguments.get(0, "mode") or api.unknown(node)

    def switched(on: bool) -> GradientSwitch:
        now = api.ambient(GradientMode)
        api.surround(GradientMode(on, now.before))
        return GradientSwitch(on, now.on)

    return _by_flag(api, flag, switched)


def _by_flag(api: Api, flag: Value, function: Callable[[bool], Value]) -> Value:
    """What a function gives for each way in which a flag may come out."""
    return api.each(api.truth(flag), lambda one: function(one == TRUE))


@models.call("torch.is_grad_enabled")
def _is_enabled(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    mode = api.ambient(GradientMode)
    if mode.on and not mode.before:
        return Unknown(symbol(name))
    return Constant(mode.on)


@models.call("torch.is_inference_mode_enabled")
def _is_inference(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return FALSE if api.ambient(GradientMode).on else Unknown(symbol(name))


@models.into(models.enters, GradientSwitch)
def _enter(api: Api, switch: GradientSwitch, node: Node) -> Value:
    _switch(api, switch)
    return api.unknown(node)


@models.into(models.exits, GradientSwitch)
def _leave(api: Api, switch: GradientSwitch, node: Node) -> None:
    before = api.ambient(GradientMode).before
    if before:
        api.surround(GradientMode(before[-1], before[:-1]))


@models.method(GradientSwitch, "__enter__")
def _enter_by_hand(api: Api, switch: GradientSwitch, name: str, arguments: Arguments, node: Node) -> Value:
    _switch(api, switch)
    return api.unknown(node)


@models.method(GradientSwitch, "__exit__")
def _leave_by_hand(api: Api, switch: GradientSwitch, name: str, arguments: Arguments, node: Node) -> Value:
    _leave(api, switch, node)
    return NONE


def _switch(api: Api, switch: GradientSwitch) -> None:
    mode = api.ambient(GradientMode)
    before = mode.on if switch.before is None else switch.before
    api.surround(GradientMode(switch.on, (*mode.before, before)))


@models.into(models.decorates, GradientSwitch)
def _decorated(api: Api, switch: GradientSwitch, function: Value, node: Node) -> Value:
    return _put_around(api, switch, function)


@models.method(GradientSwitch, "__call__")
def _around(api: Api, switch: GradientSwitch, name: str, arguments: Arguments, node: Node) -> Value:
    return _put_around(api, switch, arguments.positional[0]) if arguments.positional else api.unknown(node)


def _put_around(api: Api, switch: GradientSwitch, function: Value) -> Value:
    """A decorated function. Around a function ``set_grad_enabled`` takes back what it switched at once."""
    if switch.before is not None:
        api.surround(GradientMode(switch.before, api.ambient(GradientMode).before))
    return Decorated(function, GradientSwitch(switch.on))
