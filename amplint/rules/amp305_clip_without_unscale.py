"""Finds gradients that are clipped or measured while they are multiplied by the scale.

## What it does

Reports `clip_grad_norm_`, also that of a `FullyShardedDataParallel`, `clip_grad_value_`, timm's `dispatch_clip_grad`
and `adaptive_clip_grad`, and `p.grad.clamp_()` between `scaler.scale(loss).backward()` and the
`scaler.unscale_(optimizer)` or `scaler.step(optimizer)` that divides the same gradients by the scale. As a warning it
reports `p.grad.norm()` there, and what comes to the same: `p.grad.pow(2).sum()`, `p.grad.abs().max()`. So it does
between `accelerator.backward(loss)`, or that of Fabric, and the step of an optimizer that was prepared, where an
argument says in which precision to train: as a warning unless that is float16 in any case.

Silent: `scaler.unscale_(optimizer)` before the clip, on all ways that lead there; a limit that is multiplied by the
scale, and what comes after code that has computed with `scaler.get_scale()` in the same step (to print, log or compare
it is no such thing); a norm by which the same gradients are divided, as adversarial training does; parameters of
another optimizer; the branch without scaler; and the clipping methods of accelerate and Fabric, which unscale by
themselves. That of a LightningModule does not: in manual optimization it is reported.

## Why is this bad

The limit is compared with gradients that are 65536 times too large by default. So nearly every step is clipped,
and after the division the norm of the gradient is `max_norm / scale` at most: 1.5e-5 for `max_norm=1.0`. With SGD
training stands still. Adam divides the size of the gradient out, so the run looks right, but the clipping that
was asked for does not take place: every gradient, usual or a hundred times too large, gets the same norm. And
because the scale changes over the run, so does the effective limit.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, true gradient norm 10, `clip_grad_norm_(…, 1.0)`:

| scale | with `unscale_` before | without |
|---:|---:|---:|
| 1 | 1.0 | 1.0 |
| 1024 | 1.0 | 9.8e-4 |
| 65536 | 1.0 | 1.5e-5 |

The norm that the function returns, and that is often logged, is 10 with `unscale_` and 655360 without.

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
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety

The fix calls `scaler.unscale_(optimizer)` before the clip. It is safe where the step follows in the block of the
clip or in one around it, and unsafe where the step is in another method, or where the scaler steps several
optimizers. There is no fix where only the step is under a condition: move the clip there and unscale before it,
since with gradient accumulation a call for each micro-batch raises.

## References

* [torch.amp: gradient scaling](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)
* [torch.amp examples](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
* [pytorch/examples#1196](https://github.com/pytorch/examples/issues/1196): the official example had it
"""

from __future__ import annotations

from typing import NamedTuple

from amplint.amp.protocol import Fault, Violation
from amplint.events import Event, FrameworkScaled, GradientsNormalized, GradientsRead, OptimizerStepped
from amplint.findings import Level
from amplint.fixes.base import FixBuilder
from amplint.fixes.frameworks import ClipThroughFramework
from amplint.fixes.scaling import AddUnscale
from amplint.rules.base import Report
from amplint.rules.framework_scaling import Scaled, scaled_by
from amplint.rules.grad_scaler import Description, ProtocolRule, number, times, where
from amplint.rules.wording import line_of, quoted

_MOST = 4


class State(NamedTuple):
    """A backward pass of a framework, and what has limited or measured its gradients since."""

    scaled: Scaled
    reads: tuple[GradientsRead, ...] = ()


class ClipWithoutUnscale(ProtocolRule):
    """A limit that is compared with scaled gradients."""

    shown_by = (GradientsRead,)
    # the scalers of the code are heard by the protocol
    never_without = (FrameworkScaled, GradientsNormalized)
    evidence = ("scale", "norm")
    faults = frozenset({Fault.CLIPPED_SCALED, Fault.MEASURED_SCALED})

    def on_framework_scaled(
        self, state: State | None, event: FrameworkScaled, report: Report
    ) -> State | None:
        scaled = scaled_by(event)
        return State(scaled) if scaled is not None else None

    def _over(self, state: State | None, event: Event, report: Report) -> State | None:
        """What was scaled is divided or dropped, or nobody knows."""
        return None

    on_framework_unscaled = on_backward = on_scaler_used = on_gradients_zeroed = on_amp_hidden = _over

    def on_gradients_read(self, state: State | None, event: GradientsRead, report: Report) -> State | None:
        if state is None or event in state.reads or len(state.reads) == _MOST:
            return state
        return state._replace(reads=(*state.reads, event))

    def on_gradients_normalized(
        self, state: State | None, event: GradientsNormalized, report: Report
    ) -> State | None:
        """Whatever else is done where the norm is 0, it is not compared with anything."""
        report.withdraw(self, event.norm)
        return state

    def on_optimizer_stepped(
        self, state: State | None, event: OptimizerStepped, report: Report
    ) -> State | None:
        if state is not None and event.framework:
            for read in state.reads:
                self._tell(state.scaled, read, event, report)
        return None

    def _tell(self, scaled: Scaled, read: GradientsRead, step: OptimizerStepped, report: Report) -> None:
        place = read.place
        start = line_of(scaled.place, place)
        does = "limits" if read.clips else "measures"
        effect = f"{_effect(read.how, read.limit)}." if read.clips else "The figure jumps with the scale."
        message = f"{quoted(place)} {does} gradients that {quoted(scaled.place)} on {start} scales{scaled.condition}"
        level = scaled.level if read.clips else Level.WARNING
        trail = (
            (scaled.place, "the scaled backward pass"),
            (step.place, "the gradients are divided by the scale only here"),
        )
        builder = ClipThroughFramework(place, scaled.place, scaled.framework)
        framework = scaled.framework
        help = (
            f"Clip in the method `{framework.hook}`, which is called once they are divided."
            if framework.hook
            else f"Call `{framework.clips}()`, which divides them before."
        )
        report.add(
            self,
            place,
            message,
            why=f"The optimizer divides them only when it steps. {effect}",
            help=help,
            level=level,
            trail=trail,
            subject=place,
            builder=builder,
            assumes=scaled.assumes,
        )

    def level_of(self, violation: Violation) -> Level | None:
        """A norm that is only looked at changes no weights."""
        return Level.WARNING if violation.fault is Fault.MEASURED_SCALED else None

    def builder_of(self, violation: Violation) -> FixBuilder:
        """The gradients are divided before."""
        return AddUnscale(violation.place, violation.other)

    def describe(self, violation: Violation) -> Description:
        """What the finding says."""
        step = "the gradients are divided by the scale only here"
        if violation.fault is Fault.MEASURED_SCALED:
            return Description(
                f"{quoted(violation.place)} measures gradients that are multiplied by the scale until "
                f"{where(violation)}",
                f"They are {times(violation)} too large at the initial scale, and jump with it.",
                "Call `scaler.unscale_(optimizer)` before.",
                step,
            )
        effect = _effect(violation.how, violation.limit)
        if violation.limit is not None and violation.limit < float("inf") and violation.initial:
            small = f"{violation.limit / violation.initial:.2g}"
            effect += f", {small} at the initial scale of {number(violation.initial)}"
        return Description(
            f"{quoted(violation.place)} limits gradients that are multiplied by the scale until {where(violation)}",
            f"{effect}: SGD stands still, and Adam is not clipped as asked.",
            "Call `scaler.unscale_(optimizer)` before, under the same condition as `scaler.step(optimizer)`.",
            step,
        )


def _effect(how: str, limit: float | None) -> str:
    """What a limit does to scaled gradients, as a sentence that may go on."""
    bound = "Each gradient" if "value" in how or how.endswith("p_") else "The gradient norm"
    known = f"{limit:g}" if limit is not None and limit < float("inf") else "limit"
    return f"{bound} becomes at most {known} / scale"
