"""Starts the user's command in a process of its own, under the probe, and reads what it recorded. The only part of a
cross-check that the command line itself needs; it does not import torch."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from amplint.confirm import asked
from amplint.confirm.asked import AskedFile
from amplint.confirm.launchers import LAUNCHERS, as_module
from amplint.confirm.order import ENVIRONMENT, GRACE, UNUSABLE, Order
from amplint.confirm.recording import FINISHED, KILLED, NoRecording, Recording, merged, read
from amplint.source.cells import is_notebook

_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?(?:\.exe)?|pypy3?")
_WITH_VALUE = ("-W", "-X")
_LAST_RESORT = 10.0
"""Seconds after which a process that should have ended itself is killed."""


class NotRun(Exception):  # noqa: N818
    """The command cannot be run under the probe. The message says why and what can be."""


@dataclass(frozen=True)
class Run:
    """What became of a command."""

    recording: Recording
    status: int


def prepared(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options for Python and the program with its arguments, from what a user types: ``train.py …``, ``-m package
    …``, ``-c code``, with or without ``python`` and its options in front, ``torchrun …`` and other launchers. Raises
    NotRun."""
    rest = list(command)
    options: list[str] = []
    if rest and _PYTHON.fullmatch(Path(rest[0]).name):
        del rest[0]
    while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
        count = 2 if rest[0] in _WITH_VALUE else 1
        options, rest = options + rest[:count], rest[count:]
    rest = as_module(rest)
    if not rest:
        raise NotRun("there is no program to run; write it after --, such as: -- train.py --epochs 1")
    if rest[0] in ("-m", "-c"):
        if len(rest) < 2:
            raise NotRun(f"{rest[0]} needs an argument")
    elif not Path(rest[0]).exists():
        raise NotRun(
            f"no such file: {rest[0]}; write a script, -m MODULE or one of {_launchers()} with its options after --"
        )
    elif is_notebook(rest[0]):
        raise NotRun(
            f"{rest[0]} is a notebook, which is not run; convert it first: "
            f"jupyter nbconvert --to script {shlex.quote(rest[0])}"
        )
    elif Path(rest[0]).is_file() and not _is_python(Path(rest[0])):
        raise NotRun(
            f"{rest[0]} is no Python program; a script can be probed, -m MODULE, and what {_launchers()} starts"
        )
    return options, rest


def has_torch() -> bool:
    """Whether the Python that would run the program has torch."""
    return importlib.util.find_spec("torch") is not None


def run(
    order: Order,
    command: Sequence[str],
    *,
    output_to_stderr: bool = False,
    lines: Sequence[AskedFile] | None = None,
) -> Run:
    """Runs the command to its end and returns its exit status and what it recorded. ``lines`` are those that somebody
    will ask for; None: any. Raises NotRun."""
    options, program = prepared(command)
    launcher = str(Path(__file__).with_name("launch.py"))
    with tempfile.TemporaryDirectory(prefix="amplint-") as folder:
        order = replace(order, folder=folder, command=tuple(command))
        if lines is not None:
            asked.write(lines, Path(folder))
        environment = {**os.environ, ENVIRONMENT: order.written()}
        if not order.keeps_compile:
            environment.setdefault("TORCHDYNAMO_DISABLE", "1")
        sys.stdout.flush()
        process = subprocess.Popen(
            [sys.executable, *options, launcher, *program],
            env=environment,
            stdout=sys.stderr if output_to_stderr else None,
        )
        status = _wait(process, order.timeout)
        found = [read(path) for path in sorted(Path(folder).glob("*.json"))]
    if not found:
        raise NotRun(_why_nothing(status))
    recording = merged(found)
    if recording.ended == FINISHED and (status < 0 or recording.is_cut):
        recording = replace(recording, ended=KILLED)
    return Run(replace(recording, status=status, command=tuple(command)), status)


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:
    """The exit status. Ctrl-C reaches the program as well: it decides what to do about it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return process.wait(None if timeout is None else timeout + GRACE + _LAST_RESORT)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _why_nothing(status: int) -> str:
    if status == UNUSABLE:
        return "the run could not begin"
    if status < 0:
        return f"the program was killed by signal {-status} before anything was recorded"
    return f"the program ended with status {status} before anything was recorded"


def _launchers() -> str:
    return ", ".join(" ".join(launcher.words) for launcher in LAUNCHERS if launcher.words)


def _is_python(path: Path) -> bool:
    if path.suffix in (".py", ".pyw", ".zip", ".pyz"):
        return True
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first


__all__ = ["NoRecording", "NotRun", "Run", "has_torch", "prepared", "run"]
