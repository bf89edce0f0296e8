"""SIGKILL before each single call to the system that writing makes: every file is the old or the new one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplint.source import writing
from amplint.source.writing import Replacement, Writer, put, remove_leftovers, replace_all

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")

OLD, NEW = b"old\n" * 1000, b"new\n" * 900
NAMES = ["a.py", "b.py"]


class Deadly:
    """``os``, but before call number ``last`` of this process it dies."""

    def __init__(self, last: int) -> None:
        self._left = last
        self._process = os.getpid()

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if not callable(real) or isinstance(real, type):
            return real

        def call(*arguments: Any, **more: Any) -> Any:
            if os.getpid() == self._process:
                self._left -= 1
                if not self._left:
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **more)

        return call


def survives(act: Callable[[], object], last: int) -> bool:
    """Whether a process that does something comes to its end before call number ``last``. Returns when no process that
    it has started is left."""
    alive, end = os.pipe()
    child = os.fork()
    if not child:
        os.close(alive)
        code = 1
        try:
            writing.os = Deadly(last)  # type: ignore[assignment]
            act()
            code = 0
        finally:
            os._exit(code)
    os.close(end)
    os.read(alive, 1)  # nobody writes: it ends when the last process has gone
    os.close(alive)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


def make(folder: Path) -> list[Replacement]:
    for name in NAMES:
        (folder / name).write_bytes(OLD)
    return [Replacement(str(folder / name), OLD, NEW) for name in NAMES]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def are_whole(folder: Path) -> bool:
    return all((folder / name).read_bytes() in (OLD, NEW) for name in NAMES)


def test_amplint_may_die_at_any_time(tmp_path: Path) -> None:
    """What it has begun is finished by the process that writes, and nothing is left beside the files."""
    replacements = make(tmp_path)

    def write() -> None:
        with Writer() as writer:
            writer.replace_all(replacements)

    last, seen = 0, set()
    while not survives(write, last := last + 1):
        assert names_in(tmp_path) == NAMES
        assert are_whole(tmp_path)
        seen.add((tmp_path / "a.py").read_bytes())
        make(tmp_path)
    assert seen == {OLD, NEW}
    assert [(tmp_path / name).read_bytes() for name in NAMES] == [NEW, NEW]


def test_the_process_that_writes_may_die_at_any_time(tmp_path: Path) -> None:
    """A second name is left only if it dies between the two calls that need one, and the next run takes it away."""
    replacements = make(tmp_path)
    last, dirty = 0, 0
    while not survives(lambda: replace_all(replacements), last := last + 1):
        assert are_whole(tmp_path)
        dirty += names_in(tmp_path) != NAMES
        remove_leftovers([str(tmp_path)])
        assert names_in(tmp_path) == NAMES
        make(tmp_path)
    assert last > 30
    if hasattr(os, "O_TMPFILE"):
        assert dirty <= len(NAMES)


@pytest.mark.parametrize("before", [None, OLD])
def test_a_file_that_is_put_is_whole_or_as_it_was(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "kept.json"
    last = 0

    def reset() -> None:
        path.unlink(missing_ok=True)
        if before is not None:
            path.write_bytes(before)

    reset()
    while not survives(lambda: put(str(path), NEW), last := last + 1):
        assert (path.read_bytes() if path.exists() else None) in (before, NEW)
        reset()
    assert last > 3
    assert path.read_bytes() == NEW
