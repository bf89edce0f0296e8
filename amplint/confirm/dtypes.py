"""Types of torch as events name them."""

from __future__ import annotations

import torch

from amplint.events import DType

HALF = (torch.float16, torch.bfloat16)
_DTYPES: dict[torch.dtype, DType] = {
    torch.float64: DType.FLOAT64,
    torch.float32: DType.FLOAT32,
    torch.float16: DType.FLOAT16,
    torch.bfloat16: DType.BFLOAT16,
    torch.complex64: DType.COMPLEX,
    torch.complex128: DType.COMPLEX,
    torch.complex32: DType.COMPLEX,
    **dict.fromkeys(
        (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool), DType.INTEGER
    ),
}


def named(dtype: torch.dtype | None) -> DType | None:
    """The type as events name it; None for none, and for types that AMP does not know."""
    return _DTYPES.get(dtype) if dtype is not None else None
