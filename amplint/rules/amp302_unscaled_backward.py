"""Finds losses that are not scaled although there is a gradient scaler for them.

## What it does

Reports a backward pass on a loss that `scaler.scale()` did not multiply, where an enabled scaler then divides
the gradients by its scale in `scaler.unscale_(optimizer)` or `scaler.step(optimizer)`. It also reports
`unscale_` and `step` of a scaler that never scaled anything, and gradients that one scaler scaled and another
one divides.

And it reports the backward pass of a loss from a float16 region whose gradients a step applies without any scaler,
where the function has a scaler at hand: as a local name, or as an attribute of the same object, such as the one that
another method trains with. Where there is no scaler to be had, that is missing-grad-scaler. Beside a framework's
`accelerator.backward(loss)` that scales, it reports `other.backward()` before the same step, and `loss.backward()`
before a step that the scaler of a framework takes, which an argument tells to train in float16.

Silent: the branch for `scaler is None` or for a flag that also switches the scaler off, losses with an optimizer
of their own that steps without the scaler, `backward(inputs=…)`, frameworks whose `backward` scales by itself,
scalers that are switched by a flag of which nothing is known, files in which something else may scale the loss, and a
loss that a function is given of which no caller is in sight.

## Why is this bad

The scaler divides by its scale whatever it was that made the gradients. A gradient that was never
multiplied becomes 65536 times too small with the default scale. With SGD the model stands still; with Adam, whose
step does not depend on the size of the gradient, the run looks almost right until the gradients fall below
`eps`. The loss that was not scaled also underflows in the float16 parts of the backward pass, which is what the
scaler is there to prevent: that is all the harm where no scaler divides. No exception says so, unless the scaler has
not scaled anything yet.

## What torch does at run time

Measured with torch 2.13.0 on the CPU (`torch.amp.GradScaler("cpu")`), SGD:

| backward pass | scaler's step |
|---|---|
| not scaled, the scaler scaled something before | silent: the update is 1/65536 of what it should be by default |
| one scaled loss and one that is not, in one step | silent: the second counts for 1/scale of its weight |
| not scaled, the scaler never scaled anything | `AssertionError: Attempted step but _scale is None.` |
| not scaled, `optimizer.step()` without the scaler | silent: gradients below 6e-8 are zero (see missing-grad-scaler) |
| scaled by one scaler, stepped by another | silent: off by the ratio of the two scales |
| the scaler has `enabled=False` | right |

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
    penalty = model.weight.square().sum()
    scaler.scale(loss).backward()
    penalty.backward()
    scaler.step(optimizer)
    scaler.update()
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
    penalty = model.weight.square().sum()
    scaler.scale(loss).backward()
    scaler.scale(penalty).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety

The fix writes `scaler.scale(loss).backward()` with the scaler that steps, and is unsafe: all steps on these
gradients have to go through that scaler. With a scaler that is at hand it also writes `scaler.step(optimizer)` and
`scaler.update()`. There is no fix where two scalers are mixed up, where the backward pass is in another function, or
where gradients are read between it and a step without the scaler.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from amplint.amp.protocol import Fault, Violation
from amplint.events import (
    Backward,
    Event,
    Forward,
    Framework,
    FrameworkScaled,
    FunctionEnded,
    OptimizerStepped,
    Place,
    ScalerUsed,
)
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.scaling import ScaleLoss, TrainThroughScaler
from amplint.rules.base import Report, opened
from amplint.rules.float16_training import LOST, Float16Training, Trained, level_of
from amplint.rules.framework_scaling import Scaled, scaled_by
from amplint.rules.grad_scaler import Description, ProtocolRule, number, where
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of, quoted


class Beside(NamedTuple):
    """A backward pass of a framework, one of torch's own since, and the step that divided both. Another optimizer that
    steps afterwards may be the one that the second was for."""

    scaled: Scaled
    plain: Place | None = None
    step: Place | None = None


class Plain(NamedTuple):
    """A backward pass of torch's own, whose gradients nothing has applied or dropped since."""

    place: Place


class UnscaledBackward(ProtocolRule, Float16Training):
    """A loss that nobody multiplied but the scaler's step divides, or that a scaler at hand could have scaled. The
    state is that of Float16Training, Beside where a framework scales, or Plain where one may step."""

    shown_by = (Backward, ScalerUsed)
    evidence = ("scale", "norm")
    raises = r"Attempted (step|unscale_) but _scale is None"
    faults = frozenset({Fault.UNSCALED_LOSS, Fault.NEVER_SCALED, Fault.OTHER_SCALER})

    def concerns(self, event: Backward) -> bool:
        """Whether nothing scales the loss, and a scaler is there that could."""
        if event.scaled or event.unclear or event.partial:
            return False
        return self.context.scaler_at_hand(event) is not None

    def on_framework_scaled(self, state: Hashable, event: FrameworkScaled, report: Report) -> Hashable:
        self._tell_beside(state, report)
        scaled = scaled_by(event)
        return Beside(scaled) if scaled is not None else None

    def on_framework_unscaled(self, state: Hashable, event: Event, report: Report) -> Hashable:
        return None if isinstance(state, Beside) and state.step is None else state

    def on_gradients_zeroed(self, state: Hashable, event: Event, report: Report) -> Hashable:
        return None if isinstance(state, Plain) else self.on_framework_unscaled(state, event, report)

    on_amp_hidden = on_gradients_zeroed

    def on_forward(self, state: Hashable, event: Forward, report: Report) -> Hashable:
        found = super().on_forward(None if isinstance(state, Plain) else state, event, report)
        return state if isinstance(state, Plain) and found is None else found

    def on_function_ended(self, state: Hashable, event: FunctionEnded, report: Report) -> Hashable:
        self._tell_beside(state, report)
        return state

    def on_backward(self, state: Hashable, event: Backward, report: Report) -> Hashable:
        scaled = event.scaled or event.unclear or event.partial
        if not isinstance(state, Beside):
            found = super().on_backward(state, event, report)
            return Plain(event.place) if found is None and not scaled else found
        if scaled or state.step is not None:
            return state
        return state._replace(plain=state.plain or event.place)

    def on_optimizer_stepped(self, state: Hashable, event: OptimizerStepped, report: Report) -> Hashable:
        if isinstance(state, Plain):
            if event.owner is not None and event.scales and not event.via_scaler:
                self._tell_plain(state.place, event, event.owner, report)
            return None
        if not isinstance(state, Beside):
            return super().on_optimizer_stepped(state, event, report)
        divides = event.framework and state.plain is not None and state.step is None
        return state._replace(step=event.place) if divides else None

    def _tell_plain(self, place: Place, step: OptimizerStepped, owner: Framework, report: Report) -> None:
        scaled = Scaled(step.place, owner, not step.chosen)
        report.add(
            self,
            place,
            f"{quoted(place)} scales no loss, and the step on {line_of(step.place, place)} divides its gradients by "
            f"the scale{scaled.condition}",
            why=f"`{owner.setting}` makes a gradient scaler that steps this optimizer. If it has scaled no loss yet, "
            "torch raises AssertionError, as `_scale` is None, else the gradients count for 1 / scale of what they "
            "should.",
            help=f"Write `{owner.backward}(loss)`.",
            level=scaled.level,
            trail=((step.place, "the step that divides them"),),
            builder=NoFix("the framework may have another name here"),
            assumes=scaled.assumes,
        )

    def _tell_beside(self, state: Hashable, report: Report) -> None:
        if not isinstance(state, Beside) or state.plain is None or state.step is None:
            return
        place, scaled = state.plain, state.scaled
        report.add(
            self,
            place,
            f"{quoted(place)} adds gradients that nobody scales to those that {quoted(scaled.place)} on "
            f"{line_of(scaled.place, place)} scales{scaled.condition}",
            why="The step divides both by the scale: these count for 1 / scale of what they should.",
            help=f"Compute them as {quoted(scaled.place)} does.",
            level=scaled.level,
            trail=((scaled.place, "the scaled backward pass"), (state.step, "the step that divides both")),
            builder=NoFix("what the loss is computed in is the framework's affair"),
            assumes=scaled.assumes,
        )

    def tell(self, trained: Trained, backward: Backward, step: OptimizerStepped, report: Report) -> None:
        place, region, scaler = backward.place, trained.region, trained.scaler
        assert scaler is not None
        message = (
            f"{quoted(place)} runs on a loss from the float16 region on {line_of(region.place, place)}, which "
            f"`{scaler.name}`, made on {line_of(scaler.made, place)}, does not scale"
        )
        advice = (
            f"Write `{scaler.name}.scale(loss).backward()`, and `{scaler.name}.step(optimizer)` and "
            f"`{scaler.name}.update()` for the step on {line_of(step.place, place)}."
        )
        trail = (
            opened(region),
            (scaler.made, "a gradient scaler is made here"),
            (step.place, "the optimizer uses these gradients"),
        )
        builder = TrainThroughScaler(place, step.place, scaler.name)
        assumes = of_regions(region, seen_from=place)
        report.add(
            self,
            place,
            message,
            why=LOST,
            help=advice,
            level=level_of(step),
            trail=trail,
            builder=builder,
            assumes=assumes,
        )

    def builder_of(self, violation: Violation) -> FixBuilder:
        """The loss is scaled by the scaler that steps."""
        if violation.fault is Fault.OTHER_SCALER:
            return NoFix("it is not clear which of the two scalers is meant")
        if violation.fault is Fault.NEVER_SCALED:
            return ScaleLoss(violation.place)
        return ScaleLoss(violation.other, violation.place)

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        if violation.fault is Fault.NEVER_SCALED:
            return Description(
                f"{quoted(violation.place)} runs before this scaler has scaled any loss",
                f"Torch raises `AssertionError: Attempted {violation.how} but _scale is None.`",
                "Write `scaler.scale(loss).backward()` with the same scaler, or call backward through the framework "
                "that made it.",
                "here" if violation.other == violation.place else "the backward pass that is not scaled",
            )
        if violation.fault is Fault.OTHER_SCALER:
            return Description(
                f"{quoted(violation.place)} divides by its scale gradients that another scaler has scaled for the "
                f"backward pass on {where(violation)}",
                "The update is off by the ratio of the two scales.",
                "Use one scaler for both calls.",
                "scaled by another scaler here",
            )
        first = (
            f" (1 / {number(violation.initial)} at the initial scale)"
            if violation.initial is not None
            else ""
        )
        return Description(
            f"{quoted(violation.place)} runs on a loss that was not scaled, and the scaler divides its gradients on "
            f"{where(violation)}",
            f"They count for 1 / scale of what they should{first}, and small ones underflow in float16.",
            "Write `scaler.scale(loss).backward()`.",
            "the gradients are divided by the scale here",
        )
