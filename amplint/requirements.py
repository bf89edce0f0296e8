"""Which torch versions a project admits, read from its own dependency bounds. No file is executed."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from configparser import ConfigParser
from configparser import Error as ConfigurationError
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from amplint.bounds import TORCH_DEFAULT, WARNS_SINCE, TorchBounds, Version
from amplint.installed import of_environment, of_lock, of_pixi, of_pixi_lock
from amplint.instructions import clauses, texts
from amplint.toml import loads, text_with

_ANY_MINOR = 99
"""Stands for "any 2.x": ``<3`` is the highest version (2, 99)."""

_OPERATORS = ("===", "==", "~=", "!=", "<=", ">=", "<", ">", "^", "~")
_LARGEST_LOCK = 1 << 24
"""Bytes of a lock file beyond which it is not read."""
_MOST_DIGITS = 9
"""A number with more of them is no release."""


def project_torch(start: Path) -> tuple[TorchBounds, Path] | None:
    """The torch versions that the project around ``start`` asks for and the file that says so: the nearest
    pyproject.toml, setup.cfg, setup.py, settings.ini, requirements*.txt, constraints*.txt, requirements/*.txt,
    pixi.toml, metadata of a built distribution or environment file of conda upwards that names torch with a version, or
    a wheel of it, up to the root of the git repository. A lock file counts where none of these beside it says anything:
    what is declared is what the project is to run with, what is locked only what its authors run."""
    start = start.resolve()
    for directory in (start, *start.parents):
        for path, read in _sources(directory):
            bounds = _joined(read(path))
            if bounds is not None:
                return bounds, path
        if (directory / ".git").exists():
            return None
    return None


def oldest_torch(root: Path, files: Iterable[str]) -> tuple[TorchBounds, Path] | None:
    """The oldest torch that a folder below the root asks for, with the file that says so, if it is one without the
    newer names of ``torch.amp``: an example that is pinned to torch 1.13 runs with the same code."""
    found: list[tuple[Version, Path]] = []
    for directory in _folders(root, files):
        for path, read in _sources(directory):
            bounds = _joined(read(path))
            if bounds is not None and bounds[0] < WARNS_SINCE:
                found.append((bounds[0], path))
    return min(((low, None), path) for low, path in found) if found else None


def instructed_torch(root: Path, files: Iterable[str]) -> tuple[TorchBounds, Path] | None:
    """The oldest torch that the project's instructions install or ask for (READMEs, documentation, Dockerfiles,
    scripts), with the file that says so, if it is one without the newer names of ``torch.amp``. There is no upper
    bound: a text tells what was tried, not what cannot be."""
    found = [
        (low, path)
        for directory in (root, *_folders(root, files))
        for path in texts(directory)
        for low, _ in _each(clauses(path))
        if low < WARNS_SINCE
    ]
    return min(((low, None), path) for low, path in found) if found else None


def _folders(root: Path, files: Iterable[str]) -> list[Path]:
    """The folders below the root that have some of the files in or below them."""
    below: set[str] = set()
    for folder in {os.path.dirname(file) for file in files}:  # noqa: PTH120 (thousands of them)
        while folder.startswith(f"{root}{os.sep}") and folder not in below:
            below.add(folder)
            folder = os.path.dirname(folder)  # noqa: PTH120
    return [Path(folder) for folder in sorted(below)]


def bounds_of_setting(text: str) -> TorchBounds | None:
    """The bounds that ``torch-version`` means: "2.4" is that version alone, ">=2.3,<2.9" a range."""
    return _bounds(text, bare="==")


def _sources(directory: Path) -> Iterator[tuple[Path, Any]]:
    try:
        names = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
    except OSError:
        return
    for name, read in _DECLARING:
        if name in names:
            yield directory / name, read
    for name in sorted(names):
        if ("requirements" in name or "constraints" in name) and name.endswith(".txt"):
            yield directory / name, _requirements
    if "requirements" in names:
        for path in _texts_in(directory / "requirements"):
            yield path, _requirements
    if "pixi.toml" in names:
        yield directory / "pixi.toml", _pixi
    for path in _metadata(directory, names):
        yield path, _requires_dist
    for path in _of_setuptools(directory):
        yield path, _requirements
    for name in sorted(names):
        if ("environment" in name or name.startswith("conda.")) and name.endswith((".yml", ".yaml")):
            yield directory / name, _environment
    for name in ("uv.lock", "poetry.lock", "pdm.lock", "pixi.lock"):
        if name in names:
            yield directory / name, _lock


def _texts_in(folder: Path) -> list[Path]:
    """The lists of requirements in a folder, in order: ``requirements/runtime.txt``."""
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".txt" and path.is_file())
    except OSError:
        return []


def _metadata(directory: Path, names: set[str]) -> list[Path]:
    """What a built distribution says of itself: ``PKG-INFO`` of a source archive, ``METADATA`` of an unpacked wheel.
    Where there are several of these the folder is an environment, and they speak of other projects."""
    unpacked = [name for name in names if name.endswith(".dist-info")]
    found = [directory / name / "METADATA" for name in unpacked] if len(unpacked) == 1 else []
    return [directory / "PKG-INFO", *found] if "PKG-INFO" in names else found


def _of_setuptools(directory: Path) -> list[Path]:
    """What setuptools has worked out of a ``setup.py``, in a source archive and in a checkout that is installed."""
    try:
        return [found for place in ("", "src") for found in _one(directory / place)]
    except OSError:
        return []


def _one(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.egg-info/requires.txt"))
    return found if len(found) == 1 else []


def _requires_dist(path: Path) -> Iterator[TorchBounds]:
    header = text_with(path, "torch").partition("\n\n")[0]
    for line in header.splitlines():
        field, _, requirement = line.partition(":")
        if field == "Requires-Dist":
            yield from _requirement(requirement)


def _pyproject(path: Path) -> Iterator[TorchBounds]:
    try:
        document = loads(text_with(path, "torch"))
    except (ValueError, RecursionError):
        return
    project = _section(document, "project")
    for requirement in _strings(project.get("dependencies")):
        yield from _requirement(requirement)
    for group in (
        *_section(project, "optional-dependencies").values(),
        *_section(document, "dependency-groups").values(),
    ):
        for requirement in _strings(group):
            yield from _requirement(requirement)
    yield from _each(of_pixi(_section(_section(document, "tool"), "pixi")))
    poetry = _section(_section(document, "tool"), "poetry")
    tables = [poetry, *(group for group in _section(poetry, "group").values() if isinstance(group, dict))]
    for table in tables:
        entry = _section(table, "dependencies").get("torch")
        version = entry.get("version") if isinstance(entry, dict) else entry
        if isinstance(version, str):
            bounds = _bounds(version, bare="^")
            if bounds is not None:
                yield bounds


def _pixi(path: Path) -> Iterator[TorchBounds]:
    try:
        document = loads(text_with(path, "torch"))
    except (ValueError, RecursionError):
        return
    yield from _each(of_pixi(document))


def _environment(path: Path) -> Iterator[TorchBounds]:
    for text, of_pip in of_environment(text_with(path, "torch")):
        yield from _requirement(text) if of_pip else _each([text])


def _lock(path: Path) -> Iterator[TorchBounds]:
    text = text_with(path, "torch", most=_LARGEST_LOCK)
    yield from _each(of_pixi_lock(text) if path.name == "pixi.lock" else of_lock(text))


def _each(clauses: Iterable[str]) -> Iterator[TorchBounds]:
    for text in clauses:
        bounds = _bounds(text, bare="==")
        if bounds is not None:
            yield bounds


def _setup_cfg(path: Path) -> Iterator[TorchBounds]:
    for line in text_with(path, "torch").splitlines():
        yield from _requirement(line.rpartition(" = ")[2])


def _settings_ini(path: Path) -> Iterator[TorchBounds]:
    """That of nbdev: ``requirements = fastcore>=1.3 torch>=1.7``."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text_with(path, "torch"))
    except ConfigurationError:
        return
    for key in ("requirements", "pip_requirements"):
        for requirement in parser.defaults().get(key, "").split():
            yield from _requirement(requirement)


def _requirements(path: Path) -> Iterator[TorchBounds]:
    for line in text_with(path, "torch").splitlines():
        yield from _requirement(line)


def _setup_py(path: Path) -> Iterator[TorchBounds]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text_with(path, "torch"))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _requirement(node.value)
        elif isinstance(node, ast.Assert):
            yield from _asserted(node.test, tree)


def _asserted(test: ast.expr, tree: ast.Module) -> Iterator[TorchBounds]:
    """What ``assert torch_ver >= [1, 8]`` asks for, where that is the version of torch, taken apart."""
    if not (
        isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Gt | ast.GtE)
    ):
        return
    wanted = test.comparators[0]
    numbers = [part.value for part in getattr(wanted, "elts", ()) if isinstance(part, ast.Constant)]
    if not numbers or not all(isinstance(number, int) for number in numbers):
        return
    asked = [test.left]
    if isinstance(test.left, ast.Name):
        asked = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == test.left.id for target in node.targets)
        ]
    if any(_is_version(part) for value in asked for part in ast.walk(value)):
        yield from _each([f">={'.'.join(map(str, numbers))}"])


def _is_version(node: ast.AST) -> bool:
    """Whether this is ``torch.__version__``."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "__version__"
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
    )


def _requirement(text: str) -> Iterator[TorchBounds]:
    clauses = _clauses_on_torch(text) or _of_wheel(text)
    bounds = _bounds(clauses, bare="==") if clauses else None
    if bounds is not None:
        yield bounds


def _clauses_on_torch(text: str) -> str:
    """What a requirement such as ``torch[extra] (>=2.3, <3) ; marker`` asks of the version; empty if it is about
    something else. Plain code: an expression for it would take its time over ``torch !a!a!a``."""
    text = text.strip()
    if not text.startswith("torch"):
        return ""
    rest = text.removeprefix("torch").lstrip()
    if rest.startswith("["):
        rest = rest.partition("]")[2].lstrip()
    rest = rest.removeprefix("(").lstrip()
    end = next((at for at, character in enumerate(rest) if character in ";#@"), len(rest))
    if "\n" in rest[end:]:
        return ""
    clauses = rest[:end].rstrip().removesuffix(")").rstrip().removesuffix(",")
    wanted = [clause.strip() for clause in clauses.split(",")]
    return clauses if all(clause.startswith(("<", ">", "=", "!", "~")) for clause in wanted) else ""


def _of_wheel(text: str) -> str:
    """The version of torch whose wheel a requirement names: ``https://…/torch-1.8.1%2Bcpu-cp37-none-linux_x86_64.whl``;
    empty if it names none."""
    file = text.partition("#")[0].partition(";")[0].strip().rpartition("/")[2]
    name, version, *tags = [*file.split("-"), ""]
    return f"=={unquote(version)}" if name == "torch" and len(tags) > 1 and file.endswith(".whl") else ""


def _section(table: object, key: str) -> dict[str, Any]:
    section = table.get(key) if isinstance(table, dict) else None
    return section if isinstance(section, dict) else {}


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _joined(mentions: Iterator[TorchBounds]) -> TorchBounds | None:
    """All versions that one of the mentions admits."""
    found = list(mentions)
    if not found:
        return None
    highest = [high for _, high in found if high is not None]
    return min(low for low, _ in found), max(highest) if len(highest) == len(found) else None


def _bounds(text: str, bare: str) -> TorchBounds | None:
    """The bounds of a comma-separated specifier; ``bare`` is the operator where none is written."""
    low: Version | None = None
    high: Version | None = None
    clauses = [clause.strip() for clause in text.split(",") if clause.strip()]
    for clause in clauses:
        release = _release(clause)
        if release is None:
            return None
        clause_low, clause_high = _clause(release, bare)
        low = clause_low if low is None or (clause_low is not None and clause_low > low) else low
        high = clause_high if high is None or (clause_high is not None and clause_high < high) else high
    if not clauses or (low is None and high is None) or (low and high and low > high):
        return None
    lowest = TORCH_DEFAULT[0] if low is None else low
    return (min(lowest, high) if high else lowest), high


class _Release(NamedTuple):
    """A clause of a specifier. ``minor`` is None where any will do."""

    operator: str
    major: int
    minor: int | None
    rest: str


def _release(clause: str) -> _Release | None:
    """The parts of a clause such as ``>=2.3.1``; None if it is none."""
    operator = next((operator for operator in _OPERATORS if clause.startswith(operator)), "")
    major, rest = _number(clause.removeprefix(operator).lstrip().removeprefix("v"))
    if major is None:
        return None
    minor = None
    if rest.startswith(".*"):
        rest = rest[2:]
    elif rest.startswith(".") and rest[1:2].isdecimal():
        minor, rest = _number(rest[1:])
        if minor is None:
            return None
    if not all(character.isalnum() or character in "_.*+-" for character in rest):
        return None
    return _Release(operator, major, minor, rest)


def _number(text: str) -> tuple[int | None, str]:
    """The number that a text begins with, if any, and what follows."""
    length = next((at for at, character in enumerate(text) if not character.isdecimal()), len(text))
    return (int(text[:length]) if 0 < length <= _MOST_DIGITS else None), text[length:]


def _clause(release: _Release, bare: str) -> tuple[Version | None, Version | None]:
    operator = release.operator or bare
    major = release.major
    any_minor = release.minor is None
    minor = release.minor or 0
    exact = (major, minor)
    patch = any(digit in release.rest for digit in "123456789")
    match operator:
        case "==" | "===":
            return exact, (major, _ANY_MINOR) if any_minor else exact
        case ">=" | ">":  # 2.3.1 is above 2.3
            return exact, None
        case "~=":
            return exact, exact if release.rest else (major, _ANY_MINOR)
        case "^":
            return exact, (major, _ANY_MINOR)
        case "~":
            return exact, (major, _ANY_MINOR) if any_minor else exact
        case "<=":
            return None, exact
        case "<" if patch:
            return None, exact
        case "<":
            return None, (major, minor - 1) if minor else (major - 1, _ANY_MINOR)
        case _:
            return None, None


_DECLARING: tuple[tuple[str, Callable[[Path], Iterator[TorchBounds]]], ...] = (
    ("pyproject.toml", _pyproject),
    ("setup.cfg", _setup_cfg),
    ("setup.py", _setup_py),
    ("settings.ini", _settings_ini),
)
"""The files in which packages declare what they need."""
