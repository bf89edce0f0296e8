"""What every room speaks of in the end: findings, their places and their weight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How bad a finding is. Error: raises, or silently gives wrong numbers. Warning: wrong under a
    condition that the message names. Advice: style, cost or deprecation."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"

    @property
    def rank(self) -> int:
        """Sorting key: 0 for errors, 1 for warnings, 2 for advice."""
        return ("error", "warning", "advice").index(self.value)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of source text. Lines and columns count from 1, columns in code points; the end column is
    the first one after the text."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class TrailStep:
    """One station on the way to a finding, such as the line where the region opens."""

    path: str
    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Fix:
    """An edit that amplint can make: ``applicability`` is "safe" or "unsafe", ``title`` says what it does."""

    applicability: str
    title: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim about one place in somebody's code.

    ``path`` is relative to the working directory, with forward slashes. ``fingerprint`` stays the same
    while the rule, the path and the text of the line stay the same.
    """

    code: str
    name: str
    level: Level
    message: str
    path: str
    span: Span
    trail: tuple[TrailStep, ...] = ()
    fix: Fix | None = None
    fingerprint: str = ""

    @property
    def order(self) -> tuple[str, Span, str]:
        """Findings are listed by file, then place, then code."""
        return (self.path, self.span, self.code)
