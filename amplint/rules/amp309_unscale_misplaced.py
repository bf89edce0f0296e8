"""Finds `scaler.unscale_()` that is called twice, too late, too early, or on another object than the step.

## What it does

Reports `scaler.unscale_(optimizer)`

* that comes again before `scaler.update()`, as it does inside the loop over micro-batches,
* that comes after `scaler.step(optimizer)`,
* after which a further scaled backward pass adds to the same gradients before they are applied,
* and, in a run that `amplint confirm` watches, after which a step applies the gradients and nobody drops them, so that
  the next scaled backward pass adds to them, or where `scaler.step(…)` is given an object around the optimizer.
  It says so at the step.

accelerate's `clip_grad_norm_` and `clip_grad_value_` unscale the gradients of every optimizer that was prepared, so
a second one before the next step is reported as well: as an error for `mixed_precision="fp16"`, as a warning where
that is a setting. So is the step of another prepared optimizer after the first one, with no backward pass in between:
each step ends with the scaler's `update()`, so that the second one divides its gradients once more. That is told of
where an argument asks for a precision.

The third one is judged only where the backward pass surely reaches the same parameters: there is one optimizer, or
it is the same call in the next iteration.

## Why is this bad

`unscale_` divides the gradients in place and can do so once for each step. What a later backward pass adds is
still multiplied by the scale: the sum is dominated 65536 to 1 by the last micro-batch, and it is not divided any
more.

The scaler keeps its record for the object that it is given (`id(optimizer)`). A wrapper is another object than the
optimizer in it: `step` finds no record for it and divides the gradients of the same parameters once more.

## What torch does at run time

Measured with torch 2.13.0 on the CPU:

| calls | result |
|---|---|
| `unscale_` twice before `update` | `RuntimeError: unscale_() has already been called on this optimizer …` |
| `unscale_` after `step` | `RuntimeError: unscale_() is being called after step().` |
| scaled backward pass after `unscale_`, then `step` | silent: what was added counts 65536 times too much |
| `step`, `update`, scaled backward pass without `zero_grad` | silent: the old ones count for 1/scale; an `inf` stays |
| `unscale_(wrapper.optimizer)`, clip, `step(wrapper)` | silent: the clipped gradients are divided by the scale again |
| `unscale_`, `update`, scaled backward pass, `step` | silent: what was there before is divided twice and vanishes |
| `unscale_` of two optimizers, `step` and `update` for one, then for the other | silent: the second is divided twice |

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)

for _ in range(3):
    optimizer.zero_grad()
    for micro in range(2):
        x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
        with torch.autocast(device, dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y) / 2
        scaler.scale(loss).backward()
        if micro == 0:
            scaler.unscale_(optimizer)
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
    optimizer.zero_grad()
    for micro in range(2):
        x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)
        with torch.autocast(device, dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y) / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety

The fix moves `unscale_` and the clipping right behind it in front of `scaler.step(optimizer)`, under the condition
of the step, or removes an `unscale_` that follows the step. Both are unsafe: the gradients are clipped once for all
micro-batches then, and training changes. There is no fix where the step is in another function or runs in several
places, where the norm that the clip returns is used elsewhere, where `unscale_` has a condition of its own that the
loop changes, or where a clip follows the step as well: it has to be moved by hand.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from amplint.amp.protocol import Fault, Violation
from amplint.events import Backward, FrameworkUnscaled, GradientsZeroed, OptimizerStepped, Place, ScalerUsed
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.unscaling import MoveUnscale, RemoveUnscale
from amplint.rules.base import Report
from amplint.rules.framework_scaling import Scaled
from amplint.rules.grad_scaler import Description, ProtocolRule, number, times, where
from amplint.rules.wording import line_of, quoted

_AGAIN = "`RuntimeError: unscale_() has already been called on this optimizer since the last update().`"


class Unscaled(NamedTuple):
    """Where a framework has unscaled the gradients of all optimizers in order to clip some, whether an argument tells
    it in which precision to train, and the first step since, with its optimizer."""

    by: Scaled
    told: bool
    optimizer: Hashable = None
    step: Place | None = None


class UnscaleMisplaced(ProtocolRule):
    """An unscale_ at the wrong time. The state is Unscaled or None."""

    shown_by = (ScalerUsed,)
    raises = r"unscale_\(\) (has already been called|is being called after step)"
    never_without = (FrameworkUnscaled,)  # the scalers of the code are heard by the protocol
    faults = frozenset(
        {
            Fault.UNSCALED_TWICE,
            Fault.UNSCALED_AFTER_STEP,
            Fault.BACKWARD_AFTER_UNSCALE,
            Fault.OTHER_OBJECT,
            Fault.ADDED_TO_APPLIED,
        }
    )

    def on_framework_unscaled(
        self, state: Unscaled | None, event: FrameworkUnscaled, report: Report
    ) -> Hashable:
        here = Unscaled(Scaled(event.place, event.framework, event.float16), event.told)
        if state is None:
            return here
        if state.step is not None:
            return state  # the step has ended the record: torch lets the gradients be divided again
        first = state.by.place
        before = "in the iteration before" if first == event.place else f"on {line_of(first, event.place)}"
        condition = "Torch" if event.float16 else f"With `{event.framework.setting}` torch"
        report.add(
            self,
            event.place,
            f"{quoted(event.place)} unscales the gradients of all prepared optimizers, as did the clip {before}, with "
            "no step in between",
            why=f"{condition} raises {_AGAIN}",
            help="Clip once for all parameters, or right before the step of each optimizer.",
            level=here.by.level,
            trail=((first, "unscaled before here"),),
            builder=NoFix("which parameters share a limit, only the author knows"),
            assumes=here.by.assumes,
        )
        return here

    def on_optimizer_stepped(
        self, state: Unscaled | None, event: OptimizerStepped, report: Report
    ) -> Hashable:
        if state is None or not event.framework or not state.told:
            return None
        if state.step is None:
            return state._replace(optimizer=event.optimizer, step=event.place)
        if event.optimizer != state.optimizer and None not in (event.optimizer, state.optimizer):
            self._tell_of_second_step(state.by, state.step, event.place, report)
        return state

    def _tell_of_second_step(self, unscaled: Scaled, first: Place, second: Place, report: Report) -> None:
        clip = f"{quoted(unscaled.place)} on {line_of(unscaled.place, second)}"
        report.add(
            self,
            second,
            f"{quoted(second)} divides gradients that {clip} has divided by the scale before{unscaled.condition}",
            why=f"The clip unscales those of all prepared optimizers, and the step on {line_of(first, second)} ends "
            "with the scaler's `update()`, which forgets that. At the initial scale 1/65536 of the update is left.",
            help="Compute, clip and apply the gradients of one optimizer after the other, or prepare one optimizer "
            "with a parameter group for each.",
            level=unscaled.level,
            trail=((unscaled.place, "unscaled here"), (first, "the first step")),
            builder=NoFix("which of the two ways suits, only the author knows"),
            assumes=unscaled.assumes,
        )

    def on_gradients_zeroed(self, state: Unscaled | None, event: GradientsZeroed, report: Report) -> Hashable:
        stepped = state is not None and event.optimizer is not None and event.optimizer == state.optimizer
        return state if stepped else None

    def on_backward(self, state: Unscaled | None, event: Backward, report: Report) -> Hashable:
        return None

    on_framework_scaled = on_amp_hidden = on_backward

    def builder_of(self, violation: Violation) -> FixBuilder:
        """After the step the call goes; else it moves in front of the step."""
        if violation.fault is Fault.UNSCALED_AFTER_STEP:
            return RemoveUnscale(violation.place)
        if violation.fault is Fault.ADDED_TO_APPLIED:
            return NoFix("whether the gradients are to be dropped or to be kept, only the author knows")
        if violation.fault is Fault.OTHER_OBJECT:
            return NoFix(
                "both calls have to be given the same object, and which one is for the author to say"
            )
        return MoveUnscale(violation.place)

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        if violation.fault is Fault.UNSCALED_TWICE:
            before = (
                "in the iteration before" if violation.other == violation.place else f"on {where(violation)}"
            )
            return Description(
                f"{quoted(violation.place)} runs although the same optimizer was unscaled {before}, with no "
                "`scaler.update()` since",
                f"Torch raises {_AGAIN}",
                "Unscale once, right before clipping, under the condition of `scaler.step(optimizer)`.",
                "unscaled before here",
            )
        if violation.fault is Fault.UNSCALED_AFTER_STEP:
            return Description(
                f"{quoted(violation.place)} runs after the scaler's step on {where(violation)}, which has unscaled and "
                "applied the gradients",
                "Torch raises `RuntimeError: unscale_() is being called after step().`",
                "Unscale before the step.",
                "the scaler's step",
            )
        if violation.fault is Fault.ADDED_TO_APPLIED:
            part = "1 / scale" if violation.initial is None else f"1 / {number(violation.initial)}"
            return Description(
                f"the backward pass on {where(violation)} adds scaled gradients to the unscaled ones that "
                f"{quoted(violation.place)} has applied",
                f"Nobody drops the old ones: they count for {part} of the new ones, and one that is infinite stays, so "
                "that the scaler skips every later step.",
                "Call `optimizer.zero_grad()` after the step.",
                "scaled gradients are added here",
            )
        if violation.fault is Fault.OTHER_OBJECT:
            other = f"{quoted(violation.other)} on {where(violation)}"
            return Description(
                f"{quoted(violation.place)} is given another object than {other}, for the same parameters",
                "The scaler has no record of it and divides the gradients by the scale a second time"
                f"{lost(violation)}.",
                "Give both calls the same object.",
                "divided for the first time here",
            )
        return Description(
            f"{quoted(violation.place)} unscales gradients to which the backward pass on {where(violation)} then adds "
            "scaled ones",
            f"Those are {times(violation)} larger at the initial scale: what is applied is no sum of the two.",
            "Unscale once, after the last backward pass of the step.",
            "scaled gradients are added here",
        )


def lost(violation: Violation) -> str:
    """What is left of gradients that are divided twice."""
    return (
        ""
        if violation.initial is None
        else f" (1 / {number(violation.initial)} of the update is left at first)"
    )
