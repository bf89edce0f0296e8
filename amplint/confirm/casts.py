"""The casts of a run, as they are executed.

A TorchDispatchMode sits below autocast: it sees the copy of each operand that is not in the right type yet,
and no copy where the weight cache had one. In a backward pass it sees the casts of gradients.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.confirm import cuda_policy
from amplint.confirm.composites import in_parts
from amplint.confirm.cuda_policy import CudaPolicy
from amplint.confirm.held import bytes_of
from amplint.confirm.ledger import CastEntry, OpEntry
from amplint.confirm.thread_trace import (
    EMULATED,
    OP_TAG,
    TAG,
    MadeCast,
    ThreadTrace,
    current_node,
    is_captured,
    next_number,
)
from amplint.confirm.trace import ACTIVATION, AUTOCAST, BACKWARD, CODE, FORWARD, GRADIENT, TORCH
from amplint.events import enabled_region, innermost

_EMULATION = frozenset(part for part in CudaPolicy._lower.__code__.co_consts if isinstance(part, CodeType))
"""Code of simulated CUDA that computes in float32 what CUDA computes in half precision: its casts are none of
autocast's."""
_DEEPEST = 6
_CASTS = {torch.ops.aten._to_copy.default: 0, torch.ops.aten.copy_.default: 1}
"""What casts, and which argument it reads."""


class CastMode(TorchDispatchMode):
    """Watches one thread."""

    def __init__(self, thread: ThreadTrace) -> None:
        super().__init__()
        self._thread = thread
        self._watch = thread.watch
        self._timeline = thread.ledger.timeline
        self._rest: dict[object, OpEntry] = {}
        """Casts that no op of the code asked for, by who did."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = in_parts(self, func, args, kwargs or {})
        if result is not NotImplemented:
            return result
        if self._timeline.on and self._thread.phase is BACKWARD and self._thread.call is None:
            start = perf_counter_ns()
            result = func(*args, **(kwargs or {}))
            self._watch.guarded(self._time, start)
        else:
            result = func(*args, **(kwargs or {}))
        read = _CASTS.get(func)
        if read is not None and args[read].dtype is not result.dtype:
            emulated = _emulated()
            self._watch.guarded(self._cast, args[read], result, emulated)
        return result

    def _cast(self, source: Tensor, result: Tensor, emulated: bool) -> None:
        if not (source.is_floating_point() and result.is_floating_point()):
            return
        thread = self._thread
        if is_captured():
            return
        if thread.call is not None:
            thread.call.casts.append(MadeCast(source, result, next_number() - 1, emulated))
            return
        node = current_node()
        known = node.metadata.get(TAG) if node is not None else None
        with thread.ledger.lock:
            if isinstance(known, CastEntry):
                known.backward += 1
                known.backward_size += bytes_of(source)
            elif known is not EMULATED and not emulated:
                self._unasked(source, result, node)

    def _unasked(self, source: Tensor, result: Tensor, node: Any) -> None:
        """A cast in a backward pass or an optimizer's step that no forward cast explains."""
        thread, regions = self._thread, self._watch.here.regions
        if node is None and thread.phase is FORWARD:
            return  # what a scaler does for itself
        forward = node.metadata.get(OP_TAG) if node is not None else None
        site = thread.site or self._watch.sites.here(4) if forward is None else forward.site
        if site is None:
            return
        name = (node.name() if node is not None else thread.phase) if forward is None else forward.name
        module = forward.module if forward is not None else None
        key = (site.key, name, id(module), id(innermost(regions)), thread.phase)
        op = self._rest.get(key)
        if op is None:
            op = OpEntry(site, name, module, (), "", innermost(regions), thread.phase, False, CODE)
            self._rest[key] = op
        what = GRADIENT if node is not None else ACTIVATION
        by = AUTOCAST if enabled_region(regions) is not None else TORCH
        entry = thread.ledger.cast(op, what, str(source.dtype)[6:], str(result.dtype)[6:], by)
        entry.add(source, result)

    def _time(self, start: int) -> None:
        node = current_node()
        op = node.metadata.get(OP_TAG) if node is not None else None
        if op is not None:
            self._timeline.op(op.name, start, op.result, op.module, op.site)


def _emulated() -> bool:
    """Whether simulated CUDA casts for its own sake."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEEPEST):
        if frame is None or frame.f_code.co_filename == cuda_policy.__file__:
            break
        frame = frame.f_back
    return frame is not None and frame.f_code in _EMULATION
