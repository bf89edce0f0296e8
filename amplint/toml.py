"""Files of settings that other tools own: their text, and the TOML parser (tomli on Python 3.10)."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The document as nested dicts. Raises ValueError if it is not valid TOML."""
    parser = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, Any] = parser.loads(text)
    return document


def text_with(path: Path, *words: str, most: int = 1 << 20) -> str:
    """The text of a file that has one of some words in it, else "": most files have none. So for a file that is
    longer than ``most`` bytes, or cannot be read."""
    try:
        if not path.is_file() or path.stat().st_size > most:
            return ""
        text = path.read_text("utf-8", "replace")
    except OSError:
        return ""
    return text if any(word in text for word in words) else ""
