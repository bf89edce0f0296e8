"""Where the scaler's protocol is silent, and what it says of the same events without the reason for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from amplint.amp.protocol import PROTOCOL, Fault
from amplint.events import (
    AmpHidden,
    Backward,
    Event,
    FunctionEnded,
    GradientsRead,
    GradientsZeroed,
    OptimizerMade,
    OptimizerStepped,
    Place,
    ScaledLossRead,
    ScalerMade,
    ScalerUsed,
)
from amplint.findings import Span
from amplint.rules.context import NothingElse


def place(key: str, calls: tuple[Place, ...] = ()) -> Place:
    return Place("main.py", key, lambda: Span(1, 1, 1, 1), lambda: key, calls)


HERE, THERE = place("here"), place("there")
SCALE = ScalerUsed(HERE, (), "scaler", "scale", enabled=True)
UNSCALE = replace(SCALE, act="unscale_", optimizer="optimizer")
STEP = replace(SCALE, act="step", optimizer="optimizer")
UPDATE = replace(SCALE, act="update")
BACKWARD = Backward(HERE, (), ".backward()", scaled=True, scaled_by=("scaler",))
ANOTHER_BACKWARD = replace(BACKWARD, place=THERE)
PLAIN_BACKWARD = Backward(HERE, (), ".backward()", scaled=False)
DIRECT_STEP = OptimizerStepped(HERE, (), "optimizer", in_sight=True)
DROPPED = GradientsZeroed(HERE, (), "optimizer")
READ = ScaledLossRead(THERE, (), "scaler", "item")
CLIP = GradientsRead(HERE, (), "clip_grad_norm_", clips=True)
MADE = ScalerMade(HERE, (), "scaler", True)
SEVERAL = (OptimizerMade(HERE, (), "one"), OptimizerMade(HERE, (), "two"))
OWN, OTHERS = frozenset({"model"}), frozenset({"critic"})
FOR_OWN = (SCALE, BACKWARD, replace(UNSCALE, modules=OWN), replace(DROPPED, modules=OWN))

NEXT_SCALE = replace(SCALE, scaler="next")
LEFT = (MADE, SCALE, BACKWARD, ScalerMade(THERE, (), "next", True))
NEXT = (NEXT_SCALE, replace(ANOTHER_BACKWARD, scaled_by=("next",)), replace(STEP, scaler="next"))

CASES: dict[str, tuple[tuple[Event, ...], tuple[Event, ...], Fault]] = {
    "an optimizer out of sight may step through a scaler": (
        (replace(SCALE, enabled=None), BACKWARD, replace(DIRECT_STEP, in_sight=False)),
        (replace(SCALE, enabled=None), BACKWARD, DIRECT_STEP),
        Fault.DIRECT_STEP,
    ),
    "a preconditioner may have the parameters of the optimizer that was unscaled": (
        (
            SCALE,
            BACKWARD,
            replace(UNSCALE, optimizer="applies", modules=OWN),
            replace(DIRECT_STEP, modules=OWN),
        ),
        (
            SCALE,
            BACKWARD,
            replace(UNSCALE, optimizer="applies", modules=OWN),
            replace(DIRECT_STEP, modules=OTHERS),
        ),
        Fault.DIRECT_STEP,
    ),
    "what a training has left is not there in a second one with a scaler of its own": (
        (*LEFT, *NEXT),
        (OptimizerMade(HERE, (), "optimizer"), *LEFT, *NEXT),
        Fault.OTHER_SCALER,
    ),
    "a framework unscales by itself": (
        (SCALE, BACKWARD, replace(DIRECT_STEP, framework=True)),
        (SCALE, BACKWARD, DIRECT_STEP),
        Fault.DIRECT_STEP,
    ),
    "code out of sight may have unscaled": (
        (SCALE, BACKWARD, AmpHidden(HERE, ()), replace(DIRECT_STEP)),
        (SCALE, BACKWARD, DIRECT_STEP),
        Fault.DIRECT_STEP,
    ),
    "what is read after a call out of sight is divided by the scale that was asked for before": (
        (SCALE, replace(SCALE, act="get_scale"), AmpHidden(HERE, ()), READ, FunctionEnded(HERE, ())),
        (SCALE, AmpHidden(HERE, ()), READ, FunctionEnded(HERE, ())),
        Fault.READ_SCALED,
    ),
    "a backward pass out of sight may scale": (
        (SCALE, replace(PLAIN_BACKWARD, unclear=True), STEP),
        (SCALE, PLAIN_BACKWARD, STEP),
        Fault.UNSCALED_LOSS,
    ),
    "another optimizer may have got the gradients after unscale_": (
        (*SEVERAL, SCALE, BACKWARD, UNSCALE, DROPPED, ANOTHER_BACKWARD, STEP),
        (SCALE, BACKWARD, UNSCALE, DROPPED, ANOTHER_BACKWARD, STEP),
        Fault.STILL_UNSCALED,
    ),
    "a module that was dropped alone may have another optimizer": (
        (*FOR_OWN, GradientsZeroed(HERE, (), modules=OTHERS), ANOTHER_BACKWARD, replace(STEP, modules=OWN)),
        (*FOR_OWN, GradientsZeroed(HERE, (), modules=OWN), ANOTHER_BACKWARD, replace(STEP, modules=OWN)),
        Fault.STILL_UNSCALED,
    ),
    "another backward pass may reach other parameters than the one before": (
        (*SEVERAL, SCALE, BACKWARD, UNSCALE, UPDATE, ANOTHER_BACKWARD, STEP),
        (*SEVERAL, SCALE, BACKWARD, UNSCALE, UPDATE, BACKWARD, STEP),
        Fault.BACKWARD_AFTER_UNSCALE,
    ),
    "what is partly unscaled was told of already": (
        (SCALE, BACKWARD, UNSCALE, UPDATE, BACKWARD, CLIP, STEP),
        (SCALE, BACKWARD, CLIP, STEP),
        Fault.CLIPPED_SCALED,
    ),
    "another function may have reasons of its own for not stepping": (
        (MADE, SCALE, BACKWARD, replace(UPDATE, place=place("update", (THERE,)))),
        (MADE, SCALE, BACKWARD, UPDATE),
        Fault.NOTHING_TO_UPDATE,
    ),
}


def said(events: tuple[Event, ...]) -> list[Fault]:
    """What the protocol says of some events."""
    state, faults = PROTOCOL.start(), []
    for event in events:
        state, violations = PROTOCOL.hear(state, event, NothingElse())
        faults += [violation.fault for violation in violations]
    return faults


@pytest.mark.parametrize("case", CASES)
def test_the_protocol_is_silent_for_a_reason(case: str) -> None:
    silent, spoken, fault = CASES[case]
    assert fault in said(spoken)
    assert fault not in said(silent)
