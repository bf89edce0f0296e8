"""How much of an entry point is walked: statements, shared out among the calls in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

LEAST_SHARE = 150
LAST_SHARE = 20


class OutOfBudget(Exception):  # noqa: N818
    """Too many statements were walked."""


class Budget:
    """Counts statements up to a limit. When it is reached, ``extra`` ones are left for what remains of the entry
    point itself, of which calls get the last share."""

    def __init__(self, limit: int, extra: int = 0) -> None:
        self.steps = 0
        self.limit = limit
        self.extra = extra

    def spend(self) -> None:
        """Counts one statement. Raises OutOfBudget."""
        self.steps += 1
        if self.steps > self.limit + self.extra:
            raise OutOfBudget

    def exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.steps > self.limit + self.extra

    @contextlib.contextmanager
    def share(self, part: float = 1 / 3) -> Iterator[None]:
        """Grants a call a part of what is left, so that the rest of its caller is walked too."""
        outer, extra = self.limit, self.extra
        left = outer - self.steps
        if left > 0:
            self.limit = min(outer, self.steps + max(LEAST_SHARE, int(left * part)))
        else:
            self.limit = min(outer + extra, self.steps + LAST_SHARE)
        self.extra = 0
        try:
            yield
        finally:
            self.limit, self.extra = outer, extra

    @contextlib.contextmanager
    def apart(self, limit: int) -> Iterator[None]:
        """Counts something on its own account; the entry point pays one statement for it."""
        steps, outer, extra = self.steps, self.limit, self.extra
        self.steps, self.limit, self.extra = 0, limit, 0
        try:
            yield
        finally:
            self.steps, self.limit, self.extra = steps + 1, outer, extra
