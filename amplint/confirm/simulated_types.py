"""The classes of tensors on CUDA while that is simulated, ``torch.cuda.FloatTensor`` and the others, which older code
makes, converts and asks by."""

from __future__ import annotations

from typing import Any

import torch

from amplint.confirm.patches import Patches
from amplint.confirm.placement import CPU, cuda, device_of

_TENSOR_TYPE = type(torch.FloatTensor)


class CudaType(type):
    """The class of tensors of one dtype on CUDA, as ``torch.cuda.FloatTensor``: no tensor is an object of it by its
    Python class, but ``isinstance`` says so of those whose dtype and device it has."""

    dtype: torch.dtype
    is_cuda = True
    is_sparse = False
    layout = torch.strided

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and (instance.dtype, device_of(instance).type) == (
            cls.dtype,
            "cuda",
        )

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        kwargs.pop("device", None)
        made: torch.Tensor = getattr(torch, cls.__name__)(*args, **kwargs)
        return made.to(cuda())

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def install(patches: Patches) -> None:
    """Puts a class in the place of each of torch's, which needs a device."""
    for name, value in list(vars(torch.cuda).items()):
        if isinstance(value, _TENSOR_TYPE):
            patches.set(
                torch.cuda, name, CudaType(name, (), {"__module__": "torch.cuda", "dtype": value.dtype})
            )
    patches.wrap(torch, "set_default_tensor_type", _set_default)


def device_and_dtype(kind: Any) -> tuple[torch.device, torch.dtype] | None:
    """Device and dtype of a class of tensors, or of its name; None of what is a dtype."""
    if isinstance(kind, CudaType):
        return cuda(), kind.dtype
    if isinstance(kind, str):
        where, _, name = kind.removeprefix("torch.").rpartition(".")
        return cuda() if where else CPU, getattr(torch, name).dtype
    return None


def _set_default(original: Any) -> Any:
    def set_default_tensor_type(kind: Any) -> None:
        found = device_and_dtype(kind)
        if found is None or found[0] is CPU:
            original(kind)
            if device_of(torch.empty(0)).type == "cuda":
                torch.set_default_device(None)
        else:
            torch.set_default_dtype(found[1])
            torch.set_default_device(found[0])

    return set_default_tensor_type
