"""Reading of attributes and items."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp.wrappers import OBJECTS
from amplint.events import DType
from amplint.flow import modules, scaling, tensors
from amplint.flow.paths import MAX_OPTIONS, join_values
from amplint.flow.values import (
    NONE,
    ONE_OF_MANY,
    UNKNOWN,
    Alternatives,
    Autocast,
    BoundMethod,
    ClassValue,
    Constant,
    DeviceValue,
    DTypeValue,
    Gradient,
    Imported,
    Instance,
    Library,
    Mapping,
    Module,
    Number,
    Optimizer,
    Parameters,
    ScaledGradient,
    ScaledLoss,
    Scaler,
    Scheduler,
    Sequence,
    Tensor,
    TorchVersion,
    TypeInfo,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.expressions import Expressions

DTYPES = {
    "float32": DType.FLOAT32,
    "float": DType.FLOAT32,
    "float64": DType.FLOAT64,
    "double": DType.FLOAT64,
    "float16": DType.FLOAT16,
    "half": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "int8": DType.INTEGER,
    "int16": DType.INTEGER,
    "int32": DType.INTEGER,
    "int64": DType.INTEGER,
    "int": DType.INTEGER,
    "long": DType.INTEGER,
    "short": DType.INTEGER,
    "uint8": DType.INTEGER,
    "bool": DType.INTEGER,
    "complex64": DType.COMPLEX,
    "complex128": DType.COMPLEX,
}
_LIMITS = {
    DType.FLOAT64: {
        "max": 1.7976931348623157e308,
        "eps": 2.220446049250313e-16,
        "tiny": 2.2250738585072014e-308,
    },
    DType.FLOAT32: {
        "max": 3.4028234663852886e38,
        "eps": 1.1920928955078125e-07,
        "tiny": 1.1754943508222875e-38,
    },
    DType.BFLOAT16: {"max": 3.3895313892515355e38, "eps": 0.0078125, "tiny": 1.1754943508222875e-38},
    DType.FLOAT16: {"max": 65504.0, "eps": 0.0009765625, "tiny": 6.103515625e-05},
}
"""What ``torch.finfo`` says (torch 2.13)."""
_TENSOR_FACTS = frozenset(
    {
        "shape",
        "ndim",
        "is_cuda",
        "requires_grad",
        "grad_fn",
        "is_leaf",
        "itemsize",
        "layout",
        "names",
        "grad",
        "size",
        "nbytes",
    }
)
_TENSOR_VIEWS = frozenset({"T", "mT", "H", "mH", "data", "real"})


def dotted_name(node: cst.CSTNode) -> str | None:
    """``a.b.c`` for an attribute chain that starts with a name."""
    parts: list[str] = []
    while type(node) is cst.Attribute:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def library(name: str) -> Value:
    """The value of a qualified name outside the project."""
    if name.startswith("torch."):
        rest = name[6:]
        if rest in DTYPES:
            return DTypeValue(DTYPES[rest])
        if rest in ("__version__", "version.__version__", "torch_version.__version__"):
            return TorchVersion()
        if rest.startswith("nn.modules."):
            return Library("torch.nn." + name.rpartition(".")[2])
        if rest.startswith("_C._nn."):
            return Library("torch.nn.functional." + name.rpartition(".")[2])
    return Library(name)


def read(walker: Expressions, base: Value, name: str, node: cst.Attribute) -> Value:
    """``base.name``."""
    if name == "_per_optimizer_states":
        scaling.stages_read(walker, base, node)
    match base:
        case Library():
            return library(f"{base.name}.{name}")
        case Imported():
            return Imported(base.path, f"{base.name}.{name}")
        case Module():
            found = walker.engine.member(base.file, name)
            return walker.pin(found) if found is not None else UNKNOWN
        case Instance():
            return _chosen(walker, base.identity, name, _of_instance(walker, base, name, node))
        case ClassValue():
            return _of_class(walker, base, name)
        case Tensor():
            return _of_tensor(base, name)
        case Parameters(named=False, one=True) if name == "device":
            return DeviceValue()
        case Parameters(named=False, one=True) if name == "data":
            return base
        case Parameters(named=False, one=True) if name == "grad":
            return Gradient(base.module) if name == "grad" else UNKNOWN
        case Gradient() if name == "data":
            return base
        case ScaledLoss() | ScaledGradient():
            return base if name == "data" else BoundMethod(base, name)
        case Unknown():
            stored = walker.path.load(base.symbol, name) if base.symbol is not None else None
            if stored is not None:
                return _chosen(walker, base.symbol, name, stored)
            if base.kind == "framework" and name == "autocast":
                return BoundMethod(base, name)
            return _unknown(walker, base.symbol, name, node)
        case Optimizer() | Scaler() | Scheduler() | Sequence() | Mapping() | Parameters() | Gradient():
            return BoundMethod(base, name)
        case DeviceValue() if name == "type":
            return Constant(base.device) if base.device is not None else Unknown(walker.fresh(node))
        case DeviceValue():
            return UNKNOWN
        case TypeInfo():
            return _limit(base, name)
    return _unknown(walker, None, name, node) if not isinstance(base, BoundMethod) else UNKNOWN


def _chosen(walker: Expressions, owner: Hashable, name: str, value: Value) -> Value:
    """One of the alternatives, which the attribute then has for the rest of the path."""
    if not isinstance(value, Alternatives):
        return value
    chosen = walker.pin(value)
    walker.path.store(owner, name, chosen)
    return chosen


def _limit(base: TypeInfo, name: str) -> Value:
    limits = _LIMITS.get(base.dtype, {})
    known = limits.get({"min": "max", "smallest_normal": "tiny"}.get(name, name))
    if known is None:
        return Number()
    return Constant(-known if name == "min" else known)


def _unknown(walker: Expressions, symbol: Hashable, name: str, node: cst.Attribute) -> Value:
    dotted = dotted_name(node)
    kind = walker.kind(dotted) if dotted is not None else None
    return Unknown((symbol, name) if symbol is not None else None, kind)


def _of_instance(walker: Expressions, base: Instance, name: str, node: cst.Attribute) -> Value:
    found = walker.path.load(base.identity, name)
    if found is not None:
        return _with_kind(walker, base, _set_since(walker, base, name, found), node)
    if name == "__class__" and base.made_of is not None:
        return base.made_of
    if base.made_of is not None:
        method = walker.engine.find_method(base.made_of, name)
        if method is not None:
            if walker.engine.is_property(method):
                return walker.engine.call_property(walker, base, method, node)
            return BoundMethod(base, name, method)
        found = modules.constructed(walker, base, name)
        if found is not None:
            template = walker.engine.template_for(base)
            if template != base.identity and not walker.engine.was_given(template, found):
                found = own(found, base)
            return _with_kind(walker, base, _set_since(walker, base, name, found), node)
        found = walker.engine.field_value(base, name) or walker.engine.class_attribute(base.made_of, name)
        if found is not None:
            return found
        found = walker.engine.attribute_set_elsewhere(walker, base, name)
        if found is not None:
            return found
    if base.library is not None and name in ("weight", "bias") and modules.is_module(walker, base):
        return Tensor(modules.weight_dtype(walker, base), parameter_of=base.identity)
    if name in OBJECTS.get(base.library or "", ()):
        return BoundMethod(base, name)
    dotted = dotted_name(node)
    kind = walker.kind(dotted) if dotted is not None else None
    if kind is None and base.made_of is not None:
        kind = walker.engine.kind_of_attribute(base.made_of, name)
    return Unknown((base.identity, name), kind)


def _set_since(walker: Expressions, base: Instance, name: str, value: Value) -> Value:
    """What a constructor left, unless it is None and another method may have set the attribute since: nobody
    has seen what became of the object before the method that is walked. So it is on a way that did not set it."""
    if base.made_of is None or not _may_be_none(value):
        return value
    if value == NONE and (base.identity, name) in walker.path.heap:
        return value
    if value != NONE and walker.path.base.get((base.identity, name)) != NONE:
        return value
    if not walker.engine.is_of_unknown_age(base) or not walker.engine.sets_later(base.made_of, name):
        return value
    later = Unknown((base.identity, name), walker.engine.kind_of_attribute(base.made_of, name))
    if not isinstance(value, Alternatives):
        return later
    return Alternatives(
        tuple((later if option == NONE else option, facts) for option, facts in value.options)
    )


def _may_be_none(value: Value) -> bool:
    return value == NONE or (
        isinstance(value, Alternatives) and any(option == NONE for option, _ in value.options)
    )


CACHED = "<cached>"
"""Begins the identity of a scaler that a function makes once and keeps, whoever asks for it."""


def own(value: Value, owner: Instance) -> Value:
    """A context, an optimizer or a scaler that a constructor made is another one for each object."""
    if isinstance(value, Optimizer):
        return replace(value, owner=owner.identity)
    if isinstance(value, Autocast | Scaler):
        if isinstance(value.identity, tuple) and value.identity[0] == CACHED:
            return value
        return replace(value, identity=(value.identity, owner.identity))
    if isinstance(value, Alternatives) and any(
        isinstance(option, Autocast | Scaler) for option, _ in value.options
    ):
        return Alternatives(tuple((own(option, owner), facts) for option, facts in value.options))
    return value


def _with_kind(walker: Expressions, base: Instance, value: Value, node: cst.Attribute) -> Value:
    """An unknown value with a symbol and what the text shows of it."""
    if not isinstance(value, Unknown):
        return value
    if value.symbol is None:
        # paths that differ in it were joined; from here on it is one value
        value = Unknown((base.identity, node.attr.value), value.kind)
    dotted = dotted_name(node) if value.kind is None else None
    return Unknown(value.symbol, walker.kind(dotted)) if dotted is not None else value


def _of_class(walker: Expressions, base: ClassValue, name: str) -> Value:
    method = walker.engine.find_method(base, name)
    if method is not None:
        return method
    if name == "apply" and walker.engine.is_static_function_class(base):
        return BoundMethod(base, name)
    found = walker.engine.class_attribute(base, name)
    return found if found is not None else Unknown(((base.file.display, base.outline.name), name))


def _of_tensor(base: Tensor, name: str) -> Value:
    if name == "dtype":
        return DTypeValue(base.dtype, of_tensor=True) if base.dtype is not None else UNKNOWN
    if name == "shape":
        return Sequence((Number(),), exact=False)
    if name == "ndim":
        return Number()
    if name == "device":
        return DeviceValue(base.device)
    if name in _TENSOR_FACTS:
        return UNKNOWN
    if name in _TENSOR_VIEWS:
        return base.moved()
    if base.whole_output:
        # a model's output object: its loss was computed inside; its other fields come out of the last layers
        return UNKNOWN if name == "loss" or name.endswith("_loss") else base.part(name)
    return BoundMethod(base, name)


def subscript(
    walker: Expressions, base: Value, key: Value | None, sliced: bool, node: cst.Subscript
) -> Value:
    """``base[key]``; ``key`` is None where the index is no single value."""
    match base:
        case Sequence():
            if sliced and isinstance(key, Value) is False:
                return _cut(base, node)
            return _item(walker, base, key)
        case Mapping():
            if isinstance(key, Constant):
                found = base.get(key.value)
                if found is not None:
                    return found
                return UNKNOWN
            if isinstance(key, Unknown) and key.symbol is not None and base.items and not base.rest:
                return _by_key(walker, base, key.symbol)
            # a choice by name among classes or functions: each may be meant
            return (
                tensors.one_of(walker, tuple(value for _, value in base.items)) if not base.rest else UNKNOWN
            )
        case Tensor():
            if base.whole_output and isinstance(key, Constant) and key.value == "loss":
                return UNKNOWN
            if not base.whole_output and isinstance(key, Constant) and isinstance(key.value, str):
                return UNKNOWN  # a tensor has no keys: another value is meant
            if not base.whole_output or sliced:
                return base.moved()
            return base.part(key.value) if isinstance(key, Constant) else base
        case Instance():
            items = modules.items_of(walker, base)
            return _item(walker, items, key) if items is not None else UNKNOWN
        case Parameters():
            return Parameters(base.module, one=True)
        case Unknown() if base.symbol is not None and isinstance(key, (Constant, Unknown, Number)):
            symbol = key if isinstance(key, Constant) else key.symbol
            return Unknown((base.symbol, "[]", symbol)) if symbol is not None else UNKNOWN
    return UNKNOWN


def _by_key(walker: Expressions, base: Mapping, key: Hashable) -> Value:
    """The values of a dict, each with what it says of the key; of many modules' classes, that it is one."""
    names = dict(base.items)
    if len(names) > MAX_OPTIONS and all(
        isinstance(value, ClassValue) and walker.engine.is_module_class(value)
        for value in map(walker.engine.reveal, names.values())
    ):
        return Library("torch.nn.Module")
    each = scaling.is_one_of_many(key)
    return join_values(
        (
            replace(value, identity=(ONE_OF_MANY, value.identity))
            if each and isinstance(value, Optimizer)
            else value,
            frozenset((("==", key, Constant(other)), other == name) for other in names),
        )
        for name, value in names.items()
    )


def _item(walker: Expressions, base: Sequence, key: Value | None) -> Value:
    if base.exact and isinstance(key, Constant) and isinstance(key.value, int):
        try:
            return base.items[key.value]
        except IndexError:
            return UNKNOWN
    if isinstance(key, Constant) and isinstance(key.value, int) and 0 <= key.value < base.prefix:
        return base.items[key.value]
    return tensors.one_of(walker, base.items) if not base.prefix else UNKNOWN


def _cut(base: Sequence, node: cst.Subscript) -> Value:
    part = node.slice[0].slice
    if base.exact and isinstance(part, cst.Slice) and part.step is None:
        low = _bound(part.lower)
        high = _bound(part.upper)
        if low is not False and high is not False:
            return Sequence(base.items[low:high])
    return Sequence(base.items, exact=False)


def _bound(node: cst.BaseExpression | None) -> int | bool | None:
    if node is None:
        return None
    negative = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus)
    number = node.expression if isinstance(node, cst.UnaryOperation) else node
    if isinstance(number, cst.Integer):
        value = int(number.value, 0)
        return -value if negative else value
    return False
