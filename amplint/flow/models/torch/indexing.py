"""Items of tensors, and what is written into tensors: ``x[mask] = y``, ``x.index_add_(0, i, y)``,
``x.masked_fill(mask, -1e9)``."""

from __future__ import annotations

from amplint.amp import ops
from amplint.amp.ops import Policy
from amplint.events import DType, Filled, IndexPut, enabled_region
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.dtypes import LARGEST
from amplint.flow.models.torch.operations import device_of_operands, operand, policy_of, write
from amplint.flow.models.torch.values import Tensor
from amplint.flow.models.torch.weights import current
from amplint.flow.state.values import NONE, Constant, Sequence, Value
from amplint.lowering.program import Compare, Expression, Node, SliceKey, Subscript

models = Registry()


@models.into(models.items, Tensor)
def _item(api: Api, base: Tensor, keys: tuple[Value, ...], node: Node) -> Value:
    """``x[i]``, ``a, b = x``. A part of what a module out of sight gave back is anything, unless the index shows that
    it is a tensor."""
    key = keys[0] if len(keys) == 1 else None
    if isinstance(key, Constant) and isinstance(key.value, str):
        return api.unknown(node)  # a tensor has no keys: another value is meant
    if not base.whole_output:
        return base.moved()
    return base.moved() if key is None or _is_of_tensors(key) else api.unknown(node)


def _is_of_tensors(key: Value) -> bool:
    """Whether an index alone shows that a tensor is indexed and no tuple: a mask, ``...``, a slice."""
    if isinstance(key, Tensor):
        return key.trait != "scalar"
    return isinstance(key, Constant) and (isinstance(key.value, slice) or key.value in (None, ...))


# writing by index ------------------------------------------------------------------------------------------------


@models.into(models.item_stores, Tensor)
def _set_item(api: Api, base: Tensor, keys: tuple[Value, ...], value: Value, node: Node) -> bool:
    """``x[mask] = y``."""
    write(api, base, "[…] =", node)
    if isinstance(value, Tensor):
        target = node.value if isinstance(node, Subscript) else node
        put_ = _is_put(keys, node.keys if isinstance(node, Subscript) else ()) and not _may_fill(value)
        event = IndexPut(
            api.place(node),
            regions(api),
            operand(api, base, target),
            operand(api, value, node),
            "index_put_" if put_ else "copy_",
        )
        api.emit(event)
    return True


def _may_fill(value: Tensor) -> bool:
    """Whether torch fills a mask with a value, whatever its type: with one element that is on the CPU, or may be."""
    return value.trait == "scalar" and device_of_operands((value,)) != "cuda"


def _is_put(keys: tuple[Value, ...], written: tuple[Expression, ...]) -> bool:
    """Whether an index has a mask, a tensor or a list in it; numbers and slices make torch copy."""
    return any(
        (isinstance(key, Tensor) and key.trait != "scalar")
        or (isinstance(key, Sequence) and key.identity is not None)
        for key in keys
    ) or any(_makes_mask(node) for node in written)


def _makes_mask(node: Expression) -> bool:
    """Whether a comparison is one of arrays, because a part of it is cut along one of several dimensions."""
    return isinstance(node, Compare) and any(
        isinstance(side, Subscript)
        and len(side.keys) > 1
        and any(isinstance(key, SliceKey) for key in side.keys)
        for side in (node.left, *node.rights)
    )


def put(api: Api, name: str, base: Value, written: Node, arguments: Arguments, node: Node) -> None:
    """Tells of a tensor that is written into another by index. ``arguments`` are those after the first."""
    plain = name.removesuffix("_")
    position = ops.SOURCES[plain]
    named = (arguments.keyword(key) for key in ("src", "source", "values"))
    rest = arguments.positional
    source = rest[position] if len(rest) > position else next((value for value in named if value), NONE)
    base, source = current(api, base), current(api, source)
    if not isinstance(base, Tensor) or not isinstance(source, Tensor):
        return
    region = enabled_region(regions(api))
    if name == plain and region is not None and policy_of(api, plain, region) is Policy.PROMOTE:
        return
    target, value = operand(api, base, written), operand(api, source, node)
    api.emit(IndexPut(api.place(node), regions(api), target, value, name))


def fill(api: Api, name: str, base: Value, written: Node, arguments: Arguments, node: Node) -> None:
    """Tells of a number that does not fit the half-precision tensor that it is written to. ``arguments`` are those
    after the tensor."""
    target = current(api, base)
    if not isinstance(target, Tensor) or target.dtype is None or not target.is_half:
        return
    position, keyword = ops.FILLS[name.removesuffix("_")]
    number = arguments.get(position, keyword)
    if not isinstance(number, Constant) or type(number.value) not in (int, float):
        return
    value = float(number.value)  # type: ignore[arg-type]
    if LARGEST[target.dtype] < abs(value) <= LARGEST[DType.FLOAT32]:  # beyond that it raises in float32, too
        filled = operand(api, target, written)
        api.emit(Filled(api.place(node), regions(api), filled, value, name))
