"""What the rules share that speak of gradients which a framework has scaled: ``accelerator.backward(loss)``."""

from __future__ import annotations

from typing import NamedTuple

from amplint.events import Framework, FrameworkScaled, Place
from amplint.findings import Assumed, Assumption, Level
from amplint.rules.ledger import Assumptions


class Scaled(NamedTuple):
    """Where a framework scales gradients or divides them by the scale. ``float16``: it surely does."""

    place: Place
    framework: Framework
    float16: bool

    @property
    def level(self) -> Level | None:
        """None, the rule's own, if it is sure."""
        return None if self.float16 else Level.WARNING

    @property
    def condition(self) -> str:
        """What has to hold, for the end of a message: " with `precision="16-mixed"`"."""
        return "" if self.float16 else f" with `{self.framework.setting}`"

    @property
    def assumes(self) -> Assumptions:
        """The same for the ledger."""
        return () if self.float16 else (Assumption(Assumed.FLAG, self.condition.strip()),)


def scaled_by(event: FrameworkScaled) -> Scaled | None:
    """The backward pass of an event; None where nothing in sight says in which precision the framework trains."""
    return Scaled(event.place, event.framework, event.float16) if event.framework is not None else None
