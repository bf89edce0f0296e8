"""The context of producers that answer before they are asked: what their events bring along."""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import (
    Backward,
    Event,
    Rounds,
    ScalerAtHand,
    ScalerUsed,
    StateSaved,
)

_COMPUTED = frozenset({"==", "<", "<=", ">", ">=", "and", "or", "not", "none", "in", "is", "has", "torch"})


class Told:
    """See Context. The answers are read off the events."""

    def scaler_may_exist(self, event: Event) -> bool:
        """See Context."""
        return isinstance(event, Backward) and event.scaler_in_reach

    def scaler_at_hand(self, event: Backward) -> ScalerAtHand | None:
        """See Context."""
        return event.at_hand

    def half_may_exist(self, event: Event) -> bool:
        """See Context."""
        return not isinstance(event, ScalerUsed) or event.region_in_reach

    def may_be_resumed(self, event: StateSaved) -> bool:
        """See Context."""
        return event.restored

    def framework_saves_scaler(self, event: StateSaved) -> bool:
        """See Context."""
        return False  # its events then do not say who prepared the optimizers

    def may_be_unscaled(self, event: ScalerUsed) -> bool:
        """See Context."""
        return event.unscaled_elsewhere

    def rounds(self, event: ScalerUsed) -> Rounds:
        """See Context."""
        return event.rounds

    def is_optional(self, event: ScalerUsed) -> bool:
        """See Context."""
        return event.optional

    def is_decided(self, event: ScalerUsed) -> bool:
        """See Context."""
        return event.decided

    def is_flag(self, switch: Hashable) -> bool:
        """See Context. A switch is a tuple: the owner of a setting and its name."""
        if not isinstance(switch, tuple) or not switch or switch[0] in _COMPUTED:
            return False
        if isinstance(switch[0], str) and switch[0].startswith("__"):
            return False
        return not all(isinstance(part, int) for part in switch)

    def are_of_one(self, switch: Hashable, other: Hashable) -> bool:
        """See Context."""
        return bool(_settings(switch) & _settings(other))

    def belongs(self, part: Hashable, whole: Hashable) -> bool:
        """See Context."""
        return part == whole or (isinstance(part, tuple) and whole in part)


def _settings(switch: Hashable) -> set[Hashable]:
    """The objects that a flag is a setting of: the one whose attribute or item it is and those that hold that one in
    turn, or the function whose parameter it is. An object of which a method is walked has other things than settings,
    and counts only for attributes of its own."""
    found: set[Hashable] = set()
    while isinstance(switch, tuple) and len(switch) in (2, 3):
        owner, last = switch[0], switch[-1]
        if found and not (isinstance(last, str) or "[]" in switch):
            break
        if not found or (isinstance(owner, tuple) and owner[0] not in ("made", "self")):
            found.add(owner)
        switch = owner
    return found
