"""What a test gets from a program that ran under the probe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amplint.confirm.recording import Recording, merged


@dataclass(frozen=True)
class Done:
    """A probed process that has ended."""

    status: int
    """The exit status, negative for the signal that ended it."""
    stdout: str
    stderr: str
    recordings: list[Recording]

    @property
    def recording(self) -> Recording:
        """That of all processes together."""
        return merged(self.recordings)


Probed = Callable[..., Done]
"""The fixture ``probed``."""
