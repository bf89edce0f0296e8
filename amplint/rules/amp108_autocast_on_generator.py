"""Finds autocast contexts that decorate a generator or an async function, and so do nothing.

## What it does

Reports `@torch.autocast(...)` on a function with `yield`, on an `async def`, and together with
`@contextlib.contextmanager`, in either order.

Silent for `with torch.autocast(...)` inside such functions, and for `@torch.no_grad()`, which torch wraps
around generators in another way.

## Why is this bad

Calling a generator function or a coroutine function runs nothing of its body: it returns an object. The
decorator enters autocast around that call and leaves it at once. The body runs later, with autocast off, or
in the state of whoever resumes it.

## What torch does at run time

`torch.autocast.__call__` returns a wrapper that calls the function inside `with self`. Measured with torch
2.13.0: `torch.is_autocast_enabled("cpu")` is False in the body of a decorated generator, of a decorated
`async def`, and of a context manager, with autocast above or below `@contextmanager`.

## Example

```python
import torch


@torch.autocast("cpu", dtype=torch.bfloat16)
def predictions(model, loader):
    for x in loader:
        yield model(x)


model = torch.nn.Linear(8, 1)
(prediction,) = predictions(model, [torch.randn(4, 8)])
assert prediction.dtype == torch.float32
```

## Use instead

Enter the region inside, around the forward. It should not span the `yield`: autocast would stay on in the code
that consumes the values.

```python
import torch


def predictions(model, loader):
    for x in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            prediction = model(x)
        yield prediction


model = torch.nn.Linear(8, 1)
(prediction,) = predictions(model, [torch.randn(4, 8)])
assert prediction.dtype == torch.bfloat16
```

## Fix safety

All fixes are unsafe: the body runs in half precision for the first time; see autocast-not-entered for what comes
with it. The decorator becomes a `with` in the body: around all of a context manager, so that the region is open
in the block that it serves; in a generator and a coroutine around what may need it between `yield` or `await`,
for autocast would stay on in other code. There is no fix where both stand in one statement.

## References

* [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast)
* [contextlib.ContextDecorator](https://docs.python.org/3/library/contextlib.html#contextlib.ContextDecorator)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import GeneratorDecorated
from amplint.findings import Level
from amplint.fixes.bodies import OpenInBody
from amplint.rules.base import FlowRule, Report

_RETURNS = {
    "generator": "a generator, whose body runs while somebody iterates over it",
    "coroutine": "a coroutine, whose body runs while somebody awaits it",
    "context manager": "a context manager, whose body runs when that is entered",
}


class AutocastOnGenerator(FlowRule):
    """Has no state."""

    level = Level.ERROR
    hears_assumed = True

    def on_generator_decorated(self, state: Hashable, event: GeneratorDecorated, report: Report) -> Hashable:
        report.add(
            self,
            event.place,
            f"this autocast context is left again before the body of `{event.name}` runs",
            why=f"It has no effect: the call only returns {_RETURNS[event.kind]}.",
            help=f"Write `with {event.place.text}:` inside, around the forward.",
            builder=OpenInBody(event.place, event.kind),
        )
        return state
