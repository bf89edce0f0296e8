"""Which torch an environment or a lock file names, as clauses of a version: plain code in linear time, no YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_CONDA_NAMES = frozenset({"pytorch", "pytorch-cpu", "pytorch-gpu"})
"""The packages of conda that are torch; ``pytorch-cuda`` is a release of CUDA."""
_FILES = ("pytorch-", "torch-")
_PIXI_TABLES = {"dependencies": _CONDA_NAMES, "pypi-dependencies": frozenset({"torch"})}


def of_environment(text: str) -> Iterator[tuple[str, bool]]:
    """What an environment file of conda asks for: clauses on torch, such as ``>=2.0,<2.2``, or whole requirements of
    pip; the second part says whether it is one of pip's. Only block lists are read: ``- pytorch=1.12``."""
    pip_below: int | None = None
    for line in text.splitlines():
        item = line.lstrip(" ")
        indent = len(line) - len(item)
        if not item.strip() or item.startswith("#"):
            continue
        if pip_below is not None and indent <= pip_below:
            pip_below = None
        if not item.startswith("- "):
            continue
        entry = item[2:].partition(" #")[0].strip()
        if entry.rstrip(" ") == "pip:":
            pip_below = indent
            continue
        entry = entry.strip("'\"").strip()
        if pip_below is not None:
            yield entry, True
        else:
            clauses = _of_conda(entry)
            if clauses:
                yield clauses, False


def _of_conda(spec: str) -> str:
    """The clauses of ``channel::pytorch=1.12=build``, ``pytorch >=2.0,<2.2`` or ``pytorch 2.1.0``; empty if the spec
    is about something else or says nothing of the version."""
    spec = spec.rpartition("::")[2]
    end = next((at for at, sign in enumerate(spec) if not (sign.isalnum() or sign in "-_.")), len(spec))
    rest = spec[end:].strip()
    if spec[:end] not in _CONDA_NAMES or not rest:
        return ""
    if rest.startswith("="):
        return "==" + rest.lstrip("=").partition("=")[0].strip()
    if rest[0].isdecimal():
        return "==" + rest.split()[0].partition("=")[0]
    return rest if rest[0] in "<>!~" else ""


def of_lock(text: str) -> Iterator[str]:
    """The releases of torch in a lock file of uv, Poetry or PDM: ``==2.5.1``."""
    known: dict[str, str] = {}
    for line in (*text.splitlines(), "["):
        if line.startswith("["):
            if known.get("name") == "torch" and "version" in known:
                yield f"=={known['version']}"
            known = {}
            continue
        key, equals, value = line.partition(" = ")
        if equals and key in ("name", "version"):
            known[key] = value.strip().strip('"')


def of_pixi_lock(text: str) -> Iterator[str]:
    """The releases of torch in a lock file of pixi, by the names of the files that are installed, or by name and
    version."""
    known: dict[str, str] = {}
    for line in (*text.splitlines(), "- "):
        entry = line.strip()
        if entry.startswith("- "):
            if known.get("name") in ("torch", *_CONDA_NAMES) and "version" in known:
                yield f"=={known['version']}"
            known = {}
            entry = entry[2:].strip()
        key, colon, value = entry.partition(": ")
        value = value.strip().strip("'\"")
        if not colon:
            continue
        if key in ("name", "version"):
            known[key] = value
        elif key in ("conda", "pypi", "url"):
            yield from _of_file(value.rpartition("/")[2])


def _of_file(name: str) -> Iterator[str]:
    """The release in ``pytorch-2.4.1-cuda_0.conda`` or ``torch-2.4.1-cp312-none-any.whl``."""
    for start in _FILES:
        version = name.removeprefix(start).partition("-")[0] if name.startswith(start) else ""
        if version[:1].isdecimal():
            yield f"=={version.partition('+')[0].partition('%')[0]}"


def of_pixi(table: Mapping[str, Any]) -> Iterator[str]:
    """What the tables of ``pixi.toml``, or of ``[tool.pixi]``, ask of torch, those of features and platforms
    included."""
    for key, value in table.items():
        if not isinstance(value, dict):
            continue
        names = _PIXI_TABLES.get(key)
        if names is None:
            if key in ("feature", "target"):
                for part in value.values():
                    yield from of_pixi(part if isinstance(part, dict) else {})
            continue
        for name in sorted(names & value.keys()):
            entry = value[name]
            clauses = entry.get("version") if isinstance(entry, dict) else entry
            if isinstance(clauses, str):
                yield _of_conda(f"pytorch {clauses}") if clauses[:1].isdecimal() else clauses
