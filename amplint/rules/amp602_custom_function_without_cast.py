"""Finds autograd Functions that are used under autocast and lose its state in their backward.

## What it does

Reports a `torch.autograd.Function` whose forward and backward both run matrix products or convolutions, which is
applied inside an autocast region to a float32 tensor such as a parameter, and which minds neither autocast nor
types: no `custom_fwd` and `custom_bwd`, no cast, no region of its own.

It reports a backward, without these decorators, that runs layers again which ran inside the region in the forward,
as reversible blocks and hand-written checkpointing do.

It also reports a backward that enters autocast with a flag which forward has saved, `autocast(enabled=ctx.flag)`,
and without the type, as hand-written checkpointing often does.

Silent for elementwise Functions, where no type can clash, for layers that autocast does not run in half precision,
for a backward that opens the region again, for Functions that are never applied inside a region as
far as is known, and for those that cast by hand.

## Why is this bad

In the forward, autocast casts the operands of the product; `ctx.save_for_backward` has kept the float32
originals. The backward pass runs after the region: it multiplies the half-precision gradient with a float32
tensor, and raises. A backward that restores only the flag recomputes a bfloat16 forward in float16.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, for a Function with a product in both methods under bfloat16: the backward
outside the region raises `RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::BFloat16 !=
float`; inside the region it works. `torch.autocast(device, enabled=flag)` without `dtype` takes the type of the
region around it, and outside every region the default of the device: float16 on CUDA. A backward that runs an
`nn.Linear` again outside the region does so in float32 where the input was kept in float32, and raises
`RuntimeError: mat1 and mat2 must have the same dtype` where it was kept in bfloat16.

## Example

```python
import torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.mm(weight)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient.mm(weight.t()), x.t().mm(gradient)


weight = torch.randn(4, 2, requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = Product.apply(torch.randn(3, 4, requires_grad=True), weight).sum()
try:
    loss.backward()
except RuntimeError as error:
    assert "same dtype" in str(error)
else:
    raise AssertionError("expected a RuntimeError")
```

## Use instead

```python
import torch
from torch.amp import custom_bwd, custom_fwd


class Product(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.mm(weight)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient.mm(weight.t()), x.t().mm(gradient)


weight = torch.randn(4, 2, requires_grad=True)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = Product.apply(torch.randn(3, 4, requires_grad=True), weight).sum()
loss.backward()
```

Where the kernel is one of an extension, which autocast does not know, add `cast_inputs=torch.float32` (or the
type that it takes) to `custom_fwd`.

## Fix safety

The fix is unsafe: both methods get their decorator, for the device of the region. They change in which type both
methods run, and only the author of the Function knows what it stands. There is no fix where the device is chosen
at run time, or for a backward that restores the flag alone.

## References

* [Functions with custom autograd](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
* [pytorch#87979](https://github.com/pytorch/pytorch/issues/87979) and
  [pytorch#88029](https://github.com/pytorch/pytorch/pull/88029): the type in the backward
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.amp.versions import compare
from amplint.events import (
    CustomFunction,
    FunctionApplied,
    FunctionDefined,
    Place,
    Region,
    RunAgain,
    enabled_region,
)
from amplint.findings import Level
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.function_decorators import DecorateBoth
from amplint.rules.base import FlowRule, Report, dtype_name, opened
from amplint.rules.wording import line_of

SINCE = (2, 4)
"""The first torch release with torch.amp.custom_fwd."""


class CustomFunctionWithoutCast(FlowRule):
    """Has no state."""

    level = Level.WARNING

    def on_function_defined(self, state: Hashable, event: FunctionDefined, report: Report) -> Hashable:
        function = event.function
        if function.restored is not None:
            report.add(
                self,
                function.restored,
                f"the backward of `{function.name}` enters autocast with the flag of the forward and without its type",
                why="A bfloat16 forward is run again in float16, the default.",
                help="Save `torch.get_autocast_dtype(device_type)` in forward, too, and give it as `dtype`.",
                builder=NoFix("forward would have to save the type as well"),
            )
        return state

    def on_function_applied(self, state: Hashable, event: FunctionApplied, report: Report) -> Hashable:
        function, region = event.function, enabled_region(event.regions)
        decorated = function.custom_fwd is not False or function.custom_bwd is not False
        if region is None or region.dtype is None or not region.dtype.is_half or decorated:
            return state
        minded = function.by_hand or function.hands_on or not function.products
        if minded or not event.float32 or function.backward is None:
            return state
        message = (
            f"the backward of `{function.name}` gets float32 beside {dtype_name(region)}: it is applied in the region "
            f"on {line_of(region.place, function.backward)}"
        )
        why = (
            f"Its forward multiplies in {dtype_name(region)} and keeps float32 tensors. Its backward, outside the "
            "region, raises `RuntimeError: expected m1 and m2 to have the same dtype`."
        )
        trail = (opened(region), (event.place, "it is applied here"))
        report.add(
            self,
            function.backward,
            message,
            why=why,
            help="Decorate forward and backward with `torch.amp.custom_fwd` and `torch.amp.custom_bwd`.",
            trail=trail,
            builder=self._decorated(function, region),
        )
        return state

    def on_run_again(self, state: Hashable, event: RunAgain, report: Report) -> Hashable:
        function, region = event.function, event.region
        place = _called_by_backward(event)
        dtype = dtype_name(region)
        report.add(
            self,
            place,
            f"the backward of `{function.name}` runs layers again that ran in the region on "
            f"{line_of(region.place, place)}, and without it",
            why=f"The forward computed them in {dtype}. The backward pass comes after the region: on float32 inputs it "
            f"computes another function, in float32, and on those in {dtype} it raises RuntimeError.",
            help="Decorate forward and backward with `torch.amp.custom_fwd` and `torch.amp.custom_bwd`, or use "
            "`torch.utils.checkpoint.checkpoint`.",
            trail=(
                opened(region),
                (event.applied, "it is applied here"),
                (event.place, "this layer runs again"),
            ),
            builder=self._decorated(function, region),
        )
        return state

    def _decorated(self, function: CustomFunction, region: Region) -> FixBuilder:
        """Puts the decorators on both methods, for the device of the region."""
        if compare(self.setting.torch, ">=", SINCE) is False:
            return NoFix("`torch.amp.custom_fwd` is there since torch 2.4")
        if region.device is None or function.forward is None or function.backward is None:
            return NoFix("the device of the region is not known where the Function is defined")
        return DecorateBoth(function.forward, function.backward, region.device)


def _called_by_backward(event: RunAgain) -> Place:
    """The call in backward below which a layer runs, or the layer itself."""
    calls = (*event.place.calls, event.place)
    steps = zip(reversed(calls[:-1]), reversed(calls[1:]), strict=True)
    return next((inner for outer, inner in steps if outer == event.applied), event.place)
