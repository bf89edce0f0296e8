from __future__ import annotations

from pathlib import Path

import pytest

from amplint.bounds import TORCH_DEFAULT, TorchBounds
from amplint.config import Settings, with_project_torch
from amplint.requirements import bounds_of_setting, project_torch


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("2.4", ((2, 4), (2, 4))),
        ("2.4.1", ((2, 4), (2, 4))),
        ("2", ((2, 0), (2, 99))),
        (">=2.3,<2.9", ((2, 3), (2, 8))),
        (">=2.3, <2.9.1", ((2, 3), (2, 9))),
        (">2.3", ((2, 3), None)),
        (">=2.3,<3", ((2, 3), (2, 99))),
        ("<=2.5", (TORCH_DEFAULT[0], (2, 5))),
        ("<1.13", ((1, 12), (1, 12))),
        ("==2.3.*", ((2, 3), (2, 3))),
        ("==2.*", ((2, 0), (2, 99))),
        ("~=2.3", ((2, 3), (2, 99))),
        ("~=2.3.1", ((2, 3), (2, 3))),
        (">=2.1,!=2.2.0", ((2, 1), None)),
        ("", None),
        ("new", None),
        ("2.4.1.dev1+cu121", ((2, 4), (2, 4))),
        ("2." + "1" * 5000, None),
        ("1" * 5000, None),
        (">=2.5,<2.3", None),
    ],
)
def test_bounds(text: str, bounds: TorchBounds | None) -> None:
    assert bounds_of_setting(text) == bounds


@pytest.mark.parametrize(
    ("line", "bounds"),
    [
        ("torch >= 2.1 , < 2.7 ,", ((2, 1), (2, 6))),
        ("torch(>=2.1,<2.7)", ((2, 1), (2, 6))),
        ("torch[opt-einsum]>=2.1,<2.7;python_version>'3'", ((2, 1), (2, 6))),
        ("torch>=2.1,,<2.7", None),
        ("torch >=2.1 <2.7", None),
        ("torch 2.1", None),
        ("torch ^2.1", None),
        ("torch @ https://example.org/torch-2.1.whl", None),
        ("torch[opt", None),
        ("torch", None),
        ("torchvision>=0.1", None),
        ("torch " + "!a" * 5000, None),
    ],
)
def test_requirements(tmp_path: Path, line: str, bounds: TorchBounds | None) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(f"{line}\n")
    (tmp_path / ".git").mkdir()
    assert project_torch(tmp_path) == ((bounds, path) if bounds is not None else None)


SOURCES = {
    "dependencies": ("pyproject.toml", "[project]\ndependencies = ['numpy', 'torch>=2.1,<2.7']"),
    "extras": (
        "pyproject.toml",
        "[project.optional-dependencies]\nx = ['torch[opt] >= 2.1, < 2.7 ; python_version > \"3\"']",
    ),
    "groups": ("pyproject.toml", "[dependency-groups]\nx = ['torch (>=2.1,<2.7)', {include-group = 'y'}]"),
    "poetry": ("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '>=2.1,<2.7'"),
    "poetry table": (
        "pyproject.toml",
        "[tool.poetry.group.a.dependencies]\ntorch = {version = '>=2.1,<2.7'}",
    ),
    "setup.cfg": ("setup.cfg", "[options]\ninstall_requires =\n    torchvision>=0.1\n    torch>=2.1,<2.7\n"),
    "setup.py": ("setup.py", "raise SystemExit\nsetup(install_requires=['torch>=2.1, <2.7'])\n"),
    "requirements": ("requirements-gpu.txt", "torchvision\ntorch>=2.1,<2.7  # why\n"),
}


@pytest.mark.parametrize(("name", "text"), SOURCES.values(), ids=SOURCES.keys())
def test_where_bounds_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / name).write_text(text)
    assert project_torch(tmp_path / "src" / "train.py") == (((2, 1), (2, 6)), tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "requirements.txt",
            "torch\ntorchvision==0.15\npytorch-lightning>=2.0\ntorch @ https://x/torch-2.1.whl\n",
        ),
        ("pyproject.toml", "torch = [[["),
        ("pyproject.toml", "project = 3\n[tool]\npoetry = 'torch'"),
        ("setup.py", "torch = ("),
    ],
)
def test_files_that_say_nothing(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    assert project_torch(tmp_path) is None


def test_all_mentions_count_and_the_repository_is_the_border(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.13\n")
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    assert project_torch(repository) is None
    (repository / "requirements.txt").write_text("torch>=2.1\ntorch>=2.4,<2.6\n")
    assert project_torch(repository) == (((2, 1), None), repository / "requirements.txt")


def test_settings_take_them_unless_the_user_has_said_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
    settings = Settings(root=tmp_path)
    assert with_project_torch(settings, [tmp_path]).torch == ((2, 4), None)
    assert with_project_torch(settings, [tmp_path]).torch_from == str(tmp_path / "requirements.txt")
    said = Settings(root=tmp_path, torch=((2, 1), None), torch_from="--torch-version")
    assert with_project_torch(said, [tmp_path]) is said
