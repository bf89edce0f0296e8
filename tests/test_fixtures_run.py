"""The fixtures and their golden fixes are real programs: they run under torch, on the CPU, to their end."""

from __future__ import annotations

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
FOLDERS_FIXED = sorted(
    {path.parent.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("*/bad_*/*.fixed.py")}
)

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """Traceback by program, None where there is none. A folder whose files have goldens is run with these, too,
    under the name of the folder and ".fixed"."""
    fixed = tmp_path_factory.mktemp("fixed")
    for folder in FOLDERS_FIXED:
        target = fixed / f"{folder}.fixed"
        shutil.copytree(FIXTURES / folder, target)
        for golden in target.glob("*.fixed.py"):
            golden.replace(golden.with_name(golden.name.replace(".fixed.py", ".py")))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            str(RUNNER),
            *PROGRAMS,
            *(str(fixed / f"{folder}.fixed") for folder in FOLDERS_FIXED),
        ],
        cwd=FIXTURES,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=600,
    )
    found = dict(json.loads(line) for line in finished.stdout.splitlines())
    return {name.removeprefix(f"{fixed.as_posix()}/"): outcome for name, outcome in found.items()}


@pytest.mark.parametrize("program", [*PROGRAMS, *(f"{folder}.fixed" for folder in FOLDERS_FIXED)])
def test_a_fixture_runs_to_its_end(outcomes: dict[str, str | None], program: str) -> None:
    assert program in outcomes, "the interpreter crashed here or before"
    assert outcomes[program] is None, outcomes[program]
