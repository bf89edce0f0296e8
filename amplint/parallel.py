"""Worker processes, which share the gate in a large tree."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import TracebackType

from amplint.gating import Gated, gated
from amplint.groups import Job
from amplint.source.gate import Gate

_FORKS = sys.platform == "linux"


class Crew:
    """Worker processes for one run: they share the gate."""

    def __init__(self, job: Job, workers: int) -> None:
        self._job = job
        self._pool = self._start(workers)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:  # Ctrl-C above all: nobody waits for the workers then
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(wait=kind is None, cancel_futures=kind is not None)

    def _start(self, workers: int) -> ProcessPoolExecutor:
        sys.stdout.flush()
        context = multiprocessing.get_context("fork" if _FORKS else None)
        return ProcessPoolExecutor(workers, context, _start_worker, (self._job,))

    def gate(self, parts: Sequence[Sequence[str]], gate: Gate, *, refined: bool) -> Iterator[Gated]:
        """What ``gated`` says of each part."""
        searches = [self._pool.submit(_search, part, gate, refined) for part in parts]
        for search in as_completed(searches):
            yield search.result()


_assigned: list[Job] = []
"""What this worker process works on, set when it starts."""


def _start_worker(job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process answers Ctrl-C
    _assigned[:] = [job]


def _search(files: Sequence[str], gate: Gate, refined: bool) -> Gated:
    return gated(files, gate, refined=refined, changed=_assigned[0].changed)
