"""The probe: observes a run of PyTorch code and tells a listener what happens, in the vocabulary of
``amplint.events``. The flow predicts the same events; the same rules judge both.

What is told is what the user's code led to: the place of an event is the innermost frame of the user's code,
and what happens without any of it on the stack is not told.

Nothing of it stays in torch when the run is over, and what it raises itself never reaches the user's code.
"""

from __future__ import annotations

import os
import weakref
from types import TracebackType

from amplint.confirm import (
    compiler,
    custom_functions,
    functions,
    modules,
    regions,
    threads,
    tracing,
    training,
)
from amplint.confirm.levels import Level
from amplint.confirm.watching import Listener, Watch
from amplint.events import FunctionEnded

__all__ = ["Level", "Listener", "Probe"]


class Probe(Watch):
    """Observes everything between ``start`` and ``stop``, in all threads of this process; also a context
    manager. One probe at a time. A process that is forked off is observed when ``go_on`` is called there; ``waker``
    is called once if it opens a region or runs a backward pass before that.
    """

    def start(self) -> None:
        """Begins to observe."""
        global _running
        if _running is not None and _running() is not None:
            raise RuntimeError("another probe is running")
        _running = weakref.ref(self)
        self.running = True
        try:
            for part in (compiler, regions, training, modules, custom_functions, threads, functions, tracing):
                part.install(self)
            self.push_modes()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Tells that the run has ended, and leaves torch as it was."""
        global _running
        if not self.running:
            return
        for end in self._ends:
            self.guarded(end)
        if self._last is not None:
            self.tell(FunctionEnded(self._last.place, ()))
        self.running = False
        self.pop_modes()
        for handle in self._hooks:
            handle.remove()
        self.patches.undo()
        self._modes.clear()
        _running = None

    def __enter__(self) -> Probe:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


_running: weakref.ref[Probe] | None = None


def _after_fork() -> None:
    probe = _running() if _running is not None else None
    if probe is not None:
        probe.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
