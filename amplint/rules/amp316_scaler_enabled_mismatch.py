"""Finds gradient scalers and autocast regions that are not switched together.

## What it does

Reports a scaler and a float16 region that two flags switch which come from different places, such as an argument
and a setting; a float16 region that is always on with a scaler that a flag can switch off; a scaler that is off in
each run in which the region is float16, as by `enabled=args.dtype == "fp16"` where the setting is called "float16"; and
an enabled scaler in a project that has no autocast at all. A scaler that stays on where a flag switches the region
off is advice: it costs time and changes nothing.

Silent: one flag for both; two entries of the same settings (attributes or items of one object, parameters of one
function), which the author offers side by side: that somebody may set one without the other is no fault of the
code; `enabled=dtype == torch.float16` and other conditions that are computed; scalers that are made, or used, only
where the flag of the region is on; scalers and flags that come from calls out of sight; bfloat16 regions.

## Why is this bad

With the region on and the scaler off, small gradients become zero in float16 (see missing-grad-scaler). With
the scaler on and the region off, each step pays for scaling, unscaling and a synchronisation with the
device, and nothing is gained. Which of the four states a run is in is then up to two flags that are set in two
places, by people who need not know of each other.

## What torch does at run time

Measured with torch 2.13.0 on the CPU:

* Region on, scaler off: of the gradients of a loss near 1e-4, 21 % are zero in float16, instead of 1 %.
* No region, scaler on: after fifty steps of AdamW the weights are equal to those without the scaler, bit for
  bit.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


def train(model, optimizer, batches, args, scale_loss):
    scaler = torch.amp.GradScaler(device, enabled=scale_loss)
    for x, y in batches:
        with torch.autocast(device, dtype=torch.float16, enabled=args.amp):
            loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


def train(model, optimizer, batches, args):
    scaler = torch.amp.GradScaler(device, enabled=args.amp)
    for x, y in batches:
        with torch.autocast(device, dtype=torch.float16, enabled=args.amp):
            loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
```

## Fix safety

The fix is unsafe: which flag is meant, only the author knows. The scaler gets the flag of the region, where that means
the same at both places; it is left on if the region is always on; and it is switched off where no region is. There is
none where the flag of the region is not known where the scaler is made.

## References

* [torch.amp examples: typical mixed precision training](
  https://docs.pytorch.org/docs/stable/notes/amp_examples.html), where one flag switches both
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from amplint.events import DType, Event, Forward, Place, Region, RegionEntered, ScalerUsed, innermost
from amplint.findings import Level
from amplint.fixes.base import NoFix
from amplint.fixes.switches import SwitchTogether
from amplint.flow.state.graph import Graph
from amplint.rules.base import FlowRule, Report, opened
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of

_OFF = "off"


class ScalerEnabledMismatch(FlowRule):
    """The state is the last region that was entered with gradients and is not switched off for good, since the loss
    comes from there; before that one that a flag has switched off; before that, whether a module has run."""

    level = Level.WARNING
    hears_switched_off = True
    unseen = "a run has no flags, only what they were this time"
    shown_by = (ScalerUsed,)

    def on_region_entered(self, state: Hashable, event: RegionEntered, report: Report) -> Hashable:
        region = innermost(event.regions) if event.gradients else None
        known = state if isinstance(state, Region) else None
        if region is not None and (region.enabled or _rank(region) > _rank(known)):
            return region
        return state

    def switched_off(self, graph: Graph) -> Iterable[Hashable]:
        """Those of the regions around losses that a scaler without a flag scales."""
        if any(_is_without_flag(event) for event in graph.different(frozenset({ScalerUsed}))):
            for event in graph.different(frozenset({RegionEntered})):
                region = event.regions[-1]
                if region.enabled and _gives_losses(event) and self.context.is_flag(region.switch):
                    yield region.switch

    def on_forward(self, state: Hashable, event: Forward, report: Report) -> Hashable:
        return state or True

    def on_scaler_used(self, state: Hashable, event: ScalerUsed, report: Report) -> Hashable:
        if event.made is None:
            return state
        if isinstance(state, Region) and event.act == "scale" and _is_float16(state):
            if event.enabled is not False:
                report.withdraw(self, (_OFF, event.made))
            else:
                self._tell_off(state, event, event.made, report)
        if event.enabled is not True:
            return state
        if isinstance(state, Region):
            if event.act == "scale" and state.enabled:
                self._compare(state, event, event.made, report)
            elif event.act == "scale" and _is_switched_off(state) and self.context.is_flag(state.switch):
                self._tell_on(state, event, event.made, report)
        elif state is True and event.act == "step" and event.switch is None:
            if self.context.half_may_exist(event):
                return state
            trail = ((event.place, "the scaler steps the optimizer here"),)
            report.add(
                self,
                event.made,
                "this gradient scaler is enabled, but nothing here runs in half precision",
                why="It costs a synchronisation in each step and gains nothing.",
                help="Open an autocast region around the forward, or drop the scaler.",
                trail=trail,
                builder=SwitchTogether(event.made),
            )
        return state

    def _tell_off(self, region: Region, event: ScalerUsed, made: Place, report: Report) -> None:
        """A scaler that is off, unless on another path it is on with such a region."""
        trail = (opened(region), (event.place, "the loss is scaled here, by one"))
        report.add(
            self,
            made,
            f"this gradient scaler is off wherever the region on {line_of(region.place, made)} is float16",
            why="Small gradients become zero, and the weights they belong to stop learning.",
            help="Enable it by the same setting that makes the region float16.",
            trail=trail,
            subject=(_OFF, made),
            assumes=of_regions(region, seen_from=made),
            builder=NoFix("which of the settings is meant, only the author knows"),
        )

    def _tell_on(self, region: Region, event: ScalerUsed, made: Place, report: Report) -> None:
        """A scaler that scales where a flag has switched the region off."""
        trail = (opened(region), (event.place, "the loss is scaled here all the same"))
        report.add(
            self,
            made,
            f"this gradient scaler stays on where a flag switches the region on {line_of(region.place, made)} off",
            why="In float32 it costs a synchronisation in each step and gains nothing.",
            help="Switch both by one flag.",
            level=Level.ADVICE,
            trail=trail,
            builder=SwitchTogether(made, region.place),
        )

    def _compare(self, region: Region, event: ScalerUsed, made: Place, report: Report) -> None:
        if (
            event.switch is None
            or not self.context.is_flag(event.switch)
            or region.framework
            or not region.enabled
        ):
            return
        if self.context.is_decided(event):
            # so may the region depend on it
            return
        if region.conditional:
            if region.dtype is DType.BFLOAT16 or not self.context.is_flag(region.switch):
                return
            if region.switch == event.switch or self.context.are_of_one(region.switch, event.switch):
                return
            how = "another flag"
        elif region.dtype is DType.FLOAT16 and region.switch is None and not region.chosen:
            # an expression for the type may be of the flag, too
            how = "no flag"
        else:
            return
        where = line_of(region.place, made)
        trail = (opened(region), (event.place, "the loss is scaled here"))
        assumes = of_regions(region, seen_from=made)
        builder = SwitchTogether(made, region.place)
        report.add(
            self,
            made,
            f"a flag switches this gradient scaler and {how} the float16 region on {where}",
            why="With the scaler off and the region on, small gradients become zero.",
            help="Switch both by one flag.",
            trail=trail,
            assumes=assumes,
            builder=builder,
        )


def _rank(region: Region | None) -> int:
    """How much a region tells of what a loss is computed in, which comes after it."""
    if region is None:
        return 0
    return 3 if region.enabled else 2 if _is_switched_off(region) else 1


def _is_switched_off(region: Region) -> bool:
    """Whether a flag has switched a region off that would be on."""
    return (
        region.conditional
        and not region.enabled
        and not region.framework
        and region.dtype is not DType.BFLOAT16
    )


def _is_without_flag(event: Event) -> bool:
    """Whether a loss is scaled by a scaler that is on in any case."""
    if not isinstance(event, ScalerUsed) or event.act != "scale":
        return False
    return event.made is not None and event.enabled is True and event.switch is None


def _gives_losses(event: Event) -> bool:
    """Whether a region is entered with gradients that a flag switches, and that needs a scaler."""
    region = event.regions[-1]
    entered = isinstance(event, RegionEntered) and event.gradients and region.conditional
    return entered and not region.framework and region.dtype is not DType.BFLOAT16


def _is_float16(region: Region) -> bool:
    """Whether a region is on and surely float16."""
    return bool(region.enabled) and region.dtype is DType.FLOAT16 and not region.framework
