"""What is known of torch's functions by their names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from amplint.amp import ops
from amplint.amp.ops import Policy
from amplint.amp.scalers import COMBINES, JOINS, KEEPS, LIMITS, NORMS
from amplint.confirm.release import TORCH

CASTS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "long": torch.int64,
    "int": torch.int32,
    "bool": torch.bool,
    "short": torch.int16,
    "byte": torch.uint8,
    "char": torch.int8,
}
"""Methods that cast, and to what."""
_SPELLINGS = {
    "__rdiv__": "__rtruediv__",
    "__idiv__": "__itruediv__",
    "div_": "__itruediv__",
}
_LOOKS = frozenset(
    {
        "__set__",
        "__delete__",
        "__repr__",
        "__str__",
        "__format__",
        "__hash__",
        "__len__",
        "__bool__",
        "__dir__",
        "__reduce_ex__",
        "__deepcopy__",
        "size",
        "dim",
        "numel",
        "nelement",
        "stride",
        "storage",
        "storage_offset",
        "untyped_storage",
        "element_size",
        "is_contiguous",
        "get_device",
        "is_floating_point",
        "is_complex",
        "data_ptr",
        "register_hook",
        "retain_grad",
        "requires_grad_",
        "is_pinned",
        "has_names",
        "is_same_size",
        "backward",
        "numpy",
        "__array__",
        "item",
        "tolist",
        "detach_",
        "set_",
    }
)
"""Functions that look at a tensor, without computing from it."""
_FILLERS = frozenset({"fill_", "uniform_", "normal_"})
"""Functions that fill a tensor, whatever it held."""
_ARITHMETIC = frozenset(
    {"__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "neg"}
)


@dataclass(frozen=True)
class Function:
    """What is known of a function of torch."""

    name: str
    plain: str
    in_place: bool
    cuda: Policy | None
    cpu: Policy | None
    sensitivity: str | None
    weights: str | None
    weights_on_cpu: str | None
    casts: bool
    method: bool
    keeps_scale: bool
    norm: bool
    """Whether its result is as many times too large as a gradient is that was not unscaled."""
    limits: bool
    writes: bool = False
    """Whether it changes its first argument."""

    def policy(self, cpu: bool) -> Policy | None:
        """What autocast does to it."""
        return self.cpu if cpu else self.cuda


def described(func: Any) -> Function | None:
    """What is known of a function; None of one that only looks at tensors, or has no name."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return _PROPERTIES.get(getattr(func.__self__, "__name__", ""))
    if name == "__set__" and getattr(func.__self__, "__name__", "") == "data":
        return REPLACES
    return _named(func, name) if name and name not in _LOOKS else None


def _named(func: Any, name: str) -> Function:
    name = _SPELLINGS.get(name, name)
    in_place = ops.is_in_place(name)
    plain = ops.plain_name(name)
    if in_place:
        plain = f"__{plain[3:]}" if plain.startswith("__i") else plain[:-1]
    filler = name in _FILLERS
    method = hasattr(Tensor, name) and getattr(Tensor, name) is not None and _is_method(func)
    return Function(
        name,
        plain,
        in_place,
        None if filler else ops.policy_of(plain, "cuda", TORCH),
        None if filler else ops.policy_of(plain, "cpu", TORCH),
        ops.sensitivity_of(plain),
        ops.weights_meet_half(plain, TORCH),
        ops.weights_meet_half(plain, TORCH, "cpu"),
        name in CASTS or name in ("to", "type"),
        method,
        plain in KEEPS | COMBINES | JOINS or plain in _ARITHMETIC,
        plain in NORMS,
        name in LIMITS,
        in_place or name == "__setitem__",
    )


def _view(name: str) -> Function:
    return Function(
        name, name, False, Policy.VIEW, Policy.VIEW, None, None, None, False, False, True, False, False
    )


GRADIENT = _view("grad")
_PROPERTIES = {name: _view(name) for name in ("data", "T", "mT", "H", "mH", "real", "imag")} | {
    "grad": GRADIENT,
}
"""Attributes of tensors that are tensors."""
DATA = _PROPERTIES["data"]
REPLACES = replace(_view("data ="), in_place=True, writes=True)


def _is_method(func: Any) -> bool:
    return "Tensor" in getattr(func, "__qualname__", "")
