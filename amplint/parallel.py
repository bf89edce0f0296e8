"""Runs groups of files in worker processes. A worker that dies costs the file that killed it, not the run."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from amplint.groups import Candidate, Job

Result = TypeVar("Result")
Act = Callable[[Job, Sequence[Candidate]], Result]


def run_groups(
    act: Act[Result], job: Job, groups: Sequence[Sequence[Candidate]], jobs: int
) -> Iterator[tuple[Sequence[Candidate], Result | None]]:
    """Each group with what ``act`` makes of it, in the order in which they are done. None stands for a single
    file that killed its worker process."""
    broken = []
    for group, result, survived in _run(act, job, groups, jobs):
        if survived:
            yield group, result
        else:
            broken.append(group)
    for group in broken:  # one of these killed the pool, the others were waiting in it
        for _, result, survived in _run(act, job, [group], 1):
            if survived or len(group) == 1:
                yield group, result
                continue
            for candidate in group:
                for single, outcome, _ in _run(act, job, [[candidate]], 1):
                    yield single, outcome


def _run(
    act: Act[Result], job: Job, groups: Sequence[Sequence[Candidate]], jobs: int
) -> Iterator[tuple[Sequence[Candidate], Result | None, bool]]:
    sys.stdout.flush()
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    pool = ProcessPoolExecutor(min(jobs, len(groups)), context, _start_worker, (act, job))
    try:
        waiting = {}
        for group in groups:
            try:
                waiting[pool.submit(_work, group)] = group
            except BrokenProcessPool:
                yield group, None, False
        for future in as_completed(waiting):
            try:
                yield waiting[future], future.result(), True
            except BrokenProcessPool:
                yield waiting[future], None, False
        pool.shutdown()
    except BaseException:  # Ctrl-C above all: nobody waits for the workers then
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise


_assigned: list[tuple[Act[object], Job]] = []
"""What this worker process does, set when it starts."""


def _start_worker(act: Act[object], job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process answers Ctrl-C
    _assigned[:] = [(act, job)]


def _work(group: Sequence[Candidate]) -> Any:
    act, job = _assigned[0]
    return act(job, group)
