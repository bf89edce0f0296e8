"""How much of an entry point is walked: statements, shared out among the calls in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

LEAST_SHARE = 150


class OutOfBudget(Exception):  # noqa: N818
    """Too many statements were walked."""


class Budget:
    """Counts statements up to a limit."""

    def __init__(self, limit: int) -> None:
        self.steps = 0
        self.limit = limit

    def spend(self) -> None:
        """Counts one statement. Raises OutOfBudget."""
        self.steps += 1
        if self.steps > self.limit:
            raise OutOfBudget

    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.steps > self.limit

    @contextlib.contextmanager
    def share(self, part: float = 1 / 3) -> Iterator[None]:
        """Grants a call a part of what is left, so that the rest of its caller is walked too."""
        outer = self.limit
        self.limit = min(outer, self.steps + max(LEAST_SHARE, int((outer - self.steps) * part)))
        try:
            yield
        finally:
            self.limit = outer

    @contextlib.contextmanager
    def apart(self, limit: int) -> Iterator[None]:
        """Counts something on its own account; the entry point pays one statement for it."""
        steps, outer = self.steps, self.limit
        self.steps, self.limit = 0, limit
        try:
            yield
        finally:
            self.steps, self.limit = steps + 1, outer
