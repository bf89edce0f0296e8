"""Finds compiled modules whose float32 island loses its float32 in the backward pass.

## What it does

Reports `torch.compile` of a module or function that is called in an enabled region, switches autocast off inside
itself, and is then differentiated. The rule is off by default; `--select compiled-fp32-island` or `--select
ALL` switch it on.

Silent for code that is not compiled, for islands that are compiled without an enclosing region, and where no
gradients are taken.

## Why is this bad

The island `with torch.autocast(device, enabled=False)` is there because its numbers do not stand half precision.
Eager autograd runs its backward in float32, too. The compiler traces the backward in the state in which the
compiled function was called, that is with autocast on: matrix products of the island's backward run in half
precision, and its gradients may overflow, in float16 without the scaler seeing why.

## What torch does at run time

AOTAutograd traces the backward under the state of the call: `torch._functorch.config.backward_pass_autocast` is
`"same_as_forward"`. Measured with torch 2.13.0 on the CPU, `backend="aot_eager"`, a linear layer in an island inside a
bfloat16 region and `backward()` outside: eagerly its two products in the backward run in float32, compiled in
bfloat16. On an H200 (torch 2.11, the default backend, a float16 region) gradients of 1e5 of the island's output gave
finite gradients of its weights eagerly, and infinite ones compiled.

## Example

```python
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        hidden = self.body(x)
        with torch.autocast("cpu", enabled=False):
            return self.head(hidden.float())


model = torch.compile(Model(), backend="aot_eager")
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = model(torch.randn(4, 8)).mean()
loss.backward()
```

## Use instead

Open the region inside what is compiled, so that it is off when the compiled function is called:

```python
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.body(x)
        return self.head(hidden.float())


model = torch.compile(Model(), backend="aot_eager")
loss = model(torch.randn(4, 8)).mean()
loss.backward()
```

Or set `torch._functorch.config.backward_pass_autocast = "off"`, a private setting that may change.

## Fix safety

This version has no automatic fix for the rule. Moving a region into the forward changes what callers get where
they opened none.

## References

* [pytorch#153044](https://github.com/pytorch/pytorch/issues/153044) and
  [pytorch#179804](https://github.com/pytorch/pytorch/issues/179804): the backward of islands
* [torch.compile](https://docs.pytorch.org/docs/stable/generated/torch.compile.html)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amplint.events import Backward, CompiledBegan, CompiledEnded, Place, RegionEntered, enclosing_enabled
from amplint.findings import Level
from amplint.rules.base import FlowRule, Report
from amplint.rules.wording import line_of


@dataclass(frozen=True)
class Run:
    """A run of compiled code: where it was compiled, whether it goes on, and the island met in it."""

    compiled: Place
    running: bool = True
    island: Place | None = None


class CompiledFp32Island(FlowRule):
    """The state is the last run of compiled code, or None."""

    level = Level.ADVICE
    unseen = "torch.compile is off while a run is observed"
    default = False

    def on_compiled_began(self, state: Run | None, event: CompiledBegan, report: Report) -> Run | None:
        return state if state is not None and state.island is not None else Run(event.compiled)

    def on_region_entered(self, state: Run | None, event: RegionEntered, report: Report) -> Run | None:
        if state is None or not state.running or enclosing_enabled(event.regions) is None:
            return state
        return replace(state, island=event.place)

    def on_compiled_ended(self, state: Run | None, event: CompiledEnded, report: Report) -> Run | None:
        return replace(state, running=False) if state is not None else None

    def on_backward(self, state: Run | None, event: Backward, report: Report) -> Run | None:
        if state is None or state.running or state.island is None:
            return state
        trail = ((state.island, "autocast is disabled here"), (event.place, "gradients are computed here"))
        report.add(
            self,
            state.compiled,
            f"what runs with autocast off on {line_of(state.island, state.compiled)} is compiled with a backward that "
            "has it on",
            why="The compiler traces the backward in the state of the call, which has autocast on: the gradients of "
            "this float32 island are computed in half precision.",
            help="Open the region inside what is compiled.",
            trail=trail,
        )
        return None
