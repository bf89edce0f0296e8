from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from no_device import pytest_terminal_summary  # noqa: F401 - a hook of pytest
from probing import Done, Probed

from amplint.confirm.order import ENVIRONMENT, Order
from amplint.confirm.recording import read

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def server() -> Iterator[subprocess.Popen[str]]:
    pytest.importorskip("torch")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TORCHDYNAMO_DISABLE": "1", "PYTHONUNBUFFERED": ""}
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    yield process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(20)


@pytest.fixture
def probed(server: subprocess.Popen[str], tmp_path: Path) -> Probed:
    """Runs a program under the probe: its text, or a command in ``tmp_path``."""

    def run(program: str | list[str], *arguments: str, **options: object) -> Done:
        if isinstance(program, str):
            (tmp_path / "train.py").write_text(textwrap.dedent(program), encoding="utf-8")
            program = ["train.py", *arguments]
        folder = tmp_path / "recordings"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        options = {"device": "simulated-cuda", **options}
        order = Order(str(folder), str(tmp_path), command=tuple(program), **options)  # type: ignore[arg-type]
        out, err = tmp_path / "stdout.txt", tmp_path / "stderr.txt"
        wanted = {
            "command": program,
            "cwd": str(tmp_path),
            "environment": {ENVIRONMENT: order.written()},
            "stdout": str(out),
            "stderr": str(err),
        }
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(wanted) + "\n")
        server.stdin.flush()
        status = os.waitstatus_to_exitcode(json.loads(server.stdout.readline()))
        found = [read(path) for path in sorted(folder.glob("*.json"))]
        return Done(status, out.read_text(), err.read_text(), found)

    return run
