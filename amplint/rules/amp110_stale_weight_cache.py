"""Finds parameters that are written in place inside one autocast region and used in it before and after.

## What it does

Reports a write to float32 parameters, or to another leaf tensor that takes gradients, in an open region: by
`load_state_dict`, `p.data.copy_(...)`, `p.data = ...`, `p.add_(...)` under `no_grad`, `torch.nn.init`. It speaks only
where the same parameters were used in that region before the write, and are used in it again after.

Silent with `cache_enabled=False`, after `torch.clear_autocast_cache()`, for parameters that take no gradients or are
half-precision already, for `load_state_dict(..., assign=True)` and new `nn.Parameter` objects, and where the region is
closed in between. Optimizer steps are the business of epoch-wide-autocast.

## Why is this bad

Autocast casts a weight once in a region and keeps the copy until the outermost region is left. The write
changes the weight and not the copy. The next forward gives, without any sign, what it gave before: an ensemble
is one model many times, the averaged weights are evaluated as the plain ones, an adversarial or latent input
does not move.

## What torch does at run time

The cache of `cached_cast` in `autocast_mode.cpp` is keyed by the tensor and looks at no version. Measured with
torch 2.13.0 on the CPU: after `load_state_dict`, `p.add_(1)`, `p.data = p.data + 1`, and for a leaf `z` after
`z.data.add_(1)`, `z -= 1` and `z[0] = 5` under `no_grad`, a second forward in the region equals the first one, bit for
bit, also in an inner region. With `assign=True`, a new `nn.Parameter` or `torch.func.functional_call` it is right.

## Example

```python
import torch
from torch import nn

model = nn.Linear(8, 1)
checkpoints = [nn.Linear(8, 1).state_dict() for _ in range(3)]
x = torch.randn(4, 8)

predictions = []
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    for checkpoint in checkpoints:
        model.load_state_dict(checkpoint)
        predictions.append(model(x))
assert torch.equal(predictions[0], predictions[2])
```

## Use instead

```python
import torch
from torch import nn

model = nn.Linear(8, 1)
checkpoints = [nn.Linear(8, 1).state_dict() for _ in range(3)]
x = torch.randn(4, 8)

predictions = []
for checkpoint in checkpoints:
    model.load_state_dict(checkpoint)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        predictions.append(model(x))
assert not torch.equal(predictions[0], predictions[2])
```

Where the region has to stay wide: `torch.autocast(device, cache_enabled=False)`, or
`torch.clear_autocast_cache()` after the write.

## Fix safety

The calls that make the open regions get `cache_enabled=False`. That is safe: beside what the finding is about it
changes nothing but speed and memory. The results change, since they now belong to the weights that they are said
to belong to. Where the call of torch that makes the region is not found there is no fix.

## References

* [torch.amp: autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting), which describes
  `cache_enabled`
* [pytorch#63552](https://github.com/pytorch/pytorch/pull/63552): where `cache_enabled` comes from
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from amplint.events import (
    CacheCleared,
    Event,
    Forward,
    ObjectMade,
    ParameterWritten,
    Place,
    RegionExited,
    Regions,
    WeightCast,
    enabled_region,
)
from amplint.findings import Level
from amplint.fixes.weight_cache import SwitchCacheOff
from amplint.rules.base import FlowRule, Report, caching, opened
from amplint.rules.ledger import of_open
from amplint.rules.wording import line_of

MOST = 24
"""Owners that are remembered."""


@dataclass(frozen=True)
class Cached:
    """What the outermost region, opened at ``inside``, has cast so far, and what was written since."""

    inside: Place | None = None
    used: frozenset[Hashable] = frozenset()
    written: tuple[tuple[Hashable, Place, str], ...] = ()


class StaleWeightCache(FlowRule):
    """See Cached for the state."""

    level = Level.ERROR

    def start(self) -> Cached:
        return Cached()

    def subjects(self, events: Iterable[Event]) -> dict[Hashable, None]:
        return dict.fromkeys(event.owner for event in events if isinstance(event, ParameterWritten))

    def about(self, event: Event) -> tuple[Hashable, ...] | None:
        if isinstance(event, Forward):
            return (event.module,)
        return (event.owner,) if isinstance(event, (ParameterWritten, WeightCast)) else None

    def on_region_exited(self, state: Cached, event: RegionExited, report: Report) -> Cached:
        return state if event.regions else Cached()

    def on_cache_cleared(self, state: Cached, event: CacheCleared, report: Report) -> Cached:
        return Cached()

    def on_object_made(self, state: Cached, event: ObjectMade, report: Report) -> Cached:
        written = tuple(part for part in state.written if not self.context.belongs(part[0], event.identity))
        used = (owner for owner in state.used if not self.context.belongs(owner, event.identity))
        return replace(state, used=frozenset(used), written=written)

    def on_parameter_written(self, state: Cached, event: ParameterWritten, report: Report) -> Cached:
        if event.owner not in state.used or any(owner == event.owner for owner, _, _ in state.written):
            return state
        return replace(state, written=(*state.written, (event.owner, event.place, event.how)))

    def on_forward(self, state: Cached, event: Forward, report: Report) -> Cached:
        if not event.trains or event.module is None:
            return state
        return self._use(state, event.module, event.regions, event.place, report)

    def on_weight_cast(self, state: Cached, event: WeightCast, report: Report) -> Cached:
        return self._use(state, event.owner, event.regions, event.place, report)

    def _use(self, state: Cached, owner: Hashable, regions: Regions, use: Place, report: Report) -> Cached:
        region = enabled_region(regions)
        if region is None or not region.cache_enabled:
            return state
        outermost = regions[0]
        if outermost.place != state.inside:
            state = Cached(outermost.place)
        for known, place, how in state.written:
            if known == owner:
                trail = (opened(outermost), (use, "they are used here again"))
                builder = SwitchCacheOff(caching(regions))
                report.add(
                    self,
                    place,
                    f"`{how}` changes parameters that the region on {line_of(outermost.place, place)} has cast already",
                    why=f"The copies stay, and {line_of(use, place)} computes with the values from before.",
                    help="Leave the region first, or pass `cache_enabled=False`.",
                    trail=trail,
                    builder=builder,
                    assumes=of_open(regions, place),
                )
        written = tuple(part for part in state.written if part[0] != owner)
        if len(state.used) >= MOST:
            return replace(state, written=written)
        return replace(state, used=state.used | {owner}, written=written)
