"""Ops as the user's code calls them, with the types of operands and results, for a trace.

A TorchFunctionMode sits above autocast. What looks at a tensor and what gives a view of it is no op here.

Nodes of the autograd graph are told which op and which cast they belong to, so that the casts of the backward pass
are known.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from time import perf_counter_ns
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from amplint.amp.ops import Policy
from amplint.amp.regions import DEVICES_LIKE_CUDA
from amplint.confirm.held import bytes_of, has_storage
from amplint.confirm.ledger import OpEntry, Raised
from amplint.confirm.places import origin_of
from amplint.confirm.signatures import Function, described
from amplint.confirm.thread_trace import EMULATED, OP_TAG, TAG, Call, ThreadTrace, is_captured, next_number
from amplint.confirm.trace import (
    ACTIVATION,
    AUTOCAST,
    BACKWARD,
    CODE,
    GRADIENT,
    LIBRARY,
    TORCH,
    WEIGHT,
)
from amplint.events import Region, enabled_region, innermost


class OpMode(TorchFunctionMode):
    """Watches one thread."""

    def __init__(self, thread: ThreadTrace) -> None:
        super().__init__()
        self._thread = thread
        thread.mode = self
        self._watch = thread.watch
        self._ledger = thread.ledger
        self._functions: dict[Any, Function | None] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            function = self._functions[func]
        except (KeyError, TypeError):
            function = self._learn(func)
        if kwargs is None:
            kwargs = {}
        thread, watch = self._thread, self._watch
        if function is None or not watch.running or watch.here.quiet or is_captured():
            return func(*args, **kwargs)
        timed = self._ledger.timeline.on
        start = perf_counter_ns() if timed else 0
        outer = thread.call
        thread.call = call = Call(next_number())
        try:
            result = func(*args, **kwargs)
        finally:
            thread.call = outer
        watch.guarded(self._look, func, function, args, kwargs, result, call)
        if timed:
            watch.guarded(self._time, start)
        return result

    def _learn(self, func: Any) -> Function | None:
        found = described(func)
        with contextlib.suppress(TypeError):
            self._functions[func] = found
        return found

    def _look(
        self,
        func: Any,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        call: Call,
    ) -> None:
        self._op: OpEntry | None = None
        is_view = function.cuda is Policy.VIEW
        if is_view and not call.casts and not self._ledger.raised:
            return
        frame = self._watch.sites.frame(3)
        if frame is None:
            return
        tensors = _tensors(args, kwargs)
        parts = [part for part in _parts(result) if part.is_floating_point()]
        thread = self._thread
        region = innermost(self._watch.here.regions)
        module = thread.modules[-1] if thread.modules else None
        dtype = parts[0].dtype if parts else None
        key = (
            *self._watch.sites.key_of(frame),
            function.name,
            id(region),
            id(module),
            thread.phase,
            dtype,
            *[tensor.dtype for tensor in tensors],
        )
        with self._ledger.lock:
            op = self._ledger.ops.get(key)
            if op is None:
                op = self._entry(func, function, tensors, parts, frame)
                self._ledger.keep(self._ledger.ops, key, op)
            if op.works:
                op.count += 1
                for part in parts:
                    op.size += bytes_of(part)
                self._op = op
            if call.casts:
                asked = function.casts or function.name == "copy_" or _names_type(kwargs)
                self._add_casts(op, call, asked, enabled_region(self._watch.here.regions), parts)
            self._reuses(op, function, call, tensors, enabled_region(self._watch.here.regions))
            if self._ledger.raised and not call.casts:
                for part in parts:
                    self._ledger.computed(tensors, part, op.works)
        if call.casts or op.works:
            self._tag(op, call, parts)

    def _entry(
        self, func: Any, function: Function, tensors: list[Tensor], parts: list[Tensor], frame: FrameType
    ) -> OpEntry:
        thread, sites = self._thread, self._watch.sites
        caller = _caller(func, frame)
        works = bool(tensors and parts) and not function.casts and function.cuda is not Policy.VIEW
        # a scaler, gradient clipping
        works = works and not (caller == TORCH and not thread.modules)
        if works and function.cuda is None:
            works = not function.in_place
        if works and not function.in_place:
            works = not any(_is_view_of(parts[0], tensor) for tensor in tensors)
        operands = tuple(
            f"weight {str(tensor.dtype)[6:]}" if isinstance(tensor, Parameter) else str(tensor.dtype)[6:]
            for tensor in tensors
        )
        return OpEntry(
            sites.at(frame),
            function.plain.strip("_"),
            thread.modules[-1] if thread.modules else None,
            operands,
            str(parts[0].dtype)[6:] if parts else "",
            innermost(self._watch.here.regions),
            thread.phase,
            works,
            caller,
        )

    def _add_casts(
        self, op: OpEntry, call: Call, asked: bool, region: Region | None, parts: list[Tensor]
    ) -> None:
        ledger = self._ledger
        for made in call.casts:
            source, result = made.source, made.result
            if made.emulated:
                ledger.held.stands_for(result, source)
                continue
            if asked:
                # torch casts the parameters of a module where the code asks for it
                by = CODE if op.caller == TORCH and _is_weight(source) else op.caller
            else:
                by = AUTOCAST if region is not None else TORCH
            if by == TORCH and not self._thread.modules and op.caller == TORCH:
                continue
            entry = ledger.cast(op, self._what(source), str(source.dtype)[6:], str(result.dtype)[6:], by)
            entry.add(source, result)
            ledger.held.add(entry, result)
            if result.element_size() < source.element_size():
                ledger.lowered(source, entry)
            elif result.element_size() > source.element_size():
                for part in parts:
                    if part.dtype is result.dtype:
                        ledger.raised.note(part, Raised(entry, bytes_of(source)))

    def _what(self, source: Tensor) -> str:
        if _is_weight(source):
            return WEIGHT
        return GRADIENT if self._thread.phase is BACKWARD and not source.requires_grad else ACTIVATION

    def _reuses(
        self, op: OpEntry, function: Function, call: Call, tensors: list[Tensor], region: Region | None
    ) -> None:
        """Counts the weights that the op needs in the region's type and of which the weight cache had a copy."""
        if region is None or not region.cache_enabled or region.dtype is None or not op.works:
            return
        if function.policy(region.device not in (None, *DEVICES_LIKE_CUDA)) is not Policy.LOWER:
            return
        cast = {id(_whole(made.source)) for made in call.casts}
        for tensor in tensors:
            kept = tensor.dtype is torch.float32 and tensor.requires_grad and tensor.is_leaf
            if kept and id(tensor) not in cast and op.result == region.dtype.value:
                entry = self._ledger.cast(op, WEIGHT, "float32", op.result, AUTOCAST)
                entry.hits += 1
                entry.hit_size += bytes_of(tensor)

    def _tag(self, op: OpEntry, call: Call, parts: list[Tensor]) -> None:
        """Has the nodes that the op made in the autograd graph say which cast they reverse."""
        tags: dict[int, object] = {}
        for made in call.casts:
            if made.emulated:
                tags[made.number] = EMULATED
            else:
                key = (op, self._what(made.source), str(made.source.dtype)[6:], str(made.result.dtype)[6:])
                tags[made.number] = next(
                    (entry for by in _BY if (entry := self._ledger.casts.get((*key, by))) is not None), None
                )
        waiting: list[Any] = [part.grad_fn for part in parts if part.grad_fn is not None]
        last = next_number()
        met: set[int] = set()
        while waiting:
            node = waiting.pop()
            number = node._sequence_nr()
            if not call.number <= number < last or number in met:
                continue
            met.add(number)
            if tags.get(number) is not None:
                node.metadata[TAG] = tags[number]
            node.metadata[OP_TAG] = op
            waiting.extend(following for following, _ in node.next_functions if following is not None)

    def _time(self, start: int) -> None:
        if self._op is not None:
            op = self._op
            self._ledger.timeline.op(op.name, start, op.result, op.module, op.site)


_OVERRIDES = torch.overrides.__file__


def _caller(func: Any, user: FrameType) -> str:
    """Whose code called a function: that of ``user``, or what it called in turn."""
    own = getattr(func, "__code__", None)
    frame = sys._getframe(1)
    while frame is not user and frame.f_back is not None:
        code = frame.f_code
        origin = origin_of(code.co_filename)
        if origin != "probe" and code is not own and code.co_filename != _OVERRIDES:
            return LIBRARY if origin == "library" else TORCH
        frame = frame.f_back
    return CODE


_BY = (AUTOCAST, CODE, LIBRARY, TORCH)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The floating-point tensors among the arguments, those in lists included."""
    found: list[Tensor] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found.extend(part for part in value if isinstance(part, Tensor))
    return [tensor for tensor in found if tensor.is_floating_point()]


def _parts(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from _parts(part)


def _names_type(kwargs: dict[str, Any]) -> bool:
    return isinstance(kwargs.get("dtype"), torch.dtype)


def _whole(tensor: Tensor) -> Tensor:
    return tensor if tensor._base is None else tensor._base


def _is_weight(tensor: Tensor) -> bool:
    return isinstance(_whole(tensor), Parameter)


def _is_view_of(result: Tensor, tensor: Tensor) -> bool:
    """Whether nothing was computed: the result is the tensor, a view of it, or its copy on another device."""
    if result is tensor or result.device != tensor.device:
        return True
    if not has_storage(result) or not has_storage(tensor):
        return False
    return bool(result.untyped_storage()._cdata == tensor.untyped_storage()._cdata)
