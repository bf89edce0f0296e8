"""What a rule may ask of whoever produces the events: the conditions of a finding that are no event."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from amplint.events import (
    Backward,
    Event,
    Place,
    Rounds,
    ScalerAtHand,
    ScalerUsed,
    StateLoaded,
    StateSaved,
)


class Context(Protocol):
    """The code around an event, or the run in which it happens. What is not known is answered such that the rule that
    asks is silent. The code on the way to an event is the functions that are being run when it happens, what they may
    call, and the other methods of their objects."""

    def scaler_may_exist(self, event: Event) -> bool:
        """Whether code on the way to an event may scale losses: ``NativeScaler()(loss, optimizer)``."""

    def scaler_at_hand(self, event: Backward) -> ScalerAtHand | None:
        """A gradient scaler, not known to be off, that the code at a backward pass has in a name: ``self.scaler``."""

    def half_may_exist(self, event: Event) -> bool:
        """Whether code on the way to an event may run in half precision: ``with accelerator.autocast():``."""

    def may_be_resumed(self, event: StateSaved) -> bool:
        """Whether somebody may load what is saved to go on: ``optimizer.load_state_dict(saved["optimizer"])``."""

    def is_looked_up(self, event: StateLoaded, key: str) -> bool:
        """Whether code on the way to where a state is loaded may look up a key beside it: ``saved["scaler"]``."""

    def framework_saves_scaler(self, event: StateSaved) -> bool:
        """Whether code on the way to a checkpoint minds the scaler of a framework: ``accelerator.scaler``."""

    def only_offers_state(self, event: ScalerUsed) -> bool:
        """Whether a scaler's state is asked for by the ``state_dict`` of an object around it alone, or loaded by its
        ``load_state_dict``, which nobody in sight calls."""

    def may_be_unscaled(self, event: ScalerUsed) -> bool:
        """Whether the gradients that a scaler divides here may be divided already: ``scaler.unscale_(each)``."""

    def may_be_scaled(self, event: Backward) -> bool:
        """Whether callers out of sight may have scaled the loss: ``def step(self, loss): loss.backward()``."""

    def rounds(self, event: ScalerUsed) -> Rounds:
        """In which rounds of the loop around an event it happens: ``if i == 0: scaler.unscale_(optimizer)``."""

    def is_optional(self, event: ScalerUsed) -> bool:
        """Whether a condition decides that there is the scaler at all: ``GradScaler() if fp16 else None``."""

    def is_decided(self, event: ScalerUsed) -> bool:
        """Whether a condition has asked for the flag that switches the scaler, ``if fp16: scaler.scale(loss)`` for
        ``GradScaler(enabled=fp16)``, or may have, since one decides whether the region is entered."""

    def is_for_one_step(self, event: ScalerUsed) -> bool:
        """Whether a function makes the scaler for this one step alone, of an optimizer that was there before, and
        nobody has the scaler afterwards."""

    def is_anew_in_each_round(self, made: Place, used: Place, other: Place) -> bool:
        """Whether one loop makes something and uses it in each of its rounds, and something else was made before it:
        ``for epoch in epochs: train_one_epoch(optimizer); save(optimizer)``."""

    def is_flag(self, switch: Hashable) -> bool:
        """Whether a switch is a setting as it was read, ``args.fp16``, and nothing that was computed."""

    def are_of_one(self, switch: Hashable, other: Hashable) -> bool:
        """Whether two switches are settings of one object: ``args.fp16`` and ``args.amp``."""

    def belongs(self, part: Hashable, whole: Hashable) -> bool:
        """Whether an object is another one, or was made or is held by it: ``trainer.scaler`` and ``trainer``."""

    def is_of_call(self, thing: Hashable, call: Hashable) -> bool:
        """Whether something out of sight came about inside a call: when that runs again, it is another one."""

    def came_before(self, value: Hashable, thing: Hashable) -> bool:
        """Whether something of which nothing is known was there before an object was made, and so holds nothing of
        it."""

    def may_share(self, module: Hashable, others: frozenset[Hashable]) -> bool:
        """Whether parameters of a module may be among those of others: it is one of them, or a part, or has one."""


class NothingElse:
    """The context of events beside which there is nothing: what they do not show is not there."""

    def scaler_may_exist(self, event: Event) -> bool:
        """See Context."""
        return False

    def scaler_at_hand(self, event: Backward) -> ScalerAtHand | None:
        """See Context."""
        return None

    def half_may_exist(self, event: Event) -> bool:
        """See Context. The forward may have run before."""
        return True

    def may_be_resumed(self, event: StateSaved) -> bool:
        """See Context. That happens later."""
        return True

    def is_looked_up(self, event: StateLoaded, key: str) -> bool:
        """See Context. That is another run."""
        return True

    def framework_saves_scaler(self, event: StateSaved) -> bool:
        """See Context."""
        return False

    def only_offers_state(self, event: ScalerUsed) -> bool:
        """See Context."""
        return False

    def may_be_unscaled(self, event: ScalerUsed) -> bool:
        """See Context."""
        return False

    def may_be_scaled(self, event: Backward) -> bool:
        """See Context. A run shows who has scaled it."""
        return False

    def rounds(self, event: ScalerUsed) -> Rounds:
        """See Context."""
        return Rounds.ANY

    def is_optional(self, event: ScalerUsed) -> bool:
        """See Context."""
        return False

    def is_decided(self, event: ScalerUsed) -> bool:
        """See Context."""
        return False

    def is_for_one_step(self, event: ScalerUsed) -> bool:
        """See Context. A run shows the next scaler."""
        return False

    def is_anew_in_each_round(self, made: Place, used: Place, other: Place) -> bool:
        """See Context. A run shows what is made again."""
        return False

    def is_flag(self, switch: Hashable) -> bool:
        """See Context."""
        return False

    def are_of_one(self, switch: Hashable, other: Hashable) -> bool:
        """See Context."""
        return False

    def belongs(self, part: Hashable, whole: Hashable) -> bool:
        """See Context."""
        return part == whole

    def is_of_call(self, thing: Hashable, call: Hashable) -> bool:
        """See Context. A run knows each object by a name of its own."""
        return False

    def came_before(self, value: Hashable, thing: Hashable) -> bool:
        """See Context. A run leaves nothing unknown."""
        return False

    def may_share(self, module: Hashable, others: frozenset[Hashable]) -> bool:
        """See Context. A run knows modules and the parameters of optimizers by different names."""
        return True
