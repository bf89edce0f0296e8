"""When what is analysed: one thing at a time, in a thread of its own, and only what is still wanted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from amplint.api import Stopped

Stop = Callable[[], bool]
"""Says whether the result is still wanted."""
Work = Callable[[Stop], Any]
"""Runs in the thread."""
Prepare = Callable[[Hashable], tuple[Work, Callable[[Any], None]]]
"""For a key what to do in the thread, and what to do with its result in the loop."""

_STACK = 64 << 20
"""Bytes: what is nested deeply needs as much stack as the main thread has; other threads may have less."""


@dataclass
class _Job:
    key: Hashable
    work: Work
    done: asyncio.Future[Any]


class Schedule:
    """Runs analyses by key, such as one for each project.

    All methods belong to the thread of the loop. A run that is asked for anew is ended and its result dropped: the
    latest wins. What is asked for now goes before what another project is still at, which starts over later."""

    def __init__(
        self,
        prepare: Prepare,
        failed: Callable[[Exception], None],
        started: Callable[[Hashable], Callable[[], object]],
    ) -> None:
        """``failed`` hears of exceptions of the work; ``started`` is called with each run and gives what to call at its
        end."""
        self._prepare = prepare
        self._failed = failed
        self._started = started
        self._waiting: dict[Hashable, asyncio.TimerHandle] = {}
        self._ripe: list[Hashable] = []
        self._jobs: list[_Job] = []
        self._running: Hashable = None
        self._job: _Job | None = None
        self._stop = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        threading.stack_size(_STACK)
        self._thread = ThreadPoolExecutor(1, "amplint")

    def ask(self, key: Hashable, delay: float = 0.0, *, anew: bool = True) -> None:
        """Asks for a run in ``delay`` seconds. What was asked for the same key before is forgotten, and what is at work
        for it is ended; with ``anew=False`` that goes on, since what it is about is still the same."""
        if self._closed:
            return
        self._forget(key)
        if anew and self._running == key:
            self._stop.set()
        self._waiting[key] = asyncio.get_running_loop().call_later(delay, self._ripen, key)

    def drop(self, key: Hashable) -> None:
        """Nobody wants to know of a key any more."""
        self._forget(key)
        if self._running == key:
            self._stop.set()

    async def run(self, key: Hashable, work: Work) -> Any:
        """What one piece of work gives, before anything else is analysed; None if something is asked for its key
        meanwhile, or if it fails."""
        job = _Job(key, work, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._next()
        return await job.done

    def close(self) -> None:
        """Ends what is at work; nothing begins any more."""
        self._closed = True
        for handle in self._waiting.values():
            handle.cancel()
        for job in self._jobs:
            job.done.cancel()
        self._stop.set()

    def _forget(self, key: Hashable) -> None:
        if key in self._waiting:
            self._waiting.pop(key).cancel()
        if key in self._ripe:
            self._ripe.remove(key)

    def _ripen(self, key: Hashable) -> None:
        del self._waiting[key]
        self._ripe.append(key)
        is_analysis = self._task is not None and self._job is None
        if is_analysis and self._running != key and not self._stop.is_set():
            self._stop.set()
            self._ripe.append(self._running)
        self._next()

    def _next(self) -> None:
        if self._closed or self._task is not None or not (self._jobs or self._ripe):
            return
        self._stop = threading.Event()
        self._job = self._jobs.pop(0) if self._jobs else None
        self._running = self._job.key if self._job is not None else self._ripe.pop(0)
        turn = self._turn(self._running) if self._job is None else self._turn_of(self._job)
        self._task = asyncio.get_running_loop().create_task(turn)
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task, self._running, self._job = None, None, None
        self._next()

    async def _turn(self, key: Hashable) -> None:
        stop = self._stop
        try:
            work, finish = self._prepare(key)
            result = await self._result(key, work)
            if not stop.is_set():
                finish(result)
        except Exception as error:
            if not stop.is_set():
                self._failed(error)

    async def _turn_of(self, job: _Job) -> None:
        stop, result = self._stop, None
        try:
            result = await self._result(job.key, job.work)
        except Exception as error:
            self._failed(error)
        if not job.done.done():
            job.done.set_result(None if stop.is_set() else result)

    async def _result(self, key: Hashable, work: Work) -> Any:
        stop = self._stop

        def wanted() -> Any:
            try:
                return work(stop.is_set)
            except Stopped:
                return None

        end = self._started(key)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, wanted)
        finally:
            end()
