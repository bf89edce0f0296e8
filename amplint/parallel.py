"""Runs groups of files in worker processes. A worker that dies costs the file that killed it, not the run."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType

from amplint.gating import Gated, gated
from amplint.groups import Candidate, Job, Verdict, judge_group
from amplint.source.gate import Gate

_FORKS = sys.platform == "linux"


class Crew:
    """Worker processes for one run: they share the gate, then judge groups of files."""

    def __init__(self, job: Job, workers: int) -> None:
        self._job = job
        self._workers = workers
        self._ready = False
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
        """What ``gated`` says of each part. As soon as a file has passed, this process gets ready for those
        that judge, if they are forked off; else workers that have nothing left to search do so."""
        searches = [self._pool.submit(_search, part, gate, refined) for part in parts]
        told = False
        for search in as_completed(searches):
            passed, others = search.result()
            if passed and not told:
                told = True
                if _FORKS:
                    _get_ready()
                else:
                    for _ in range(self._workers):
                        self._pool.submit(_get_ready)
            yield passed, others

    def judge(
        self, groups: Sequence[Sequence[Candidate]]
    ) -> Iterator[tuple[Sequence[Candidate], Verdict | None]]:
        """Each group with its verdict, in the order in which they are done. None stands for a single file that
        killed its worker process."""
        if _FORKS and groups and not self._ready:
            # the processes that searched know nothing of rules; new ones begin with what this one has imported
            self._ready = True
            self._pool.shutdown()
            _get_ready()
            self._pool = self._start(self._workers)
        broken = []
        for group, verdict, survived in _run(self._pool, groups):
            if survived:
                yield group, verdict
            else:
                broken.append(group)
        for group in broken:  # one of these killed the pool, the others were waiting in it
            yield from self._alone(group)

    def _alone(self, group: Sequence[Candidate]) -> Iterator[tuple[Sequence[Candidate], Verdict | None]]:
        with self._start(1) as pool:
            outcome = list(_run(pool, [group]))
        if outcome[0][2] or len(group) == 1:
            yield group, outcome[0][1]
            return
        for candidate in group:
            yield from self._alone([candidate])


def _run(
    pool: ProcessPoolExecutor, groups: Sequence[Sequence[Candidate]]
) -> Iterator[tuple[Sequence[Candidate], Verdict | None, bool]]:
    waiting: dict[Future[Verdict], Sequence[Candidate]] = {}
    for group in groups:
        try:
            waiting[pool.submit(_judge, group)] = group
        except BrokenProcessPool:
            yield group, None, False
    for future in as_completed(waiting):
        try:
            yield waiting[future], future.result(), True
        except BrokenProcessPool:
            yield waiting[future], None, False


_assigned: list[Job] = []
"""What this worker process works on, set when it starts."""


def _start_worker(job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process answers Ctrl-C
    _assigned[:] = [job]


def _judge(group: Sequence[Candidate]) -> Verdict:
    return judge_group(_assigned[0], group)


def _search(files: Sequence[str], gate: Gate, refined: bool) -> Gated:
    return gated(files, gate, refined=refined, changed=_assigned[0].changed)


def _get_ready() -> None:
    import amplint.analysis  # noqa: F401
    from amplint.rules import rule_classes

    rule_classes()
