from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from running import command, environment

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def amplint(project: Path) -> Run:
    """Runs the command line in the project."""

    def run(
        *arguments: str | bytes,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes = "",
        fake: bool = True,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command(*arguments, fake=fake),
            cwd=cwd or project,
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            env=environment(**(env or {})),
            capture_output=True,
            timeout=120,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return run
