"""What the rules on the protocol of the gradient scaler share."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from amplint.amp.protocol import PROTOCOL, Fault, Violation
from amplint.findings import Level
from amplint.fixes.base import FixBuilder
from amplint.rules.base import FlowRule, Report
from amplint.rules.ledger import SCALER
from amplint.rules.wording import line_of


class Description(NamedTuple):
    """Message, why and help of a finding, and what the trail says of the other place."""

    message: str
    why: str
    help: str
    step: str


class ProtocolRule(FlowRule):
    """A rule that speaks of some of the faults that the protocol tells apart."""

    level = Level.ERROR
    machine = PROTOCOL
    evidence: tuple[str, ...] = ("scale",)
    faults: ClassVar[frozenset[Fault]]

    def on_violation(self, said: Violation, report: Report) -> None:
        if said.fault in self.faults:
            told = self.describe(said)
            trail = ((said.other, told.step),)
            builder = self.builder_of(said)
            # that other ways drop these gradients, a run does not show
            by_text = said.fault is Fault.ADDED_TO_APPLIED
            level = self.level_of(said)
            assumes = (SCALER,) if said.switched else ()
            report.add(
                self,
                said.place,
                told.message,
                why=told.why,
                help=told.help,
                trail=trail,
                level=level,
                subject=said.place,
                builder=builder,
                told_by_text=by_text,
                assumes=assumes,
            )

    def level_of(self, violation: Violation) -> Level | None:
        """The level of one finding, None for the rule's own."""
        return None

    def builder_of(self, violation: Violation) -> FixBuilder | None:
        """What would fix one finding."""
        return None

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        raise NotImplementedError


def where(violation: Violation) -> str:
    """The line of the other place as seen from the finding."""
    return line_of(violation.other, violation.place)


def times(violation: Violation) -> str:
    """By how much what is scaled is too large at the initial scale."""
    return "many times" if violation.initial is None else f"{number(violation.initial)} times"


def number(scale: float) -> str:
    """A scale as it is written: whole numbers in full."""
    return f"{scale:.0f}" if scale.is_integer() else f"{scale:g}"
