"""What rules ask about the code around an event, answered from the effects of definitions."""

from __future__ import annotations

from amplint.rules.told import Told


class Questions(Told):
    """Answers for one walk at a time."""

    def about(self, walk: object) -> None:
        """The walk whose events are asked about from now on."""
