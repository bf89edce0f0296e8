"""One analysis at a time, and only what is still wanted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

import pytest

pytest.importorskip("pygls", reason="the language server needs the extra lsp")

from amplint.api import Stopped
from amplint.server.schedule import Schedule, Stop, Work

WAIT = 60


class Analyses:
    """Work that goes on until it is let go or stopped, and what came of it."""

    def __init__(self) -> None:
        self.begun: list[Hashable] = []
        self.finished: list[Hashable] = []
        self.errors: list[str] = []
        self.ended = 0
        self.is_over = False
        self.most = self._now = 0
        self._gates: dict[Hashable, threading.Event] = {}
        self._lock = threading.Lock()
        self.schedule = Schedule(self._prepare, lambda error: self.errors.append(str(error)), self._started)

    def _started(self, key: Hashable) -> Callable[[], None]:
        def end() -> None:
            self.ended += 1

        return end

    def _prepare(self, key: Hashable) -> tuple[Work, Callable[[Any], None]]:
        if key == "unprepared":
            raise ValueError("cannot be prepared")
        return lambda stop: self.work(key, stop), self.finished.append

    def work(self, key: Hashable, stop: Stop) -> Hashable:
        """Ends when it is let go, with Stopped when it is stopped."""
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.begun.append(key)
        try:
            if key == "failing":
                raise ValueError("has failed")
            while not self.gate(key).wait(0.001):
                if stop() or self.is_over:
                    raise Stopped
            return key
        finally:
            with self._lock:
                self._now -= 1

    def gate(self, key: Hashable) -> threading.Event:
        """Set: the work on a key goes to its end."""
        return self._gates.setdefault(key, threading.Event())

    async def until(self, reached: Callable[[], bool]) -> None:
        """Waits for something to come true."""

        async def waiting() -> None:
            while not reached():
                await asyncio.sleep(0.001)

        await asyncio.wait_for(waiting(), WAIT)


def run(test: Callable[[Analyses], Awaitable[None]]) -> Analyses:
    """Runs a test in a loop of its own."""
    made: list[Analyses] = []

    async def main() -> None:
        made.append(Analyses())
        try:
            await test(made[0])
        finally:
            made[0].is_over = True
            made[0].schedule.close()

    asyncio.run(main())
    return made[0]


def test_what_is_asked_for_again_begins_anew_and_only_the_last_is_told() -> None:
    async def test(analyses: Analyses) -> None:
        for _ in range(3):
            count = len(analyses.begun)
            analyses.schedule.ask("a")
            await analyses.until(lambda count=count: len(analyses.begun) > count)  # type: ignore[misc]
        analyses.gate("a").set()
        await analyses.until(lambda: bool(analyses.finished))

    analyses = run(test)
    assert analyses.begun == ["a", "a", "a"]
    assert analyses.finished == ["a"]
    assert (analyses.most, analyses.ended, analyses.errors) == (1, 3, [])


def test_changes_that_follow_each_other_quickly_are_one() -> None:
    async def test(analyses: Analyses) -> None:
        analyses.gate("a").set()
        for _ in range(5):
            analyses.schedule.ask("a", 3600)
        analyses.schedule.ask("a", 0.01)
        await analyses.until(lambda: bool(analyses.finished))

    assert run(test).begun == ["a"]


def test_what_is_still_the_same_goes_on_and_is_asked_for_once_more() -> None:
    async def test(analyses: Analyses) -> None:
        analyses.schedule.ask("a")
        await analyses.until(lambda: analyses.begun == ["a"])
        analyses.schedule.ask("a", anew=False)
        await asyncio.sleep(0)
        analyses.gate("a").set()
        await analyses.until(lambda: len(analyses.finished) == 2)

    assert run(test).begun == ["a", "a"]


def test_another_project_goes_first_and_what_it_interrupts_starts_over() -> None:
    async def test(analyses: Analyses) -> None:
        analyses.schedule.ask("a")
        await analyses.until(lambda: analyses.begun == ["a"])
        analyses.gate("b").set()
        analyses.schedule.ask("b")
        await analyses.until(lambda: analyses.begun == ["a", "b", "a"])
        analyses.gate("a").set()
        await analyses.until(lambda: len(analyses.finished) == 2)

    analyses = run(test)
    assert analyses.finished == ["b", "a"]
    assert analyses.most == 1


def test_what_nobody_wants_any_more_ends() -> None:
    async def test(analyses: Analyses) -> None:
        analyses.schedule.ask("a")
        await analyses.until(lambda: analyses.begun == ["a"])
        analyses.schedule.drop("a")
        analyses.schedule.ask("b")
        analyses.schedule.drop("b")
        analyses.gate("c").set()
        analyses.schedule.ask("c")
        await analyses.until(lambda: bool(analyses.finished))

    analyses = run(test)
    assert analyses.begun == ["a", "c"]
    assert analyses.finished == ["c"]


def test_a_piece_of_work_comes_before_analyses_and_is_not_interrupted_by_another_project() -> None:
    async def test(analyses: Analyses) -> None:
        schedule = analyses.schedule
        job = asyncio.ensure_future(schedule.run("a", lambda stop: analyses.work("job", stop)))
        await analyses.until(lambda: analyses.begun == ["job"])
        analyses.gate("b").set()
        schedule.ask("b")
        await asyncio.sleep(0.01)
        analyses.gate("job").set()
        assert await job == "job"
        await analyses.until(lambda: bool(analyses.finished))

    analyses = run(test)
    assert analyses.begun == ["job", "b"]
    assert analyses.most == 1


def test_a_piece_of_work_gives_nothing_once_its_project_has_changed_or_it_has_failed() -> None:
    async def test(analyses: Analyses) -> None:
        schedule = analyses.schedule
        job = asyncio.ensure_future(schedule.run("a", lambda stop: analyses.work("job", stop)))
        await analyses.until(lambda: analyses.begun == ["job"])
        analyses.gate("a").set()
        schedule.ask("a")
        assert await job is None
        late = asyncio.ensure_future(schedule.run("b", lambda stop: analyses.gate("late").wait(WAIT)))
        await asyncio.sleep(0.01)
        schedule.ask("b", 3600)
        analyses.gate("late").set()
        assert await late is None
        assert await schedule.run("a", lambda stop: analyses.work("failing", stop)) is None
        await analyses.until(lambda: bool(analyses.finished))

    assert run(test).errors == ["has failed"]


def test_an_error_is_told_and_the_next_one_comes_all_the_same() -> None:
    async def test(analyses: Analyses) -> None:
        analyses.schedule.ask("failing")
        await analyses.until(lambda: len(analyses.errors) == 1)
        analyses.schedule.ask("unprepared")
        await analyses.until(lambda: len(analyses.errors) == 2)
        analyses.gate("a").set()
        analyses.schedule.ask("a")
        await analyses.until(lambda: bool(analyses.finished))

    assert run(test).errors == ["has failed", "cannot be prepared"]


def test_after_the_end_nothing_begins() -> None:
    async def test(analyses: Analyses) -> None:
        analyses.schedule.ask("a", 0.001)
        analyses.schedule.close()
        analyses.schedule.ask("b")
        await asyncio.sleep(0.02)

    assert run(test).begun == []


def test_what_is_nested_deeply_has_the_stack_of_the_main_thread() -> None:
    """The limits of amplint/source/nesting.py are measured with 8 MiB."""
    Analyses()
    assert threading.stack_size() >= 8 << 20
