"""The hook, run by the real pre-commit, which installs amplint from a copy of this repository."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import ROOT, environment

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("pre_commit") is None, reason="pre-commit is not installed"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

BAD = """\
import torch


def train(model, loader, optimizer):
    for batch in loader:
        with torch.autocast("cuda"):
            loss = model(batch).sum()
            loss.backward()
        optimizer.step()
"""

_NO_REGISTRY = ("No matching distribution found", "Failed to establish a new connection", "ConnectionError")


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what pre-commit needs of this one."""
    copy = tmp_path_factory.mktemp("amplint")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "amplint", copy / "amplint", ignore=shutil.ignore_patterns("__pycache__"))
    git(copy, "init", "-q")
    git(copy, "add", ".")
    git(copy, "commit", "-q", "-m", "Copy")
    git(copy, "tag", "v1")
    return copy


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pre-commit keeps the environment into which it has installed amplint."""
    return tmp_path_factory.mktemp("store")


def pre_commit(
    hooks: Path, store: Path, repository: Path, *files: str, hook: str = "amplint"
) -> subprocess.CompletedProcess[str]:
    (repository / ".pre-commit-config.yaml").write_text(
        f"repos: [{{repo: {hooks.as_posix()}, rev: v1, hooks: [{{id: {hook}}}]}}]\n"
    )
    git(repository, "add", ".pre-commit-config.yaml")
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "run", hook, "--files", *files],
        cwd=repository,
        env=environment(PRE_COMMIT_HOME=str(store), PRE_COMMIT_COLOR="never", PATH=os.environ["PATH"]),
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode not in (0, 1) and any(sign in done.stdout for sign in _NO_REGISTRY):
        pytest.skip("pre-commit cannot install amplint here: the package registry is out of reach")
    return done


@pytest.fixture
def repository(project: Path) -> Path:
    (project / "bad.py").write_text(BAD)
    (project / "good.py").write_text(BAD.replace("            loss.back", "        loss.back"))
    (project / "notes.txt").write_text(BAD)
    (project / "old").mkdir()
    (project / "old" / "bad.py").write_text(BAD)
    (project / "pyproject.toml").write_text('[tool.amplint]\nextend-exclude = ["old"]\n')
    git(project, "init", "-q")
    git(project, "add", ".")
    return project


def test_the_hook_fails_on_findings(hooks: Path, store: Path, repository: Path) -> None:
    done = pre_commit(hooks, store, repository, "bad.py", "good.py", "notes.txt")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "bad.py:8:13: warning[backward-in-autocast] AMP101" in done.stdout
    assert "good.py" not in done.stdout
    assert "checked 2 files" in done.stdout


def test_the_hook_passes_without_findings(hooks: Path, store: Path, repository: Path) -> None:
    done = pre_commit(hooks, store, repository, "good.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout


def test_the_hook_keeps_to_exclusions(hooks: Path, store: Path, repository: Path) -> None:
    done = pre_commit(hooks, store, repository, "old/bad.py", "good.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fixing_hook_fixes_the_files_of_the_commit(hooks: Path, store: Path, repository: Path) -> None:
    done = pre_commit(hooks, store, repository, "bad.py", "good.py", "old/bad.py", hook="amplint-fix")
    assert done.returncode == 1, done.stdout + done.stderr  # pre-commit fails when files have changed
    assert "Fixed 1 finding in 1 file: 1 backward-in-autocast." in done.stdout
    assert (repository / "bad.py").read_text() == (repository / "good.py").read_text()
    assert (repository / "old" / "bad.py").read_text() == BAD
    again = pre_commit(hooks, store, repository, "bad.py", hook="amplint-fix")
    assert again.returncode == 0, again.stdout + again.stderr
