"""What torch does where the rules on the protocol speak of gradients that are divided twice, or never dropped."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace

import torch

from amplint.amp.protocol import PROTOCOL, Fault
from amplint.events import (
    Backward,
    Event,
    GradientsZeroed,
    Place,
    ScalerUsed,
)
from amplint.findings import Span
from amplint.rules.context import NothingElse

SCALE = 1024.0


class Wrapper:
    """An object around an optimizer, with its parameters."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    @property
    def param_groups(self) -> list[dict[str, object]]:
        """Those of the optimizer."""
        return self.optimizer.param_groups

    def step(self) -> None:
        """That of the optimizer."""
        self.optimizer.step()


def trained() -> tuple[torch.Tensor, torch.optim.Optimizer, torch.amp.GradScaler]:
    """A weight whose gradient is 1 after each backward pass, its optimizer, a scaler."""
    weight = torch.tensor(0.0, requires_grad=True)
    return weight, torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cpu", init_scale=SCALE)


def test_an_object_around_an_optimizer_has_a_record_of_its_own() -> None:
    updates = {}
    for unscaled, stepped in (("inner", "inner"), ("outer", "outer"), ("inner", "outer"), ("outer", "inner")):
        weight, optimizer, scaler = trained()
        given = {"inner": optimizer, "outer": Wrapper(optimizer)}
        scaler.scale(weight.clone()).backward()
        scaler.unscale_(given[unscaled])  # type: ignore[arg-type]
        scaler.step(given[stepped])  # type: ignore[arg-type]
        scaler.update()
        updates[unscaled, stepped] = -weight.item()
    assert updates == {
        ("inner", "inner"): 1.0,
        ("outer", "outer"): 1.0,
        ("inner", "outer"): 1 / SCALE,
        ("outer", "inner"): 1 / SCALE,
    }


def test_gradients_that_a_step_has_applied_count_for_one_part_in_the_scale() -> None:
    weight, optimizer, scaler = trained()
    for _ in range(2):
        scaler.scale(weight.clone()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert weight.item() == -1.0 - (1.0 + 1 / SCALE)


def test_an_infinite_gradient_that_nobody_drops_stops_all_later_steps() -> None:
    weight, optimizer, scaler = trained()
    for factor in (math.inf, 1.0, 1.0, 1.0):
        scaler.scale(weight * factor).backward()
        scaler.step(optimizer)
        scaler.update()
    assert weight.item() == 0.0
    assert scaler.get_scale() == SCALE / 16


def place(key: object) -> Place:
    """A piece of text."""
    return Place("main.py", key, lambda: Span(1, 1, 1, 1), lambda: str(key))


def used(act: str, optimizer: Hashable = None, given: Hashable = None) -> ScalerUsed:
    """A call of the scaler."""
    return ScalerUsed(place((act, given)), (), "scaler", act, optimizer=optimizer, enabled=True, given=given)


BACKWARD = Backward(place("backward"), (), ".backward()", scaled=True, scaled_by=("scaler",))
ZERO = GradientsZeroed(place("zero_grad"), (), "optimizer")
KEPT = replace(BACKWARD, kept=frozenset({"optimizer"}))
ROUND = (BACKWARD, used("step", "optimizer"), used("update"))


def faults(*events: Event) -> list[Fault]:
    """What the protocol says of these events."""
    state, said = PROTOCOL.start(), []
    for event in events:
        state, breaches = PROTOCOL.hear(state, event, NothingElse())
        said += [breach.fault for breach in breaches]
    return said


def test_the_protocol_knows_an_optimizer_by_what_the_scaler_was_given() -> None:
    inner, outer = used("unscale_", "optimizer"), used("step", "optimizer", "wrapper")
    assert faults(BACKWARD, inner, outer) == [Fault.OTHER_OBJECT]
    assert faults(BACKWARD, used("unscale_", "optimizer", "wrapper"), outer) == []
    # what was divided before is gone
    assert faults(BACKWARD, inner, ZERO, BACKWARD, outer) == []
    # torch does not raise: the second step has a record of its own
    assert faults(BACKWARD, used("step", "optimizer"), BACKWARD, outer) == []


def test_the_protocol_tells_of_applied_gradients_only_where_a_run_shows_them() -> None:
    assert faults(*ROUND, KEPT, *ROUND[1:]) == [Fault.ADDED_TO_APPLIED]
    assert faults(*ROUND, *ROUND) == []
    assert faults(*ROUND, ZERO, KEPT, *ROUND[1:]) == []
    # what was added is dropped before anybody divides it
    assert faults(*ROUND, KEPT, ZERO, *ROUND) == []
