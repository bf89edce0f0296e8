"""The TOML parser: of the standard library, or tomli on Python 3.10."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The document as nested dicts. Raises ValueError if it is not valid TOML."""
    parser = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, Any] = parser.loads(text)
    return document
