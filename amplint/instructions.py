"""Which torch the instructions of a project install: what READMEs, pages of documentation, Dockerfiles, scripts and
workflows name with a version. Plain code in linear time; nothing is executed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amplint.toml import text_with

_FOLDERS = ("docs", "doc", "docker")
"""Folders beside the code whose texts are read, with those one level below."""
_PROSE = frozenset({".md", ".rst"})
_COMMANDS = frozenset({".sh", ".yml", ".yaml"})
_NAMES = frozenset({"torch", "pytorch", "pytorch::pytorch"})
_OPERATORS = ("===", "==", "~=", ">=", "=", ">")
_SPACE = str.maketrans(dict.fromkeys("\"'`()[]{}*|,;\\<", " "))
_DIGITS_OF_A_RELEASE = 2
"""Of its major and of its minor number at most."""


def texts(directory: Path) -> Iterator[Path]:
    """The files in and below a directory that say what to install: ``README.md``, ``docs/install.md``,
    ``docker/Dockerfile``, ``setup.sh``, ``.github/workflows/test.yml``."""
    yield from _in(directory, _COMMANDS, named=("readme", "install", "dockerfile"))
    for name in _FOLDERS:
        yield from _below(directory / name)
    yield from _in(directory / ".github" / "workflows", _COMMANDS)


def releases(path: Path) -> Iterator[tuple[int, int]]:
    """The releases of torch that a text names with a number: ``pip install torch==1.11.0+cu113``, ``pytorch=1.8.1``,
    ``PyTorch >= 1.8``, ``PyTorch 1.13.1``."""
    for line in text_with(path, "torch", "Torch").splitlines():
        if "orch" in line:
            yield from _in_line(line)


def _below(folder: Path) -> Iterator[Path]:
    yield from _in(folder, _PROSE | _COMMANDS, named=("dockerfile",))
    for inner in _listed(folder):
        if inner.is_dir():
            yield from _in(inner, _PROSE | _COMMANDS, named=("dockerfile",))


def _in(folder: Path, endings: frozenset[str], named: tuple[str, ...] = ()) -> Iterator[Path]:
    for path in _listed(folder):
        if path.suffix in endings or path.name.lower().startswith(named):
            yield path


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError:
        return []


def _in_line(line: str) -> Iterator[tuple[int, int]]:
    words = line.translate(_SPACE).split()
    for at, word in enumerate(words):
        name = next((name for name in _NAMES if word.lower() == name), None)
        if name is not None:  # the operator and the number are words of their own, or one
            rest = "".join(words[at + 1 : at + 3])
        else:
            name = next((name for name in _NAMES if word.lower().startswith((f"{name}=", f"{name}>"))), None)
            if name is None:
                continue
            rest = word[len(name) :] + "".join(words[at + 1 : at + 2])
        release = _release(rest)
        if release is not None:
            yield release


def _release(text: str) -> tuple[int, int] | None:
    """The release that a text begins with, after an operator if there is one."""
    operator = next((operator for operator in _OPERATORS if text.startswith(operator)), "")
    major, point, rest = text.removeprefix(operator).removeprefix("v").partition(".")
    minor = rest[: next((at for at, character in enumerate(rest) if not character.isdecimal()), len(rest))]
    if not (point and major in ("1", "2") and minor and len(minor) <= _DIGITS_OF_A_RELEASE):
        return None
    return int(major), int(minor)
