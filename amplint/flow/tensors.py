"""What ops do to the type of tensors, in and out of regions. The policies are amp.ops'; here is the
arithmetic of types around them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp import ops
from amplint.amp.ops import Policy
from amplint.amp.regions import DEVICES_LIKE_CUDA
from amplint.amp.traits import GUARDS, SMALL, SQUARING, left_by
from amplint.events import (
    Cast,
    Certainty,
    Converted,
    DType,
    Filled,
    Guard,
    IndexPut,
    Op,
    Operand,
    Region,
    Trait,
    WeightCast,
    enabled_region,
)
from amplint.flow import modules, scaling
from amplint.flow.values import (
    FLOAT32_TENSOR,
    INTEGER_TENSOR,
    UNKNOWN,
    Constant,
    DeviceValue,
    DTypeValue,
    Instance,
    Iteration,
    Mapping,
    Number,
    Parameters,
    ScaledGradient,
    ScaledLoss,
    Sequence,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.calls import Arguments
    from amplint.flow.expressions import Expressions

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
}
_NOT_TENSORS = frozenset(
    {
        "size",
        "dim",
        "numel",
        "nelement",
        "stride",
        "storage",
        "element_size",
        "is_contiguous",
        "get_device",
        "is_floating_point",
        "tolist",
        "item",
        "data_ptr",
        "register_hook",
        "retain_grad",
        "type",
        "requires_grad_",
    }
)
_NO_WRITES = frozenset({"requires_grad_", "detach_", "share_memory_"})
_KEEP = frozenset({"cpu", "cuda", "requires_grad_", "pin_memory", "xpu", "npu"})
_PAIRS = frozenset({"topk", "sort", "max", "min", "median", "mode", "kthvalue", "cummax", "cummin"})
_INTEGERS_TOO = frozenset(
    {"sum", "prod", "cumsum", "cumprod", "nansum", "pow", "__pow__", "__rpow__", "square"}
)
"""Ops that autocast runs in float32 and that give integers for integers."""
_WHOLE = frozenset({"sum", "mean", "prod", "max", "min", "amax", "amin", "var", "std", "norm", "median"})
"""Reductions that leave one element where no dimension is named."""
LARGEST = {DType.FLOAT16: 65504.0, DType.HALF: 65504.0, DType.BFLOAT16: 3.3895313892515355e38}
"""The largest number of each type; beyond it the ops of ``FILLS`` raise."""
MOST_CHOICES = 6
ASKED = "the type of a half-precision tensor was asked for"
"""The fact that a path remembers after ``x.dtype == torch.bfloat16`` or ``torch.is_autocast_enabled()``."""


def policy_device(region: Region | None, default: str) -> str:
    """ "cuda" or "cpu": whose policy holds in a region."""
    device = region.device if region is not None and region.device is not None else default
    return "cuda" if device in DEVICES_LIKE_CUDA else "cpu"


def element_of(value: Value) -> Value:
    """One item out of a collection."""
    match value:
        case Sequence():
            if len(value.items) == 1 or (value.items and all(item == value.items[0] for item in value.items)):
                return value.items[0]
            known = [item for item in value.items if not isinstance(item, (Unknown, Constant))]
            return known[0] if known and len(set(known)) == 1 else UNKNOWN
        case Parameters():
            return (
                Sequence((UNKNOWN, Parameters(value.module, one=True)))
                if value.named
                else Parameters(value.module, one=True)
            )
        case Iteration():
            return value.each
        case Tensor():
            if value.dtype in (None, DType.INTEGER):
                return replace(value, trait="scalar")
            return value if value.whole_output else value.moved()
    return UNKNOWN


def one_of(walker: Expressions, values: tuple[Value, ...]) -> Value:
    """One of several values, each tried in turn (few of them)."""
    different: list[Value] = []
    for value in values:
        if value not in different:
            different.append(value)
    if not different:
        return UNKNOWN
    different = different[:MOST_CHOICES]
    return walker.pin(different[walker.choose(len(different)) if len(different) > 1 else 0])


def operand(walker: Expressions, value: Value, node: cst.CSTNode) -> Operand:
    """A value as an event names it."""
    if isinstance(value, Tensor):
        # code that asked for the type of a half-precision tensor knows what it does with it
        asked = walker.path.facts.get(ASKED, False)
        return Operand(
            walker.place(node),
            value.dtype,
            value.certainty,
            None if asked else value.born,
            value.born_in,
            None if asked else value.half_by_user,
            value.raised,
            value.parameter_of is not None,
            value.trait,
            value.element,
        )
    if isinstance(value, Parameters):
        return Operand(walker.place(node), None, parameter=True)
    return Operand(walker.place(node))


def _promoted(values: list[Value]) -> Tensor | None:
    """What native type promotion makes of the operands, or None where it is not known."""
    tensors: list[Tensor] = []
    unknown = False
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (Unknown, Parameters, Instance)):
            unknown = True
    floating = [tensor for tensor in tensors if tensor.dtype is not None and tensor.dtype.is_floating]
    for wide in (DType.FLOAT64, DType.FLOAT32):
        found = next((tensor for tensor in floating if tensor.dtype is wide), None)
        if found is not None:
            return Tensor(wide)
    if unknown or any(tensor.dtype is None for tensor in tensors):
        return None
    halves = {tensor.dtype for tensor in floating}
    if len(halves) > 1 and DType.HALF not in halves:
        return FLOAT32_TENSOR
    if floating:
        likely = next((tensor for tensor in floating if tensor.certainty is Certainty.LIKELY), None)
        return replace(
            likely or floating[0],
            raised=None,
            parameter_of=None,
            whole_output=False,
            softened=None,
            trait=None,
        )
    if tensors and all(tensor.dtype is DType.INTEGER for tensor in tensors):
        return INTEGER_TENSOR
    return None


def plain_name(name: str) -> str:
    """The name of the op that gives a new tensor: "exp" for "exp_", "__add__" for "__iadd__"."""
    if not ops.is_in_place(name):
        return name
    return f"__{name[3:]}" if name.startswith("__i") else name[:-1]


def apply(
    walker: Expressions,
    node: cst.CSTNode,
    name: str,
    values: list[Value],
    *,
    nodes: list[cst.CSTNode] | None = None,
    weights: DType | None = None,
    weights_raise: bool = False,
    small_constant: float | None = None,
    result_dtype: DType | None = None,
    out: Value | None = None,
) -> Value:
    """Runs an op: says what type the result has and tells the listeners."""
    region = enabled_region(walker.path.regions)
    device = policy_device(walker.path.regions[-1] if walker.path.regions else None, walker.engine.device)
    in_place = ops.is_in_place(name)
    plain = plain_name(name)
    policy = ops.policy_of(plain, device, walker.engine.torch)
    if policy is None:
        return UNKNOWN
    if region is not None and policy is Policy.BANNED and _on_the_cpu(values, nodes or []):
        region, policy = None, Policy.UNTOUCHED
    result = _result(walker, node, plain, policy, in_place, values, region, weights)
    if (
        plain in _INTEGERS_TOO
        and policy is Policy.FLOAT32
        and not any(_is_floating(value) for value in values)
    ):
        result = UNKNOWN
    if result_dtype is not None and isinstance(result, Tensor):
        result = Tensor(result_dtype)
    if isinstance(out, Tensor):
        result = out
    if isinstance(result, Tensor) and policy is not Policy.VIEW:
        trait = _trait(walker, node, plain, values, nodes or [], result, small_constant)
        if trait != result.trait:
            result = replace(result, trait=trait)
    sensitivity = ops.sensitivity_of(plain)
    weak = sensitivity == "softmax"
    tensors = [value for value in values if isinstance(value, Tensor)]
    halves = [value for value in tensors if value.is_half]
    if policy is Policy.LOWER and region is not None and region.cache_enabled:
        for value in tensors:
            if value.parameter_of is not None and value.dtype is DType.FLOAT32:
                walker.emit(WeightCast(walker.place(node), walker.path.regions, value.parameter_of))
    banned = policy is Policy.BANNED and region is not None
    if halves or banned or any(value.raised for value in tensors):
        pieces = nodes or [node] * len(values)
        operands = tuple(operand(walker, value, piece) for value, piece in zip(values, pieces, strict=False))
        softened = next((value.softened for value in tensors if value.softened is not None), None)
        walker.emit(
            Op(
                walker.place(node),
                walker.path.regions,
                plain,
                operands,
                result.dtype if isinstance(result, Tensor) else None,
                policy.value,
                sensitivity,
                in_place,
                weights,
                weights_raise,
                small_constant,
                plain in ops.RANKING,
                softened,
                out.dtype if isinstance(out, Tensor) else None,
            )
        )
        if isinstance(result, Tensor) and result.is_half and policy is not Policy.VIEW:
            if weak and region is None:
                result = replace(result, softened=walker.place(node))
            elif softened is not None:
                result = replace(result, softened=softened)
    return result


def writes(name: str) -> bool:
    """Whether a method changes the tensor itself."""
    return name.endswith("_") and not name.endswith("__") and name not in _NO_WRITES


def write(walker: Expressions, value: Value, how: str, node: cst.CSTNode) -> None:
    """Tells that a leaf is written in place."""
    if isinstance(value, Tensor) and value.dtype is DType.FLOAT32:
        modules.written(walker, value.parameter_of, how, node)
    elif isinstance(value, Parameters):
        modules.written(walker, value.module, how, node)


def _trait(
    walker: Expressions,
    node: cst.CSTNode,
    name: str,
    values: list[Value],
    nodes: list[cst.CSTNode],
    result: Tensor,
    small: float | None,
) -> Trait | None:
    """What the op leaves of itself in its result; see events.Trait."""
    if small is not None and name in GUARDS and result.is_half:
        guarded = [piece for piece, value in zip(nodes, values, strict=False) if isinstance(value, Tensor)]
        return Guard(walker.place(node), small, walker.place(guarded[0]) if guarded else None)
    first = values[0] if values else UNKNOWN
    second = values[1] if len(values) > 1 else None
    if name in SQUARING:
        if name == "square" or (name in ("__pow__", "pow") and second in (Constant(2), Constant(2.0))):
            return "square"
        if (
            isinstance(first, Tensor)
            and first == second
            and len(nodes) > 1
            and nodes[0].deep_equals(nodes[1])
        ):
            return "square"
    traits = [value.trait for value in values if isinstance(value, Tensor)]
    return left_by(name, traits, result.is_half)


def _on_the_cpu(values: list[Value], nodes: list[cst.CSTNode]) -> bool:
    """Whether an operand was moved to the CPU, where regions of other devices have no say."""
    return any(isinstance(value, Tensor) and value.device == "cpu" for value in values) or any(
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "cpu"
        and not node.args
        for node in nodes
    )


def _filled(
    walker: Expressions,
    node: cst.CSTNode,
    name: str,
    target: Tensor,
    text: cst.CSTNode,
    given: tuple[Value, ...],
    keyword: Value | None,
) -> None:
    """Tells of a number that does not fit the half-precision tensor that it is written to."""
    position = ops.FILLS[name.removesuffix("_")][0]
    number = given[position] if len(given) > position else keyword
    if not isinstance(number, Constant) or type(number.value) not in (int, float) or target.dtype is None:
        return
    value = float(number.value)  # type: ignore[arg-type]
    if LARGEST[target.dtype] < abs(value) < float("inf"):
        filled = operand(walker, target, text)
        walker.emit(Filled(walker.place(node), walker.path.regions, filled, value, name))


def _is_floating(value: Value) -> bool:
    return isinstance(value, Tensor) and value.dtype is not None and value.dtype.is_floating


def _result(
    walker: Expressions,
    node: cst.CSTNode,
    plain: str,
    policy: Policy,
    in_place: bool,
    values: list[Value],
    region: Region | None,
    weights: DType | None,
) -> Value:
    first = values[0] if values else UNKNOWN
    if policy is Policy.INTEGER:
        return INTEGER_TENSOR
    if policy is Policy.VIEW:
        if isinstance(first, Sequence):
            promoted = _promoted(list(first.items)) if first.items else None
            return promoted if promoted is not None else UNKNOWN
        return first.moved() if isinstance(first, Tensor) else UNKNOWN
    if in_place:
        return first if isinstance(first, Tensor) else UNKNOWN
    floats = [value for value in values if isinstance(value, Tensor)]
    if any(value.dtype is DType.FLOAT64 for value in floats):
        return Tensor(DType.FLOAT64)
    flat: list[Value] = []
    for value in values:
        flat.extend(value.items if isinstance(value, Sequence) else [value])
    if policy is Policy.FACTORY:
        return FLOAT32_TENSOR
    if region is not None:
        if policy is Policy.LOWER:
            return _lowered(walker, node, region, floats)
        if policy in (Policy.FLOAT32, Policy.BANNED):
            if floats and all(value.dtype is DType.INTEGER for value in floats):
                return UNKNOWN
            return FLOAT32_TENSOR
    if policy is Policy.LOWER and weights is not None:
        # outside a region a layer runs in the type of its weights, or raises
        return Tensor(weights)
    if policy is Policy.PROMOTE or policy is Policy.LOWER or policy is Policy.UNTOUCHED:
        promoted = _promoted(flat if policy is not Policy.UNTOUCHED else flat[:2])
        return promoted if promoted is not None else UNKNOWN
    # losses that compare two tensors promote them; others follow their first operand
    promoted = _promoted(flat if plain in ops.loss_ops() and plain not in ops.INTEGER_TARGETS else flat[:1])
    return promoted if promoted is not None else UNKNOWN


def _lowered(walker: Expressions, node: cst.CSTNode, region: Region, floats: list[Tensor]) -> Value:
    if floats and all(value.dtype is DType.INTEGER for value in floats):
        return UNKNOWN
    dtype = region.dtype or DType.HALF
    if not dtype.is_half:
        return Tensor(dtype)
    return Tensor(dtype, born=walker.place(node), born_in=region)


def binary(walker: Expressions, node: cst.CSTNode, name: str, left: Value, right: Value) -> Value:
    """``left op right`` where one side is a tensor, or ``@``."""
    if name == "__pow__" and not isinstance(left, Tensor):
        name = "__rpow__"
    if name == "__truediv__" and not isinstance(left, Tensor):
        name = "__rtruediv__"
    if name == "__truediv__" and isinstance(left, Constant):
        name = "__rtruediv__"
    nodes: list[cst.CSTNode] = [node, node]
    if isinstance(node, cst.BinaryOperation):
        nodes = [node.left, node.right]
    small = next(
        (
            abs(float(side.value))
            for side in (left, right)
            if isinstance(side, Constant)
            and isinstance(side.value, (int, float))
            and 0 < abs(side.value) < SMALL
        ),
        None,
    )
    return apply(walker, node, name, [left, right], nodes=nodes, small_constant=small)


def augmented(walker: Expressions, node: cst.AugAssign, target: Value, value: Value) -> Value:
    """``target op= value``."""
    name = "__" + type(node.operator).__name__.removesuffix("Assign").lower() + "__"
    name = {
        "__subtract__": "__sub__",
        "__multiply__": "__mul__",
        "__divide__": "__truediv__",
        "__power__": "__pow__",
        "__matrixmultiply__": "__matmul__",
    }.get(name, name)
    write(walker, target, "an assignment in place", node)
    if isinstance(target, Sequence) and isinstance(value, Sequence) and name == "__add__":
        return Sequence(target.items + value.items, target.exact and value.exact)
    if isinstance(target, ScaledLoss) or isinstance(value, ScaledLoss):
        return scaling.combined(target, value)
    for one, other in ((target, value), (value, target)):
        if isinstance(one, ScaledGradient):
            return scaling.scaled_gradient_method(walker, one, name, (other,), node)
    if not isinstance(target, Tensor) and not isinstance(value, Tensor):
        if isinstance(target, (Number, Constant)) and isinstance(value, (Number, Constant)):
            return Number(walker.fresh(node))
        return UNKNOWN
    if name == "__matmul__":
        # tensors have no __imatmul__: x @= y is x = x @ y
        return binary(walker, node, name, target, value)
    if isinstance(target, Tensor):
        small = value.value if isinstance(value, Constant) and isinstance(value.value, float) else None
        result = apply(
            walker,
            node,
            f"__i{name[2:]}",
            [target, value],
            nodes=[node.target, node.value],
            small_constant=small if small is not None and 0 < small < SMALL else None,
        )
        return result if isinstance(result, Tensor) else target
    if isinstance(target, (Constant, Number)) and isinstance(value, Tensor):
        walker.emit(
            Op(
                walker.place(node),
                walker.path.regions,
                "accumulate",
                (operand(walker, value, node.value),),
                value.dtype,
                None,
                "accumulation",
            )
        ) if value.is_half and walker.scope.loops else None
        return replace(value, whole_output=False)
    return binary(walker, node, name, target, value)


def cast(walker: Expressions, node: cst.CSTNode, value: Value, to: DType, *, spelt_out: bool = True) -> Value:
    """A cast by hand. ``spelt_out``: the type stands in the text, it is not taken from another tensor."""
    before = value if isinstance(value, Tensor) else Tensor()
    walker.emit(Cast(walker.place(node), walker.path.regions, operand(walker, before, node), to))
    if to is DType.FLOAT32 and spelt_out:
        known = before.dtype is not None and before.dtype.is_floating
        return Tensor(
            to, raised=walker.place(node), certainty=before.certainty if known else Certainty.LIKELY
        )
    if to.is_half:
        return before if before.dtype is to else Tensor(to, half_by_user=walker.place(node))
    return Tensor(to)


def leaf(walker: Expressions, value: Value, node: cst.CSTNode) -> Value:
    """A tensor that takes gradients from here on."""
    if not isinstance(value, Tensor) or value.dtype is not DType.FLOAT32 or value.parameter_of is not None:
        return value
    return replace(value, parameter_of=(id(node), walker.scope.chain))


def _cast_like(walker: Expressions, node: cst.CSTNode, value: Value, to: DType) -> Value:
    """A cast to the type that another tensor has, which is half."""
    before = value if isinstance(value, Tensor) else Tensor()
    walker.emit(Cast(walker.place(node), walker.path.regions, operand(walker, before, node), to))
    if before.dtype is to:
        return before
    return Tensor(to, born=None if to is DType.HALF else walker.place(node))


def _of_dictionary(base: Tensor, name: str, given: Arguments) -> Value | None:
    """What a method of dictionaries gives for a module's output, or None if the name is none of those."""
    match name:
        case "get" | "pop" if given.positional and isinstance(given.positional[0], Constant):
            key = given.positional[0].value
            return UNKNOWN if key == "loss" else base.part(key)
        case "values":
            return Sequence((base,), exact=False)
        case "items":
            return Sequence((Sequence((UNKNOWN, base)),), exact=False)
    return None


def method(walker: Expressions, node: cst.Call, base: Value, name: str, given: Arguments) -> Value | None:
    """A method of a tensor, or of something that may be one. None if it is no tensor method that is known."""
    is_tensor = isinstance(base, Tensor)
    assert isinstance(node.func, cst.Attribute)
    receiver = node.func.value
    if isinstance(base, Tensor) and base.whole_output:
        found = _of_dictionary(base, name, given)
        if found is not None:
            return found
    if name in CASTS and not given.positional:
        return cast(walker, node, base, CASTS[name])
    if name in ("to", "type"):
        return _to(walker, node, base, given)
    if name == "view" and given.positional and isinstance(given.positional[0], DTypeValue):
        return Tensor(given.positional[0].dtype)
    if name in ("type_as", "to_dense"):
        other = given.positional[0] if given.positional else UNKNOWN
        return Tensor(other.dtype) if isinstance(other, Tensor) else UNKNOWN
    if name == "requires_grad_" and given.all != (Constant(False),):
        return leaf(walker, base, node) if is_tensor else None
    if name in _KEEP:
        if not isinstance(base, Tensor):
            return None
        return replace(base, device=name) if name in ("cpu", "cuda") else base
    if is_tensor and writes(name):
        write(walker, base, f"{name}()", node)
    if name == "numpy":
        if is_tensor:
            walker.emit(
                Converted(walker.place(node), walker.path.regions, operand(walker, base, receiver), "numpy")
            )
        return UNKNOWN
    if name == "is_floating_point" and isinstance(base, Tensor) and base.dtype is not None:
        return Constant(base.dtype.is_floating)
    if name in ("item", "tolist") or (
        is_tensor and name in ("size", "dim", "numel", "nelement") and given.all
    ):
        return Number(walker.fresh(node))
    if is_tensor and name in ("size", "dim", "numel", "nelement"):
        return Sequence((Number(),), exact=False) if name == "size" else Number(walker.fresh(node))
    if name in _NOT_TENSORS:
        return UNKNOWN if is_tensor else None
    plain = plain_name(name)
    if isinstance(base, Tensor) and base.is_half and plain in ops.FILLS and given.keyword("dtype") is None:
        number = given.keyword(ops.FILLS[plain][1])
        _filled(walker, node, name, base, receiver, given.positional, number)
    if plain in ops.SOURCES:
        _put(walker, node, name, base, receiver, given.positional, given)
        if plain is not name:
            return base
    if name in ("argmax", "argmin") and is_tensor and not given.all:
        apply(walker, node, name, [base], nodes=[receiver])
        return replace(INTEGER_TENSOR, trait="scalar")
    if name in _PAIRS and (is_tensor or name != "sort") and is_tensor:
        assert isinstance(base, Tensor)
        apply(walker, node, name, [base], nodes=[receiver])
        whole = not given.positional and not given.keywords and name in ("max", "min", "median")
        return base.moved() if whole else Sequence((base.moved(), INTEGER_TENSOR))
    if name in ("chunk", "split", "unbind", "tensor_split") and is_tensor:
        assert isinstance(base, Tensor)
        return Sequence((base.moved(),), exact=False)
    if name.startswith("new_"):
        dtype = given.keyword("dtype")
        if isinstance(dtype, DTypeValue):
            return Tensor(dtype.dtype)
        return _like(base) if isinstance(base, Tensor) else UNKNOWN
    values = [base, *given.positional, *(value for key, value in given.keywords if key in ("other", "mat2"))]
    nodes: list[cst.CSTNode] = [receiver, *given.nodes]
    nodes += [node] * (len(values) - len(nodes))
    if not is_tensor and not any(isinstance(value, Tensor) for value in values):
        region = enabled_region(walker.path.regions)
        device = policy_device(region, walker.engine.device)
        policy = ops.policy_of(name, device, walker.engine.torch)
        if region is None or policy not in (Policy.LOWER, Policy.FLOAT32) or name not in ops.TENSOR_ONLY:
            return None
    dtype = given.keyword("dtype")
    result_dtype = dtype.dtype if isinstance(dtype, DTypeValue) else None
    small = _small_constant(name, given.positional, given)
    result = apply(walker, node, name, values, nodes=nodes, small_constant=small, result_dtype=result_dtype)
    if name in _WHOLE and not given.all and isinstance(result, Tensor):
        result = replace(result, trait="scalar")
    guarded = plain is not name and isinstance(result, Tensor) and isinstance(result.trait, Guard)
    if guarded and isinstance(receiver, cst.Name):
        walker.assign(receiver, result, node)
    return result if is_tensor or isinstance(result, Tensor) else None


def _small_constant(name: str, rest: tuple[Value, ...], given: Arguments) -> float | None:
    """The small number that a method or function is given after its tensor, such as the minimum of a clamp."""
    if plain_name(name) not in GUARDS:
        return None
    candidates = (*rest[:1], given.keyword("min"), given.keyword("other"))
    return next(
        (
            value.value
            for value in candidates
            if isinstance(value, Constant) and isinstance(value.value, float) and 0 < value.value < SMALL
        ),
        None,
    )


def _put(
    walker: Expressions,
    node: cst.CSTNode,
    name: str,
    base: Value,
    text: cst.CSTNode,
    rest: tuple[Value, ...],
    given: Arguments,
) -> None:
    """Tells of a tensor that is written into another by index. ``rest`` are the arguments after the first."""
    plain = name.removesuffix("_")
    position = ops.SOURCES[plain]
    keywords = (given.keyword(key) for key in ("src", "source", "values"))
    source = rest[position] if len(rest) > position else next((value for value in keywords if value), None)
    if not isinstance(base, Tensor) or not isinstance(source, Tensor):
        return
    region = enabled_region(walker.path.regions)
    if name == plain and region is not None:
        device = policy_device(region, walker.engine.device)
        if ops.policy_of(plain, device, walker.engine.torch) is Policy.PROMOTE:
            return
    target = operand(walker, base, text)
    value = operand(walker, source, node)
    walker.emit(IndexPut(walker.place(node), walker.path.regions, target, value, name))


def _like(value: Tensor) -> Tensor:
    """A new tensor of the same type: it is half for the same reason."""
    return replace(value, raised=None, parameter_of=None, whole_output=False, softened=None, trait=None)


def _to(walker: Expressions, node: cst.Call, base: Value, given: Arguments) -> Value | None:
    dtype: Value | None = given.keyword("dtype")
    for value in given.positional[:2]:
        if isinstance(value, DTypeValue):
            dtype = value
        elif isinstance(value, Tensor) and value.dtype is not None and given.keyword("device") is None:
            return Tensor(value.dtype) if isinstance(base, Tensor) else UNKNOWN
    if isinstance(dtype, DTypeValue):
        if dtype.of_tensor and dtype.dtype.is_half:
            return _cast_like(walker, node, base, dtype.dtype)
        return cast(walker, node, base, dtype.dtype, spelt_out=_names_dtype(node))
    if dtype is not None and dtype != Constant(None):
        return UNKNOWN
    if not isinstance(base, Tensor):
        return None
    target = given.positional[0] if given.positional else given.keyword("device")
    known = target.device if isinstance(target, DeviceValue) else None
    if isinstance(target, Constant) and isinstance(target.value, str):
        known = target.value.partition(":")[0]
    if known is not None:
        return replace(base, device=known)
    # one unknown argument may be a device or a dtype; only a device leaves the type alone
    for value in given.positional[:2]:
        if not _is_device(value):
            return replace(base, dtype=None) if not _looks_like_device(node) else base
    return base


def _names_dtype(node: cst.Call) -> bool:
    """Whether an argument is written as ``torch.float32`` or ``torch.float``."""
    return any(
        isinstance(argument.value, cst.Attribute) and argument.value.attr.value in ("float32", "float")
        for argument in node.args
    )


def _is_device(value: Value) -> bool:
    return isinstance(value, DeviceValue) or (
        isinstance(value, Constant) and isinstance(value.value, (str, int))
    )


def _looks_like_device(node: cst.Call) -> bool:
    """``x.to(device)``, ``x.to(self.device)``, ``x.to(y.device)``: the attribute or name says it itself."""
    for argument in node.args[:1]:
        value = argument.value
        text = value.attr.value if isinstance(value, cst.Attribute) else getattr(value, "value", "")
        if isinstance(text, str) and (
            "device" in text.lower() or text.lower() in ("gpu", "cpu", "rank", "local_rank")
        ):
            return True
    return False


def function(walker: Expressions, node: cst.Call, name: str, given: Arguments) -> Value:
    """``torch.name(…)`` or ``torch.nn.functional.name(…)``."""
    values = list(given.positional)
    nodes = list(given.nodes)
    for key, value in given.keywords:
        if key in ("input", "other", "target", "weight", "query", "key", "value", "mat2", "tensors", "x"):
            if key == "input":
                values.insert(0, value)
                nodes.insert(0, given.node_of(key) or node)
            else:
                values.append(value)
                nodes.append(given.node_of(key) or node)
    if name == "einsum":
        values, nodes = values[1:], nodes[1:]
    if name in ("cat", "stack", "concat", "hstack", "vstack", "concatenate") and values:
        first = values[0]
        if isinstance(first, Sequence):
            if not first.exact and any(isinstance(item, Unknown) for item in first.items):
                return UNKNOWN
            promoted = _promoted(list(first.items))
            return promoted if promoted is not None else UNKNOWN
        return UNKNOWN
    first = values[0] if values else UNKNOWN
    plain = plain_name(name)
    if plain in ops.FILLS:
        typed = given.keyword("dtype")
        if name == "full":
            first = Tensor(typed.dtype) if isinstance(typed, DTypeValue) else UNKNOWN
        elif isinstance(typed, DTypeValue):
            first = Tensor(typed.dtype)
        if isinstance(first, Tensor) and first.is_half:
            number = given.keyword(ops.FILLS[plain][1])
            _filled(walker, node, name, first, nodes[0] if nodes else node, given.positional[1:], number)
    if plain in ops.SOURCES and nodes:
        _put(walker, node, name, first, nodes[0], given.positional[1:], given)
    if name == "where" and len(values) == 3:
        promoted = _promoted(values[1:])
        return promoted if promoted is not None else UNKNOWN
    dtype = given.keyword("dtype")
    result_dtype = dtype.dtype if isinstance(dtype, DTypeValue) else None
    if dtype is not None and result_dtype is None and dtype != Constant(None):
        return Tensor()
    if (
        name == "is_floating_point"
        and values
        and isinstance(values[0], Tensor)
        and values[0].dtype is not None
    ):
        return Constant(values[0].dtype.is_floating)
    if name.endswith("_like") and values and isinstance(values[0], Tensor):
        return Tensor(result_dtype) if result_dtype is not None else _like(values[0])
    if name in ("tensor", "as_tensor", "from_numpy", "arange", "full") and result_dtype is None:
        # the type is that of the data
        return Tensor()
    if name in ("embedding", "embedding_bag"):
        return Tensor(values[1].dtype) if len(values) > 1 and isinstance(values[1], Tensor) else UNKNOWN
    if name in _PAIRS and values and isinstance(values[0], Tensor):
        apply(walker, node, name, [values[0]], nodes=nodes[:1])
        whole = len(values) == 1 and given.keyword("dim") is None
        return values[0].moved() if whole else Sequence((values[0].moved(), INTEGER_TENSOR))
    if name in ("chunk", "split", "unbind", "tensor_split") and values and isinstance(values[0], Tensor):
        return Sequence((values[0].moved(),), exact=False)
    if name in ops.KINDS_OF_WEIGHTS and len(values) > 1:
        weight = values[1]
        weights = weight.dtype if isinstance(weight, Tensor) and weight.raised is None else None
        if isinstance(weight, Tensor) and weight.parameter_of is not None:
            return apply(
                walker,
                node,
                name,
                values,
                nodes=nodes,
                weights=weights,
                weights_raise=ops.KINDS_OF_WEIGHTS[name] == "raises",
            )
    small = _small_constant(name, given.positional[1:], given)
    result = apply(
        walker,
        node,
        name,
        values,
        nodes=nodes,
        small_constant=small,
        result_dtype=result_dtype,
        out=given.keyword("out"),
    )
    if given.keyword("requires_grad") == Constant(True):
        return leaf(walker, result, node)
    if isinstance(result, Tensor) and result_dtype is not None:
        return Tensor(result_dtype)
    if name in _WHOLE and len(given.all) == 1 and isinstance(result, Tensor):
        result = replace(result, trait="scalar")
    if name in ("scaled_dot_product_attention",) or not isinstance(result, Unknown):
        return result
    if any(isinstance(value, Mapping) for value in values):
        return UNKNOWN
    return result
