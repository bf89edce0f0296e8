"""``--watch`` checks again when something of the project changes."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import pytest
from running import command, environment

Run = Callable[..., "subprocess.CompletedProcess[str]"]
WAIT = 60
BAD = "import torch\nautocast\nBAD\n"


class Watching:
    """``amplint --watch`` at work. Its output comes through queues, line by line."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            command(*arguments, "--watch", fake=True),
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.out: Queue[str] = Queue()
        self.err: Queue[str] = Queue()
        for stream, queue in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            threading.Thread(target=self._read, args=(stream, queue), daemon=True).start()

    @staticmethod
    def _read(stream: object, queue: Queue[str]) -> None:
        for line in stream:  # type: ignore[attr-defined]
            queue.put(line.rstrip("\n"))

    def until(self, end: str) -> list[str]:
        """The lines of the report up to one that begins like this."""
        lines = []
        while not lines or not lines[-1].startswith(end):
            lines.append(self.out.get(timeout=WAIT))
        return lines

    def stop(self) -> int:
        """Ctrl-C, and the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=WAIT)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
def test_it_checks_again_when_a_file_changes_or_comes(project: Path) -> None:
    (project / "a.py").write_text(BAD)
    watching = Watching(project, "--output-format", "concise", ".")
    assert any("a.py:3" in line for line in watching.until("Found 1"))
    assert "Watching" in watching.err.get(timeout=WAIT)
    (project / "b.py").write_text(BAD)
    assert any("b.py:3" in line for line in watching.until("Found 2"))
    (project / "a.py").write_text("")
    (project / "b.py").unlink()
    watching.until("All good")
    (project / "amplint.toml").write_text("nonsense = 1\n")
    while "nonsense" not in watching.err.get(timeout=WAIT):
        pass
    assert watching.stop() == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
def test_an_interrupt_that_python_drops_ends_it(project: Path) -> None:
    (project / "a.py").write_text(BAD + "INTERRUPTED\n")
    watching = Watching(project, "--output-format", "concise", ".")
    watching.until("Found 1")
    assert watching.process.wait(timeout=WAIT) == 1


@pytest.mark.parametrize("option", ["--fix", "--diff", "--show-files", "--output-file=x", "--add-ignore=x"])
def test_it_only_shows(amplint: Run, option: str) -> None:
    done = amplint("--watch", option, ".")
    assert done.returncode == 2
    assert "--watch cannot be combined with" in done.stderr


def test_it_needs_files(amplint: Run) -> None:
    done = amplint("--watch", "-")
    assert done.returncode == 2
    assert "standard input does not change" in done.stderr
