"""Finds `optimizer.step()` on gradients that a scaler has multiplied, or after the scaler's own step.

## What it does

Reports `optimizer.step()` after `scaler.scale(loss).backward()` with no `scaler.unscale_(optimizer)` in
between, and `optimizer.step()` on gradients that `scaler.step(optimizer)` has already applied. So it does after
`accelerator.backward(loss)`, and after that of Fabric, for an optimizer that was made in sight and never given to
`accelerator.prepare()` or `fabric.setup()`, where an argument says in which precision to train: as an error if that
is float16, else as a warning.

An optimizer class of the project counts like one of torch; one whose step has another optimizer step is reported there.

Silent: `scaler.unscale_(optimizer)` before the step (the code checks for infinities itself), the branch without
scaler, an optimizer whose own loss was not scaled, one of the project whose own step asks a scaler for its scale or is
given it, schedulers, and optimizers that a framework prepared.

## Why is this bad

The gradients are as many times too large as the scale, 65536 by default. SGD makes a step of 65536 times the
learning rate and the weights are gone. Adam and its relatives divide the size out again, so the run looks right;
but gradients with infinities or NaN, which a scaler provokes on purpose while it looks for the largest scale that
works, are no longer skipped, and one of them destroys the weights. Gradient clipping, weight decay coupled to the
gradient and `eps` mean something else as well.

A second step after `scaler.step` applies every gradient twice.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, scale 1024:

| steps after a scaled backward pass | result |
|---|---|
| `optimizer.step()`, SGD | the update is 1024 times too large |
| `optimizer.step()`, Adam | the update is right to 5 digits; a gradient of `inf` makes its weight NaN |
| `scaler.unscale_(optimizer)`, then `optimizer.step()` | right |
| `scaler.step(optimizer)`, then `optimizer.step()` | applied twice; so is an `inf` that the scaler skipped |

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    optimizer.step()
    scaler.update(1024.0)
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

for _ in range(3):
    x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety

The fix replaces the call by `scaler.step(optimizer)` and, where none follows, `scaler.update()`, or removes the
second step. It is unsafe: training changes, and the learning rate may have been tuned with the fault. A
scheduler that follows then steps also after a skipped update.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
* [nerfacc#307](https://github.com/nerfstudio-project/nerfacc/issues/307): a scaled backward pass with a plain step
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from amplint.amp.protocol import Fault, Violation
from amplint.events import (
    AmpHidden,
    Backward,
    FrameworkScaled,
    ObjectGone,
    OptimizerMade,
    OptimizerStepped,
    ScalerUsed,
)
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.scaling import RemoveStep, StepThroughScaler
from amplint.rules.base import Report
from amplint.rules.framework_scaling import Scaled, scaled_by
from amplint.rules.grad_scaler import Description, ProtocolRule, times, where
from amplint.rules.wording import line_of, quoted

_NOT_SKIPPED = "Steps with infinite gradients are not skipped either. Adam hides the first, not the second."


class State(NamedTuple):
    """The optimizers that were made on the way here, and the backward pass of a framework that came last."""

    made: frozenset[Hashable] = frozenset()
    scaled: Scaled | None = None
    divided: frozenset[Hashable] = frozenset()
    """The optimizers whose gradients the framework's scaler was told to divide since."""


class DirectOptimizerStep(ProtocolRule):
    """A step around the scaler."""

    shown_by = (OptimizerStepped,)
    never_without = (FrameworkScaled,)  # the scalers of the code are heard by the protocol
    evidence = ("scale", "norm")
    faults = frozenset({Fault.DIRECT_STEP, Fault.SECOND_STEP})

    def start(self) -> State:
        return State()

    def on_optimizer_made(self, state: State, event: OptimizerMade, report: Report) -> State:
        return state._replace(made=state.made | {event.optimizer})

    def on_object_gone(self, state: State, event: ObjectGone, report: Report) -> State:
        return state._replace(made=state.made - {event.name}) if event.name in state.made else state

    def on_framework_scaled(self, state: State, event: FrameworkScaled, report: Report) -> State:
        return state._replace(scaled=scaled_by(event), divided=frozenset())

    def on_scaler_used(self, state: State, event: ScalerUsed, report: Report) -> State:
        if event.act != "unscale_" or state.scaled is None:
            return state
        if event.optimizer is None:
            return state._replace(scaled=None)
        return state._replace(divided=state.divided | {event.optimizer})

    def on_backward(self, state: State, event: Backward, report: Report) -> State:
        return state._replace(scaled=None)

    def on_amp_hidden(self, state: State, event: AmpHidden, report: Report) -> State:
        return State()

    def on_optimizer_stepped(self, state: State, event: OptimizerStepped, report: Report) -> State:
        scaled = state.scaled
        if scaled is None or event.framework or event.via_scaler:
            return state
        if event.optimizer not in state.made - state.divided:
            return state
        message = (
            f"{quoted(event.place)} applies gradients that {quoted(scaled.place)} on "
            f"{line_of(scaled.place, event.place)} scales{scaled.condition}"
        )
        report.add(
            self,
            event.place,
            message,
            why=f"Nothing divides them: the optimizer was not given to `{scaled.framework.prepares}()`. {_NOT_SKIPPED}",
            help="Prepare it together with the model.",
            level=scaled.level,
            trail=((scaled.place, "the scaled backward pass"),),
            builder=NoFix("where it is to be prepared, only the author knows"),
            assumes=scaled.assumes,
        )
        return state

    def builder_of(self, violation: Violation) -> FixBuilder:
        """The scaler makes the step, once."""
        if violation.fault is Fault.SECOND_STEP:
            return RemoveStep(violation.place)
        return StepThroughScaler(violation.place, violation.other)

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        if violation.fault is Fault.SECOND_STEP:
            return Description(
                f"{quoted(violation.place)} applies the gradients a second time, after the scaler's step on "
                f"{where(violation)}",
                "It also applies those that the scaler skipped because they were infinite.",
                "Remove it.",
                "the scaler has stepped this optimizer here",
            )
        return Description(
            f"{quoted(violation.place)} applies gradients that are still multiplied by the scale since "
            f"{where(violation)}",
            f"They are {times(violation)} too large at the initial scale. {_NOT_SKIPPED}",
            "Write `scaler.step(optimizer)` and `scaler.update()`.",
            "the scaled backward pass",
        )
