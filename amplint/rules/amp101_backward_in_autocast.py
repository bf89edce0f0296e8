"""Finds backward passes that run while autocast is still enabled.

## What it does

Reports `loss.backward()`, `scaler.scale(loss).backward()`, `torch.autograd.backward(...)`,
`accelerator.backward(loss)`, `fabric.backward(loss)`, `self.manual_backward(loss)` and helpers that call
one of these, when they run inside an enabled autocast region. The region may be a `with` statement, a
decorator, or one that a caller opened in another function or file; the finding then lists the way from the
region to the call. What several helpers do in one region that their caller has opened is one finding, with the
other calls in its trail.

It is a warning in general, and advice in a script that ends without a step, or anything else that uses the gradients,
such as a measurement of time or memory. It is an error where the region changes the gradients: matrix products or
convolutions of the forward pass that have weights, or compute with what was half before, ran in float32, in a region
with `enabled=False` or in a custom Function that multiplies matrices under `custom_fwd(cast_inputs=torch.float32)` and
has no `custom_bwd`; or the region is in bfloat16, on another device than the CPU, and the project is limited to torch
older than 2.5.

## Why is this bad

Autograd already knows the dtypes of the forward pass: each backward op runs in the dtype of its forward op.
An enabled region can add nothing to that, it can only take the float32 parts away. A block that was kept in
float32 on purpose gets its matrix products differentiated in half precision, so its gradients are rounded,
and with float16 they can overflow to infinity or vanish to zero. The region also keeps the low-precision
copies of all weights alive until the backward pass is over, and the next person who adds a line below
`backward()` adds it to the region.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, bfloat16 and float16 alike:

* Everything ran in the one region: the backward pass in the region and the one after it issue the same ops
  in the same dtypes, and the gradients are equal bit for bit. Here the finding is about style and memory.
* One layer ran in `torch.autocast(device, enabled=False)`: after the region its two matrix products of the
  backward pass are float32; inside they are half. The gradients differ by 0.5 % (bfloat16) or 0.05 %
  (float16) in a small network.
* The same with float16 and a large or small scale: a gradient of 200000 became `inf`, one of 2e-9 became 0.
* A forward pass that ran outside any region, with the backward pass inside one: gradients off by 0.2 %
  (bfloat16).
* `custom_fwd(cast_inputs=torch.float32)` without `custom_bwd`: forward in float32, backward in half.

On CUDA the backward pass runs in threads of the autograd engine. They take over the caller's autocast
state, and since torch 2.5 its dtype too (from torch's source); before that a bfloat16 region made them
compute in float16 ([pytorch#105682](https://github.com/pytorch/pytorch/issues/105682)). The advice that a
surrounding region does not reach the backward pass because that runs in another thread is therefore wrong.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

with torch.autocast(device, dtype=torch.bfloat16):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
optimizer.step()
```

## Use instead

End the region after the loss.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(4, 8, device=device), torch.randn(4, 1, device=device)

with torch.autocast(device, dtype=torch.bfloat16):
    loss = nn.functional.mse_loss(model(x), y)
loss.backward()
optimizer.step()
```

## Fix safety

The statements from the backward pass to the end of the region leave it, with their comments and in their
order. The fix is safe where none of them can need the region: they only scale, step, clip, log or read
numbers. Other contexts of the same `with` stay around everything. The fix is unsafe, and says why, where

* statements after the call belong to a forward pass: the region is opened again around these;
* the forward and backward pass are in a loop, a branch or a function inside the region: the region goes
  there, into the other file as well, if its arguments are known there, and the comment beside it goes along within
  the file;
* the region is a decorator, which becomes a `with` around forward and loss;
* the region is opened by a context manager of your own, which may do more than that;
* a custom `torch.autograd.Function` without `custom_bwd` is in reach. One that multiplies matrices works while
  its backward pass runs in the region and raises once it runs outside: `RuntimeError: expected m1 and m2 to
  have the same dtype, but got: c10::BFloat16 != float` (measured). Give it both decorators first.

There is no fix where another region stays open around this one, or where `__enter__` or an `ExitStack` opens it. Only
a statement `stack.enter_context(torch.autocast(…))` in the block of `with ExitStack() as stack`, after which the stack
is not used any more, gives way to a `with`.

## References

* [torch.amp: autocasting](https://docs.pytorch.org/docs/stable/amp.html#autocasting)
* [torch.amp examples: functions with custom
  autograd](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
* [pytorch#105682](https://github.com/pytorch/pytorch/issues/105682) and
  [pytorch#133938](https://github.com/pytorch/pytorch/pull/133938): the dtype of the backward threads
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from amplint.amp.ops import KINDS_OF_WEIGHTS
from amplint.amp.versions import compare
from amplint.events import (
    AmpHidden,
    Backward,
    DType,
    Forward,
    FunctionApplied,
    GradientsRead,
    Op,
    OptimizerStepped,
    Place,
    RegionExited,
    ScalerUsed,
    enabled_region,
    enclosing_enabled,
    innermost,
)
from amplint.findings import Level
from amplint.fixes.regions import LeaveRegion
from amplint.rules.base import FlowRule, Report, dtype_name, opened, surrounding
from amplint.rules.ledger import of_regions
from amplint.rules.wording import if_it_is_on, line_of, quoted


@dataclass(frozen=True)
class Kept:
    """A part of the forward pass that ran in float32 inside the open regions. ``function`` is the name of the
    custom Function that it is, if it is one."""

    place: Place
    function: str = ""


_USES = frozenset({OptimizerStepped, ScalerUsed, GradientsRead, AmpHidden})
"""What uses gradients, or may."""
_WIDE = (DType.FLOAT32, DType.FLOAT64)


class BackwardInAutocast(FlowRule):
    """The state is the last part that was kept in float32, or None."""

    level = Level.WARNING

    def on_op(self, state: Kept | None, event: Op, report: Report) -> Hashable:
        product = event.policy == "lower" and event.gradients
        return self._kept(state, event) if product and _is_differentiated(event) else state

    def on_forward(self, state: Kept | None, event: Forward, report: Report) -> Hashable:
        # modules of torch tell of their ops
        unknown = event.opaque and event.given is not None
        return self._kept(state, event) if unknown and event.gradients else state

    def _kept(self, state: Kept | None, event: Op | Forward) -> Kept | None:
        region = innermost(event.regions)
        if region is None or enclosing_enabled(event.regions) is None:
            return state
        return Kept(region.place)

    def on_region_exited(self, state: Kept | None, event: RegionExited, report: Report) -> Hashable:
        return state if event.regions else None

    def on_function_applied(self, state: Kept | None, event: FunctionApplied, report: Report) -> Hashable:
        function = event.function
        alone = function.inputs_dtype in _WIDE and function.custom_bwd is False and function.products
        minded = function.by_hand or function.hands_on
        if state is None and alone and not minded and enabled_region(event.regions) is not None:
            return Kept(event.place, function.name)
        return state

    def on_backward(self, state: Kept | None, event: Backward, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if region is None or region.whole_step:
            return state
        where = line_of(region.place, event.place)
        what = quoted(event.place) if event.place.text else f"`{event.how}`"
        message = f"{what} runs inside the autocast region that opens on {where}{if_it_is_on(region)}"
        level = None
        trail = [opened(region)]
        if state is not None and state.function:
            level = Level.ERROR
            why = (
                f"`{state.function}` ran its forward in float32 by `cast_inputs`, and has no `custom_bwd`: its "
                f"backward multiplies in {dtype_name(region)}, which changes the gradients."
            )
            trail.append((state.place, "it is applied here"))
        elif state is not None:
            level = Level.ERROR
            why = (
                "The part of the forward that autocast was switched off for runs its backward in "
                f"{dtype_name(region)} after all, which changes the gradients."
            )
        elif (
            region.dtype is DType.BFLOAT16
            and region.device != "cpu"  # whose backward runs in the thread of its caller
            and compare(self.setting.torch, "<", (2, 5))
        ):
            level = Level.ERROR
            why = (
                "Before torch 2.5 the engine's threads do not know the region's bfloat16 and run the backward's matrix "
                "products in float16."
            )
        elif report.script is not None and _USES.isdisjoint(report.script):
            level = Level.ADVICE
            why = (
                "Nothing uses the gradients here; a step would take those of ops that ran in half precision."
            )
        else:
            why = (
                "Torch advises against it: ops that ran in float32 outside the region are differentiated in half "
                "precision, and the cached copies of the weights stay in memory."
            )
        report.add(
            self,
            event.place,
            message,
            why=why,
            help="Leave the region before backward.",
            level=level,
            trail=tuple(trail),
            builder=LeaveRegion(region.place, event.place, surrounding(event.regions)),
            assumes=of_regions(region, seen_from=event.place),
            cause=_cause(region.place, event.place, why),
        )
        return state


def _is_differentiated(event: Op) -> bool:
    """Whether gradients flow back through an op: it has weights, or computes with what was half before. Positions and
    frequencies, as of a rotary embedding, have none."""
    return event.name in KINDS_OF_WEIGHTS or any(
        one.parameter or one.born is not None or one.was_half for one in event.operands
    )


def _cause(region: Place, backward: Place, why: str) -> Hashable:
    """The region is what is wrong where it is open in a caller: all that the functions it calls run is one finding.
    In the region's own function each line that has to leave it has its own."""
    inner = backward.calls[: len(region.calls)] == region.calls and len(backward.calls) > len(region.calls)
    return (region.path, region.span, why) if inner else None
