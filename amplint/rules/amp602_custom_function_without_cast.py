"""Finds autograd Functions that are used under autocast and lose its state in their backward.

## What it does

Reports a `torch.autograd.Function` whose forward and backward both run matrix products or convolutions, which is
applied inside an autocast region to a float32 tensor such as a parameter, and which minds neither autocast nor
types: no `custom_fwd` and `custom_bwd`, no cast, no region of its own.

It also reports a backward that enters autocast with a flag which forward has saved, `autocast(enabled=ctx.flag)`,
and without the type, as hand-written checkpointing often does.

Silent for elementwise Functions, where no type can clash, for Functions that are never applied inside a region as
far as is known, and for those that cast by hand.

## Why is this bad

In the forward, autocast casts the operands of the product; `ctx.save_for_backward` has kept the float32
originals. The backward pass runs after the region: it multiplies the half-precision gradient with a float32
tensor, and raises. A backward that restores only the flag recomputes a bfloat16 forward in float16.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, for a Function with a product in both methods under bfloat16: the backward
outside the region raises `RuntimeError: expected m1 and m2 to have the same dtype, but got: c10::BFloat16 !=
float`; inside the region it works. `torch.autocast(device, enabled=flag)` without `dtype` takes the type of the
region around it, and outside every region the default of the device: float16 on CUDA.

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
from amplint.events import FunctionApplied, FunctionDefined, enabled_region
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
        builder: FixBuilder = NoFix("the device of the region is not known where the Function is defined")
        if region.device is not None and function.forward is not None:
            builder = DecorateBoth(function.forward, function.backward, region.device)
        if compare(self.setting.torch, ">=", SINCE) is False:
            builder = NoFix("`torch.amp.custom_fwd` is there since torch 2.4")
        report.add(
            self,
            function.backward,
            message,
            why=why,
            help="Decorate forward and backward with `torch.amp.custom_fwd` and `torch.amp.custom_bwd`.",
            trail=trail,
            builder=builder,
        )
        return state
