"""Which region the flag of a scaler is compared with: the one that the loss comes from."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest

from amplint.events import DType, Event, Place, Region, RegionEntered, ScalerUsed
from amplint.findings import Span
from amplint.rules.amp316_scaler_enabled_mismatch import ScalerEnabledMismatch
from amplint.rules.base import Report
from amplint.rules.context import NothingElse
from amplint.rules.dispatcher import Dispatcher


class Flags(NothingElse):
    """Each switch is a setting of an object of its own."""

    def is_flag(self, switch: Hashable) -> bool:
        return True


def place(key: str) -> Place:
    return Place("main.py", key, lambda: Span(1, 1, 1, 1), lambda: key)


HERE = place("here")


def entered(switch: str, *, enabled: bool = True) -> RegionEntered:
    region = Region(place(switch), switch, dtype=DType.FLOAT16, conditional=True, switch=switch)
    return RegionEntered(HERE, (replace(region, enabled=enabled),))


SCALE = ScalerUsed(HERE, (), "scaler", "scale", enabled=True, made=place("made"), switch="amp")


@pytest.mark.parametrize(
    ("events", "findings"),
    [
        ((entered("amp"), SCALE), 0),
        ((entered("other"), SCALE), 1),
        ((entered("other"), entered("amp"), SCALE), 0),
        ((entered("amp"), entered("other"), SCALE), 1),
        ((entered("other"), entered("amp", enabled=False), SCALE), 1),
    ],
)
def test_the_last_region_before_the_loss_is_scaled_counts(events: tuple[Event, ...], findings: int) -> None:
    report = Report()
    jury = Dispatcher([ScalerEnabledMismatch()], report, Flags())
    state = jury.start()
    for event in events:
        state = jury.hear(state, event)
    assert len(report.drafts) == findings
