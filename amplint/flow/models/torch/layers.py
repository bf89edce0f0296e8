"""Layers of torch.nn: how they are made, and what they do to their input."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from amplint.amp import ops
from amplint.events import DType, Forward, ObjectMade, enabled_region
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.devices import tell_type
from amplint.flow.models.torch.dtypes import dtype_in
from amplint.flow.models.torch.modules import hold, items_of
from amplint.flow.models.torch.notes import ParametersCast, WithoutWeights
from amplint.flow.models.torch.operations import Run, apply, meets_half, policy_of
from amplint.flow.models.torch.recomputation import runs_again
from amplint.flow.models.torch.shapes import tell_sizes
from amplint.flow.models.torch.values import MODULE, Tensor
from amplint.flow.models.torch.weights import is_module, note_cast, takes_gradients, weight_dtype
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    ClassValue,
    External,
    Instance,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

CONTAINERS = frozenset(
    {
        "torch.nn.Sequential",
        "torch.nn.ModuleList",
        "torch.nn.ModuleDict",
        "torch.nn.ParameterList",
        "torch.nn.ParameterDict",
    }
)
_CALLED_BY_FORWARD = ("_conv_forward",)
"""Methods in which the forward of a layer does what it does: a class of the project that has its own does something
else."""
_AFFINE = {"layer_norm": (2, "elementwise_affine"), "group_norm": (3, "affine")}
"""What says that a layer has weights."""
_TABLES = frozenset({"embedding", "embedding_bag"})
_PAIR = frozenset({"gru", "rnn", "rnn_tanh", "rnn_relu"})
_STATE_OF_TWO = frozenset({"lstm"})
_CELL_OF_TWO = frozenset({"lstm_cell"})
_ATTENTION = frozenset({"multi_head_attention_forward", "multi_head_attention"})


def _annotated(name: str, api: Api, own: Symbol) -> Value:
    """``criterion: nn.CrossEntropyLoss``, which has no weights: it is as one that is made here."""
    is_loss = ops.sensitivity_of(ops.MODULES.get(name, "")) == "loss"
    return Instance(own, None, name) if is_loss else Unknown(own, MODULE)


models.annotations.update((name, partial(_annotated, name)) for name in (*CONTAINERS, *ops.MODULES))


@models.namespace("torch.nn.")
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``nn.Linear(2, 2)``."""
    if not name.rpartition(".")[2][:1].isupper() or name.count(".") > 2:
        return api.unknown(node)
    instance = Instance(api.fresh(node), None, name)
    if enabled_region(regions(api)) is not None:
        # one of the same name may have been used in this region, by an earlier round of a loop
        api.emit(ObjectMade(api.place(node), regions(api), instance.identity))
    if name in CONTAINERS:
        hold(api, instance.identity, name, arguments)
    elif name in ops.MODULES:
        tell_sizes(api, arguments)
        position, keyword = _AFFINE.get(ops.MODULES[name], (0, ""))
        affine = arguments.get(position, keyword) if keyword else None
        if affine not in (None, TRUE):
            api.set_note(instance.identity, WithoutWeights(affine == FALSE))
    asked = arguments.keyword("dtype")
    if asked is not None and asked != NONE:
        dtype = dtype_in(asked)
        tell_type(api, asked)
        half = dtype is not None and dtype.dtype.is_half and not dtype.of_tensor
        cast = ParametersCast(dtype.dtype if dtype is not None else None, api.place(node) if half else None)
        api.set_note(instance.identity, cast)
        note_cast(api)
    return instance


@models.into(models.classes, *CONTAINERS)
def _of_project(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``Block(a, b)`` of a class that inherits the constructor of a container."""
    owner = arguments.receiver
    if not isinstance(owner, ClassValue) or api.find_method(owner, "__init__") is not None:
        return None
    instance = Instance(api.fresh(node), owner)
    hold(api, instance.identity, name, arguments)
    return instance


def layer_of(api: Api, value: Instance) -> str | None:
    """The class of torch.nn whose forward an object has; None if that is one of the project, or out of sight."""
    if value.made_of is None:
        return value.external
    if any(api.find_method(value.made_of, name) is not None for name in _CALLED_BY_FORWARD):
        return None
    names = [base.name for base in api.bases(value.made_of) if isinstance(base, External)]
    return next((name for name in names if name in ops.MODULES or name == "torch.nn.Sequential"), None)


def call_layer(api: Api, value: Instance, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``linear(x)``; None if nothing is known of the layer."""
    if name == "torch.nn.Sequential":
        return _call_sequential(api, value, arguments, node)
    if name == "torch.nn.Identity":
        return arguments.get(0, "input") or api.unknown(node)
    op = ops.MODULES.get(name)
    if op is None:
        return None
    if op in ops.KINDS_OF_WEIGHTS:
        trains = takes_gradients(api, value.identity)
        _tell(api, value, node, trains=trains, opaque=True)
    operands = list(zip(arguments.positional, arguments.nodes, strict=False))
    if not operands:
        operands = [
            (given, arguments.keyword_node(key) or node)
            for key, given in arguments.keywords
            if key in ("input", "query")
        ]
    if not operands:
        return api.unknown(node)
    values, nodes = tuple(part for part, _ in operands), tuple(part for _, part in operands)
    meeting = meets_half(api, op, values)
    without = api.notes(value.identity, WithoutWeights)
    lent = _is_lent(api, value)
    weights = weight_dtype(api, value.identity) if meeting is not None and not lent and not without else None
    lowers = policy_of(api, op, None) is ops.Policy.LOWER
    if lowers and weights is DType.FLOAT32 and runs_again(api, value.identity, node):
        return api.unknown(node)
    alone = enabled_region(regions(api)) is None
    unsure = lent or any(not one.sure for one in without)
    half = _made_half_by_a_region(values) if lowers else _has_half(values)
    if alone and meeting == "raises" and unsure and half:
        return api.unknown(node)  # with float32 weights of its own it raises
    run = Run(op, values, nodes, weights, meeting == "raises")
    result = apply(api, run, node)
    if op in _TABLES:
        # a lookup gives what stands in its table, whatever the type of the indices
        return Tensor(weight_dtype(api, value.identity))
    alone = alone and (weights is None or not weights.is_half)
    if alone and meeting in ("promotes", "differs") and _has_half((result,)):
        return Tensor(weights if meeting == "promotes" else None)
    return _shaped(api, op, result, node)


def _has_half(values: Iterable[Value]) -> bool:
    return any(isinstance(value, Tensor) and value.is_half for value in values)


def _made_half_by_a_region(values: Iterable[Value]) -> bool:
    """Whether a region has made an operand half: who casts by hand knows the weights."""
    return any(isinstance(value, Tensor) and value.born_in is not None for value in values)


def _is_lent(api: Api, value: Instance) -> bool:
    """Whether a layer belongs to a module whose callers are out of sight: they may have cast it whole."""
    whole = api.older(value)
    return whole is not None and is_module(api, whole)


def _shaped(api: Api, op: str, result: Value, node: Node) -> Value:
    """What layers give back that have a state, or attend."""
    if not isinstance(result, Tensor):
        return result if op not in _PAIR | _STATE_OF_TWO | _CELL_OF_TWO | _ATTENTION else api.unknown(node)
    if op in _STATE_OF_TWO:
        return Sequence((result, Sequence((result, result))))
    if op in _PAIR | _CELL_OF_TWO:
        return Sequence((result, result))
    return Sequence((result, api.unknown(node))) if op in _ATTENTION else result


def _call_sequential(api: Api, value: Instance, arguments: Arguments, node: Node) -> Value:
    """``nn.Sequential(a, b)(x)`` is ``b(a(x))``."""
    items = items_of(api, value)
    _tell(api, value, node)
    if items is None or not (items.exact or all(isinstance(item, Instance) for item in items.items)):
        return api.unknown(node)
    if not items.exact and len(items.items) > 1:
        return _call_some(api, items.items, node)
    result = arguments.get(0, "input") or api.unknown(node)
    for item in items.items:
        result = _call_one(api, item, result, node)
    return result


def _call_one(api: Api, item: Value, given: Value, node: Node) -> Value:
    return api.each(item, lambda one: api.call(one, Arguments((given,), (), (node,)), node))


def _call_some(api: Api, items: tuple[Value, ...], node: Node) -> Value:
    """``nn.Sequential(*[nn.Linear(8, 8), nn.Tanh()] * depth)``: nobody knows how many there are of each. Each runs on
    anything, and where that says nothing, on what another one gives; the result is known if all give the same type."""
    results = [_call_one(api, item, api.unknown(node), node) for item in items]
    known = [result for result in results if isinstance(result, Tensor) and result.dtype is not None]
    for index, item in enumerate(items):
        is_layer = isinstance(item, Instance) and layer_of(api, item) is not None
        if known and is_layer and results[index] not in known:
            results[index] = _call_one(api, item, known[-1], node)
    types = {result.dtype if isinstance(result, Tensor) else None for result in results}
    return results[-1] if len(types) == 1 else api.unknown(node)


def _tell(api: Api, value: Instance, node: Node, *, trains: bool = True, opaque: bool = False) -> None:
    api.emit(Forward(api.place(node), regions(api), value.identity, trains, gradients(api), opaque))
