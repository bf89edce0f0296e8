"""What ``amplint trace`` watches: the modules, the ops in them, backward passes, and the steps of the optimizers.
Nothing here looks at a value of a tensor: no device is waited for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Any

import torch
from torch.nn import Module
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from amplint.confirm.casts import CastMode
from amplint.confirm.ledger import Ledger
from amplint.confirm.levels import Level
from amplint.confirm.thread_trace import ThreadTrace
from amplint.confirm.trace import BACKWARD, FORWARD, STEP
from amplint.confirm.traced_ops import OpMode
from amplint.confirm.tracer import Tracer
from amplint.confirm.watching import Watch


def install(watch: Watch) -> None:
    """Watches each thread."""
    if watch.level is not Level.CASTS:
        return
    tracing = _Tracing(watch)
    watch.on_thread(lambda: OpMode(tracing.of_thread()))
    watch.on_thread(lambda: CastMode(tracing.of_thread()))
    watch.patches.wrap(Module, "__call__", tracing.call)
    for module in (torch.autograd, torch.autograd.graph):
        watch.patches.wrap(module, "_engine_run_backward", tracing.engine)
    for handle in (
        register_optimizer_step_pre_hook(tracing.step_begins),
        register_optimizer_step_post_hook(tracing.step_ends),
    ):
        watch.hooked(handle)


@contextlib.contextmanager
def _entered(mode: Any) -> Iterator[None]:
    """``Tensor.backward`` is itself a function that a mode sees, and none is in force within it: but a backward pass
    runs checkpointed modules again, and Functions of the user's."""
    if mode is None or mode in torch.overrides._get_current_function_mode_stack():
        yield
        return
    torch.overrides._push_mode(mode)
    try:
        yield
    finally:
        torch.overrides._pop_mode()


class _Tracing:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._ledger = watch.listener.ledger if isinstance(watch.listener, Tracer) else Ledger()
        self._here = threading.local()
        self._asking: ThreadTrace | None = None
        """The thread that last asked for a backward pass."""
        self._step_began = 0

    def of_thread(self) -> ThreadTrace:
        """That of this thread."""
        if not hasattr(self._here, "thread"):
            self._here.thread = ThreadTrace(self._watch, self._ledger)
        thread: ThreadTrace = self._here.thread
        return thread

    def _thread(self) -> ThreadTrace | None:
        """That of this thread, or of the one for which this one computes gradients."""
        return getattr(self._here, "thread", self._asking)

    def call(self, original: Any) -> Any:
        watch, timeline = self._watch, self._ledger.timeline

        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            thread = self._thread()
            if thread is None or not watch.running:
                return original(module, *args, **kwargs)
            modules = thread.modules
            depth = len(modules)
            watch.guarded(self._enter, thread, module)
            start = perf_counter_ns() if timeline.on else 0
            try:
                return original(module, *args, **kwargs)
            finally:
                if len(modules) > depth:
                    watch.guarded(self._leave, thread, start)
                    del modules[depth:]

        return __call__

    def _enter(self, thread: ThreadTrace, module: Module) -> None:
        ledger = self._ledger
        around = thread.modules[-1] if thread.modules else None
        with ledger.lock:
            site = self._watch.site(3) if around is None else None
            node = ledger.modules.of(module, around, site)
            if node.site is None:
                node.site = site or self._watch.site(3)
            node.calls += 1
        thread.modules.append(node)

    def _leave(self, thread: ThreadTrace, start: int) -> None:
        node, depth = thread.modules[-1], len(thread.modules) - 1
        timeline = self._ledger.timeline
        if start:
            timeline.module(node, start, depth)
        if depth == 0 and thread.phase is FORWARD and node.has_weights():
            self._ledger.forwards += 1
            if start:
                timeline.forward(start)

    def engine(self, original: Any) -> Any:
        def _engine_run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            thread = self._thread()
            if thread is None or thread.phase is BACKWARD:
                return original(outputs, *args, **kwargs)
            before, call, phase = perf_counter_ns(), thread.call, thread.phase
            self._watch.guarded(self._backward_begins, thread, before, bool(kwargs.get("accumulate_grad")))
            thread.phase, thread.call = BACKWARD, None
            try:
                with _entered(thread.mode):
                    return original(outputs, *args, **kwargs)
            finally:
                thread.phase, thread.call, thread.site = phase, call, None
                self._watch.guarded(self._ledger.timeline.phase, BACKWARD, before)

        return _engine_run_backward

    def _backward_begins(self, thread: ThreadTrace, now: int, accumulates: bool) -> None:
        self._asking = thread
        thread.site = self._watch.site(3)
        with self._ledger.lock:
            if accumulates:
                self._ledger.backward_begins()
            self._ledger.timeline.backward_begins(now)

    def step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The hook that every optimizer calls before a step."""
        thread = self._thread()
        if thread is not None:
            thread.phase, self._step_began = STEP, perf_counter_ns()

    def step_ends(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The hook that every optimizer calls after a step."""
        thread = self._thread()
        if thread is not None:
            thread.phase = FORWARD
            self._watch.guarded(self._ledger.timeline.phase, STEP, self._step_began)
            self._watch.guarded(self._ledger.timeline.step_over)
