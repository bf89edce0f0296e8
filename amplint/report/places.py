"""Paths as services want them: from the root of the checked-out repository."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

_ROOTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
"""Where GitHub Actions and GitLab CI say that root is."""


def path_in_repository(path: str) -> str:
    """``src/train.py`` of a run in the folder ``project`` as ``project/src/train.py``."""
    root = next((os.environ[name] for name in _ROOTS if os.environ.get(name)), "")
    if not root or path.startswith("/"):
        return path
    here = Path.cwd()
    inside = here.relative_to(root).as_posix() if here.is_relative_to(root) else "."
    return path if inside == "." else f"{inside}/{path}"


def uri(path: str) -> str:
    """The path as a URI: relative where it is, else ``file:///…``."""
    inside = path_in_repository(path).replace(os.sep, "/")
    quoted = quote(os.fsencode(inside))
    return f"file://{quoted}" if inside.startswith("/") else quoted
