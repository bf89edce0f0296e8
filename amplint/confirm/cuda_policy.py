"""CUDA's autocast policy on CPU tensors: kernels for the AutocastCPU key that do what torch's own do on CUDA.

Python kernels bypass the weight cache of torch, so it is here as well, with its staleness: the half copy of a
float32 leaf that requires grad is made once in an outermost region and used again, whatever is written into
the leaf meanwhile.

Products in float16 are computed in float32 from rounded operands, and rounded: the CPU's own float16 kernels
are slow or missing.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Protocol

import torch
from torch import Tensor

from amplint.amp import ops
from amplint.amp.ops import Policy
from amplint.confirm.composites import already_cast
from amplint.confirm.placement import involved
from amplint.confirm.release import RELEASE, TORCH

_APPENDED_DTYPE = {
    "norm.Scalar": "norm.ScalarOpt_dtype",
    "norm.ScalarOpt_dim": "norm.ScalarOpt_dim_dtype",
    "norm.names_ScalarOpt_dim": "norm.names_ScalarOpt_dim_dtype",
}
"""Overloads in whose place autocast calls one that takes a type."""
_BAN = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)
_SAME_ON_CPU = {"cross_entropy_loss": "cross_entropy", "_convolution": "conv2d", "convolution": "conv2d"}
_AFTER = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.AutocastCPU)
_CPU_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


class Switches(Protocol):
    """For which devices autocast is on."""

    cpu: bool
    cuda: bool


class WeightCache:
    """Half copies of weights. They are dropped when the outermost region is left."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def cast(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """A tensor in the region's type."""
        if tensor.dtype is dtype:
            return tensor
        cached = (
            tensor.dtype is torch.float32
            and tensor.requires_grad
            and tensor.is_leaf
            and tensor._base is None
            and torch.is_autocast_cache_enabled()
        )
        if not cached:
            return tensor.to(dtype)
        known = self._copies.get(id(tensor))
        if known is not None and known[0]() is tensor and self._usable(known[1]):
            return known[1]
        copy = tensor.to(dtype)
        self._copies[id(tensor)] = (weakref.ref(tensor), copy)
        return copy

    def _usable(self, copy: Tensor) -> bool:
        # since torch 2.11 a copy made under no_grad is not used where gradients are wanted
        return copy.requires_grad or not torch.is_grad_enabled() or RELEASE < (2, 11)

    def clear(self) -> None:
        """Drops all copies."""
        self._copies.clear()


class CudaPolicy:
    """Installs the policy, until ``close``. ``enabled`` knows for which devices the code has switched autocast on."""

    def __init__(self, enabled: Switches) -> None:
        self._enabled = enabled
        self.cache = WeightCache()
        self._library = torch.library.Library("aten", "IMPL", "AutocastCPU")
        self._is_enabled = torch.is_autocast_enabled
        self._dtype_of = torch.get_autocast_dtype

    def install(self) -> None:
        """Registers a kernel for each overload that has one on CUDA or on the CPU."""
        # releases before 2.8 override without being asked for it
        override = {"allow_override": True} if RELEASE >= (2, 8) else {}
        for name in sorted(name for name in {*_cast_on_cpu(), *_policies()} if _exists(name)):
            op = _overload(name)
            passes = policy_of(name) is None
            kernel = self._only_on_cpu(name, op) if passes else self._kernel(name, op)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch says that it had a kernel before
                self._library.impl(name, kernel, with_keyset=passes, **override)

    def close(self) -> None:
        """Takes the kernels away again."""
        self.cache.clear()
        self._library._destroy()

    def _kernel(self, name: str, op: Any) -> Callable[..., Any]:
        on_cuda = self._on_cuda(name, op)
        on_cpu = self._on_cpu(name, op)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            with torch._C._ExcludeDispatchKeyGuard(_CPU_KEY), torch._C.DisableTorchFunction(), already_cast():
                match self._region_for(args, kwargs):
                    case "cuda":
                        return on_cuda(args, kwargs)
                    case "cpu":
                        return on_cpu(args, kwargs)
                return op(*args, **kwargs)

        return kernel

    def _region_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The device of the region that an op is for: autocast is for tensors on the device that it is on for."""
        on_cuda, on_cpu = involved(args, kwargs)
        # torch itself says that it is on wherever the parts of an op are to meet it, see composites
        if on_cuda and self._enabled.cuda and self._is_enabled("cuda"):
            return "cuda"
        return "cpu" if on_cpu and self._enabled.cpu else ""

    def _only_on_cpu(self, name: str, op: Any) -> Callable[..., Any]:
        """CUDA lets the op pass: what it calls in turn meets autocast."""
        on_cpu = self._on_cpu(name, op)

        def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
            with torch._C.DisableTorchFunction():
                region = self._region_for(args, kwargs)
            if region != "cpu":
                return op.redispatch(keys & _AFTER, *args, **kwargs)
            with torch._C._ExcludeDispatchKeyGuard(_CPU_KEY), torch._C.DisableTorchFunction(), already_cast():
                return on_cpu(args, kwargs)

        return kernel

    def _on_cuda(self, name: str, op: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
        match policy_of(name):
            case "lower" | "recurrent":
                return lambda args, kwargs: self._lower(op, args, kwargs, self._dtype_of("cuda"))
            case "float32":
                return lambda args, kwargs: op(*_map(args, _raise), **_map(kwargs, _raise))
            case "optional_dtype":
                return lambda args, kwargs: _with_dtype(op, args, kwargs)
            case "appended_dtype":
                return partial(_with_appended_dtype, _overload(_APPENDED_DTYPE[name]))
            case "promote":
                return lambda args, kwargs: _promoted(op, args, kwargs, self._dtype_of("cuda"))
        return _refuse

    def _on_cpu(self, name: str, op: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
        """What a region for the CPU does, by the public name of the op."""
        base = name.partition(".")[0]
        policy = ops.policy_of(_SAME_ON_CPU.get(base, base), "cpu", TORCH)
        if name not in _cast_on_cpu():
            policy = None
        if policy is Policy.LOWER:
            return lambda args, kwargs: self._lower(op, args, kwargs, self._dtype_of("cpu"))
        if policy is Policy.FLOAT32:
            return lambda args, kwargs: op(*_map(args, _raise), **_map(kwargs, _raise))
        if policy is Policy.PROMOTE:
            return lambda args, kwargs: _promoted(op, args, kwargs, self._dtype_of("cpu"))
        return lambda args, kwargs: op(*args, **kwargs)

    def _lower(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> Any:
        emulated = dtype is torch.float16 and not _any_double(args)

        def cast(tensor: Tensor) -> Tensor:
            if not _eligible(tensor):
                return tensor
            half = self.cache.cast(tensor, dtype)
            return half.float() if emulated else half

        result = op(*_map(args, cast), **_map(kwargs, cast))
        if not emulated:
            return result
        return _map(result, lambda tensor: tensor.to(dtype) if tensor.dtype is torch.float32 else tensor)


@lru_cache(maxsize=1)
def _policies() -> dict[str, str]:
    return ops.overload_policies(TORCH)


@lru_cache(maxsize=1)
def _cast_on_cpu() -> frozenset[str]:
    return ops.overloads_on_cpu(TORCH)


def policy_of(name: str) -> str | None:
    """What autocast on CUDA does to an overload in the installed torch; see ``ops.overload_policies``."""
    return _policies().get(name)


def _overload(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def _with_appended_dtype(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    # the other overload has no defaults for these
    if len(args) == 1:
        kwargs.setdefault("p", 2)
    elif len(args) == 3:
        kwargs.setdefault("keepdim", False)
    return op(*args, **kwargs, dtype=torch.float32 if _eligible(args[0]) else args[0].dtype)


def _exists(name: str) -> bool:
    base, _, overload = name.partition(".")
    return hasattr(torch.ops.aten, base) and hasattr(getattr(torch.ops.aten, base), overload or "default")


def _eligible(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.dtype is not torch.float64


def _raise(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32) if _eligible(tensor) else tensor


def _any_double(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dtype is torch.float64
    return isinstance(value, (tuple, list)) and any(_any_double(part) for part in value)


def _map(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A structure of tensors with each of them changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_map(part, change) for part in value])
    if isinstance(value, dict):
        return {key: _map(part, change) for key, part in value.items()}
    return value


def _with_dtype(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = [argument.name for argument in op._schema.arguments]
    index = names.index("dtype")
    given = args[index] if index < len(args) else kwargs.get("dtype")
    if given is not None or not _eligible(args[0]):
        return op(*args, **kwargs)
    if index < len(args):
        return op(*args[:index], torch.float32, *args[index + 1 :], **kwargs)
    return op(*args, **{**kwargs, "dtype": torch.float32})


def _promoted(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], lower: torch.dtype) -> Any:
    widest = lower
    for tensor in _flat((args, tuple(kwargs.values()))):
        if not _eligible(tensor):
            continue
        if tensor.dtype is torch.float32:
            widest = torch.float32
        elif tensor.dtype is not lower and widest is not torch.float32:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(widest) if _eligible(tensor) else tensor

    return op(*_map(args, cast), **_map(kwargs, cast))


def _flat(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in _flat(part)]
    return []


def _refuse(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise RuntimeError(_BAN)
