"""Threads, which do not inherit what is observed."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import Pool, ThreadPool
from typing import Any

import torch

from amplint.confirm.watching import Started, Watch
from amplint.events import Forward, ThreadBegan, ThreadEnded, enabled_region


def install(watch: Watch) -> None:
    """Has threads observed that are started from now on."""
    watch.patches.wrap(threading.Thread, "start", lambda original: _start(watch, original))
    watch.patches.wrap(ThreadPoolExecutor, "submit", lambda original: _handing(watch, original))
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        watch.patches.wrap(Pool, name, lambda original: _handing(watch, original))
    watch.patches.wrap(torch.nn.DataParallel, "forward", lambda original: _in_parallel(watch, original))


def forward(watch: Watch, event: Forward) -> None:
    """Tells that a module ran in this thread. Threads take turns, so that of one that was started in a region and
    has none itself is told around what happens in it."""
    started = watch.here.started
    if started is None or not event.opaque:
        watch.tell(event)
        return
    began = ThreadBegan(started.site, started.inside, "thread", started.outside)
    watch.tell_together(began, event, ThreadEnded(event.place, event.regions))


def _handing(watch: Watch, original: Any) -> Any:
    """A method that has a function run by another thread, if it is that of a pool of threads."""

    def hand(pool: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if watch.running and isinstance(pool, (ThreadPoolExecutor, ThreadPool)):
            function = _carried(watch, function)
        return original(pool, function, *args, **kwargs)

    return hand


def _carried(watch: Watch, function: Any) -> Any:
    """A function that knows where it was handed on, if that was in a region."""
    outside = watch.here.regions
    frame = watch.sites.frame(3) if enabled_region(outside) is not None else None
    if frame is None:
        return function
    site = watch.sites.at(frame)

    def carried(*args: Any, **kwargs: Any) -> Any:
        here = watch.here
        before, here.started = here.started, Started(site, outside, here.regions)
        try:
            return function(*args, **kwargs)
        finally:
            here.started = before

    return carried


def _start(watch: Watch, original: Any) -> Any:
    def start(thread: threading.Thread) -> None:
        run = thread.run
        if watch.running and watch.sites.is_user(sys._getframe(1).f_code):
            run = _carried(watch, run)

        def observed() -> None:
            del thread.run
            if not watch.running:
                run()
                return
            watch.push_modes()
            try:
                run()
            finally:
                watch.pop_modes()

        if watch.running:
            thread.run = observed  # type: ignore[method-assign]
        original(thread)

    return start


def _in_parallel(watch: Watch, original: Any) -> Any:
    def forward(wrapper: Any, *inputs: Any, **kwargs: Any) -> Any:
        if len(wrapper.device_ids) < 2:
            why = "nn.DataParallel had one device here, and starts threads only for several"
            watch.guarded(watch.hides, ThreadBegan, why)
        return original(wrapper, *inputs, **kwargs)

    return forward
