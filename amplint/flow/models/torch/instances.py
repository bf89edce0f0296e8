"""Which values are instances of classes of torch: ``isinstance(x, torch.Tensor)``. Python's ``isinstance`` asks a class
for its ``__instancecheck__``."""

from __future__ import annotations

from amplint.amp.wrappers import DATA_PARALLEL, PARALLEL
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.notes import Parallel
from amplint.flow.models.torch.values import (
    DeviceValue,
    DTypeValue,
    Gradient,
    Parameters,
    Replicas,
    Scaler,
    Tensor,
)
from amplint.flow.models.torch.weights import is_module
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    FALSE,
    TRUE,
    Constant,
    Instance,
    Mapping,
    Number,
    Sequence,
    Text,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

_TENSORS = ("torch.Tensor", "torch.nn.Parameter")
_OTHER_THINGS = (Constant, Sequence, Mapping, Number, Text, DTypeValue, DeviceValue, Scaler)


def _check(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.__instancecheck__" for name in names)


@models.call(*_check(*_TENSORS))
def _is_tensor(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``isinstance(x, torch.Tensor)``. What a module out of sight gave back may be a tuple or a dict."""
    value = arguments.positional[0]
    parameter = "Parameter" in name
    if isinstance(value, Parameters) and value.one:
        return TRUE
    if isinstance(value, Tensor) and not value.whole_output:
        return Constant(value.parameter_of is not None) if parameter else TRUE
    if isinstance(value, Gradient) and not parameter:
        return TRUE
    if isinstance(value, (*_OTHER_THINGS, Instance)):
        return FALSE
    return _asked(api, value, name, node)


@models.call(*_check("torch.dtype"))
def _is_dtype(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    value = arguments.positional[0]
    if isinstance(value, DTypeValue):
        return TRUE
    known = isinstance(value, (*_OTHER_THINGS, Tensor, Instance))
    return FALSE if known else _asked(api, value, name, node)


@models.call(*_check("torch.device"))
def _is_device(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    value = arguments.positional[0]
    if isinstance(value, DeviceValue):
        return TRUE
    known = isinstance(value, (*_OTHER_THINGS, Tensor, Instance))
    return FALSE if known else _asked(api, value, name, node)


@models.call(*_check("torch.nn.Module"))
def _is_module(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    value = arguments.positional[0]
    if is_module(api, value):
        return TRUE
    known = isinstance(value, (*_OTHER_THINGS, Tensor, Parameters))
    return FALSE if known else _asked(api, value, name, node)


@models.call(*_check(*sorted(PARALLEL)))
def _is_wrapper(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``isinstance(model, nn.DataParallel)``. Wrappers for several processes are not told from what they wrap."""
    value = arguments.positional[0]
    replicates = name.removesuffix(".__instancecheck__") in DATA_PARALLEL
    if isinstance(value, Replicas):
        return Constant(replicates)
    identity = api.identity_of(value)
    if identity is None:
        return api.unknown(node)
    if isinstance(value, Instance) and not api.notes(identity, Parallel):
        return FALSE
    return Unknown(symbol("isinstance", identity, name))


def _asked(api: Api, value: Value, name: str, node: Node) -> Value:
    """The question as an unknown: the same one for the same value."""
    if isinstance(value, Unknown):
        return Unknown(symbol("isinstance", value.symbol, name))
    return api.unknown(node)
