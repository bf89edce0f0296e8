"""The switches and questions of autocast that are no contexts: ``torch.set_autocast_enabled``,
``torch.is_autocast_enabled`` and their like.

Source: ``torch/csrc/autograd/init.cpp`` of torch 2.13.0. The functions with a device in their names stand for those
that take one, and a device is "cuda" where none is given.
"""

from __future__ import annotations

from dataclasses import replace

from amplint.amp.regions import DEVICES_OF_NAMES, SET_DTYPE
from amplint.events import AutocastSwitched, CacheCleared, Region
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.values import DeviceValue, DTypeValue, OpenRegions, RegionDefaults
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import NONE, Constant, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_ENABLED = {f"torch.is_autocast_{part}enabled": device for part, device in DEVICES_OF_NAMES.items()}
_DTYPE = {f"torch.get_autocast_{part}dtype": device for part, device in DEVICES_OF_NAMES.items()}
_SET_ENABLED = {f"torch.set_autocast_{part}enabled": device for part, device in DEVICES_OF_NAMES.items()}
_TAKE_DEVICE = frozenset(
    {
        "torch.is_autocast_enabled",
        "torch.get_autocast_dtype",
        "torch.set_autocast_enabled",
        "torch.set_autocast_dtype",
    }
)
_IS_ON = "autocast is on"
_ANY = "any"
"""Stands for a device that is not known."""


# questions -------------------------------------------------------------------------------------------------------


@models.call(*_ENABLED)
def _is_enabled(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    device = _device(name, _ENABLED, arguments)
    region = _innermost(api, device)
    return Constant(region.enabled) if region is not None else Unknown(_question(device))


@models.call(*_DTYPE)
def _dtype(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    region = _innermost(api, _device(name, _DTYPE, arguments))
    if region is None or region.dtype is None:
        return api.unknown(node)
    return DTypeValue(region.dtype, of_tensor=True, of_autocast=True)


@models.call("torch.is_autocast_cache_enabled")
def _is_cache_enabled(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    around = regions(api)
    return Constant(around[-1].cache_enabled) if around else Unknown(symbol(name))


def knows_of_autocast(api: Api) -> bool:
    """Whether the code has asked on this path whether autocast is on, outside of every region in sight, and it is:
    then it knows what it does with tensors in half precision."""
    devices = (*DEVICES_OF_NAMES.values(), _ANY)
    return any(api.known_truth(Unknown(_question(device))) for device in devices)


def _question(device: str | None) -> Symbol:
    return symbol(_IS_ON, device or _ANY)


def _innermost(api: Api, device: str | None) -> Region | None:
    """The region that decides for a device, as far as that is known."""
    around = regions(api)
    same = [region for region in around if device is None or region.device in (None, device)]
    return same[-1] if same else None


def _device(name: str, functions: dict[str, str], arguments: Arguments) -> str | None:
    """The device that a call is about, None where that is not known."""
    given: Value | None = None
    if name in _TAKE_DEVICE:
        given = arguments.get(0, "device_type")
    match given:
        case None:
            return functions[name]
        case Constant(value=str() as text):
            return text.split(":")[0]
        case Constant(value=bool()):
            # set_autocast_enabled(True)
            return functions[name]
        case DeviceValue():
            return given.device
    return None


# switches --------------------------------------------------------------------------------------------------------


@models.call(*_SET_ENABLED, weight=Weight.ENTRY)
def _set_enabled(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    flag = arguments.keyword("enabled") or (arguments.positional[-1] if arguments.positional else None)
    known = flag.value if isinstance(flag, Constant) and isinstance(flag.value, bool) else None
    api.emit(AutocastSwitched(api.place(node), regions(api), known))
    return NONE


@models.call(*SET_DTYPE, weight=Weight.EFFECT)
def _set_dtype(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.set_autocast_dtype("cuda", torch.bfloat16)``: from here on regions without a type run in it."""
    device = _device(name, SET_DTYPE, arguments)
    dtype = arguments.keyword("dtype") or (arguments.positional[-1] if arguments.positional else None)
    known = dtype.dtype if isinstance(dtype, DTypeValue) and dtype.dtype.is_half else None
    if device is not None:
        defaults = dict(api.ambient(RegionDefaults).dtypes)
        defaults[device] = known
        api.surround(RegionDefaults(tuple(sorted(defaults.items(), key=lambda item: item[0]))))
    return NONE


@models.call("torch.set_autocast_cache_enabled", weight=Weight.EFFECT)
def _set_cache_enabled(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """Holds until the innermost region is left."""
    flag = arguments.get(0, "enabled")
    around = regions(api)
    if around and isinstance(flag, Constant) and isinstance(flag.value, bool):
        api.surround(OpenRegions((*around[:-1], replace(around[-1], cache_enabled=flag.value))))
    return NONE


@models.call("torch.clear_autocast_cache", weight=Weight.EFFECT)
def _clear_cache(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    api.emit(CacheCleared(api.place(node), regions(api)))
    return NONE


@models.call("torch.autocast_increment_nesting", "torch.autocast_decrement_nesting")
def _nesting(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return api.number(node)
