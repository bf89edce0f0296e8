"""How long the phases of a run take."""

from __future__ import annotations

from time import perf_counter


class Laps:
    """Seconds by phase, in their order. The clock runs from the beginning."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def end(self, phase: str) -> None:
        """What has passed since the last phase ended belongs to this one."""
        now = perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now
