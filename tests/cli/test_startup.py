"""A run in which no file passes the gate must not import what it does not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from running import ROOT, environment

_SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from amplint.cli.main import run
code = run({arguments!r})
heavy = {{"libcst", "torch", "pathspec", "multiprocessing", "concurrent.futures", "amplint.flow"}}
loaded = sorted(heavy & set(sys.modules))
sys.exit(f"{{code}} {{loaded}}")
"""


def loaded_by(project: Path, *arguments: str) -> str:
    script = _SCRIPT.format(root=str(ROOT), arguments=list(arguments))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, env=environment(), capture_output=True, text=True
    )
    return done.stderr.strip()


@pytest.fixture
def plain_project(project: Path) -> Path:
    (project / "plain.py").write_text("import torch\n\nprint(torch.ones(3))\n")
    return project


def test_neither_libcst_nor_torch(plain_project: Path) -> None:
    assert loaded_by(plain_project) == "0 []"


def test_not_with_selected_rules_either(plain_project: Path) -> None:
    assert loaded_by(plain_project, "--select", "AMP101", "--ignore", "half-model") == "0 []"


def test_not_with_settings_in_pyproject(plain_project: Path) -> None:
    (plain_project / "pyproject.toml").write_text('[tool.amplint]\nselect = ["ALL"]\nexclude = ["old"]\n')
    assert loaded_by(plain_project) == "0 []"


def test_not_with_a_baseline(plain_project: Path) -> None:
    (plain_project / "amplint-baseline.json").write_text('{"version": 1, "findings": []}')
    assert loaded_by(plain_project) == "0 []"


def test_pathspec_only_for_patterns(plain_project: Path) -> None:
    (plain_project / ".gitignore").write_text("*.log\n")
    assert loaded_by(plain_project) == "0 ['pathspec']"


def test_a_file_that_passes_needs_libcst_but_never_torch(plain_project: Path) -> None:
    (plain_project / "amp.py").write_text("import torch\n\nregion = torch.autocast('cuda')\n")
    loaded = loaded_by(plain_project)
    assert "'libcst'" in loaded
    assert "'torch'" not in loaded
