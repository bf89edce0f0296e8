"""Finds plain gradient scalers on parameters that are split among processes.

## What it does

Reports `scaler.step(optimizer)` with a plain `torch.amp.GradScaler` where the optimizer holds parameters of
a module in `FullyShardedDataParallel` (FSDP1, fairscale's too).

Silent: `ShardedGradScaler`; `fully_shard` (FSDP2), for which the plain scaler is the right one;
`DistributedDataParallel`; `ShardingStrategy.NO_SHARD`, and strategies that are not known; scalers that are
disabled or come from out of sight.

## Why is this bad

With parameters split among processes each process sees a part of the gradients. The scaler looks for infs
and NaNs in that part alone. When one process finds an inf and the others do not, it skips the step and
halves its scale, and they step and keep theirs. From then on parts of the weights belong to different steps,
and the processes multiply the loss by different scales, whose gradients are summed. Nothing raises.

## What torch does at run time

From torch's source, 2.13.0: `GradScaler.step` decides by the infs that this process has found.
`ShardedGradScaler.unscale_` of `torch.distributed.fsdp` sums what all processes have found before it
decides. With `fully_shard` gradients are `DTensor`s, and the count of infs in one is that of all processes.

## Example

```python
import torch
from torch.distributed.fsdp import FullyShardedDataParallel


def train(model, loader):
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
```

## Use instead

```python
import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


def train(model, loader):
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = ShardedGradScaler()
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
```

## Fix safety

The fix makes a `ShardedGradScaler` with the same arguments, by keyword, since the order of `growth_factor` and
`backoff_factor` differs, and imports the class. It is unsafe: the scaler wants `process_group` where the module is
not split over all processes. There is no fix where the scaler is made by other code.

## References

* [ShardedGradScaler](
  https://github.com/pytorch/pytorch/blob/main/torch/distributed/fsdp/sharded_grad_scaler.py)
* [pytorch#76607](https://github.com/pytorch/pytorch/issues/76607): ranks that disagree on a skipped step
* [pytorch#163519](https://github.com/pytorch/pytorch/issues/163519) and
  [tnt#997](https://github.com/meta-pytorch/tnt/pull/997): FSDP2 works with the plain scaler
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import ScalerUsed
from amplint.findings import Level
from amplint.fixes.sharded import ShardScaler
from amplint.rules.base import FlowRule, Report
from amplint.rules.ledger import of_scaler
from amplint.rules.wording import line_of


class ShardedNeedsShardedScaler(FlowRule):
    """Has no state."""

    level = Level.ERROR
    unseen = "a run does not tell how the parameters were split"

    def on_scaler_used(self, state: Hashable, event: ScalerUsed, report: Report) -> Hashable:
        if event.act == "step" and event.sharded is not None and event.enabled and event.made is not None:
            where = line_of(event.sharded, event.place)
            trail = (
                (event.sharded, "the parameters are split here"),
                (event.made, "the scaler is made here"),
            )
            builder = ShardScaler(event.made)
            report.add(
                self,
                event.place,
                f"the parameters are split among processes on {where}, and this scaler looks for infs in its own part",
                why="When one process skips a step the others do not, and their weights and scales drift apart.",
                help="Use `torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler`.",
                trail=trail,
                builder=builder,
                assumes=of_scaler(event),
            )
        return state
