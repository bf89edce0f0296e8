from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import command, environment

from amplint.cli.progress import ProgressBar

LONG = "with autocast():\n    loss.backward()  # BAD\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_progress_bar_waits_a_second_and_leaves_no_trace(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    bar = ProgressBar()
    bar(1, 10)
    assert terminal.getvalue() == ""
    clock[0] += 1.5
    bar(5, 10)
    assert terminal.getvalue() == "\r[###############...............] 5/10 files"
    bar.clear()
    assert terminal.getvalue().endswith("\r" + " " * 43 + "\r")


def test_there_is_no_progress_bar_in_a_pipe(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    bar = ProgressBar()
    clock[0] += 60
    bar(5, 10)
    bar.clear()
    assert pipe.getvalue() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")
@pytest.mark.parametrize(
    ("more", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_gets_colours(project: Path, more: dict[str, str], colored: bool) -> None:
    import pty

    (project / "bad.py").write_text(LONG)
    leader, follower = pty.openpty()
    env = environment(TERM="xterm") | more
    process = subprocess.Popen(command(), cwd=project, env=env, stdout=follower)
    os.close(follower)
    output = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not piece:
            break
        output += piece
    os.close(leader)
    assert process.wait(60) == 1
    assert (b"\x1b[1;33mwarning[backward-in-autocast]\x1b[0m" in output) is colored
    assert (b"\x1b" in output) is colored
