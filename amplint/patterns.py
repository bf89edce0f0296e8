"""Patterns as in .gitignore."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


def spec_of(patterns: Sequence[str]) -> GitIgnoreSpec:
    """What patterns match: ``spec_of(["build/"])``. Raises ValueError for one that is not valid, such as ``[z-a]``."""
    import re

    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(patterns)
    except re.error as error:
        raise ValueError(str(error)) from error
