"""What ops do to the type of tensors, in and out of regions, and the events that tell of it. The policies are those of
amp.ops; here is the arithmetic of types around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

from amplint.amp import ops, traits
from amplint.amp.ops import Policy
from amplint.amp.regions import DEVICES_LIKE_CUDA
from amplint.amp.traits import DIFFERENCES, GUARDS, SMALL, SQUARING, UPPER_BOUNDS, left_by, rest_to_one
from amplint.events import (
    Certainty,
    DType,
    Guard,
    Op,
    Operand,
    Region,
    Regions,
    Trait,
    WeightCast,
    enabled_region,
    enclosing_enabled,
    innermost,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.models.torch import hidden
from amplint.flow.models.torch import weights as parameters
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.dtypes import default_dtype, is_asked
from amplint.flow.models.torch.releases import bounds_of
from amplint.flow.models.torch.shapes import with_numbers
from amplint.flow.models.torch.sums import combined
from amplint.flow.models.torch.values import FLOAT32_TENSOR, INTEGER_TENSOR, Gradient, Parameters, Tensor
from amplint.flow.state.symbols import COMPUTED, Symbol, symbol
from amplint.flow.state.values import Choice, Constant, Instance, Number, Sequence, Unknown, Value
from amplint.lowering.program import Argument, Attribute, Call, Lambda, Node

_INTEGERS_TOO = frozenset(
    {"sum", "prod", "cumsum", "cumprod", "nansum", "pow", "__pow__", "__rpow__", "square"}
)
"""Ops that autocast runs in float32 and that give integers for integers."""


@dataclass(frozen=True, slots=True)
class Run:
    """An op with what it is given and the expressions that stand there. ``weights``: the type of a layer's own
    parameters, and whether operands of another type raise; ``small``: a small constant that is added or that the
    operand is clamped to; ``below_one``: the bound from above, if it is a little below 1; ``dtype``: the type that is
    asked for the result."""

    name: str
    values: tuple[Value, ...]
    nodes: tuple[Node, ...] = ()
    weights: DType | None = None
    weights_raise: bool = False
    small: float | None = None
    dtype: DType | None = None
    out: Value | None = None
    below_one: float | None = None

    @property
    def plain(self) -> str:
        """The name of the op that gives a new tensor."""
        return plain_name(self.name)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The operands that are tensors."""
        return tuple(value for value in self.values if isinstance(value, Tensor))


def plain_name(name: str) -> str:
    """The name of the op that gives a new tensor: "exp" for "exp_", "__add__" for "__iadd__"."""
    if not ops.is_in_place(name):
        return name
    return f"__{name[3:]}" if name.startswith("__i") else name[:-1]


def policy_of(api: Api, name: str, region: Region | None) -> Policy | None:
    """What autocast does to an op on the device of a region, in all releases of torch that the project admits."""
    device = region.device if region is not None and region.device is not None else api.settings.device
    return ops.policy_of(name, "cuda" if device in DEVICES_LIKE_CUDA else "cpu", bounds_of(api))


def device_of_operands(tensors: Iterable[Tensor]) -> str | None:
    """The device of the first tensor of which one is known: it was put there, or a region for it made it half."""
    born = ((one.device, one.born_in.device if one.born_in is not None else None) for one in tensors)
    return next((device or other for device, other in born if device or other), None)


def regions_for(api: Api, tensors: Iterable[Tensor]) -> Regions:
    """The regions that have a say in an op: a region is for the tensors on its device."""
    around = regions(api)
    device = (
        device_of_operands(tensors) if any(region.device != around[0].device for region in around) else None
    )
    if device is None:
        return around
    return tuple(region for region in around if region.device in (None, device))


def meets_half(api: Api, name: str, values: tuple[Value, ...]) -> str | None:
    """What happens outside regions where a half operand meets the float32 weights of an op: "raises", "accepts",
    "promotes", or "differs" from release to release. None if the op has no weights."""
    if name not in ops.KINDS_OF_WEIGHTS:
        return None
    device = device_of_operands(value for value in values if isinstance(value, Tensor)) or api.settings.device
    return ops.weights_meet_half(name, bounds_of(api), device) or "differs"


def operand(api: Api, value: Value, node: Node) -> Operand:
    """A value as an event names it."""
    place = api.place(node)
    value = parameters.current(api, value)
    if isinstance(value, Tensor):
        # code that asked for the type of a half-precision tensor knows what it does with it
        asked = value.is_half and (value.asked or is_asked(api) or _is_of_another_path(api, value))
        return Operand(
            place,
            value.dtype,
            value.certainty,
            None if asked else value.born,
            value.born_in,
            None if asked else value.half_by_user,
            value.raised,
            value.parameter_of is not None,
            value.trait,
            value.element,
            was_half=value.was_half,
        )
    return Operand(place, parameter=isinstance(value, Parameters), constant=_is_constant(value))


def _is_constant(value: Value) -> bool:
    return isinstance(value, Constant) or (
        isinstance(value, Sequence) and value.exact and all(map(_is_constant, value.items))
    )


def _is_of_another_path(api: Api, value: Tensor) -> bool:
    """Whether the region that made a value half is open, and off: a flag is not both. Values that a loop or a
    comprehension collects are not told apart by the paths on which they were made."""
    born = value.born_in
    return born is not None and any(
        region.identity == born.identity and not region.enabled for region in regions(api)
    )


# running ---------------------------------------------------------------------------------------------------------


def apply(api: Api, run: Run, node: Node) -> Value:
    """Runs an op: says what type the result has and tells the listeners."""
    for value in run.values:
        hidden.used(api, value)
    values = (with_numbers(api, parameters.current(api, value)) for value in run.values)
    run = replace(run, values=tuple(_in_asked_type(value, run.dtype) for value in values))
    around = regions_for(api, run.tensors)
    region = enabled_region(around)
    policy = policy_of(api, run.plain, innermost(around))
    if policy is None:
        return api.unknown(node)
    if region is not None and policy is Policy.BANNED and _on_the_cpu(run):
        region, policy = None, Policy.UNTOUCHED
    result = _result(api, run, policy, region, node)
    if (
        run.plain in _INTEGERS_TOO
        and policy is Policy.FLOAT32
        and not any(is_floating(value) for value in run.values)
    ):
        result = None
    if run.dtype is not None and result is not None:
        result = Tensor(run.dtype)
    if isinstance(run.out, Tensor):
        result = run.out
    if result is not None and policy is not Policy.VIEW:
        result = replace(result, trait=_trait(api, run, result, node))
    terms = combined(api, run.plain, run.values) if not ops.is_in_place(run.name) else ()
    if result is not None:
        kept = result.terms if policy is Policy.VIEW else ()
        result = replace(result, name=name_of_result(run.plain, run.values), terms=terms or kept)
    elif terms:
        result = Tensor(terms=terms)
    _tell_of_weights(api, run, policy, around, node)
    if _is_told(run, policy, around, region):
        result = _told(api, run, policy, around, result, node)
    return result if result is not None else api.unknown(node)


def _in_asked_type(value: Value, dtype: DType | None) -> Value:
    """What an op computes with that is asked for a type: ``x.sum(dtype=torch.float32)`` casts its input first."""
    is_cast = isinstance(value, Tensor) and value.is_half and dtype is not None and not dtype.is_half
    return Tensor(dtype) if is_cast else value


def name_of_result(op: str, values: Iterable[Value | None]) -> Symbol | None:
    """What stands for the result of an op, if something does for each of its tensors: ``isnan(loss)`` twice is one."""
    names = [value.name if isinstance(value, Tensor) else value for value in values]
    return symbol("result", op, *names) if all(name is not None for name in names) else None


def _tell_of_weights(api: Api, run: Run, policy: Policy, around: Regions, node: Node) -> None:
    region = enabled_region(around)
    if policy is not Policy.LOWER or region is None or not region.cache_enabled:
        return
    for value in run.tensors:
        owner = value.parameter_of
        if owner is not None and value.dtype is DType.FLOAT32 and parameters.takes_gradients(api, owner):
            api.emit(WeightCast(api.place(node), around, owner))


def _is_told(run: Run, policy: Policy, around: Regions, region: Region | None) -> bool:
    """Whether somebody wants to hear of an op: a half or raised operand is in it, it raises in the region, or a region
    that is switched off keeps it in float32."""
    if policy is Policy.BANNED and region is not None:
        return True
    if policy is Policy.LOWER and enclosing_enabled(around) is not None:
        return True
    return any(value.is_half or value.raised is not None for value in run.tensors)


def _told(
    api: Api, run: Run, policy: Policy, around: Regions, result: Tensor | None, node: Node
) -> Tensor | None:
    """Tells of an op; gives its result with where it was computed in half precision."""
    nodes = (*run.nodes, *(node for _ in run.values[len(run.nodes) :]))
    operands = tuple(operand(api, value, piece) for value, piece in zip(run.values, nodes, strict=False))
    softened = next((value.softened for value in run.tensors if value.softened is not None), None)
    sensitivity = ops.sensitivity_of(run.plain)
    api.emit(
        Op(
            api.place(node),
            around,
            run.plain,
            operands,
            result.dtype if result is not None else None,
            policy.value,
            sensitivity,
            ops.is_in_place(run.name),
            run.weights,
            run.weights_raise,
            run.small,
            run.plain in ops.RANKING,
            softened,
            run.out.dtype if isinstance(run.out, Tensor) else None,
            gradients(api),
        )
    )
    if result is None or not result.is_half or policy is Policy.VIEW:
        return result
    if sensitivity == "softmax" and enabled_region(around) is None:
        return replace(result, softened=api.place(node))
    return replace(result, softened=softened) if softened is not None else result


# results ---------------------------------------------------------------------------------------------------------


def _result(api: Api, run: Run, policy: Policy, region: Region | None, node: Node) -> Tensor | None:
    first = run.values[0] if run.values else None
    if policy is Policy.INTEGER:
        return INTEGER_TENSOR
    if policy is Policy.VIEW:
        if isinstance(first, Sequence):
            return promoted(first.items)
        return first.moved() if isinstance(first, Tensor) else None
    if ops.is_in_place(run.name):
        return first if isinstance(first, Tensor) else None
    if run.plain in ops.TO_COMPLEX:
        return Tensor(DType.COMPLEX)
    if any(value.dtype is DType.COMPLEX for value in run.tensors):
        return Tensor(DType.COMPLEX) if run.plain not in ops.TO_REAL else None
    if any(value.dtype is DType.FLOAT64 for value in run.tensors):
        return Tensor(DType.FLOAT64)
    if policy is Policy.FACTORY:
        return Tensor(default_dtype(api))
    integers = bool(run.tensors) and all(value.dtype is DType.INTEGER for value in run.tensors)
    if region is not None and policy is Policy.LOWER:
        return None if integers else _lowered(api, region, node)
    if region is not None and policy in (Policy.FLOAT32, Policy.BANNED):
        return None if integers else FLOAT32_TENSOR
    if policy is Policy.LOWER and run.weights is not None:
        # outside a region a layer runs in the type of its weights, or raises
        return Tensor(run.weights)
    return _in_own_type(run, policy)


def _in_own_type(run: Run, policy: Policy) -> Tensor | None:
    """The result of an op that autocast does not cast."""
    flat = [
        item for value in run.values for item in (value.items if isinstance(value, Sequence) else (value,))
    ]
    if policy in (Policy.PROMOTE, Policy.LOWER):
        return promoted(flat)
    if policy is Policy.UNTOUCHED:
        return promoted(flat[:2])
    # losses that compare two tensors promote them; others follow their first operand
    two = run.plain in ops.loss_ops() and run.plain not in ops.INTEGER_TARGETS
    if flat and isinstance(flat[0], (Constant, Number)):  # ``10_000 ** x``
        return promoted([value for value in run.tensors if is_floating(value)][:1])
    return promoted(flat if two else flat[:1])


def _lowered(api: Api, region: Region, node: Node) -> Tensor:
    dtype = region.dtype or DType.HALF
    return Tensor(dtype, born=api.place(node), born_in=region) if dtype.is_half else Tensor(dtype)


def promoted(values: Iterable[Value]) -> Tensor | None:
    """What native type promotion makes of the operands, or None where it is not known."""
    values = tuple(values)
    tensors = [value for value in values if isinstance(value, Tensor)]
    unknown = any(isinstance(value, (Unknown, Parameters, Instance, Choice, Gradient)) for value in values)
    floating = [value for value in tensors if value.dtype is not None and value.dtype.is_floating]
    if any(value.dtype is DType.COMPLEX for value in tensors):
        return Tensor(DType.COMPLEX)
    for wide in (DType.FLOAT64, DType.FLOAT32):
        if any(value.dtype is wide for value in floating):
            return Tensor(wide) if not _may_not_count(floating, wide) else Tensor()
    if unknown or any(value.dtype is None for value in tensors):
        return None
    if len({value.dtype for value in floating}) > 1 and not any(
        value.dtype is DType.HALF for value in floating
    ):
        return FLOAT32_TENSOR
    if floating:
        likely = next((value for value in floating if value.certainty is Certainty.LIKELY), None)
        told = next((value for value in floating if value.born is not None), None)
        return new_like(likely or told or floating[0])
    if tensors and all(value.dtype is DType.INTEGER for value in tensors):
        return INTEGER_TENSOR
    return None


def _may_not_count(floating: list[Tensor], wide: DType) -> bool:
    """Whether all that is wide has one element: a tensor without dimensions does not widen one that has some, and of
    the others that is not known."""
    others = [value for value in floating if value.dtype is not wide]
    return any(value.trait != "scalar" for value in others) and all(
        value.trait == "scalar" for value in floating if value.dtype is wide
    )


def new_like(value: Tensor) -> Tensor:
    """A new tensor of the same type: it is half for the same reason."""
    return replace(
        value, raised=None, parameter_of=None, whole_output=False, softened=None, trait=None, terms=()
    )


def is_floating(value: Value) -> bool:
    """Whether a value is a tensor of a floating type that is known."""
    return isinstance(value, Tensor) and value.dtype is not None and value.dtype.is_floating


def _on_the_cpu(run: Run) -> bool:
    """Whether an operand was moved to the CPU, where regions of other devices have no say."""
    return any(value.device == "cpu" for value in run.tensors) or any(
        isinstance(node, Call)
        and isinstance(node.function, Attribute)
        and node.function.name == "cpu"
        and not node.arguments
        for node in run.nodes
    )


# traits ----------------------------------------------------------------------------------------------------------


def _trait(api: Api, run: Run, result: Tensor, node: Node) -> Trait | None:
    """What the op leaves of itself in its result; see events.Trait."""
    small = run.small if run.plain in GUARDS else None
    if result.is_half and (small is not None or run.below_one is not None):
        pairs = zip(run.nodes, run.values, strict=False)
        guarded = next((piece for piece, value in pairs if isinstance(value, Tensor)), None)
        tensor = api.place(guarded) if guarded is not None else None
        return Guard(api.place(node), small, tensor, run.below_one)
    if result.is_half and run.plain in DIFFERENCES and run.values[0] in (Constant(1), Constant(1.0)):
        return rest_to_one(run.tensors[0].trait)
    if run.plain in SQUARING and _squares(run) and not _skips_autocast(api, run):
        return "square"
    left = [value.trait for value in run.tensors]
    if run.values and isinstance(run.values[0], Unknown) and _is_square(run.values[0].symbol):
        left.insert(0, "square")
    return left_by(run.plain, left, result.is_half)


def _skips_autocast(api: Api, run: Run) -> bool:
    """Whether the op that gives a new tensor would run in float32: what is wrong is that this one is in place."""
    return ops.is_in_place(run.name) and policy_of(api, run.plain, None) == "float32"


def _squares(run: Run) -> bool:
    """``x ** 2``, ``x * x``."""
    second = run.values[1] if len(run.values) > 1 else None
    if run.plain == "square" or (run.plain in ("__pow__", "pow") and second in (Constant(2), Constant(2.0))):
        return True
    first = run.values[0] if run.values else None
    if not isinstance(first, Tensor) or first != second or len(run.nodes) < 2:
        return False
    return same_expression(run.nodes[0], run.nodes[1])


def _is_square(name: Symbol) -> bool:
    """Whether something unknown is ``x * x`` or ``x ** 2`` of another unknown."""
    if name.parts[0] != COMPUTED or len(name.parts) != 4:
        return False
    operator, left, right = name.parts[1:4]
    return (operator == "*" and left is right) or (
        operator == "**" and right == symbol("constant", Constant(2))
    )


def same_expression(one: Node, other: Node) -> bool:
    """Whether two expressions are written alike."""
    if one is other:
        return True
    if type(one) is not type(other) or isinstance(one, Lambda):
        return False
    return all(
        _same_part(getattr(one, part.name), getattr(other, part.name))
        for part in fields(one)
        if part.name != "number"
    )


def _same_part(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same_part, one, other))
    if isinstance(one, Node) and isinstance(other, Node):
        return same_expression(one, other)
    if isinstance(one, Argument) and isinstance(other, Argument):
        return (one.keyword, one.star) == (other.keyword, other.star) and same_expression(
            one.value, other.value
        )
    return type(one) is type(other) and one == other


MOST_CHOICES = 4
"""So many of several values may be one of two or more, if each combination is to be looked at."""


def resolved(
    api: Api, values: tuple[Value, ...], function: Callable[[tuple[Value, ...]], Value], node: Node
) -> Value:
    """Calls a function with values none of which depends on the path, for each combination of them."""
    if sum(isinstance(value, Choice) for value in values) > MOST_CHOICES:
        return api.unknown(node)
    index = next((number for number, value in enumerate(values) if isinstance(value, Choice)), None)
    if index is None:
        return function(values)
    before, after = values[:index], values[index + 1 :]
    return api.each(values[index], lambda one: resolved(api, (*before, one, *after), function, node))


def small_constant(name: str, rest: tuple[Value, ...], arguments: Arguments) -> float | None:
    """The small number that a method or function is given after its tensor, such as the minimum of a clamp."""
    if plain_name(name) not in GUARDS:
        return None
    for value in (*rest[:1], arguments.keyword("min"), arguments.keyword("other")):
        if isinstance(value, Constant) and isinstance(value.value, float) and 0 < value.value < SMALL:
            return value.value
    return None


def below_one(name: str, rest: tuple[Value, ...], arguments: Arguments) -> float | None:
    """The number a little below 1 to which a method or function clamps its tensor from above."""
    position = UPPER_BOUNDS.get(plain_name(name))
    if position is None:
        return None
    value = arguments.keyword("max") or next(iter(rest[position:]), None)
    return traits.below_one(value.value) if isinstance(value, Constant) else None


def write(api: Api, value: Value, how: str, node: Node) -> None:
    """Tells that a leaf is written in place."""
    if isinstance(value, Parameters):
        parameters.written(api, value.module, how, node)
        return
    value = parameters.current(api, value)
    if isinstance(value, Tensor) and value.dtype is DType.FLOAT32:
        parameters.written(api, value.parameter_of, how, node)
