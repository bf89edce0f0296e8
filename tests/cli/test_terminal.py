from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import command, environment

from amplint.cli.progress import ProgressBar

LONG = "with autocast():\n    loss.backward()  # BAD\n"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


class Screen:
    """A terminal in the place of standard error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> None:
        import pty

        self._leader, self._follower = pty.openpty()
        monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((columns, 24)))
        monkeypatch.setattr(sys, "stderr", os.fdopen(self._follower, "w"))

    def take(self) -> str:
        """What was written since the last time. Linux hands it over a moment after the write, hence the mark."""
        os.write(self._follower, b"\0")
        written = b""
        while not written.endswith(b"\0"):
            written += os.read(self._leader, 65536)
        return written[:-1].decode()


def on_screen(written: str) -> str:
    """What is left on a line of a terminal."""
    cells: list[str] = []
    for text in written.split("\r"):
        cells[: len(text)] = text
    return "".join(cells).rstrip()


needs_terminal = pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo-terminals")


@needs_terminal
def test_progress_comes_within_the_first_second_and_leaves_no_trace(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(monkeypatch)
    progress = ProgressBar()
    progress("reading files", 1, 10)
    progress.draw()
    assert screen.take() == ""
    clock[0] += 0.5
    progress.draw()
    seen = screen.take()
    assert seen == "\rreading files [##..................] 1/10, 0 s"
    progress("judging files (10): entry points", 7, 0)
    clock[0] += 2.0
    progress.draw()
    seen += screen.take()
    assert on_screen(seen) == "judging files (10): entry points 7, 2 s"
    progress.clear()
    seen += screen.take()
    assert on_screen(seen) == ""
    assert seen.endswith("\r")
    progress.clear()
    assert screen.take() == ""


@needs_terminal
def test_progress_keeps_to_the_width(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(monkeypatch, columns=20)
    progress = ProgressBar()
    clock[0] += 1
    progress("reading files", 5, 10)
    progress.draw()
    assert screen.take() == "\rreading files [####"
    progress.clear()
    assert screen.take() == "\r" + " " * 19 + "\r"


@needs_terminal
def test_an_error_leaves_nothing_of_it(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen(monkeypatch)
    with pytest.raises(ValueError), ProgressBar() as progress:
        progress("listing files", 0, 0)
        clock[0] += 1
        progress.draw()
        raise ValueError
    assert on_screen(screen.take()) == ""


@needs_terminal
@pytest.mark.parametrize("why", ["a dumb terminal", "it is not wanted", "a pipe"])
def test_there_is_no_progress(clock: list[float], monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    monkeypatch.setenv("TERM", "dumb" if why == "a dumb terminal" else "xterm")
    screen = Screen(monkeypatch)
    if why == "a pipe":
        monkeypatch.setattr(sys, "stderr", io.StringIO())
    with ProgressBar(why != "it is not wanted") as progress:
        clock[0] += 60
        progress("reading files", 5, 10)
        progress.draw()
        assert progress._thread is None
    assert screen.take() == ""


@needs_terminal
@pytest.mark.parametrize("more", [{}, {"NO_COLOR": "1"}])
def test_a_run_that_hangs_says_what_it_is_at(project: Path, more: dict[str, str]) -> None:
    """The analysis waits for what the test writes, however long it takes until the line is there."""
    import pty

    os.mkfifo(project / "wait")
    (project / "slow.py").write_text("with autocast():\n    x()  # WAIT wait\n")
    leader, follower = pty.openpty()
    env = environment(TERM="xterm") | more
    process = subprocess.Popen(
        command("--no-cache"), cwd=project, env=env, stdout=subprocess.PIPE, stderr=follower
    )
    os.close(follower)
    seen = b""
    while b"reading files [....................] 0/1, " not in seen:
        seen += os.read(leader, 65536)
    (project / "wait").write_text("go on")
    output = process.stdout.read() if process.stdout is not None else b""
    try:
        while piece := os.read(leader, 65536):
            seen += piece
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(leader)
    assert process.wait(60) == 0
    assert output == b"All good: no findings; checked 1 file.\n"
    assert b"\x1b" not in seen and b"\n" not in seen
    assert on_screen(seen.decode()) == ""


def in_terminal(project: Path, **more: str) -> bytes:
    """What amplint writes to a terminal."""
    import pty

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
    return output


@needs_terminal
@pytest.mark.parametrize(
    ("more", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_gets_colours(project: Path, more: dict[str, str], colored: bool) -> None:
    (project / "bad.py").write_text(LONG)
    output = in_terminal(project, **more)
    assert (b"\x1b[1;33mwarning[backward-in-autocast]\x1b[0m" in output) is colored
    assert (b"\x1b" in output) is colored


@needs_terminal
@pytest.mark.parametrize(
    ("more", "linked"),
    [
        ({}, False),
        ({"TERM_PROGRAM": "vscode"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"VTE_VERSION": "7600"}, True),
        ({"VTE_VERSION": "4999"}, False),
        ({"WT_SESSION": "1"}, True),
        ({"FORCE_HYPERLINK": "1"}, True),
        ({"TERM_PROGRAM": "vscode", "FORCE_HYPERLINK": "0"}, False),
        ({"TERM_PROGRAM": "vscode", "NO_COLOR": "1"}, False),
    ],
    ids=str,
)
def test_a_terminal_that_can_gets_links_to_the_rules(
    project: Path, more: dict[str, str], linked: bool
) -> None:
    (project / "bad.py").write_text(LONG)
    links = re.findall(rb"\x1b]8;;file://(.*?)\x1b\\(.*?)\x1b]8;;\x1b", in_terminal(project, **more))
    assert bool(links) is linked
    for target, text in links:
        assert "## Why is this bad" in Path(target.decode()).read_text(encoding="utf-8")
        assert text == b"\x1b[1;33mwarning[backward-in-autocast]\x1b[0m"
