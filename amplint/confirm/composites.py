"""Ops that torch makes of others, and whose parts meet autocast on CUDA.

With gradients most such ops are taken apart before a TorchDispatchMode sees them, and each part meets autocast. Under
``inference_mode`` the mode gets the whole, with autocast out of reach for all that it calls: ``cross_entropy`` would
stay in half precision. Others have a kernel for all devices that calls ops (``affine_grid`` a ``bmm``): there the mode
gets the whole in any case.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_KEYS = (torch._C.DispatchKey.AutocastCPU, torch._C.DispatchKey.AutocastCUDA)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_EXPLICIT = torch._C.DispatchKey.CompositeExplicitAutograd
_here = threading.local()


@contextlib.contextmanager
def already_cast() -> Iterator[None]:
    """Around an op whose operands autocast has cast: it is not to cast for the parts."""
    before = is_cast()
    _here.cast = True
    try:
        yield
    finally:
        _here.cast = before


def is_cast() -> bool:
    """Whether an op runs whose operands autocast has cast."""
    return bool(getattr(_here, "cast", False))


def in_parts(mode: TorchDispatchMode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an op gives that a mode sees as a whole and should see in parts; NotImplemented if it is none."""
    if not torch.is_inference_mode_enabled() or not _is_composite(func):
        return NotImplemented
    with parts_meet_autocast(), mode:
        # torch's own way, not one of those in Python that ``decompose`` prefers: they have other parts
        return func._op_dk(_COMPOSITE, *args, **kwargs)


@contextlib.contextmanager
def parts_meet_autocast() -> Iterator[None]:
    """Around an op that calls others, which autocast is to cast unless it has cast the operands of the whole."""
    with contextlib.ExitStack() as stack:
        if not is_cast():
            for key in _KEYS:
                stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        yield


@lru_cache(maxsize=4096)
def calls_others(func: Any) -> bool:
    """Whether an op has one kernel for all devices, with gradients of its own: it can only call other ops."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = func.name()
    return has(name, _EXPLICIT) and not has(name, "CPU")


@lru_cache(maxsize=4096)
def _is_composite(func: Any) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = func.name()
    return has(name, _COMPOSITE) and not has(name, "CPU")
