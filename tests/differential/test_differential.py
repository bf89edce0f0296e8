"""What the linter says of random training programs is what their runs show."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from generator import program

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "differential.py"
PROGRAMS = int(os.environ.get("AMPLINT_PROGRAMS", "200"))

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def test_static_and_run_verdicts_agree(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(BENCHMARK), "--count", str(PROGRAMS), "--keep", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert f"{PROGRAMS} programs" in finished.stdout


def test_programs_differ_and_compile() -> None:
    texts = {program(seed) for seed in range(200)}
    assert len(texts) > 190
    for text in texts:
        compile(text, "program", "exec")
