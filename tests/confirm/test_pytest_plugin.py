"""``pytest --amplint``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.toml import loads

ROOT = Path(__file__).parents[2]

TESTS = """
import torch
from torch import nn


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(torch.ones(2, 4, device="cuda")).square().mean()
        loss.backward()
    optimizer.step()


def evaluate(model):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return model(torch.ones(2, 4, device="cuda"))


def test_training():
    train(nn.Linear(4, 1).cuda())
    train(nn.Linear(4, 1).cuda())


def test_numpy():
    evaluate(nn.Linear(4, 1).cuda()).detach().cpu().numpy()
"""


def run_pytest(directory: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    # a plugin that is installed already is not to be loaded twice
    options = ["-p", "no:amplint", "-p", "amplint.cli.pytest_plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_plugin_is_registered() -> None:
    project = loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"amplint": "amplint.cli.pytest_plugin"}


def test_verdicts_stand_at_the_end(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_model.py").write_text(TESTS)
    done = run_pytest(tmp_path, "--amplint")
    assert done.returncode == 1, "a failing test fails the run, as ever"
    assert "amplint: watching torch.amp on CUDA simulated on CPU" in done.stdout
    report = done.stdout.partition(" amplint ===")[2]
    assert "confirmed 2 times (CUDA simulated on CPU)\ntest_model.py:10:9: warning[backward-in-" in report
    assert "confirmed once (CUDA simulated on CPU)\ntest_model.py:25:5: error[bfloat16-to-numpy]" in report
    assert "2 findings: 2 confirmed" in report


def test_what_is_true_of_other_releases_is_not_observable(tmp_path: Path) -> None:
    """Torch takes an index since 2.4."""
    pytest.importorskip("torch")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "amplint.toml").write_text('torch-version = ">=2.0"\n')
    (tmp_path / "test_model.py").write_text(
        "import torch\n\n\ndef test_region():\n    with torch.autocast('cuda:0'):\n        pass\n"
    )
    report = run_pytest(tmp_path, "--amplint").stdout.partition(" amplint ===")[2]
    assert "not observable on torch" in report
    assert "test_model.py:5:" in report
    assert "1 finding: 1 not observable here" in report


CRASH = """
import os


def test_crash():
    os.kill(os.getpid(), 9)
"""


def test_workers_of_xdist_report_together(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("xdist")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_model.py").write_text(TESTS)
    (tmp_path / "test_crash.py").write_text(CRASH)
    # each file in a worker of its own; no worker takes the place of the one that is killed
    done = run_pytest(tmp_path, "--amplint", "-n", "2", "--dist", "loadfile", "--max-worker-restart", "0")
    assert done.stdout.count("amplint: watching torch.amp on CUDA simulated on CPU") == 1
    report = done.stdout.partition(" amplint ===")[2]
    assert "confirmed 2 times (CUDA simulated on CPU)\ntest_model.py:10:9: warning[backward-in-" in report
    assert "confirmed once (CUDA simulated on CPU)\ntest_model.py:25:5: error[bfloat16-to-numpy]" in report
    assert "note: what these workers saw is lost with them: gw" in report
    assert ": 2 optimizer steps; " in report


def test_without_the_option_nothing_is_imported(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n\n\ndef test_nothing():\n"
        "    assert not {'torch', 'libcst', 'amplint.confirm'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "amplint" not in done.stdout
