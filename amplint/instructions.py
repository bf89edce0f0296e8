"""Which torch the instructions of a project install: what READMEs, pages of documentation, Dockerfiles, scripts and
workflows name with a version. Plain code in linear time; nothing is executed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from amplint.toml import text_with

_FOLDERS = ("docs", "doc", "docker")
"""Folders beside the code whose texts are read, with those one level below."""
_PROSE = frozenset({".md", ".rst"})
_COMMANDS = frozenset({".sh", ".yml", ".yaml"})
_NAMES = frozenset({"torch", "pytorch", "pytorch::pytorch"})
_OPERATORS = ("===", "==", "~=", ">=", "=", ">")
_SPACE = str.maketrans(dict.fromkeys("\"'`()[]{}*|,;\\<", " "))
_NUMBER = frozenset("0123456789.")


def texts(directory: Path) -> Iterator[Path]:
    """The files in and below a directory that say what to install: ``README.md``, ``docs/install.md``,
    ``docker/Dockerfile``, ``setup.sh``, ``.github/workflows/test.yml``."""
    yield from _in(directory, _COMMANDS, named=("readme", "install", "dockerfile"))
    for name in _FOLDERS:
        yield from _below(directory / name)
    yield from _in(directory / ".github" / "workflows", _COMMANDS)


def clauses(path: Path) -> Iterator[str]:
    """What a text says of torch's release, as clauses of a version: "==1.11.0" for ``pip install torch==1.11.0+cu113``,
    and so for ``pytorch=1.8.1``, ``PyTorch >= 1.8``, ``PyTorch 1.13.1``."""
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


def _in_line(line: str) -> Iterator[str]:
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
        clause = _clause(rest)
        if clause:
            yield clause


def _clause(text: str) -> str:
    """The operator and the number that a text begins with; empty if it has none with a point in it."""
    operator = next((operator for operator in _OPERATORS if text.startswith(operator)), "")
    version = "".join(takewhile(lambda character: character in _NUMBER, text.removeprefix(operator)))
    if not version.partition(".")[2][:1].isdecimal():
        return ""
    return f"{'==' if operator == '=' else operator}{version}"
