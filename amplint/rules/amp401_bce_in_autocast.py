"""Finds binary_cross_entropy and BCELoss inside an autocast region, where they raise on CUDA.

## What it does

Reports calls of `torch.nn.functional.binary_cross_entropy` and of `torch.nn.BCELoss` in an enabled region
for CUDA or XPU, also where the criterion is made elsewhere (in a constructor, in a table of losses) and
where the region is opened by a caller.

Silent in a nested region with `enabled=False`, in CPU regions, on tensors that were moved to the CPU, after
the region, and for `binary_cross_entropy_with_logits` and `BCEWithLogitsLoss`.

## Why is this bad

The sigmoid in front of the loss is computed in half, where it reaches exactly 0 and 1. The loss takes the
logarithm of that, and its gradient divides by it, so torch refuses. The run on the CPU and the run with AMP
switched off work; the first run with AMP on a GPU stops here.

## What torch does at run time

Measured with torch 2.13.0, with CUDA's op policies on fake tensors:

| in an enabled CUDA region | what happens |
|---|---|
| `binary_cross_entropy`, operands in float32, half or float64 | `RuntimeError: ... are unsafe to autocast` |
| the same in a bfloat16 region | the same: the dtype of the region does not matter |
| the same on CPU tensors | no error: the region does not concern them |
| `binary_cross_entropy_with_logits` | runs in float32 |
| `binary_cross_entropy` in a nested `enabled=False` region | runs in the dtype of its operands |

The text is `torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Many
models use a sigmoid layer right before the binary cross entropy layer. In this case, combine the two layers
using torch.nn.functional.binary_cross_entropy_with_logits or torch.nn.BCEWithLogitsLoss.` A region for the
CPU runs the loss in float32, so a test without a GPU does not show the error.

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).to(device)
x, y = torch.randn(4, 8, device=device), torch.rand(4, 1, device=device)

with torch.autocast(device):
    try:
        loss = nn.functional.binary_cross_entropy(model(x).float(), y)
    except RuntimeError as error:
        print(error)  # on CUDA
```

## Use instead

Leave the sigmoid out of the model and use the loss that has it built in:

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(8, 1).to(device)
x, y = torch.randn(4, 8, device=device), torch.rand(4, 1, device=device)

with torch.autocast(device):
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
assert loss.dtype == torch.float32
```

Where the probabilities are all there is, compute the loss in float32 outside autocast:

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid()).to(device)
x, y = torch.randn(4, 8, device=device), torch.rand(4, 1, device=device)

with torch.autocast(device):
    p = model(x)
    with torch.autocast(device, enabled=False):
        loss = nn.functional.binary_cross_entropy(p.float(), y.float())
assert loss.dtype == torch.float32
```

## Fix safety

Where the sigmoid is the argument of `binary_cross_entropy` itself, the fix writes
`binary_cross_entropy_with_logits` on the logits. Elsewhere it runs the statement in a nested region with
`enabled=False` and casts input and target with `.float()`; the probabilities keep the three digits that they
have. Both are safe, the second one where the file shows that it is always this loss: another one may take its target
as integers, so that this is left as it is then. There is no fix where the same statement runs something else that the
region is for, such as the model. By hand, a model that gives logits is better for the gradient, but what it
returns changes, and with it its evaluation.

## References

* [torch.amp: prefer binary_cross_entropy_with_logits](
  https://docs.pytorch.org/docs/stable/amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy)
* [YOLOX#336](https://github.com/Megvii-BaseDetection/YOLOX/issues/336),
  [pytorch#61098](https://github.com/pytorch/pytorch/issues/61098)
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import DType, Op, enabled_region
from amplint.findings import Level
from amplint.fixes.losses import LeaveLoss
from amplint.rules.base import FlowRule, Report, opened
from amplint.rules.ledger import of_regions
from amplint.rules.wording import if_it_is_on, line_of

_BANNED = "banned"


class BceInAutocast(FlowRule):
    """Has no state."""

    level = Level.ERROR

    def on_op(self, state: Hashable, event: Op, report: Report) -> Hashable:
        region = enabled_region(event.regions)
        if region is None or event.policy != _BANNED:
            return state
        where = line_of(region.place, event.place)
        condition = if_it_is_on(region) or (", when its flag is set" if region.conditional else "")
        level = Level.WARNING if region.framework else None
        doubles = tuple(operand.place for operand in event.operands if operand.dtype is DType.FLOAT64)
        builder = LeaveLoss(event.place, region.device, doubles)
        assumes = of_regions(region, seen_from=event.place)
        report.add(
            self,
            event.place,
            f"binary_cross_entropy raises on CUDA inside the autocast region that opens on {where}{condition}",
            why="It raises RuntimeError: it is unsafe to autocast, whatever the dtypes.",
            help="Use binary_cross_entropy_with_logits on the logits, or cast both arguments with `.float()` in a "
            "nested `with torch.autocast(device_type, enabled=False):`.",
            level=level,
            trail=(opened(region),),
            builder=builder,
            assumes=assumes,
            # those after it on the line are not reached, and one comment silences all of them
            cause=(region.place.extent, event.place.path, event.place.line),
        )
        return state
