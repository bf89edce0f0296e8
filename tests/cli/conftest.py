from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Timer

import pytest
from running import command, environment

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_SECONDS = 120
"""How long a run may take."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def server() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(20)


@pytest.fixture
def amplint(project: Path, server: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the command line in the project: in a fork of the server, or in a process of its own if the environment
    has something to say to its interpreter."""
    streams = [tmp_path_factory.mktemp("streams") / name for name in ("in", "out", "err")]

    def run(
        *arguments: str | bytes,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes = "",
        fake: bool = True,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        around = environment(**(env or {}))
        if any(name.startswith("PYTHON") for name in env or ()):
            done = subprocess.run(
                command(*arguments, fake=fake),
                cwd=cwd or project,
                input=given,
                env=around,
                capture_output=True,
                timeout=_SECONDS,
            )
            return subprocess.CompletedProcess(
                done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
            )
        for stream, text in zip(streams, (given, b"", b""), strict=True):
            stream.write_bytes(text)
        wanted = {
            "arguments": [os.fsdecode(argument) for argument in arguments],
            "cwd": str(cwd or project),
            "environment": around,
            "fake": fake,
            "streams": [str(stream) for stream in streams],
        }
        assert server.stdin is not None and server.stdout is not None
        timer = Timer(_SECONDS, server.kill)
        timer.start()
        try:
            server.stdin.write(json.dumps(wanted) + "\n")
            server.stdin.flush()
            status = json.loads(server.stdout.readline())
        finally:
            timer.cancel()
        out, err = (stream.read_bytes().decode() for stream in streams[1:])
        return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), out, err)

    return run
