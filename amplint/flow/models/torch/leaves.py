"""Parameters as values: ``nn.Parameter(x)``, and those that ``model.parameters()`` gives."""

from __future__ import annotations

from dataclasses import replace

from amplint.events import DType
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.items import collected
from amplint.flow.models.torch.averages import alpha_of, changed
from amplint.flow.models.torch.casts import CASTS, cast, moved, target_of
from amplint.flow.models.torch.notes import Frozen, Known, ParametersCast
from amplint.flow.models.torch.operations import write
from amplint.flow.models.torch.shapes import shape_of
from amplint.flow.models.torch.sums import combined
from amplint.flow.models.torch.tensors import writes
from amplint.flow.models.torch.values import MODULE, DeviceValue, DTypeValue, Parameters, StateDict, Tensor
from amplint.flow.models.torch.weights import (
    current,
    freeze_named,
    is_surely_half,
    note_cast,
    replace_data,
    weight_dtype,
)
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import FALSE, NONE, TRUE, Sequence, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_ALIKE = frozenset({"cpu", "cuda", "detach", "view", "flatten"})


@models.call(
    "torch.nn.Parameter",
    "torch.nn.UninitializedParameter",
    "torch.nn.UninitializedParameter",
)
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``nn.Parameter(torch.zeros(2))``."""
    data = current(api, arguments.get(0, "data") or NONE)
    owner = api.fresh(node)
    if arguments.get(1, "requires_grad") == FALSE:
        api.set_note(owner, Frozen())
    if not isinstance(data, Tensor):
        return Tensor(DType.FLOAT32, parameter_of=owner)
    if is_surely_half(data):
        api.set_note(owner, ParametersCast(data.dtype, api.place(node)))
        note_cast(api)
    return Tensor(data.dtype, half_by_user=data.half_by_user, parameter_of=owner)


# what model.parameters() gives -----------------------------------------------------------------------------------


@models.into(models.iterations, Parameters)
def _one(api: Api, value: Parameters, node: Node) -> Value:
    """``for name, p in model.named_parameters():``."""
    one = Parameters(value.module, one=True)
    return Sequence((api.unknown(node), one)) if value.named else one


@models.into(models.items, Parameters)
def _item(api: Api, value: Parameters, keys: tuple[Value, ...], node: Node) -> Value | None:
    return Parameters(value.module, one=True) if not value.one else None


@models.method(StateDict, "values", "items")
def _states(api: Api, base: StateDict, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``for name, value in model.state_dict().items():`` goes through the data of the parameters themselves."""
    found = base.identity if base.kind == MODULE else None
    return Parameters(found, named=name == "items") if found is not None else None


@models.into(models.items, StateDict)
def _state(api: Api, value: StateDict, keys: tuple[Value, ...], node: Node) -> Value | None:
    """``model.state_dict()["weight"]``."""
    return (
        Parameters(value.identity, one=True) if value.kind == MODULE and value.identity is not None else None
    )


@models.into(models.attributes, Parameters)
def _attribute(api: Api, base: Parameters, name: str, node: Node | None) -> Value | None:
    """``next(model.parameters()).dtype``."""
    match name:
        case "device":
            return DeviceValue()
        case "data":
            return base
        case "dtype":
            known = api.note(base.module, Known) is not None or api.notes(base.module, ParametersCast)
            dtype = weight_dtype(api, base.module) if known else None
            if dtype is not None:
                return DTypeValue(dtype, of_tensor=True)
            return Unknown(symbol("attribute", base.module, "dtype"))
        case "shape" if node is not None:
            return shape_of(api, base, node)
        case "ndim" if node is not None:
            return api.number(node)
        case "requires_grad" if node is not None:
            return api.unknown(node)
    return None


@models.into(models.stores, Parameters)
def _set(api: Api, base: Parameters, name: str, value: Value, node: Node) -> bool:
    """``p.requires_grad = False``, ``p.data = x``."""
    if name == "requires_grad":
        freeze_named(api, base.module, value == FALSE)
    elif name == "data":
        write(api, base, ".data =", node)
        replace_data(api, base.module, value, node)
        changed(api, base, name, Arguments((value,)), node)
    return name in ("requires_grad", "data")


@models.into(models.item_stores, Parameters)
def _set_item(api: Api, base: Parameters, keys: tuple[Value, ...], value: Value, node: Node) -> bool:
    write(api, base, "[…] =", node)
    return True


@models.into(models.operators, Parameters)
def _operate(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``p *= 0.9``; ``list(encoder.parameters()) + list(head.parameters())`` is one list of both."""
    if operator in ("+", "+=") and any(
        isinstance(side, Parameters) and not side.one for side in (left, right)
    ):
        sides = (api.contents(side) for side in (left, right) if side is not None)
        return Sequence(tuple(one for side in sides for one in collected(api, side, node)[0]), exact=False)
    if (
        operator.endswith("=")
        and operator[:-1] in ("+", "-", "*", "/", "**")
        and isinstance(left, Parameters)
    ):
        write(api, left, "an assignment in place", node)
        if right is not None:
            changed(api, left, f"__i{operator[:-1]}", Arguments((right,)), node)
        return left
    terms = combined(api, operator, (left, right)) if right is not None else ()
    return Tensor(terms=terms) if terms else None


@models.method(Parameters, "requires_grad_")
def _requires_gradients(api: Api, base: Parameters, name: str, arguments: Arguments, node: Node) -> Value:
    """``p.requires_grad_(False)``."""
    freeze_named(api, base.module, (arguments.get(0, "requires_grad") or TRUE) == FALSE)
    return base


@models.method(Parameters, *CASTS)
def _cast(api: Api, base: Parameters, name: str, arguments: Arguments, node: Node) -> Value:
    """``p.half()`` is a tensor, which may become ``p.data``."""
    return cast(api, base, CASTS[name], node)


@models.method(Parameters, "to", "type")
def _to(api: Api, base: Parameters, name: str, arguments: Arguments, node: Node) -> Value:
    """``p.to(device)`` counts as the parameter, ``p.to(torch.float16)`` is a tensor."""
    if name == "type" and not arguments.all:
        return api.unknown(node)
    target = target_of(api, arguments, name)
    return base if target.dtype is None and not target.unclear else moved(api, Tensor(), target, node)


@models.method(Parameters)
def _method(api: Api, base: Parameters, name: str, arguments: Arguments, node: Node) -> Value:
    """``p.add_(x)`` writes in place."""
    if base.one and writes(name):
        write(api, base, f"{name}()", node)
        changed(api, base, name, arguments, node)
        return base
    if name == "clone":
        return replace(base, copied=True)
    terms = combined(api, name, (base, *arguments.positional), alpha_of(api, arguments))
    if terms:
        return Tensor(terms=terms)
    return base if name in _ALIKE or name == "__iter__" else api.unknown(node)
