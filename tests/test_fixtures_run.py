"""The fixtures and their golden fixes are real programs: they run under torch, on the CPU, to their end."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUNNER = Path(__file__).with_name("run_programs.py")
PROGRAMS = sorted(
    path.relative_to(FIXTURES).as_posix()
    for path in FIXTURES.glob("*/*")
    if path.name.startswith(("good_", "bad_")) and (path.is_dir() or path.suffix == ".py")
)
GOLDEN_FOLDERS = [name for name in PROGRAMS if name.endswith((".fixed", ".safe"))]
"""They hold the files that fixing changes; the others come from the fixture."""

WITHOUT_GRADIENTS = "element 0 of tensors does not require grad"
MIXED_LOSS = "Found dtype Float but expected "
FIXED_IN = {
    "no-grad-then-grad/bad_amp_made_elsewhere": ((2, 11), WITHOUT_GRADIENTS),
    "no-grad-then-grad/bad_loop.py": ((2, 11), WITHOUT_GRADIENTS),
    "no-grad-then-grad/bad_odd_formatting.py": ((2, 11), WITHOUT_GRADIENTS),
    "no-grad-then-grad/bad_self_conditioning.py": ((2, 11), WITHOUT_GRADIENTS),
    "no-grad-then-grad/bad_two_files": ((2, 11), WITHOUT_GRADIENTS),
    "missing-float/good_promoted.py": ((2, 11), MIXED_LOSS),
    "scaler-enabled-mismatch/good_region_in_model": ((2, 11), MIXED_LOSS),
}
"""Programs that raise in releases of torch before these, and what they raise: backward passes through copies of
weights without a history, and through an mse_loss of a half prediction and a float32 target."""

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Traceback by program, None where there is none."""
    fixed = tmp_path_factory.mktemp("fixed")
    for folder in GOLDEN_FOLDERS:
        shutil.copytree(FIXTURES / folder.rpartition(".")[0], fixed / folder)
        shutil.copytree(FIXTURES / folder, fixed / folder, dirs_exist_ok=True)
    programs = [str(fixed / name) if name in GOLDEN_FOLDERS else name for name in PROGRAMS]
    there = set(FIXTURES.iterdir())
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", str(RUNNER), *programs],
        cwd=FIXTURES,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=600,
    )
    assert set(FIXTURES.iterdir()) == there, "a program leaves a file behind"
    found = dict(json.loads(line) for line in finished.stdout.splitlines())
    return {name.removeprefix(f"{fixed.as_posix()}/"): outcome for name, outcome in found.items()}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_fixture_runs_to_its_end(outcomes: dict[str, str | None], program: str) -> None:
    assert program in outcomes, "the interpreter crashed here or before"
    if is_too_old_for(program):
        assert FIXED_IN[program][1] in (outcomes[program] or "")
        return
    assert outcomes[program] is None, outcomes[program]


def is_too_old_for(program: str) -> bool:
    """Whether the installed torch raises in a program that newer releases run to its end."""
    return program in FIXED_IN and release() < FIXED_IN[program][0]


def release() -> tuple[int, int]:
    """That of the installed torch."""
    major, minor, *_ = importlib.metadata.version("torch").split(".")
    return int(major), int(minor)
