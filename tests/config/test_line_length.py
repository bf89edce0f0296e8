"""How long lines may be: what the nearest settings of a formatter or linter say."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.line_length import DEFAULT, line_length_of

SAID = {
    "ruff.toml": ("line-length = 100\n", 100),
    ".ruff.toml": ("line-length = 101\n", 101),
    "pyproject.toml": ("[tool.ruff]\nline-length = 102\n[tool.black]\nline-length = 99\n", 102),
    "pyproject.toml of black": ("[tool.black]\nline-length = 103\n", 103),
    "setup.cfg": ("[flake8]\nmax-line-length = 104\n", 104),
    "setup.cfg of pycodestyle": ("[pycodestyle]\nmax_line_length = 105\n", 105),
    "pyproject.toml of others": ("[tool.isort]\nline-length = 106\n", DEFAULT),
    "ruff.toml with a word": ('line-length = "long"\n', DEFAULT),
    "ruff.toml that is none": ("line-length = [\n", DEFAULT),
    "setup.cfg that is none": ("max-line-length\n", DEFAULT),
    "pyproject.toml with lists": ("tool = ['line-length']\n", DEFAULT),
}


@pytest.mark.parametrize(("name", "said"), SAID.items(), ids=SAID.keys())
def test_the_line_length_of_a_project(tmp_path: Path, name: str, said: tuple[str, int]) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / name.partition(" ")[0]).write_text(said[0])
    inside = tmp_path / "src" / "package"
    inside.mkdir(parents=True)
    assert line_length_of(inside) == said[1]


def test_the_nearest_settings_count_and_none_outside_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text("line-length = 100\n")
    (tmp_path / "one" / ".git").mkdir(parents=True)
    (tmp_path / "one" / "two").mkdir()
    assert line_length_of(tmp_path / "one" / "two") == DEFAULT
    (tmp_path / "one" / "ruff.toml").write_text("line-length = 110\n")
    (tmp_path / "one" / "two" / "setup.cfg").write_text("[flake8]\nmax-line-length = 120\n")
    assert line_length_of(tmp_path / "one") == 110
    assert line_length_of(tmp_path / "one" / "two") == 120
