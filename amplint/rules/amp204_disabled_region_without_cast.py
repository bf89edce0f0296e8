"""Finds disabled autocast regions that are meant to give float32 but receive half-precision tensors.

## What it does

Reports `with torch.autocast(device, enabled=False):` nested in an enabled region, or working on what one
produced, where a half tensor from outside is used without `.float()`, `.to(torch.float32)` or `.double()`.

Silent where the inputs are float32 by autocast's own policy (losses; on CUDA softmax, norms, sums),
integers, targets, casts at the top of the body, `custom_fwd(cast_inputs=...)`, and bodies that only index
or compare.

## Why is this bad

`enabled=False` does not mean float32. It means: no casts at all, neither down nor up. Ops run in the dtype
of their inputs, and the inputs come from the region around, in half. What autocast would have protected by
running it in float32 (softmax, losses, norms) now runs in half *because* of the line that was meant to
protect it. Where the inputs meet float32 weights, it raises instead.

## What torch does at run time

With torch 2.13.0. The left column is what autocast gives for a float16 input in an enabled CUDA region, the
right one in `enabled=False`; both come from CUDA's op policies on fake tensors, so no GPU computed them:

| op on a float16 tensor | enabled | `enabled=False` |
|---|---|---|
| `softmax`, `cross_entropy`, `mse_loss`, `kl_div` | float32 | float16 |
| `layer_norm`, `norm`, `sum`, `exp` | float32 | float16 |
| `binary_cross_entropy` | raises | float16 |

Measured on the CPU, in the nested region: `self.layer(h)` with half `h` and float32 weights raises
`RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and Float`; `cross_entropy(logits,
y)` reads 8.5 in bfloat16 where float32 says 8.4689, and `cross_entropy(logits.float(), y)` reads 8.4687;
the sum of the squares of 64 values of 40 is `inf` in float16 and 102400 with `.float()`.

The same holds for a criterion that is called in such a region after the model ran in an enabled one.
Training engines of the DETR family do this; one report measured a loss term five times too large
([D-FINE#361](https://github.com/Peterande/D-FINE/issues/361)).

## Example

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(64, 1000).to(device)
x, target = torch.randn(32, 64, device=device), torch.randint(1000, (32,), device=device)

with torch.autocast(device, dtype=torch.float16):
    logits = model(x)
    with torch.autocast(device, enabled=False):
        loss = nn.functional.cross_entropy(logits, target)
assert loss.dtype == torch.float16
```

## Use instead

Both halves are needed: switch autocast off, and cast what comes in.

```python
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(64, 1000).to(device)
x, target = torch.randn(32, 64, device=device), torch.randint(1000, (32,), device=device)

with torch.autocast(device, dtype=torch.float16):
    logits = model(x)
    with torch.autocast(device, enabled=False):
        loss = nn.functional.cross_entropy(logits.float(), target)
assert loss.dtype == torch.float32
```

The cast without the region is the opposite mistake: useless-float. For a module that you cannot edit, such
as an imported RoI pooling layer whose boxes must stay float32, its page has the recipe.

## Fix safety

The fix writes `.float()` on the tensor where the op takes it; of a tuple or a dictionary the elements that are used
get it, each in its place. It is safe where nobody else runs the code, and unsafe in a function that others may call
outside the region: they would get float32, too. It is unsafe as well where the value is no half or float32 tensor
on another path. `tree_map` casts nested outputs as a whole (`torch.utils._pytree`). Integers, masks and targets are
never cast, but for the half target of `binary_cross_entropy_with_logits`, whose type decides. The losses change a
little, to what they should have been, so compare runs with care. Deleting the disabled region instead is right
where its only content is ops that autocast runs in float32 anyway, but not for `binary_cross_entropy`, which raises
in an enabled CUDA region.

## References

* [torch.autocast](https://docs.pytorch.org/docs/stable/amp.html#torch.autocast), on disabled subregions
* [RT-DETR#634](https://github.com/lyuwenyu/RT-DETR/issues/634) and
  [D-FINE#361](https://github.com/Peterande/D-FINE/issues/361): losses in float16
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.events import Certainty, Op, Region, innermost
from amplint.findings import Level
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import MISMATCH, Harm, birth, cast_of, harm_of
from amplint.rules.ledger import CALLER, LIKELY, of_operand
from amplint.rules.wording import line_of, quoted


class DisabledRegionWithoutCast(FlowRule):
    """The state holds the pairs of disabled region and birth of a value that were told of."""

    by_subject = True
    level = Level.WARNING
    raises = MISMATCH
    hears_assumed = True
    each_subject = True

    def start(self) -> Hashable:
        return frozenset()

    def about(self, event: Op) -> tuple[Hashable, ...]:
        region = innermost(event.regions)
        harm = (
            harm_of(event, self.setting.torch, strict=True)
            if region is not None and not region.enabled
            else None
        )
        return (_told(region, harm),) if region is not None and harm is not None else ()

    def again(self, state: frozenset[Hashable]) -> Hashable:
        return frozenset()

    def on_op(self, state: frozenset[Hashable], event: Op, report: Report) -> Hashable:
        region = innermost(event.regions)
        if region is None or region.enabled:
            return state
        harm = harm_of(event, self.setting.torch, strict=True)
        if harm is None:
            return state
        assumed = event.regions[0].assumed
        if assumed and harm.raises:
            # a path on which every run under autocast raised would have been noticed
            return state
        key = _told(region, harm)
        if key in state:
            return state
        operand = harm.operand
        name = operand.dtype.value if operand.dtype is not None else "half"
        message = (
            f"autocast is off since {line_of(region.place, event.place)}, but {quoted(operand.place)} is still "
            f"{'in half precision' if name == 'half' else name}"
        )
        if assumed:
            message += f" {CALLER.text}"
        elif operand.certainty is Certainty.LIKELY:
            message += f" {LIKELY.text}"
        protection = ", it only takes away autocast's own protection" if event.policy == "float32" else ""
        trail = (*birth(operand), (region.place, "autocast is switched off here"))
        report.add(
            self,
            event.place,
            f"{message}: {harm.effect}",
            why=f"{harm.why} `enabled=False` casts nothing{protection}.",
            help=harm.remedy,
            level=Level.ERROR if harm.raises else None,
            trail=trail,
            subject=region.place,
            builder=cast_of(harm, self.name, region.place),
            assumes=(*of_operand(operand, event.place), *harm.assumes),
        )
        return state | {key}


def _told(region: Region, harm: Harm) -> Hashable:
    return (region.place, harm.operand.born, harm.operand.element)
