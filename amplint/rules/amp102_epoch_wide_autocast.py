"""Finds autocast regions that stay open over a parameter update and the forward pass after it.

## What it does

Reports an enabled autocast region in which parameters are updated and then used again: a `with` around the
training loop or around `train_one_epoch(...)`, or a decorator on the function that contains the loop. Every
update that can be followed counts: `optimizer.step()`, `scaler.step(optimizer)`, and helpers that call one.

It is an error if the region lasts until the same gradients are computed again. If it ends before, and only another
forward pass comes after the update, such as the discriminator's in the generator's loss or a validation, it is a
warning.

Silent: loops without an update (validation, inference), regions with `cache_enabled=False`, regions that
cannot be enabled, a region that is opened and closed again in each step, and where only other networks run after
the update, as far as it is known which ones the optimizer has.

## Why is this bad

The model stops learning and nothing says so. The first time that an op needs a float32 weight in half
precision, autocast makes a copy, and it keeps the copy until the outermost region ends. `optimizer.step()`
changes the weight, not the copy. So every later forward pass in the region uses the weights of the first
step: the loss that you print never changes, the gradient is always that of the first weights, and the
optimizer pushes the real weights along this frozen direction for as long as the region lasts. The
checkpoint that you save holds weights that no forward pass has ever seen.

There is no exception, no warning and no NaN.

## What torch does at run time

The cache holds casts of float32 leaf tensors that require grad. Its key is the identity of the tensor,
there is no version check, and it is emptied when the outermost autocast context of the thread exits (from
torch's source, `autocast_mode.cpp`). Measured with torch 2.13.0 on the CPU by the script below; *printed*
is the loss that the training loop sees, *real* the loss of the same weights in float32 after the step:

| step | region per step: printed | real | one region around the loop: printed | real |
|---:|---:|---:|---:|---:|
| 1 | 9.0913 | 8.7979 | 9.0913 | 8.7979 |
| 2 | 8.7977 | 8.5327 | 9.0913 | 8.5449 |
| 10 | 6.7098 | 6.4434 | 9.0913 | 7.7243 |
| 20 | 3.6777 | 3.3644 | 9.0913 | 9.2470 |
| 30 | 1.2660 | 1.1175 | 9.0913 | 15.4331 |
| 40 | 0.2831 | 0.2397 | 9.0913 | 29.6665 |
| 50 | 0.0430 | 0.0362 | 9.0913 | 56.6837 |

All fifty losses that the run on the right printed are the same number. Variants, measured in the same way:

* `cache_enabled=False` on the region around the loop: every loss equal to the run on the left, bit for bit.
* `torch.clear_autocast_cache()` after each step: the same as on the left.
* A region for each step *inside* an outer region: frozen as well, even when the outer one has
  `enabled=False`, because only the outermost exit empties the cache.
* Backward pass and step inside the region, but a region of its own for each step: the same as on the left
  (see step-in-autocast).
* float16 instead of bfloat16, SGD instead of AdamW: the same freeze.

```python
from contextlib import nullcontext
from functools import partial

import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.randn(256, 32), 3 * torch.randn(256, 1)


def train(around_the_loop, around_the_forward_pass):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    printed, real = [], []
    with around_the_loop():
        for _ in range(50):
            with around_the_forward_pass():
                loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            printed.append(loss.item())
            with torch.no_grad(), torch.autocast("cpu", enabled=False):
                real.append(nn.functional.mse_loss(model(x), y).item())
    return printed, real


region = partial(torch.autocast, "cpu", dtype=torch.bfloat16)
right = train(nullcontext, region)
wrong = train(region, nullcontext)
uncached = train(partial(region, cache_enabled=False), nullcontext)
for step in (1, 2, 10, 20, 30, 40, 50):
    print(step, *(f"{column[step - 1]:.4f}" for column in (*right, *wrong)))
assert len(set(wrong[0])) == 1 and uncached == right
```

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)) for _ in range(3)]

with torch.autocast(device, dtype=torch.bfloat16):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
```

## Use instead

Open the region for the forward pass and the loss, once in each step.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)) for _ in range(3)]

for x, y in loader:
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
```

Where the region has to stay wide, switch the cache off: `torch.autocast(device, cache_enabled=False)`. A
weight that is used several times in a forward pass is then cast each time.

## Fix safety

There are two fixes. With `--unsafe-fixes` the region is narrowed: it is opened around forward and loss inside
the loop, or inside the function that is called, in another file if need be. That is unsafe because code
between the forward passes, such as a metric or a second model, may have relied on the region. Without that
option, or where the region cannot be narrowed, the call that makes the region gets `cache_enabled=False`,
which is safe: it changes nothing but speed and memory beside what the finding is about.

After either edit the training run is a different one, since it now learns: learning rates and schedules that
were tuned on the frozen run have to be looked at again. If the narrow region is opened by a caller of the
whole loop as well, the outer one has to go, too.

## References

* [torch.amp: autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting), which describes
  `cache_enabled`
* [Can autocast be used around all of the training loop?](
  https://discuss.pytorch.org/t/can-autocast-context-manager-be-used-around-all-of-training-loop/136771)
* [Flow-Factory#186](https://github.com/X-GenGroup/Flow-Factory/pull/186): a trainer whose runs were frozen
  by this
* [pytorch#63552](https://github.com/pytorch/pytorch/pull/63552): where `cache_enabled` comes from
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from amplint.events import (
    Backward,
    CacheCleared,
    Forward,
    OptimizerStepped,
    Place,
    RegionExited,
    Regions,
    enabled_region,
)
from amplint.findings import Level
from amplint.fixes.regions import NarrowRegion
from amplint.rules.base import FlowRule, Report, caching, opened
from amplint.rules.ledger import of_open
from amplint.rules.wording import line_of


@dataclass(frozen=True)
class Seen:
    """What the open regions have seen: where gradients were computed, with the calls that led there, and the parameter
    updates, the latest last, each with the modules that it is known to have changed (none: any). ``again``: an update
    and the first forward after it that uses what it has changed. ``told``: it was told of."""

    passes: tuple[tuple[Place, tuple[Place, ...]], ...] = ()
    updates: tuple[tuple[Place, frozenset[Hashable]], ...] = ()
    again: tuple[Place, Forward] | None = None
    told: bool = False


MOST = 16
"""So many backward passes and updates are kept in mind."""


class EpochWideAutocast(FlowRule):
    """See Seen for the state."""

    level = Level.ERROR
    shown_by = (RegionExited,)
    never_without = (OptimizerStepped,)
    evidence = ("loss",)

    def start(self) -> Seen:
        return Seen()

    def again(self, state: Seen) -> Hashable:
        return replace(state, told=False)

    def on_optimizer_stepped(self, state: Seen, event: OptimizerStepped, report: Report) -> Hashable:
        # parameters that are half already are never cast, so no copy of them goes stale
        if not event.regions or event.casts or state.told:
            return state
        others = tuple(update for update in state.updates if update[1] != event.modules)
        return replace(state, updates=(*others, (event.place, event.modules))[-MOST:])

    def on_region_exited(self, state: Seen, event: RegionExited, report: Report) -> Hashable:
        if event.regions:
            return state
        if state.again is not None and not state.told:
            self._tell(*state.again, report, lasting=False)
        return Seen()

    def on_cache_cleared(self, state: Seen, event: CacheCleared, report: Report) -> Hashable:
        return state if state.told else replace(state, updates=(), again=None)

    def on_forward(self, state: Seen, event: Forward, report: Report) -> Hashable:
        if state.told or state.again is not None or not event.trains or not _caches(event.regions):
            return state
        for update, modules in reversed(state.updates):
            if not modules or self.context.may_share(event.module, modules):
                return replace(state, again=(update, event))
        return state

    def on_backward(self, state: Seen, event: Backward, report: Report) -> Hashable:
        if not event.regions or state.told:
            return state
        this = (event.place, event.place.calls)
        if this not in state.passes:
            return replace(state, passes=(*state.passes, this)[-MOST:])
        if not state.updates or not _caches(event.regions):
            return state
        # it runs once more, which needs a forward after the update, wherever that hides
        update, use = state.again or (state.updates[-1][0], event)
        self._tell(update, use, report, lasting=True)
        return replace(state, told=True)

    def _tell(self, update: Place, use: Forward | Backward, report: Report, *, lasting: bool) -> None:
        """``lasting``: the same gradients are computed again before the region ends."""
        region = use.regions[0]
        place = region.place
        step = line_of(update, place)
        what = (
            "the forward" if isinstance(use, Forward) else "the next iteration's forward, before the backward"
        )
        if lasting:
            harm = (
                "every later forward uses the weights from before the update: the printed loss stands still while the "
                "parameters run away."
            )
            remedy = "Open the region inside the loop, around forward and loss only"
        else:
            harm = (
                "what it casts before the update is used after it, too: until the region ends the old weights answer "
                "for the new ones."
            )
            remedy = "End the region before the update"
        report.add(
            self,
            place,
            f"one autocast region spans the parameter update on {step} and {what} on {line_of(use.place, place)}",
            why=f"Torch casts a weight once for a whole region, so {harm}",
            help=f"{remedy}, or pass `cache_enabled=False`.",
            level=Level.ERROR if lasting else Level.WARNING,
            trail=(
                opened(region),
                (update, "the parameters are updated here"),
                (use.place, "they are used here again"),
            ),
            subject=place,
            builder=NarrowRegion(place, update, caching(use.regions)),
            assumes=of_open(use.regions, place),
        )


def _caches(regions: Regions) -> bool:
    region = enabled_region(regions)
    return region is not None and region.cache_enabled
