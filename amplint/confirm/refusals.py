"""What the kernels of CUDA refuse and those of the CPU take, seen on a device with torch 2.11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amplint.confirm.placement import device_of

_aten = torch.ops.aten
_NAMES = {
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
}


def refuse(func: Any, args: tuple[Any, ...]) -> None:
    """Raises what an op raises on CUDA and not on the CPU: ``refuse(aten.native_layer_norm.default, args)``.

    Raises:
        RuntimeError: operands of these types must not meet on CUDA. NotImplementedError, where there is no kernel.
    """
    check = _CHECKS.get(func)
    if check is not None:
        check(*args)


def _named(tensor: Tensor) -> str:
    return _NAMES.get(tensor.dtype, str(tensor.dtype))


def _on_cuda(*tensors: Tensor) -> bool:
    return all(device_of(tensor).type == "cuda" for tensor in tensors)


def _unscale(gradients: list[Tensor], *rest: Any) -> None:
    """A scaler knows no bfloat16: neither in 2.11 nor in 2.14 is there such a kernel in torch's library for CUDA."""
    if any(one.dtype is torch.bfloat16 and _on_cuda(one) for one in gradients):
        raise NotImplementedError(
            "\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'"
        )


def _normalise(given: Tensor, weight: Tensor | None) -> None:
    if weight is not None and given.dtype is not weight.dtype and _on_cuda(given, weight):
        raise RuntimeError(f"expected scalar type {_named(given)} but found {_named(weight)}")


def _layer_norm(given: Tensor, shape: Any, weight: Tensor | None = None, *rest: Any) -> None:
    _normalise(given, weight)


def _group_norm(given: Tensor, weight: Tensor | None = None, *rest: Any) -> None:
    _normalise(given, weight)


def _index_put(target: Tensor, indices: Any, value: Tensor, *rest: Any) -> None:
    """One element fills a mask only if it is on the CPU."""
    if value.dtype is not target.dtype and value.numel() == 1 and _on_cuda(target, value):
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, "
            f"got {_named(target)} for the destination and {_named(value)} for the source."
        )


_CHECKS: dict[Any, Callable[..., None]] = {
    _aten._amp_foreach_non_finite_check_and_unscale_.default: _unscale,
    _aten.native_layer_norm.default: _layer_norm,
    _aten.native_group_norm.default: _group_norm,
    _aten.index_put_.default: _index_put,
    _aten.index_put.default: _index_put,
    _aten._index_put_impl_.default: _index_put,
}
