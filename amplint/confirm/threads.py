"""Threads, which do not inherit what is observed, and the compiler, whose own ops must not be."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from amplint.confirm.probe import Probe

_NO_COMPILER = "torch.compile is off while the run is observed: what it would compile runs eagerly"


def install(probe: Probe) -> None:
    """Has threads observed that are started from now on, and switches the compiler off."""
    probe.patches.wrap(threading.Thread, "start", lambda original: _start(probe, original))
    probe.patches.wrap(torch, "compile", lambda original: _compile(probe, original))
    probe.patches.wrap(torch.nn.Module, "compile", lambda original: _compile_in_place(probe))


def _start(probe: Probe, original: Any) -> Any:
    def start(thread: threading.Thread) -> None:
        run = thread.run

        def observed() -> None:
            del thread.run
            if not probe.running:
                run()
                return
            probe.push_modes()
            try:
                run()
            finally:
                probe.pop_modes()

        if probe.running:
            thread.run = observed  # type: ignore[method-assign]
        original(thread)

    return start


def _compile(probe: Probe, original: Any) -> Any:
    def compile(model: Any = None, **settings: Any) -> Any:
        probe.note(_NO_COMPILER)
        if model is None:
            return lambda function: function
        return model

    return compile


def _compile_in_place(probe: Probe) -> Any:
    def compile(module: Any, *args: Any, **settings: Any) -> None:
        probe.note(_NO_COMPILER)

    return compile
