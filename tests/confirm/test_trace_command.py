"""``amplint trace`` on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from traces import recording

from amplint.cli.main import run
from amplint.confirm import recording as recordings
from amplint.confirm.recording import Recording

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with two traces."""
    monkeypatch.chdir(tmp_path)
    recordings.write(recording(), tmp_path / "a.json")
    recordings.write(recording(kept=-1), tmp_path / "b.json")
    return tmp_path


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def invoke(*arguments: str) -> Done:
        status = run(["trace", *arguments])
        return Done(status, *capsys.readouterr())

    return invoke


def test_a_program_is_traced_and_kept_and_its_output_stays_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nprint('hello')\ntorch.nn.Linear(2, 2).half()(torch.ones(1, 2).half())\nraise SystemExit(3)\n"
    )
    command = [
        "-m",
        "amplint",
        "trace",
        "--json",
        "--record",
        "kept.json",
        "--html",
        "page.html",
        "--",
        "train.py",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert "hello" in done.stderr
    value = json.loads(done.stdout)
    assert [(op["op"], op["result"], op["module"]) for op in value["ops"]] == [
        ("linear", "float16", "Linear")
    ]
    assert "train.py:3" in (tmp_path / "page.html").read_text()
    assert recordings.read(tmp_path / "kept.json").trace is not None


def test_a_kept_trace_is_shown_again(kept: Path, invoke: Callable[..., Done]) -> None:
    result = invoke("--replay", "a.json", "--search", "layers.17", "--html", "page.html")
    assert result.status == 0, result.stderr
    assert "! 17" in result.stdout
    assert 'data-name="Net.layers.17"' in (kept / "page.html").read_text()


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), "Net.layers.17 (Linear): f32 100 % -> f16 100 %"), (("--json",), '"name": "Net.layers.17"')],
)
def test_two_kept_traces_are_compared(
    kept: Path, invoke: Callable[..., Done], options: tuple[str, ...], expected: str
) -> None:
    result = invoke("--compare", "a.json", "b.json", "--html", "page.html", *options)
    assert result.status == 0, result.stderr
    assert expected in result.stdout
    assert "Net.layers.17" in (kept / "page.html").read_text()


@pytest.mark.parametrize("options", [("--replay", "a.json"), ("--compare", "a.json", "b.json")])
def test_a_kept_trace_takes_the_place_of_a_run(
    kept: Path, invoke: Callable[..., Done], options: tuple[str, ...]
) -> None:
    result = invoke(*options, "--", "train.py")
    assert result.status == 2
    assert "take the place of a run" in result.stderr


@pytest.mark.parametrize("options", [("--replay", "c.json"), ("--compare", "a.json", "c.json")])
def test_what_is_no_trace_is_refused_with_its_name(
    kept: Path, invoke: Callable[..., Done], options: tuple[str, ...]
) -> None:
    recordings.write(Recording("cuda", torch="2.13.0"), kept / "c.json")
    result = invoke(*options)
    assert result.status == 2
    assert "c.json holds no trace: it is from `amplint confirm`" in result.stderr
    (kept / "c.json").unlink()
    result = invoke(*options)
    assert (result.status, "cannot read c.json" in result.stderr) == (2, True)


def test_a_program_without_torch_is_told_in_one_line(kept: Path, invoke: Callable[..., Done]) -> None:
    recordings.write(Recording("cpu", command=("hello.py",)), kept / "c.json")
    result = invoke("--replay", "c.json")
    assert result.stdout == "Ran hello.py, which did not import torch: nothing was observed; it finished.\n"
