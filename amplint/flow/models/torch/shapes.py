"""Numbers among what is not known: in shapes (``n, m = x.shape``, ``x.size(0)``), the sizes of layers
(``nn.Linear(width, width)``), and what is computed with them (``(width // heads) ** -0.5``)."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.numbers import IsNumber, is_number
from amplint.flow.models.torch.losses import MAYBE_SCALED
from amplint.flow.models.torch.values import Tensor
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import Constant, Number, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

SHAPE = "shape"
"""The kind of what is a shape."""
_COUNTS = ("numel", "nelement", "dim", "ndimension")
"""Methods of tensors alone that count something."""
_ABOUT_PROCESSES = (
    "torch.distributed.get_world_size",
    "torch.distributed.get_rank",
    "torch.cuda.device_count",
    "torch.cuda.current_device",
)


def shape_of(api: Api, value: Value, node: Node) -> Unknown:
    """``x.shape``: the same for the same data."""
    match value:
        case Unknown():
            data: Symbol | None = value.symbol
        case Tensor():
            data = value.name
        case _:
            data = None
    return Unknown(
        symbol("attribute", data if data is not None else api.unknown(node).symbol, "shape"), SHAPE
    )


def size_of(api: Api, value: Value, arguments: Arguments, node: Node) -> Value:
    """``x.size()``, ``x.size(0)``."""
    shape = shape_of(api, value, node)
    return _part(api, shape, arguments.all, node) if arguments.all else shape


def _part(api: Api, shape: Unknown, keys: tuple[Value, ...], node: Node) -> Value:
    match keys:
        case (Constant(value=int()) as index,):
            return Number(symbol("item", shape.symbol, index))
        case (Constant(value=slice()),):
            return Unknown(symbol("item", shape.symbol, api.unknown(node).symbol), SHAPE)
    return api.number(node)


@models.into(models.items, SHAPE)
def _item(api: Api, base: Unknown, keys: tuple[Value, ...], node: Node) -> Value:
    """``x.shape[0]``, ``x.shape[:-1]``, and each name of ``n, m = x.shape``."""
    return _part(api, base, keys, node)


@models.into(models.iterations, SHAPE)
def _iterate(api: Api, base: Unknown, node: Node) -> Value:
    return api.number(node)


@models.into(models.operators, Unknown)
def _compare(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``x.shape == y.shape``: data, which nobody asks for again."""
    if operator not in ("==", "!="):
        return None
    shapes = any(isinstance(side, Unknown) and side.kind == SHAPE for side in (left, right))
    return api.truth_of_data() if shapes else None


@models.method(SHAPE, "numel")
def _whole(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    return Number(symbol("call", base.symbol, name))


# what nothing is known of ----------------------------------------------------------------------------------------


@models.into(models.attributes, "")
def _attribute(api: Api, base: Unknown, name: str, node: Node) -> Value | None:
    match name:
        case "shape":
            return shape_of(api, base, node)
        case "ndim":
            return Number(symbol("attribute", base.symbol, name))
        case "grad":
            return Unknown(symbol("attribute", base.symbol, name), MAYBE_SCALED)
    return None


@models.method("", "size")
def _size(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    return size_of(api, base, arguments, node)


@models.method("", *_COUNTS)
def _count(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    return None if arguments.all else Number(symbol("call", base.symbol, name))


@models.method("", "item")
def _read(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    """``x.item()``, which arrays and tensors have."""
    return api.number(node)


@models.call(*_ABOUT_PROCESSES)
def _about_processes(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.distributed.get_world_size()``: the same each time, unless another group is asked for."""
    return api.number(node) if arguments.all else Number(symbol("result of", name))


# sizes of layers -------------------------------------------------------------------------------------------------


def tell_sizes(api: Api, arguments: Arguments) -> None:
    """Notes that the positional arguments of a layer are numbers: ``nn.Linear(width, 4 * width)``."""
    for value in arguments.positional:
        if isinstance(value, Unknown) and value.kind is None and not is_number(api, value.symbol):
            api.set_note(value.symbol, IsNumber())


def with_numbers(api: Api, value: Value) -> Value:
    """A value, or the number that it is known to be."""
    number = isinstance(value, Unknown) and value.kind is None and is_number(api, value.symbol)
    return Number(value.symbol) if number and isinstance(value, Unknown) else value
