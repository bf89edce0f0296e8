"""The casts that a region keeps end with it, also where a path has not heard that it was left."""

from __future__ import annotations

import pytest

from amplint.events import (
    Captured,
    Event,
    Forward,
    FunctionEnded,
    OptimizerStepped,
    ParameterWritten,
    Place,
    Region,
    Regions,
)
from amplint.findings import Span
from amplint.rules.amp110_stale_weight_cache import StaleWeightCache
from amplint.rules.amp111_no_grad_then_grad import NoGradThenGrad
from amplint.rules.amp112_cuda_graph_with_cache import CudaGraphWithCache
from amplint.rules.base import FlowRule, Report
from amplint.rules.context import NothingElse
from amplint.rules.dispatcher import Dispatcher


class Same(NothingElse):
    """Each module has the parameters of each optimizer."""

    def may_share(self, module: object, others: object) -> bool:
        return True


def place(key: str) -> Place:
    return Place("main.py", key, lambda: Span(1, 1, 1, 1), lambda: key)


def region(key: str) -> Regions:
    return (Region(place(key), key),)


ONE, OTHER = region("one"), region("other")
HERE = place("here")


def twice(second: Regions) -> tuple[Event, ...]:
    return (
        Forward(HERE, ONE, "net", gradients=False),
        Forward(HERE, second, "net"),
        OptimizerStepped(HERE, (), "optimizer", modules=frozenset({"net"})),
        FunctionEnded(HERE, ()),
    )


def written(second: Regions) -> tuple[Event, ...]:
    return (
        Forward(HERE, ONE, "net"),
        ParameterWritten(HERE, second, "net", "copy_"),
        Forward(HERE, second, "net"),
    )


def captured(second: Regions) -> tuple[Event, ...]:
    return Forward(HERE, ONE, "net"), Captured(HERE, second, "torch.cuda.graph")


@pytest.mark.parametrize(
    ("rule", "events"),
    [
        (StaleWeightCache(), written),
        (NoGradThenGrad(), twice),
        (CudaGraphWithCache(), captured),
    ],
    ids=lambda part: getattr(part, "code", ""),
)
@pytest.mark.parametrize(("second", "findings"), [(ONE, 1), (OTHER, 0)], ids=["one", "two"])
def test_a_region_keeps_what_was_cast_in_it(
    rule: FlowRule, events: object, second: Regions, findings: int
) -> None:
    assert callable(events)
    report = Report()
    jury = Dispatcher([rule], report, Same())
    state = jury.start()
    for event in events(second):
        state = jury.hear(state, event)
    assert len(report.drafts) == findings
