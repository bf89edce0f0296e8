"""Finds autograd Functions whose custom_fwd and custom_bwd do not belong together.

## What it does

Looks at each `torch.autograd.Function` that uses one of the two decorators, and reports

* `custom_bwd` on `backward` without `custom_fwd` on `forward`;
* `custom_fwd` on `forward` without `custom_bwd` on `backward`;
* both, but for different devices;
* both, with a `forward` of the new style, without `ctx` and with `setup_context`.

Decorators are followed through aliases, `functools.partial` and imports. Silent where one of them is not known; for
`custom_fwd` alone where the methods switch autocast or cast by hand; where `forward` hands `ctx` on to other code,
which may do what the decorator does; and for `custom_fwd` on anything but a Function, such as the `forward` of a
module, where it is a cast and needs no counterpart.

## Why is this bad

`custom_fwd` notes on `ctx` whether autocast was on, and `custom_bwd` reads it. Alone the latter raises in the
first backward pass. The former alone does nothing for the backward: outside the region it runs with autocast
off on half-precision gradients, which raises where they meet float32 tensors; inside the region a Function
that asked for float32 inputs runs its backward in half precision.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, with a Function that multiplies its input with a matrix, under bfloat16:

| decorators | backward outside the region | inside |
|---|---|---|
| none | `RuntimeError: expected m1 and m2 to have the same dtype` | bfloat16 |
| `custom_bwd` only | `AttributeError: … has no attribute '_fwd_used_autocast'` | the same |
| `custom_fwd` only | `RuntimeError: expected m1 and m2 to have the same dtype` | bfloat16 |
| `custom_fwd(cast_inputs=torch.float32)` only | float32 | bfloat16 |
| both, for the same device | bfloat16 | bfloat16 |
| both, for different devices | `RuntimeError: expected m1 and m2 to have the same dtype` | bfloat16 |
| both, with `setup_context` | `AttributeError: … has no attribute '_fwd_used_autocast'` | the same |

The order of `staticmethod`, `once_differentiable` and the two decorators does not matter.

## Example

```python
import torch
from torch.amp import custom_bwd


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


try:
    Square.apply(torch.ones(2, requires_grad=True)).sum().backward()
except AttributeError as error:
    assert "_fwd_used_autocast" in str(error)
else:
    raise AssertionError("expected an AttributeError")
```

## Use instead

```python
import torch
from torch.amp import custom_bwd, custom_fwd


class Square(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


Square.apply(torch.ones(2, requires_grad=True)).sum().backward()
```

## Fix safety

The counterpart is added with the same `device_type`, and imported beside the other one. That is safe: it does
nothing but what the first one was written for. Where both are there for different devices, `custom_bwd` gets
the device of `custom_fwd`, which is unsafe, because the other one may be meant. There is no fix where the
decorator goes by a name of your own, or the methods stand in different classes. A Function of the new style
has to go back to `forward(ctx, …)`, or to switch autocast by hand.

## References

* [torch.amp.custom_fwd](https://docs.pytorch.org/docs/stable/amp.html#torch.amp.custom_fwd)
* [Functions with custom autograd](https://docs.pytorch.org/docs/stable/notes/amp_examples.html)
* [pytorch#132388](https://github.com/pytorch/pytorch/issues/132388): `custom_fwd` and `setup_context`
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import CustomFunction, DType, FunctionDefined, Place
from amplint.findings import Level
from amplint.fixes.base import NoFix
from amplint.fixes.function_decorators import AddTwin, SameDevice
from amplint.rules.base import FlowRule, Report

_NO_CTX = "forward has no ctx on which the state could be noted; it has to be written anew"


class UnpairedCustomFwdBwd(FlowRule):
    """Has no state."""

    level = Level.ERROR

    def on_function_defined(self, state: Hashable, event: FunctionDefined, report: Report) -> Hashable:
        function = event.function
        if function.forward is not None and function.backward is not None:
            self._look(function, function.forward, function.backward, report)
        return state

    def _look(self, function: CustomFunction, forward: Place, backward: Place, report: Report) -> None:
        name = function.name
        if function.custom_fwd and function.custom_bwd and function.setup_context:
            report.add(
                self,
                forward,
                f"`custom_fwd` is on the forward of `{name}`, which has no ctx beside `setup_context`",
                why="`custom_fwd` notes the autocast state on the first argument of `forward`: the backward raises "
                "AttributeError.",
                help="Write `forward(ctx, …)` without `setup_context`.",
                builder=NoFix(_NO_CTX),
            )
            return
        if function.hands_on:
            return
        if function.custom_bwd and function.custom_fwd is False:
            report.add(
                self,
                backward,
                f"`custom_bwd` reads what `custom_fwd` notes, and the forward of `{name}` has none",
                why="The backward raises `AttributeError: '_fwd_used_autocast'`.",
                help="Decorate `forward` with `custom_fwd` for the same device.",
                trail=((forward, "forward is not decorated"),),
                builder=AddTwin(forward, backward, "custom_bwd"),
            )
        elif function.custom_fwd and function.custom_bwd is False and not function.by_hand:
            effect = "Outside the region the backward runs with autocast off on half-precision gradients."
            if function.inputs_dtype is DType.FLOAT32:
                effect = (
                    "Called inside a region, the backward runs in half precision although the forward asked for "
                    "float32."
                )
            elif function.cast_inputs:
                effect = (
                    "Called inside a region, the backward runs with autocast on and the forward with it off."
                )
            report.add(
                self,
                forward,
                f"`custom_fwd` on the forward of `{name}` has no `custom_bwd` on its backward",
                why=effect,
                help="Switch autocast off in `backward`."
                if function.setup_context
                else "Decorate `backward` with `custom_bwd` for the same device.",
                level=Level.WARNING,
                trail=((backward, "backward is not decorated"),),
                builder=NoFix(_NO_CTX)
                if function.setup_context
                else AddTwin(backward, forward, "custom_fwd"),
            )
        elif (
            function.custom_fwd
            and function.custom_bwd
            and function.forward_device is not None
            and function.backward_device is not None
            and function.forward_device != function.backward_device
        ):
            devices = f'for "{function.forward_device}" and `custom_bwd` for "{function.backward_device}"'
            report.add(
                self,
                backward,
                f"`custom_fwd` of `{name}` is {devices}",
                why="The backward gets the state of another device.",
                help="Give both the same `device_type`.",
                trail=((forward, "forward is for another device"),),
                builder=SameDevice(backward, function.forward_device),
            )
