"""Casts that the code asks for: ``x.float()``, ``x.to(torch.float16)``, ``x.to(device)``, ``x.type_as(y)``. Modules
have methods of the same names; see modules.py."""

from __future__ import annotations

from dataclasses import dataclass, replace

from amplint.amp.tokens import BESIDE_HALF, HALF, TO_HALF
from amplint.amp.traits import kept_by_cast
from amplint.events import Cast, Certainty, DType, enabled_region
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch import hidden
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.devices import device_of, may_be_dtype, tell_device, tell_type
from amplint.flow.models.torch.dtypes import dtype_in
from amplint.flow.models.torch.operations import operand
from amplint.flow.models.torch.sums import carried
from amplint.flow.models.torch.values import DTypeValue, Tensor
from amplint.flow.models.torch.weights import current
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import NONE, Constant, Unknown, Value
from amplint.lowering.program import Attribute, Call, Node

models = Registry()

CASTS = {
    "float": DType.FLOAT32,
    "double": DType.FLOAT64,
    "half": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "long": DType.INTEGER,
    "int": DType.INTEGER,
    "bool": DType.INTEGER,
    "short": DType.INTEGER,
    "byte": DType.INTEGER,
    "char": DType.INTEGER,
    "cfloat": DType.COMPLEX,
    "cdouble": DType.COMPLEX,
}
MOVES = frozenset({"cpu", "cuda", "xpu", "npu", "pin_memory"})
"""Methods that change the device alone."""

models.about(".half", weight=Weight.ENTRY, tags=(TO_HALF,))
models.about(".bfloat16", weight=Weight.ENTRY, tags=(HALF,))
models.about(".data=", weight=Weight.EFFECT)
models.about(".backward", ".numpy", "torch.optim.", tags=(BESIDE_HALF,))


@dataclass(frozen=True, slots=True)
class Target:
    """What ``to`` is told. ``dtype`` is None where the type stays as it is; ``unclear`` where it may change to one that
    is not known; ``device`` is the type of the device, if that is known."""

    dtype: DTypeValue | None = None
    unclear: bool = False
    device: str | None = None


def target_of(api: Api, arguments: Arguments, method: str = "to", of: Value | None = None) -> Target:
    """The target of ``x.to(…)``, which takes a device, a type, both, or another tensor, and of ``x.type(…)``, which
    takes nothing but types. ``of`` is ``x``."""
    if method == "type":
        known = dtype_in(arguments.get(0, "dtype") or arguments.keyword("dst_type"))
        return Target(known, known is None)
    dtype, device = arguments.keyword("dtype"), arguments.keyword("device")
    first, *rest = arguments.positional or (None,)
    other = current(api, first if first is not None else arguments.keyword("other") or NONE)
    if isinstance(other, Tensor):
        known = DTypeValue(other.dtype, of_tensor=True) if other.dtype is not None else None
        return Target(known, known is None, other.device)
    if first is not None and dtype_in(first) is not None:
        dtype = first
    elif first is not None:
        # the argument after a device is a type, unless it says how to copy
        second = rest[0] if rest and not _is_flag(rest[0]) else None
        dtype, device = dtype if second is None else second, first
        copied = rest or arguments.keyword("non_blocking") is not None  # which says how to move
        computed = isinstance(of, Tensor) and of.born is not None and not copied
        if dtype is None and may_be_dtype(api, first, computed=computed):
            return Target(unclear=True)
        if not isinstance(of, Tensor):
            tell_device(api, first)
    target = _target(api, dtype, device)
    return replace(target, unclear=True) if arguments.unclear and target.dtype is None else target


def _is_flag(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, bool)


def _target(api: Api, dtype: Value | None, device: Value | None) -> Target:
    tell_type(api, dtype)
    if dtype is not None:
        tell_device(api, device)  # ``x.to(device, torch.float16)``
    moved_to = device_of(api, device).device if device is not None and device != NONE else None
    if dtype is None or dtype == NONE:
        return Target(device=moved_to)
    known = dtype_in(dtype)
    return Target(known, known is None, moved_to)


# casts -----------------------------------------------------------------------------------------------------------


def cast(api: Api, value: Value, to: DType, node: Node, *, spelt_out: bool = True) -> Value:
    """A cast by hand. ``spelt_out``: the type stands in the text, it is not taken from another tensor."""
    hidden.used(api, value)
    before = current(api, value)
    before = before if isinstance(before, Tensor) else Tensor()
    api.emit(Cast(api.place(node), regions(api), operand(api, before, node), to))
    if to is DType.FLOAT32 and spelt_out:
        known = before.dtype is not None and before.dtype.is_floating
        certainty = before.certainty if known else Certainty.LIKELY
        # autocast leaves float64 alone: what comes from there goes on being cast only by this, and what is prepared
        # before the region may come from there, and asks nothing of an op in it
        outside = enabled_region(regions(api)) is None
        own = None if before.dtype is DType.FLOAT64 or outside else api.place(node)
        raised = Tensor(to, raised=own, certainty=certainty, device=before.device, was_half=before.is_half)
        return replace(raised, terms=carried(api, value), trait=kept_by_cast(before.trait))
    kept = Tensor(to, device=before.device, terms=carried(api, value), trait=kept_by_cast(before.trait))
    if to.is_half:
        return before if before.dtype is to else replace(kept, half_by_user=api.place(node))
    return kept


def cast_like(api: Api, value: Value, to: DType, node: Node) -> Tensor:
    """A cast to the type that another tensor has, which is half."""
    before = current(api, value)
    before = before if isinstance(before, Tensor) else Tensor()
    api.emit(Cast(api.place(node), regions(api), operand(api, before, node), to))
    if before.dtype is to:
        return before
    born = None if to is DType.HALF else api.place(node)
    kept = kept_by_cast(before.trait)
    return Tensor(to, born=born, device=before.device, terms=carried(api, value), trait=kept)


@models.method(Tensor, *CASTS)
def _by_name(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``x.float()``."""
    return cast(api, base, CASTS[name], node)


@models.method("", *CASTS)
def _of_unknown(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``x.float()`` of something that nothing is known of: a tensor, since nobody uses it as a module here."""
    if arguments.all:
        return None
    result = cast(api, base, CASTS[name], node)
    return replace(result, name=symbol("cast", base.symbol)) if isinstance(result, Tensor) else result


@models.method(Tensor, "to", "type")
def _to(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``x.to(torch.float16)``, ``x.to(device)``, ``x.to(y)``."""
    if name == "type" and not arguments.all:
        return api.unknown(node)
    return moved(api, base, target_of(api, arguments, name, base), node)


def moved(api: Api, base: Tensor, target: Target, node: Node) -> Value:
    """``x.to(…)`` of a tensor."""
    if target.dtype is not None:
        result = _cast_to(api, base, target.dtype, node)
    elif target.unclear:
        result = Tensor(device=base.device, trait=kept_by_cast(base.trait))
    else:
        result = base
    if target.device is not None and isinstance(result, Tensor):
        return replace(result, device=target.device)
    return result


def _cast_to(api: Api, base: Value, dtype: DTypeValue, node: Node) -> Value:
    if not dtype.of_tensor:
        return cast(api, base, dtype.dtype, node, spelt_out=_names_dtype(node))
    if not dtype.dtype.is_half:
        return cast(api, base, dtype.dtype, node, spelt_out=False)
    half = cast_like(api, base, dtype.dtype, node)
    return replace(half, asked=True) if dtype.of_autocast else half


def _names_dtype(node: Node) -> bool:
    """Whether an argument is written as ``torch.float32`` or ``torch.float``: who gives a type by another name may
    have chosen it."""
    return isinstance(node, Call) and any(
        isinstance(argument.value, Attribute) and argument.value.name in ("float32", "float", "FloatTensor")
        for argument in node.arguments
    )


@models.method("", "to", "type")
def _unknown_to(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``x.to(torch.float16)`` is a tensor; what is moved to a device is what it was."""
    if name == "type":
        target = target_of(api, arguments, name)
        return _cast_to(api, base, target.dtype, node) if target.dtype is not None else None
    if not arguments.all and not arguments.unclear:
        return None
    target = target_of(api, arguments)
    if target.dtype is not None:
        return _cast_to(api, base, target.dtype, node)
    return None if target.unclear else base


@models.method("", "cpu", "cuda", "xpu", "npu", "pin_memory", "train", "eval", "requires_grad_")
def _unknown_moved(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    """Methods that give the object itself, or the same data elsewhere."""
    return base


@models.method(Tensor, *MOVES)
def _moved(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    return replace(base, device=name) if name in ("cpu", "cuda") else base


@models.method(Tensor, "type_as")
def _type_as(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``x.type_as(y)``."""
    other = current(api, arguments.get(0, "other") or NONE)
    kept = Tensor(trait=kept_by_cast(base.trait))
    return replace(kept, dtype=other.dtype, device=other.device) if isinstance(other, Tensor) else kept


@models.method("", "type_as")
def _unknown_type_as(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    other = current(api, arguments.get(0, "other") or NONE)
    return Tensor(other.dtype) if isinstance(other, Tensor) else None


@models.method(Tensor, "view")
def _view(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``x.view(-1)``, ``x.view(torch.int16)``: the same bits read as another type."""
    dtype = dtype_in(arguments.get(0, "dtype"))
    return Tensor(dtype.dtype) if dtype is not None else base.moved()
