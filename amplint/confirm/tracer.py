"""The listener of ``amplint trace``: an observer without rules, with the account of ops and casts."""

from __future__ import annotations

from dataclasses import replace

from amplint.confirm.ledger import Ledger
from amplint.confirm.observer import Observer
from amplint.confirm.places import Site
from amplint.confirm.recording import Recording
from amplint.events import Event, RegionEntered, RegionExited


class Tracer(Observer):
    """Keeps account of ops, casts and modules. The account grows with the places of the program."""

    def __init__(self, steps: int | None = None) -> None:
        super().__init__((), steps=steps)
        self.ledger = Ledger()

    def _take(self, event: Event) -> None:
        super()._take(event)
        timeline = self.ledger.timeline
        if timeline.on and isinstance(event, RegionEntered):
            timeline.opened((event.regions[-1], len(event.regions)))
        elif timeline.on and isinstance(event, RegionExited):
            region, depth = event.region, len(event.regions)
            dtype = region.dtype.value if region.dtype is not None and region.enabled else "off"
            site = region.place if isinstance(region.place, Site) else None
            timeline.closed((region, depth + 1), dtype, site, depth)

    def forget(self) -> None:
        """Begins a new account."""
        super().forget()
        self.ledger.forget()

    def recording(self, made: Recording, *, numbers: bool = True) -> Recording:
        """What was seen so far, the trace included."""
        trace = self.ledger.trace()
        if self.ledger.is_full:
            self.note("more ops and casts than can be kept: the later ones are left out")
        return replace(super().recording(made, numbers=numbers), trace=trace)
