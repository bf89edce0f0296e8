"""Types of tensors as values: ``torch.float16``, ``x.dtype == torch.bfloat16``, ``torch.finfo(x.dtype).min``."""

from __future__ import annotations

from collections.abc import Iterable

from amplint.amp.ops import INTEGERS
from amplint.amp.tokens import HALF
from amplint.events import DType
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch.autocast_state import knows_of_autocast
from amplint.flow.models.torch.notes import DefaultType
from amplint.flow.models.torch.values import DTypeValue, TypeInfo
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import Condition, asked, negation
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import NONE, Constant, External, Value
from amplint.lowering.program import Node

models = Registry(constants={DTypeValue})

DTYPES = {
    "float32": DType.FLOAT32,
    "float": DType.FLOAT32,
    "float64": DType.FLOAT64,
    "double": DType.FLOAT64,
    "float16": DType.FLOAT16,
    "half": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    **dict.fromkeys(INTEGERS, DType.INTEGER),
    "complex32": DType.COMPLEX,
    "chalf": DType.COMPLEX,
    "complex64": DType.COMPLEX,
    "cfloat": DType.COMPLEX,
    "complex128": DType.COMPLEX,
    "cdouble": DType.COMPLEX,
}
"""Names below ``torch``."""
TENSOR_TYPES = {
    "FloatTensor": DType.FLOAT32,
    "DoubleTensor": DType.FLOAT64,
    "HalfTensor": DType.FLOAT16,
    "BFloat16Tensor": DType.BFLOAT16,
    "LongTensor": DType.INTEGER,
    "IntTensor": DType.INTEGER,
    "ShortTensor": DType.INTEGER,
    "CharTensor": DType.INTEGER,
    "ByteTensor": DType.INTEGER,
    "BoolTensor": DType.INTEGER,
}
"""The old names of types with their devices: ``torch.cuda.HalfTensor``."""
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
LARGEST = {dtype: limits["max"] for dtype, limits in _LIMITS.items()}
"""The largest number of each type; beyond it the ops of ``ops.FILLS`` raise."""
LARGEST[DType.HALF] = LARGEST[DType.FLOAT16]
_SIZES = {DType.FLOAT64: 8, DType.FLOAT32: 4, DType.FLOAT16: 2, DType.BFLOAT16: 2, DType.HALF: 2}
_OTHER_NAMES = {"smallest_normal": "tiny", "min": "max"}

_IS_FLOAT16 = is_true(symbol("the half-precision type is float16"))
"""Asked where the region of a tensor runs in one of the two half types, nobody knows which."""
_DEFAULT: Symbol = symbol("the default type of tensors")

models.about("torch.float16", "torch.half", "torch.bfloat16", weight=Weight.ENTRY, tags=(HALF,))


def _of_name(api: Api, base: Value, name: str, node: Node | None) -> Value:
    """``torch.float16``."""
    return DTypeValue(DTYPES[name.rpartition(".")[2]])


for _name in DTYPES:
    models.externals[f"torch.{_name}"] = _of_name


def dtype_in(value: Value | None) -> DTypeValue | None:
    """The type that an argument names: ``torch.float16``, ``x.dtype``, ``torch.cuda.HalfTensor`` or its name in
    quotes."""
    match value:
        case DTypeValue():
            return value
        case External() | Constant(value=str()):
            name = value.name if isinstance(value, External) else str(value.value)
            known = TENSOR_TYPES.get(name.rpartition(".")[2])
            return DTypeValue(known) if known is not None and name.startswith("torch.") else None
    return None


def asked_of(arguments: Arguments, others: Iterable[Value]) -> Value | None:
    """The type that an op is asked to compute in: ``dtype=torch.float32``, or the one among its other operands, as in
    ``torch.log_softmax(x, 1, torch.float32)``."""
    asked = arguments.keyword("dtype")
    return asked if asked is not None else next((one for one in others if isinstance(one, DTypeValue)), None)


def default_dtype(api: Api) -> DType | None:
    """The type of new tensors for which no type is asked, or None where that is not known."""
    if not api.notes(_DEFAULT, DefaultType):
        return DType.FLOAT32
    note = api.note(_DEFAULT, DefaultType)
    return note.dtype if note is not None else None


@models.call("torch.set_default_dtype", "torch.set_default_tensor_type")
def _set_default(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    dtype = dtype_in(arguments.get(0, "d" if name.endswith("dtype") else "t"))
    api.set_note(_DEFAULT, DefaultType(dtype.dtype if dtype is not None else None))
    return NONE


@models.call("torch.get_default_dtype")
def _get_default(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    dtype = default_dtype(api)
    return DTypeValue(dtype) if dtype is not None else api.unknown(node)


# questions about types -------------------------------------------------------------------------------------------


@models.into(models.operators, DTypeValue)
def _compare(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``x.dtype == torch.float16``."""
    if operator not in ("==", "!=", "is") or right is None:
        return None
    if not isinstance(left, DTypeValue) or not isinstance(right, DTypeValue):
        return None
    same = _same(left.dtype, right.dtype)
    return same if operator != "!=" else negation(same)


def _same(left: DType, right: DType) -> Condition:
    """Whether two types are the same."""
    if left is not right and DType.HALF in (left, right) and left.is_half and right.is_half:
        is_float16 = asked(_IS_FLOAT16)
        return is_float16 if DType.FLOAT16 in (left, right) else negation(is_float16)
    return Constant(left is right)


@models.into(models.attributes, DTypeValue)
def _of_dtype(api: Api, base: DTypeValue, name: str, node: Node) -> Value | None:
    match name:
        case "is_floating_point":
            return Constant(base.dtype.is_floating)
        case "is_complex":
            return Constant(base.dtype is DType.COMPLEX)
        case "itemsize":
            size = _SIZES.get(base.dtype)
            return Constant(size) if size is not None else api.number(node)
    return None


@models.call("torch.finfo", "torch.iinfo")
def _info(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.finfo(x.dtype)``."""
    given = arguments.get(0, "type")
    dtype = given.dtype if isinstance(given, DTypeValue) else None
    if given is None:
        dtype = default_dtype(api)
    return TypeInfo(dtype if name == "torch.finfo" else None)


@models.into(models.attributes, TypeInfo)
def _limit(api: Api, base: TypeInfo, name: str, node: Node) -> Value:
    """``torch.finfo(torch.float16).min``."""
    limits = _LIMITS.get(base.dtype) if base.dtype is not None else None
    known = limits.get(_OTHER_NAMES.get(name, name)) if limits is not None else None
    if known is None:
        return api.number(node)
    return Constant(-known if name == "min" else known)


@models.call("torch.promote_types", "torch.result_type")
def _promoted(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    types = [value.dtype for value in arguments.positional if isinstance(value, DTypeValue)]
    for wide in (DType.FLOAT64, DType.FLOAT32):
        if name.endswith("promote_types") and wide in types:
            return DTypeValue(wide)
    return api.unknown(node)


def is_asked(api: Api) -> bool:
    """Whether the code on this path has asked what half type it deals with: it knows what it does from there on."""
    return api.known_truth(asked(_IS_FLOAT16)) is not None or knows_of_autocast(api)
