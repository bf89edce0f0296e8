"""The casts that autocast makes, as they are executed.

A TorchDispatchMode sits below autocast: it sees the copy of each operand that is not in the right type yet,
and no copy where the weight cache had one.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.confirm import cuda_policy
from amplint.confirm.composites import in_parts
from amplint.confirm.cuda_policy import CudaPolicy
from amplint.confirm.levels import Level
from amplint.confirm.watching import Watch
from amplint.events import AutocastCast, DType, enabled_region

_SHORT = {
    torch.float32: DType.FLOAT32,
    torch.float16: DType.FLOAT16,
    torch.bfloat16: DType.BFLOAT16,
}

_EMULATION = frozenset(part for part in CudaPolicy._lower.__code__.co_consts if isinstance(part, CodeType))
"""Code of simulated CUDA that computes in float32 what CUDA computes in half precision: its casts are none of
autocast's."""
_DEEPEST = 6


def install(watch: Watch) -> None:
    """Watches the casts in each thread."""
    if watch.level is Level.CASTS:
        watch.on_thread(lambda: CastMode(watch))


class CastMode(TorchDispatchMode):
    """Watches one thread."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch
        self._events: dict[Hashable, AutocastCast] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = in_parts(self, func, args, kwargs or {})
        if result is not NotImplemented:
            return result
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].dtype is not result.dtype and not _emulated():
            self.watch.guarded(self._cast, args[0], result)
        return result

    def _cast(self, source: torch.Tensor, result: torch.Tensor) -> None:
        here = self.watch.here
        function = here.function
        region = enabled_region(here.regions)
        if function is None or region is None or function.casts:
            return
        if source.dtype not in _SHORT or result.dtype not in _SHORT:
            return
        site = self.watch.sites.here(3)
        if site is None:
            return
        key = (site.key, function.name, source.dtype, result.dtype, here.regions, source.numel())
        event = self._events.get(key)
        if event is None:
            bytes_read = source.numel() * source.element_size()
            event = AutocastCast(
                site,
                here.regions,
                function.plain,
                _SHORT[source.dtype],
                _SHORT[result.dtype],
                bytes_read,
            )
            self._events[key] = event
        self.watch.tell(event)


def _emulated() -> bool:
    """Whether simulated CUDA casts for its own sake."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEEPEST):
        if frame is None or frame.f_code.co_filename == cuda_policy.__file__:
            break
        frame = frame.f_back
    return frame is not None and frame.f_code in _EMULATION
