"""Tensors as objects: their methods, attributes, operators and items in a loop."""

from __future__ import annotations

from dataclasses import replace

from amplint.amp import ops
from amplint.amp.ops import Policy
from amplint.amp.traits import SMALL
from amplint.events import Converted, DType, Guard, Op, enabled_region
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.averages import changed
from amplint.flow.models.torch.casts import CASTS, MOVES
from amplint.flow.models.torch.dtypes import asked_of, dtype_in
from amplint.flow.models.torch.indexing import fill, put
from amplint.flow.models.torch.losses import MAYBE_SCALED
from amplint.flow.models.torch.notes import Frozen
from amplint.flow.models.torch.operations import (
    Run,
    apply,
    below_one,
    name_of_result,
    new_like,
    operand,
    plain_name,
    policy_of,
    small_constant,
    write,
)
from amplint.flow.models.torch.shapes import shape_of, size_of
from amplint.flow.models.torch.values import (
    INTEGER_TENSOR,
    DeviceValue,
    DTypeValue,
    Gradient,
    Parameters,
    Scale,
    ScaledGradient,
    ScaledLoss,
    Tensor,
)
from amplint.flow.models.torch.weights import current, replace_data
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import asked
from amplint.flow.state.values import FALSE, NONE, Constant, Number, Sequence, Unknown, Value
from amplint.lowering.program import Attribute, AugmentedAssign, Binary, Call, Name, Node

models = Registry()

_NUMBERS = frozenset({"item", "tolist", "dim", "numel", "nelement", "stride", "element_size", "get_device"})
_NUMBERS_OF_PYTHON = frozenset({"__float__", "__int__", "__len__", "__index__", "__bool__"})
_NOT_TENSORS = frozenset(
    {
        "storage",
        "untyped_storage",
        "is_contiguous",
        "data_ptr",
        "register_hook",
        "retain_grad",
        "__format__",
        "__str__",
    }
)
_NO_WRITES = frozenset({"requires_grad_", "detach_", "share_memory_"})
PAIRS = frozenset({"topk", "sort", "max", "min", "median", "mode", "kthvalue", "cummax", "cummin"})
"""Ops that give values and their positions, ``max`` and the like where a dimension is named."""
CUTS = frozenset({"chunk", "split", "unbind", "tensor_split", "unsafe_chunk", "hsplit", "vsplit", "dsplit"})
"""Ops that give a tuple of pieces."""
WHOLE = frozenset({"sum", "mean", "prod", "max", "min", "amax", "amin", "var", "std", "norm", "median"})
"""Reductions that leave one element where no dimension is named."""
_UNKNOWN_FACTS = frozenset(
    {"requires_grad", "grad_fn", "is_leaf", "layout", "names", "is_sparse", "is_quantized"}
)
_NUMBER_FACTS = frozenset({"ndim", "itemsize", "nbytes", "output_nr", "_version"})
_PARTS = frozenset({"real", "imag"})
_VIEWS = frozenset({"T", "mT", "H", "mH", "data", *_PARTS})
_OF_DICTIONARIES = frozenset({"get", "pop", "keys", "values", "items", "to_tuple"})
_OPERATORS = {
    "+": "__add__",
    "-": "__sub__",
    "*": "__mul__",
    "/": "__truediv__",
    "//": "__floordiv__",
    "%": "__mod__",
    "**": "__pow__",
    "@": "__matmul__",
    "&": "__and__",
    "|": "__or__",
    "^": "__xor__",
    "<<": "__lshift__",
    ">>": "__rshift__",
}
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


# attributes ------------------------------------------------------------------------------------------------------


@models.into(models.attributes, Tensor)
def _attribute(api: Api, base: Tensor, name: str, node: Node) -> Value | None:
    """``x.dtype``, ``x.T``; of what a module out of sight gave back, ``out.logits`` is anything."""
    match name:
        case "dtype":
            dtype = _typed(api, base).dtype
            return DTypeValue(dtype, of_tensor=True) if dtype is not None else api.unknown(node)
        case "shape":
            return shape_of(api, base, node)
        case "device":
            return DeviceValue(base.device)
        case "is_cuda":
            return _is_cuda(api, base, node)
        case "grad":
            owner = base.parameter_of
            return Gradient(owner) if owner is not None else api.unknown(node, MAYBE_SCALED)
    if name in _NUMBER_FACTS:
        return api.number(node)
    if name in _UNKNOWN_FACTS:
        return api.unknown(node)
    if name in _PARTS and base.dtype is DType.COMPLEX:
        return api.unknown(node)
    if name in _VIEWS:
        return base.moved()
    if base.whole_output and not _is_called(node, name):
        return api.unknown(node)
    return None


def _is_cuda(api: Api, base: Tensor, node: Node) -> Value:
    """``x.is_cuda``. In a region that is on, a tensor of which nothing is known is on its device: on another one the
    region would do nothing."""
    region = enabled_region(regions(api))
    device = base.device or (region.device if region is not None else None)
    return Constant(device == "cuda") if device is not None else api.unknown(node)


def _typed(api: Api, value: Tensor) -> Tensor:
    found = current(api, value)
    assert isinstance(found, Tensor)
    return found


def _is_called(node: Node, name: str) -> bool:
    """Whether a name may be that of a method of tensors."""
    return name in _OF_DICTIONARIES or plain_name(name) in ops.table()["ops"] or name in _KNOWN_METHODS


@models.into(models.stores, Tensor)
def _set(api: Api, base: Tensor, name: str, value: Value, node: Node) -> bool:
    """``x.data = y`` writes in place, and may change the type."""
    if name == "data":
        write(api, base, ".data =", node)
        changed(api, base, name, Arguments((value,)), node)
        if base.parameter_of is not None:
            replace_data(api, base.parameter_of, value, node)
    elif name == "requires_grad" and base.parameter_of is not None:
        api.set_note(base.parameter_of, Frozen(value == FALSE))
    return name in ("data", "requires_grad")


@models.into(models.iterations, Tensor)
def _row(api: Api, value: Tensor, node: Node) -> Value:
    """``for row in x``. The parts of what a module out of sight gave back are anything."""
    if value.whole_output:
        return api.unknown(node)
    if value.dtype in (None, DType.INTEGER):
        return replace(value, trait="scalar")
    return value


@models.into(models.truths, Tensor)
def _truth(api: Api, value: Tensor) -> Value:
    """``if torch.isnan(loss):``."""
    return asked(is_true(value.name)) if value.name is not None else api.truth_of_data()


# operators -------------------------------------------------------------------------------------------------------


@models.into(models.operators, Tensor)
def _operate(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``x + y``, ``x += y``, ``-x``, ``x < y``."""
    if any(isinstance(value, (ScaledLoss, ScaledGradient, Gradient, Scale)) for value in (left, right)):
        return None
    if operator in _COMPARISONS:
        return replace(INTEGER_TENSOR, name=name_of_result(operator, (left, right)))
    if right is None:
        name = {"neg": "neg", "pos": "positive", "invert": "__invert__"}.get(operator)
        return apply(api, Run(name, (left,), _sides(node)[:1]), node) if name is not None else None
    if operator.endswith("=") and operator[:-1] in _OPERATORS:
        return _augmented(api, _OPERATORS[operator[:-1]], left, right, node)
    return binary(api, _OPERATORS[operator], left, right, node) if operator in _OPERATORS else None


@models.into(models.operators, Unknown)
def _of_unknowns(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``a @ b``: nothing but arrays is multiplied so."""
    if operator in ("@", "@=") and right is not None:
        return binary(api, "__matmul__", left, right, node)
    return None


def _sides(node: Node) -> tuple[Node, ...]:
    """The expressions on both sides of an operator."""
    match node:
        case Binary():
            return node.left, node.right
        case AugmentedAssign():
            return node.target, node.value
    operand_node = getattr(node, "operand", None)
    return (operand_node,) if isinstance(operand_node, Node) else (node, node)


def binary(api: Api, name: str, left: Value, right: Value, node: Node) -> Value:
    """``left op right`` where one side is a tensor, or ``@``. What is not known may be a tensor: then the op is that of
    two tensors, ``__truediv__``, and not the reciprocal that torch computes of ``1 / x``."""
    if isinstance(left, (Constant, Number)):
        name = {"__pow__": "__rpow__", "__truediv__": "__rtruediv__"}.get(name, name)
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
    return apply(api, Run(name, (left, right), _sides(node), small=small), node)


def _augmented(api: Api, name: str, target: Value, value: Value, node: Node) -> Value | None:
    """``target op= value``."""
    write(api, target, "an assignment in place", node)
    if name == "__matmul__":
        # tensors have no __imatmul__: x @= y is x = x @ y
        return binary(api, name, target, value, node)
    if isinstance(target, Tensor):
        small = value.value if isinstance(value, Constant) and isinstance(value.value, float) else None
        small = small if small is not None and 0 < small < SMALL else None
        run = Run(f"__i{name[2:]}", (target, value), _sides(node), small=small)
        result = apply(api, run, node)
        changed(api, target, run.name, Arguments((value,)), node)
        return result if isinstance(result, Tensor) else target
    if isinstance(target, (Constant, Number)) and isinstance(value, Tensor):
        return _accumulated(api, value, node)
    return binary(api, name, target, value, node)


def _accumulated(api: Api, value: Tensor, node: Node) -> Value:
    """``total += x`` where total is a number so far: the sum is kept in the type of the tensor."""
    value = _typed(api, value)
    if value.is_half and api.in_loop:
        operands = (operand(api, value, _sides(node)[-1]),)
        event = Op(api.place(node), regions(api), "accumulate", operands, value.dtype, None, "accumulation")
        api.emit(event)
    return replace(value, whole_output=False)


# methods ---------------------------------------------------------------------------------------------------------


@models.method(Tensor)
def _method(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """A method of a tensor, one of a name that has no model of its own."""
    found = method(api, base, name, arguments, node)
    return found if found is not None else api.unknown(node)


def receiver_of(node: Node) -> Node:
    """The expression on which a method is called."""
    if isinstance(node, Call) and isinstance(node.function, Attribute):
        return node.function.value
    return node


@models.method(Tensor, "numpy", "__array__")
def _numpy(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    left_torch(api, base, receiver_of(node), node)
    return api.unknown(node)


def left_torch(api: Api, value: Tensor, written: Node, node: Node) -> None:
    """Tells that a tensor becomes an array of numpy."""
    api.emit(Converted(api.place(node), regions(api), operand(api, value, written), "numpy"))


@models.method(Tensor, "size")
def _size(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    return size_of(api, base, arguments, node)


@models.method(Tensor, "requires_grad_")
def _requires_gradients(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    off = arguments.all == (FALSE,)
    if base.parameter_of is not None:
        api.set_note(base.parameter_of, Frozen(off))
    return base if off else leaf(api, base, node)


def leaf(api: Api, value: Value, node: Node) -> Value:
    """A tensor that takes gradients from here on."""
    if not isinstance(value, Tensor) or value.dtype is not DType.FLOAT32 or value.parameter_of is not None:
        return value
    return replace(value, parameter_of=api.fresh(node, "leaf"))


@models.method(Tensor, "is_floating_point")
def _is_floating(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    dtype = _typed(api, base).dtype
    return Constant(dtype.is_floating) if dtype is not None else api.unknown(node)


@models.method(Tensor, *_OF_DICTIONARIES)
def _part(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``out.get("logits")``: a part of what a module out of sight gave back is anything."""
    return api.unknown(node)


@models.method(Tensor, *CUTS)
def _cut(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    return Sequence((base.moved(),), exact=False)


@models.method(Tensor, *_NUMBERS, *_NUMBERS_OF_PYTHON)
def _number(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    return api.number(node)


@models.method(Tensor, *_NOT_TENSORS)
def _fact(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    return api.unknown(node)


@models.method(Tensor, "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "new_empty_strided")
def _new(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``x.new_zeros(2)`` has the type of x."""
    dtype = arguments.keyword("dtype")
    if dtype is None:
        made = new_like(_typed(api, base))
        if name == "new_full":
            fill(api, name, base, receiver_of(node), arguments, node)
        return made
    known = dtype_in(dtype)
    return Tensor(known.dtype if known is not None else None)


@models.method(Tensor, *PAIRS)
def _pair(api: Api, base: Tensor, name: str, arguments: Arguments, node: Node) -> Value:
    """``x.topk(5)``, ``x.max(dim=1)``, ``x.max()``."""
    apply(api, Run(name, (base,), (receiver_of(node),)), node)
    return paired(base, name, whole=not arguments.all)


def paired(base: Tensor, name: str, *, whole: bool) -> Value:
    """What an op of PAIRS gives; ``whole``: no dimension is named."""
    if whole and name in ("max", "min", "median"):
        return replace(base.moved(), trait="scalar")
    return Sequence((base.moved(), INTEGER_TENSOR))


@models.into(models.attributes, Sequence)
def _part_of_pair(api: Api, pair: Sequence, name: str, node: Node) -> Value | None:
    """``x.max(dim=1).values``: no list or tuple of Python has such attributes."""
    position = _PARTS_OF_PAIRS.get(name, 2)
    return pair.items[position] if pair.exact and position < len(pair.items) == 2 else None


_PARTS_OF_PAIRS = {"values": 0, "indices": 1}


def writes(name: str) -> bool:
    """Whether a method changes the tensor itself."""
    return name.endswith("_") and not name.endswith("__") and name not in _NO_WRITES


def method(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """An op as a method of a tensor, or of an unknown that may be one. None if it is none that is known."""
    receiver = receiver_of(node)
    plain = plain_name(name)
    if isinstance(base, Tensor):
        if writes(name):
            write(api, base, f"{name}()", node)
            changed(api, base, name, arguments, node)
        if plain in ops.FILLS and arguments.keyword("dtype") is None:
            fill(api, name, base, receiver, arguments, node)
    if plain in ops.SOURCES:
        put(api, name, base, receiver, arguments, node)
        if plain is not name:
            return base
    if name in ("argmax", "argmin") and isinstance(base, Tensor) and not arguments.all:
        apply(api, Run(name, (base,), (receiver,)), node)
        return replace(INTEGER_TENSOR, trait="scalar")
    more = tuple(value for key, value in arguments.keywords if key in ("other", "mat2", "exponent"))
    asked = asked_of(arguments, arguments.positional)
    dtype = dtype_in(asked)
    if asked is not None and dtype is None and asked != NONE:
        return Tensor()
    run = Run(
        name,
        (base, *arguments.positional, *more),
        (receiver, *arguments.nodes),
        small=small_constant(name, arguments.positional, arguments),
        below_one=below_one(name, arguments.positional, arguments),
        dtype=dtype.dtype if dtype is not None else None,
    )
    result = apply(api, run, node)
    if name in WHOLE and not arguments.all and isinstance(result, Tensor):
        result = replace(result, trait="scalar")
    guarded = plain is not name and isinstance(result, Tensor) and isinstance(result.trait, Guard)
    if guarded and isinstance(receiver, Name):
        api.assign(receiver, result)  # x.add_(1e-8): from here on x is what was guarded
    return result


# methods of unknowns ---------------------------------------------------------------------------------------------


def _method_names() -> tuple[str, ...]:
    """The ops that are methods, less those that objects of Python have under the same name."""
    names = {name for name in ops.table()["ops"] if "." not in name and not name.startswith("_")}
    return tuple(sorted((names | {f"{name}_" for name in names}) - _OF_OTHERS - CASTS.keys() - MOVES))


_OF_OTHERS = frozenset(
    {"split", "index", "copy", "count", "sort", "round", "set", "type", "to", "view", "size"}
)
_KNOWN_METHODS = frozenset(
    {
        "to",
        "float",
        "half",
        "bfloat16",
        "double",
        "long",
        "int",
        "cpu",
        "cuda",
        "numpy",
        "item",
        "tolist",
        "size",
    }
    | {"detach", "detach_", "clone", "type", "type_as", "requires_grad_", "backward"}
    | {"is_floating_point", *_NUMBERS, *_NUMBERS_OF_PYTHON, *_NOT_TENSORS, *CUTS, *PAIRS}
)


@models.method("", *_method_names())
def _of_unknown(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``x.softmax(-1)``, ``x.matmul(h)``: an unknown that meets a tensor, or of which a method is called in a region
    that nothing else has and that autocast casts."""
    if not any(isinstance(value, (Tensor, Parameters)) for value in arguments.all):
        region = enabled_region(regions(api))
        if region is None or name not in ops.TENSOR_ONLY:
            return None
        if policy_of(api, name, region) not in (Policy.LOWER, Policy.FLOAT32):
            return None
    result = method(api, base, name, arguments, node)
    return result if isinstance(result, Tensor) else None
