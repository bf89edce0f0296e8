"""Ops that torch makes of others, under ``inference_mode``.

With gradients such an op is taken apart before a TorchDispatchMode sees it, and each part meets autocast. Under
``inference_mode`` the mode gets the whole, with autocast out of reach for all that it calls:
``cross_entropy`` would stay in half precision.
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
    with contextlib.ExitStack() as stack:
        if not is_cast():
            for key in _KEYS:
                stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        stack.enter_context(mode)
        # torch's own way, not one of those in Python that ``decompose`` prefers: they have other parts
        return func._op_dk(_COMPOSITE, *args, **kwargs)


@lru_cache(maxsize=4096)
def _is_composite(func: Any) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    name = func.name()
    return has(name, _COMPOSITE) and not has(name, "CPU")
