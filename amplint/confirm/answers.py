"""What rules may ask of a run, about events that it has shown."""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Backward, Event, Rounds, ScalerAtHand, ScalerUsed, StateSaved


class RunContext:
    """See Context in amplint.rules.context. What a run does not show, such as whether anybody resumes from a
    checkpoint, is answered so that rules speak: a run confirms what was found in the text, where it was known."""

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

    def half_may_exist(self, event: Event) -> bool:
        """What was not run may well do so."""
        return True

    def may_be_resumed(self, event: StateSaved) -> bool:
        """A run does not show it."""
        return True

    def framework_saves_scaler(self, event: StateSaved) -> bool:
        """What is saved is seen."""
        return False

    def may_be_unscaled(self, event: ScalerUsed) -> bool:
        """A run shows which optimizers are unscaled."""
        return False

    def rounds(self, event: ScalerUsed) -> Rounds:
        """A run shows the rounds themselves."""
        return Rounds.ANY

    def is_optional(self, event: ScalerUsed) -> bool:
        """A run has no conditions, only what they came to this time."""
        return False

    def is_decided(self, event: ScalerUsed) -> bool:
        """See is_optional."""
        return False

    def is_flag(self, switch: Hashable) -> bool:
        """A run has no flags, only what they were this time."""
        return False

    def are_of_one(self, switch: Hashable, other: Hashable) -> bool:
        """See is_flag."""
        return False

    def belongs(self, part: Hashable, whole: Hashable) -> bool:
        """Objects of a run have names of their own."""
        return part == whole
