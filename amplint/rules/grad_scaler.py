"""What the rules on the protocol of the gradient scaler share."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from amplint.amp.protocol import PROTOCOL, Breach, Fault
from amplint.events import Place
from amplint.findings import Level
from amplint.fixes.base import Mend
from amplint.rules.base import FlowRule, Report, line_of

DEFAULT_SCALE = 65536
"""``init_scale`` of torch.amp.GradScaler."""


class ProtocolRule(FlowRule):
    """A rule that speaks of some of the faults that the protocol tells apart."""

    level = Level.ERROR
    machine = PROTOCOL
    evidence: tuple[str, ...] = ("scale",)
    faults: ClassVar[frozenset[Fault]]

    def on_said(self, said: Breach, report: Report) -> None:
        if said.fault in self.faults:
            message, step = self.describe(said)
            trail = ((said.other, step),)
            mend = self.mend_of(said)
            report.add(self, said.place, message, trail=trail, level=self.level_of(said), mend=mend)

    def level_of(self, breach: Breach) -> Level | None:
        """The level of one finding, None for the rule's own."""
        return None

    def mend_of(self, breach: Breach) -> Mend | None:
        """What would mend one finding."""
        return None

    def describe(self, breach: Breach) -> tuple[str, str]:
        """The message, and what the trail says of the other place."""
        raise NotImplementedError


def where(breach: Breach) -> str:
    """The line of the other place as seen from the finding."""
    return line_of(breach.other, breach.place)


def call(place: Place) -> str:
    """The text of a call."""
    return f"`{place.text}`"


def belongs(optimizer: Hashable, made: Hashable) -> bool:
    """Whether an optimizer is what was made, or the object that holds it."""
    return optimizer == made or (isinstance(optimizer, tuple) and made in optimizer)
