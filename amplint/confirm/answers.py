"""What rules may ask of a run, about events that it has shown."""

from __future__ import annotations

from amplint.events import Backward, Event, ScalerAtHand
from amplint.rules.context import NothingElse


class RunContext(NothingElse):
    """See Context in amplint.rules.context. A run shows nearly all that rules ask for, or knows nothing of it: then it
    confirms what was found in the text, where that was known."""

    def __init__(self) -> None:
        self.scaling = False
        """Whether a scaler was used so far, or the scale asked for."""
        self._at_hand: tuple[Backward, ScalerAtHand] | None = None

    def note_at_hand(self, event: Backward, scaler: ScalerAtHand) -> None:
        """Notes which scaler the code at a backward pass has in a name, before that is told."""
        self._at_hand = event, scaler

    def scaler_may_exist(self, event: Event) -> bool:
        """Whether a scaler was used before."""
        return self.scaling

    def scaler_at_hand(self, event: Backward) -> ScalerAtHand | None:
        """The scaler in a name of the function, or of the object whose method it is."""
        noted = self._at_hand
        return noted[1] if noted is not None and noted[0] is event else None
