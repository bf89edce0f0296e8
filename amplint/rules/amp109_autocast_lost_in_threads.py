"""Finds forwards in threads that the autocast region around them does not reach.

## What it does

Follows the functions that are started in a thread inside a region, by `threading.Thread`, a
`ThreadPoolExecutor` or `ThreadPool`, `loop.run_in_executor` or `asyncio.to_thread`, and reports the start if the
function runs a forward without opening a region of its own.

It also reports a module wrapped in `nn.DataParallel` that is called in a bfloat16 region, if its forward opens no
region: the replicas run in float16.

Silent where the thread opens its own region, where it only loads or moves data, and for DataParallel in a
float16 region, which is what the replicas run in.

## Why is this bad

The autocast state belongs to a thread. A new one begins with autocast off and with the default type, so the
forward in it runs in float32: slower, with more memory, and with a result of another type. `nn.DataParallel` hands
on to its threads whether autocast is on, but not the type. Where bfloat16 was chosen for its range, the
replicas overflow in float16, and there is no scaler. With one GPU the module runs in the calling thread, and
all is well.

## What torch does at run time

Measured with torch 2.13.0: in `threading.Thread`, `ThreadPoolExecutor.submit`, `asyncio.to_thread` and
`multiprocessing.pool.ThreadPool.apply`, started in `with torch.autocast("cpu", dtype=torch.float16)`,
`torch.is_autocast_enabled("cpu")` is False and `torch.get_autocast_dtype("cpu")` is bfloat16, the default.
`torch/nn/parallel/parallel_apply.py` enters `autocast(device_type, enabled=…)` in each thread, with no `dtype`
(source of 2.13.0).

## Example

```python
import threading

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
results = []


def predict():
    results.append(model(torch.randn(4, 8, device=device)))


with torch.autocast(device, dtype=torch.bfloat16):
    thread = threading.Thread(target=predict)
    thread.start()
    thread.join()
assert results[0].dtype == torch.float32
```

## Use instead

```python
import threading

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
results = []


def predict():
    with torch.autocast(device, dtype=torch.bfloat16):
        results.append(model(torch.randn(4, 8, device=device)))


thread = threading.Thread(target=predict)
thread.start()
thread.join()
assert results[0].dtype == torch.bfloat16
```

For `nn.DataParallel`, open the region in the `forward` of the module that is wrapped, or use
`DistributedDataParallel`.

## Fix safety

The fix is unsafe: the same region is opened in the function that runs the forward, which is in half precision
then whoever calls it. There is no fix for a lambda, for a model whose forward is not in sight, or where a name in
the arguments of the region means something else in that function.

## References

* [torch.amp examples: working with multiple GPUs](
  https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-gpus)
* [pytorch#63416](https://github.com/pytorch/pytorch/issues/63416): the state of threads
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from amplint.events import Forward, Place, Region, Regions, ThreadBegan, ThreadEnded, enabled_region
from amplint.findings import Level
from amplint.fixes.bodies import OpenInCallee
from amplint.rules.base import FlowRule, Report, dtype_name, opened
from amplint.rules.ledger import of_regions
from amplint.rules.wording import line_of


@dataclass(frozen=True)
class Thread:
    """The thread that is running: where it was started, in which region, and in which it runs itself."""

    place: Place
    how: str
    region: Region
    inside: Regions


class AutocastLostInThreads(FlowRule):
    """The state is the thread that runs, or None."""

    level = Level.ERROR

    def on_thread_began(self, state: Thread | None, event: ThreadBegan, report: Report) -> Hashable:
        region = enabled_region(event.started_in)
        return Thread(event.place, event.how, region, event.regions) if region is not None else None

    def on_thread_ended(self, state: Thread | None, event: ThreadEnded, report: Report) -> Hashable:
        return None

    def on_forward(self, state: Thread | None, event: Forward, report: Report) -> Hashable:
        if state is None or not event.opaque or event.regions != state.inside:
            return state
        region = line_of(state.region.place, state.place)
        level, cause = Level.ERROR, None
        if state.how == "nn.DataParallel":
            level, cause = Level.WARNING, event.module  # wherever it is called, the wrapper is to blame
            message = f"the replicas of nn.DataParallel do not get bfloat16 from the region on {region}"
            why = (
                "They run in threads that know that the region is enabled, and not its type: on more than one GPU they "
                "run in float16."
            )
            advice = "Open the region in the forward of the module, or use DistributedDataParallel."
        else:
            message = f"the autocast region on {region} does not reach the thread that is started here"
            forward, dtype = line_of(event.place, state.place), dtype_name(state.region)
            why = f"The forward on {forward} runs with autocast off, not in {dtype}."
            advice = "Open the region in the function that the thread runs."
        trail = (opened(state.region), (event.place, "this forward runs in the thread"))
        builder = OpenInCallee(state.region.place, event.place, state.place)
        assumes = of_regions(state.region, seen_from=state.place)
        report.add(
            self,
            state.place,
            message,
            why=why,
            help=advice,
            level=level,
            trail=trail,
            builder=builder,
            assumes=assumes,
            cause=cause,
        )
        return None
