from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from amplint.config import DEFAULT_EXCLUDE
from amplint.source.discovery import MissingPathError, discover


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("")


def found(*paths: str, excluded: tuple[str, ...] = DEFAULT_EXCLUDE, force: bool = False) -> list[str]:
    discovery = discover(paths or ["."], root=".", excluded=excluded, force_exclude=force)
    assert discovery.obstacles == ()
    return [os.path.relpath(file) for file in discovery.files]


def test_notebooks_count_but_for_the_copies_that_jupyter_keeps(tree: Path) -> None:
    write("a.ipynb", "b/c.ipynb", ".ipynb_checkpoints/a-checkpoint.ipynb", "b/.ipynb_checkpoints/c.ipynb")
    assert found() == ["a.ipynb", "b/c.ipynb"]
    assert found(excluded=("*.ipynb",)) == []


def test_python_files_below_a_directory(tree: Path) -> None:
    write("b.py", "a/c.pyi", "a/d.txt", "a/e/.hidden.py", "f.ipynb", "g.PY", "py", ".h/i.py")
    assert found() == [".h/i.py", "a/c.pyi", "a/e/.hidden.py", "b.py", "f.ipynb"]


def test_named_files_count_whatever_they_are_called_and_once(tree: Path) -> None:
    write("script", "a.py")
    assert found("script", "a.py", "./a.py", ".") == ["a.py", "script"]


def test_the_usual_directories_are_left_out_unless_named(tree: Path) -> None:
    write("build/a.py", ".venv/b.py", "src/node_modules/c.py", "src/d.py", "build.py")
    assert found() == ["build.py", "src/d.py"]
    assert found("build", ".venv/b.py") == [".venv/b.py", "build/a.py"]


def test_a_missing_path(tree: Path) -> None:
    with pytest.raises(MissingPathError, match="nowhere"):
        found("nowhere")


def test_exclude_patterns(tree: Path) -> None:
    write("a.py", "gen/b.py", "src/gen/c.py", "src/d_pb2.py", "src/old/e.py", "old/f.py")
    assert found(excluded=("gen", "*_pb2.py", "/old/")) == ["a.py", "src/old/e.py"]
    assert found(excluded=("src/old",)) == ["a.py", "gen/b.py", "old/f.py", "src/d_pb2.py", "src/gen/c.py"]
    assert found("src", excluded=("src/old", "gen/")) == ["src/d_pb2.py"]


def test_named_files_are_excluded_only_by_force(tree: Path) -> None:
    write("gen/b.py", "a_pb2.py", "c.py")
    named = ("gen/b.py", "a_pb2.py", "c.py")
    assert found(*named, excluded=("gen", "*_pb2.py")) == ["a_pb2.py", "c.py", "gen/b.py"]
    assert found(*named, excluded=("gen", "*_pb2.py"), force=True) == ["c.py"]


def test_gitignore_at_every_level(tree: Path) -> None:
    write("a.py", "skip.py", "src/skip.py", "src/keep.py", "src/in/x.py", "data/b.py", "src/in/y_tmp.py")
    Path(".gitignore").write_text("# comment\nskip.py\n/data/\n*_tmp.py\n")
    Path("src/.gitignore").write_text("!skip.py\nkeep.py\n")
    assert found() == ["a.py", "src/in/x.py", "src/skip.py"]


def test_gitignore_above_counts_in_a_repository_only(tree: Path) -> None:
    write("repo/src/a.py", "repo/src/b.py")
    Path(".gitignore").write_text("a.py\n")
    Path("repo/.gitignore").write_text("b.py\n")
    assert found("repo/src") == ["repo/src/a.py", "repo/src/b.py"]
    Path("repo/.git").mkdir()
    assert found("repo/src") == ["repo/src/a.py"]


def test_an_ignored_directory_is_walked_if_it_is_named(tree: Path) -> None:
    write("out/a.py", "out/b/c.py")
    Path(".git").mkdir()
    Path(".gitignore").write_text("out/\n")
    assert found() == []
    assert found("out") == found("out", "out/b") == ["out/a.py", "out/b/c.py"]


def test_a_nested_repository_has_its_own_rules(tree: Path) -> None:
    write("sub/a.py", "a.py")
    Path(".gitignore").write_text("a.py\n")
    Path("sub/.git").mkdir()
    assert found() == ["sub/a.py"]


def test_the_exclude_file_of_git(tree: Path) -> None:
    write("a.py", "b.py")
    Path(".git/info").mkdir(parents=True)
    Path(".git/info/exclude").write_text("a.py\n")
    assert found() == ["b.py"]


def test_a_broken_gitignore_line_is_passed_over(tree: Path) -> None:
    write("a.py", "b.py")
    Path(".gitignore").write_bytes(b"\xef\xbb\xbfa.py\n!\n\\\n[z-\n\xff\n")
    assert found() == ["b.py"]


def test_as_git_sees_it(tree: Path) -> None:
    write("a.py", "b/a.py", "b/c/d.py", "b/x.py", "log/e.py", "src/log/f.py", "src/g.py", "src/deep/h/i.py")
    Path(".gitignore").write_text("/a.py\nlog\n!src/log/\nb/*\n!b/c\nsrc/**/i.py\n")
    subprocess.run(["git", "init", "-q"], check=True)
    command = ["git", "ls-files", "-co", "--exclude-standard", "*.py"]
    seen = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found() == sorted(seen)


def test_links(tree: Path) -> None:
    write("real/a.py", "elsewhere/b.py")
    Path("src").mkdir()
    Path("src/loop").symlink_to("..", target_is_directory=True)
    Path("src/c.py").symlink_to("../elsewhere/b.py")
    Path("src/dangling.py").symlink_to("nowhere.py")
    assert found("src") == ["src/c.py"]
    assert found(".") == ["elsewhere/b.py", "real/a.py"]
    Path("linked").symlink_to("real", target_is_directory=True)
    assert found("linked", "real") == ["linked/a.py"]


def test_a_directory_that_cannot_be_read_is_an_obstacle(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", "secret/b.py")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    discovery = discover(["."], root=".")
    assert [os.path.relpath(file) for file in discovery.files] == ["a.py"]
    [obstacle] = discovery.obstacles
    assert obstacle == (str(tree / "secret"), "cannot read the directory: Permission denied")
