"""What an operand may be besides the tensor of half precision or float32 that most ops meet: a cast to float32 would
change it, or raise."""

from __future__ import annotations

from amplint.events import DType
from amplint.flow.core.registry import Registry
from amplint.flow.models.torch.values import Tensor
from amplint.flow.state.values import Constant, Mapping, Number, Sequence, Value

models = Registry()

_ODD_TYPES = {
    DType.FLOAT64: "float64",
    DType.COMPLEX: "complex",
    DType.INTEGER: "a tensor of integers or booleans",
}


@models.into(models.odd, Tensor)
def _odd_tensor(value: Value) -> str | None:
    assert isinstance(value, Tensor)
    return _ODD_TYPES.get(value.dtype) if value.dtype is not None else None


@models.into(models.odd, Constant, Number)
def _odd_constant(value: Value) -> str | None:
    constant = value.value if isinstance(value, Constant) else 0
    if constant is None:
        return "None"
    return "a number" if isinstance(constant, int | float) else None


@models.into(models.odd, Sequence, Mapping)
def _odd_collection(value: Value) -> str | None:
    return "a dictionary" if isinstance(value, Mapping) else "a tuple or list"
