"""Finds modules that run first without and then with gradients in one autocast region, on torch before 2.11.

## What it does

Reports the second of two forwards of one module in one region, if the first ran under `torch.no_grad()` and the
second takes gradients, where the project's requirements (or `--torch-version`) admit torch before 2.11.

Silent with `cache_enabled=False`, after `torch.clear_autocast_cache()`, where the first forward that used the
weights took gradients, for frozen modules, where each forward has its own region, and where only optimizers of other
parameters step by the loss: the discriminator in the generator's step.

## Why is this bad

Autocast keeps the half-precision copy of a weight until the region is left. The first forward makes it under
`no_grad`, so the copy has no history. The second forward uses it: the gradient ends there, and the parameter gets
none. The loss has a `grad_fn` as long as anything else takes part in it, and the module is not trained.
This concerns self-conditioning, consistency and distillation losses, and generators that are sampled first.

## What torch does at run time

Measured on the CPU: in torch 2.3.1, 2.9.1 and 2.10.0 `weight.grad` is None after the backward, although the
gradient of the input is there; if nothing else takes gradients, `backward` raises `RuntimeError: element 0 of
tensors does not require grad`. In torch 2.13.0 the parameters do get their gradients: since 2.11 a copy made under
`no_grad` is not used with gradients.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 8).to(device)
x = torch.randn(4, 8, device=device, requires_grad=True)

with torch.autocast(device, dtype=torch.bfloat16):
    with torch.no_grad():
        guess = model(x)
    loss = model(x + guess).sum()
loss.backward()
old = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11)
assert (model.weight.grad is None) == old
```

## Use instead

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 8).to(device)
x = torch.randn(4, 8, device=device)

with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
    guess = model(x)
with torch.autocast(device, dtype=torch.bfloat16):
    loss = model(x + guess).sum()
loss.backward()
assert model.weight.grad is not None
```

Or pass `cache_enabled=False`, which casts the weights in each forward.

## Fix safety

The calls that make the open regions get `cache_enabled=False`. That is safe: beside what the finding is about it
changes nothing but speed and memory. On old releases the module is trained for the first time. Where the call of
torch that makes the region is not found there is no fix.

## References

* [pytorch#112583](https://github.com/pytorch/pytorch/issues/112583) and
  [pytorch#65766](https://github.com/pytorch/pytorch/issues/65766): the missing gradients
* [pytorch#165068](https://github.com/pytorch/pytorch/pull/165068): the change in torch 2.11
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from amplint.amp.versions import compare
from amplint.events import (
    CacheCleared,
    Event,
    Forward,
    FunctionEnded,
    OptimizerStepped,
    Place,
    RegionExited,
    enabled_region,
)
from amplint.findings import Level
from amplint.fixes.weight_cache import SwitchCacheOff
from amplint.flow.state.symbols import made_from
from amplint.rules.base import FlowRule, Report, caching, opened
from amplint.rules.ledger import of_open, of_torch
from amplint.rules.wording import line_of

FIXED_IN = (2, 11)
"""The first torch release without the fault."""
MOST = 24
MOST_LATER = 4


class Pending(NamedTuple):
    """A forward whose parameters get no gradients, after the one at ``first``. ``other``: since then an optimizer
    stepped that has other parameters."""

    first: Place
    forward: Forward
    other: bool = False


class State(NamedTuple):
    """``seen``: modules whose weights the outermost region, ``inside``, has cast, and where that was if it was without
    gradients. ``pending``: what harms if an optimizer of these parameters steps."""

    inside: Place | None = None
    seen: tuple[tuple[Hashable, Place | None], ...] = ()
    pending: tuple[Pending, ...] = ()


class NoGradThenGrad(FlowRule):
    """A forward that autocast's cache leaves without gradients, if anybody is to step by them."""

    level = Level.ERROR
    shown_by = (Forward,)
    one_for_subject = True
    """The modules inside a module that runs twice run twice, too."""

    def start(self) -> State:
        return State()

    def subjects(self, events: Iterable[Event]) -> Iterable[Hashable]:
        forwards = [event for event in events if isinstance(event, Forward)]
        without = {event.module for event in forwards if not event.gradients}
        if compare(self.setting.torch, "<", FIXED_IN) is False:
            return ()
        twice = {event.module: None for event in forwards if event.gradients and event.module in without}
        # what runs twice has parts that do so, too
        return [module for module in twice if twice.keys().isdisjoint(made_from(module))]

    def about(self, event: Event) -> tuple[Hashable, ...] | None:
        return (event.module,) if isinstance(event, Forward) else None

    def on_region_exited(self, state: State, event: RegionExited, report: Report) -> State:
        return state if event.regions else state._replace(seen=())

    def on_cache_cleared(self, state: State, event: CacheCleared, report: Report) -> State:
        return state._replace(seen=())

    def on_forward(self, state: State, event: Forward, report: Report) -> State:
        old = compare(self.setting.torch, "<", FIXED_IN)
        region = enabled_region(event.regions)
        if old is False or region is None or not region.cache_enabled:
            return state
        if not event.trains or event.module is None:
            return state
        outermost = event.regions[0].place
        if outermost != state.inside:
            state = state._replace(inside=outermost, seen=())
        for module, place in state.seen:
            if module == event.module:
                if place is None or not event.gradients:
                    return state
                pending = Pending(place, event)
                if pending in state.pending:
                    return state
                return state._replace(pending=(*state.pending, pending)[-MOST_LATER:])
        first = None if event.gradients else event.place
        if first is None:
            # from here on gradients come from this forward
            state = state._replace(pending=tuple(one for one in state.pending if not one.other))
        return state._replace(seen=(*state.seen, (event.module, first))) if len(state.seen) < MOST else state

    def on_optimizer_stepped(self, state: State, event: OptimizerStepped, report: Report) -> State:
        left = []
        for one in state.pending:
            if self._are_of(event.modules, one):
                self._tell(one, report)
            else:
                left.append(one._replace(other=True))
        return state._replace(pending=tuple(left))

    def on_function_ended(self, state: State, event: FunctionEnded, report: Report) -> State:
        """Who steps by gradients that nobody in sight applies is out of sight."""
        for one in state.pending:
            if not one.other:
                self._tell(one, report)
        return State()

    def _are_of(self, modules: frozenset[Hashable], one: Pending) -> bool:
        """Whether the module's parameters may be among those of an optimizer."""
        return not modules or self.context.may_share(one.forward.module, modules)

    def _tell(self, pending: Pending, report: Report) -> None:
        first, event = pending.first, pending.forward
        region = event.regions[0]
        sure = compare(self.setting.torch, "<", FIXED_IN)
        message = (
            "before torch 2.11 this forward gives its parameters no gradients, after the one under no_grad on "
            f"{line_of(first, event.place)}"
        )
        trail = (opened(region), (first, "the weights are cast here, without gradients"))
        builder = SwitchCacheOff(caching(event.regions))
        assumes = (*of_open(event.regions, event.place), *of_torch(self.setting.torch, "<", FIXED_IN))
        report.add(
            self,
            event.place,
            message,
            why=f"The region on {line_of(region.place, event.place)} keeps the parameters as that forward cast them: "
            "without history.",
            help="Open a region for each forward, or pass `cache_enabled=False`.",
            level=Level.ERROR if sure else Level.WARNING,
            trail=trail,
            subject=region.place,
            builder=builder,
            assumes=assumes,
        )
