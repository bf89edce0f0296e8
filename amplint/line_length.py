"""How long lines may be in a project, as its formatter or linter is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from amplint.toml import loads, text_with

DEFAULT = 88
"""That of ruff and black."""
_SHORTEST = 40
"""A smaller number is no line length that code is written in."""


def line_length_of(start: Path) -> int:
    """The line length that the nearest ruff.toml, pyproject.toml (ruff, black) or setup.cfg (flake8, pycodestyle)
    upwards sets, up to the root of the git repository; else DEFAULT."""
    start = start.resolve()
    for directory in (start, *start.parents):
        for found in _lengths(directory):
            if isinstance(found, int) and found >= _SHORTEST:
                return found
        if (directory / ".git").exists():
            break
    return DEFAULT


def _lengths(directory: Path) -> Iterator[object]:
    for name in (".ruff.toml", "ruff.toml"):
        yield _toml(directory / name).get("line-length")
    tools = _toml(directory / "pyproject.toml").get("tool")
    for tool in ("ruff", "black"):
        table = tools.get(tool) if isinstance(tools, Mapping) else None
        yield table.get("line-length") if isinstance(table, Mapping) else None
    yield from _cfg(directory / "setup.cfg")


def _toml(path: Path) -> Mapping[str, Any]:
    text = text_with(path, "line-length")
    if not text:
        return {}
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return {}


def _cfg(path: Path) -> Iterator[int]:
    text = text_with(path, "max-line-length", "max_line_length")
    if not text:
        return
    from configparser import ConfigParser, Error

    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except Error:
        return
    for section in ("flake8", "pycodestyle"):
        for key in ("max-line-length", "max_line_length"):
            value = parser.get(section, key, fallback="")
            if value.isascii() and value.isdigit():
                yield int(value)
