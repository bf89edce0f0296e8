"""Threads, which do not inherit what is observed, and the compiler, whose own ops must not be."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.pool import Pool, ThreadPool
from typing import TYPE_CHECKING, Any

import torch

from amplint.confirm.places import Site
from amplint.events import Forward, Regions, ThreadBegan, ThreadEnded, enabled_region

if TYPE_CHECKING:
    from amplint.confirm.probe import Probe

_NO_COMPILER = "torch.compile is off while the run is observed: what it would compile runs eagerly"


@dataclass(frozen=True)
class Started:
    """Where a thread got what it runs, and the regions there and in the thread."""

    site: Site
    outside: Regions
    inside: Regions


def install(probe: Probe) -> None:
    """Has threads observed that are started from now on, and switches the compiler off."""
    probe.patches.wrap(threading.Thread, "start", lambda original: _start(probe, original))
    probe.patches.wrap(ThreadPoolExecutor, "submit", lambda original: _handing(probe, original))
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        probe.patches.wrap(Pool, name, lambda original: _handing(probe, original))
    probe.patches.wrap(torch, "compile", lambda original: _compile(probe, original))
    probe.patches.wrap(torch.nn.Module, "compile", lambda original: _compile_in_place(probe))


def forward(probe: Probe, event: Forward) -> None:
    """Tells that a module ran in this thread. Threads take turns, so that of one that was started in a region and
    has none itself is told around what happens in it."""
    started = probe.here.started
    if started is None or not event.opaque:
        probe.tell(event)
        return
    began = ThreadBegan(started.site, started.inside, "thread", started.outside)
    probe.tell_together(began, event, ThreadEnded(event.place, event.regions))


def _handing(probe: Probe, original: Any) -> Any:
    """A method that has a function run by another thread, if it is that of a pool of threads."""

    def hand(pool: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if probe.running and isinstance(pool, (ThreadPoolExecutor, ThreadPool)):
            function = _carried(probe, function)
        return original(pool, function, *args, **kwargs)

    return hand


def _carried(probe: Probe, function: Any) -> Any:
    """A function that knows where it was handed on, if that was in a region."""
    outside = probe.here.regions
    frame = probe.sites.frame(3) if enabled_region(outside) is not None else None
    if frame is None:
        return function
    site = probe.sites.at(frame)

    def carried(*args: Any, **kwargs: Any) -> Any:
        here = probe.here
        before, here.started = here.started, Started(site, outside, here.regions)
        try:
            return function(*args, **kwargs)
        finally:
            here.started = before

    return carried


def _start(probe: Probe, original: Any) -> Any:
    def start(thread: threading.Thread) -> None:
        run = thread.run
        if probe.running and probe.sites.is_user(sys._getframe(1).f_code):
            run = _carried(probe, run)

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
