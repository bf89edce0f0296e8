"""Finds constants that half precision rounds to zero or to one, before a division, a logarithm or a square root.

## What it does

Reports `x + eps`, `x.add(eps)` and `x.clamp(min=eps)` with `eps` of at most 2.98e-8 on a tensor that is
float16, when something then divides by the result or takes its logarithm, reciprocal or square root. What a model
out of sight gives in a region is taken for float16, and the message says so.

Reports bounds a little below 1, such as `p.clamp(eps, 1 - eps)`, that are 1 in the tensor's type, float16 or bfloat16,
when something then takes `acos`, `asin`, `atanh` or `logit` of the result, or does one of the former to `1 - p`.

It is an error where autocast made the tensor half, and advice where the code itself has cast it: who does that mostly
knows that nothing in it is zero.

Silent where the tensor is float32. In an enabled CUDA region that is what norms, sums, softmax, `exp`,
`log`, `pow`, cumulative sums, layer norms and losses give, so `x / (x.norm() + 1e-8)` is right there. Also
silent for small constants in bfloat16, which has the range of float32, for `torch.finfo(x.dtype).tiny`, for
the `eps` of norm layers and of optimizers, which is not added in half, and for what harms gradients alone, such
as `acos` at 1, where none are recorded.

## Why is this bad

The smallest positive float16 number is 5.96e-8, and what is below half of it rounds to zero. `1e-8` and
`1e-10` *are* zero there, so the line that guards the division guards nothing. `0 / (0 + 1e-8)` is `nan`,
`log(0 + 1e-10)` is `-inf`, and one of them in a batch makes every gradient of the model `nan`.

The numbers next to 1 are further away: 0.9995 in float16, 0.9961 in bfloat16. `1 - 1e-4` is 1 in both, so that
`log(1 - p)` is `-inf` where `p` is 1, and `(1 - y) * log(1 - p)` is `nan` where `y` is 1, too.

## What torch does at run time

Measured with torch 2.13.0 on the CPU, with `h` a float16 tensor of zeros:

| expression | float16 | float32 |
|---|---|---|
| `h + 1e-8`, `h.clamp(min=1e-8)` | 0 | 1e-8 |
| `h / (h + 1e-8)` | nan | 0 |
| `torch.log(h + 1e-10)` | -inf | -23.0 |
| gradient of `torch.sqrt(h + 1e-8)` | inf | 5000 |
| `h + 3e-8` | 5.96e-8 | 3e-8 |
| `h + 1e-7` | 1.19e-7 | 1e-7 |
| `torch.log(1 - (h + 1).clamp(max=1 - 1e-6))` | -inf | -13.8 |

That `log` itself runs in float32 in a CUDA region does not help: the sum in its argument is computed
before, in the dtype of `h`. `sigmoid`, `relu`, `mean`, `x * y` and everything that comes from a matrix
product or a convolution is half there.

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 1).to(device)
with torch.autocast(device, dtype=torch.float16):
    p = torch.sigmoid(layer(torch.randn(4, 8, device=device)) - 40)
    loss = -torch.log(p + 1e-10).mean()
assert loss.isinf()
```

## Use instead

Cast before the constant is added:

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 1).to(device)
with torch.autocast(device, dtype=torch.float16):
    p = torch.sigmoid(layer(torch.randn(4, 8, device=device)) - 40)
    loss = -torch.log(p.float() + 1e-10).mean()
assert loss.isfinite()
```

or use the function that needs no guard: `logsigmoid`, `binary_cross_entropy_with_logits`,
`nn.functional.normalize`.

## Fix safety

The fix writes `.float()` on the guarded value, and is unsafe: the result is float32, and what follows has to
take it. There is no fix where the guard is added in place, since a tensor cannot change
its type. By hand, a larger constant helps too, but it changes the result in float32 as well, and in
float16 it has to be large:
`x / 1e-6` is `inf` for every `x` above 0.065.

## References

* [pytorch#32137](https://github.com/pytorch/pytorch/issues/32137),
  [pytorch#35666](https://github.com/pytorch/pytorch/issues/35666): eps in half precision
* [pylate#239](https://github.com/lightonai/pylate/issues/239): every gradient nan
"""

from __future__ import annotations

from collections.abc import Hashable

from amplint.amp.traits import NEXT_TO_ONE
from amplint.events import DType, Guard, Op, Operand, enabled_region
from amplint.findings import Level
from amplint.fixes.numerics import FLOAT32_RESULT, CastOperands
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import VANISHING, birth, born_half, made_half, surely_half
from amplint.rules.ledger import FLOAT16, LIKELY, of_float16, of_operand
from amplint.rules.wording import line_of

_DIVIDES = frozenset({"__truediv__", "div", "true_divide", "divide"})
_AT_ZERO = {
    "__rtruediv__": "the reciprocal of 0 is inf",
    "reciprocal": "the reciprocal of 0 is inf",
    "rsqrt": "rsqrt(0) is inf",
    "log": "log(0) is -inf",
    "log2": "log2(0) is -inf",
    "log10": "log10(0) is -inf",
    "sqrt": "the gradient of sqrt at 0 is inf",
}
_AT_ONE = {
    "acos": "the gradient of acos at 1 is inf",
    "arccos": "the gradient of arccos at 1 is inf",
    "asin": "the gradient of asin at 1 is inf",
    "arcsin": "the gradient of arcsin at 1 is inf",
    "atanh": "atanh(1) is inf",
    "arctanh": "arctanh(1) is inf",
    "logit": "logit(1) is inf",
}
_OF_GRADIENTS = frozenset({"sqrt", "acos", "arccos", "asin", "arcsin"})
"""Ops that have a value there, and no finite gradient."""


class HalfUnderflowEps(FlowRule):
    """The state holds the places of the guards that were told of."""

    by_subject = True
    level = Level.ERROR

    def start(self) -> Hashable:
        return frozenset()

    def about(self, event: Op) -> tuple[Hashable, ...]:
        operand, _ = _guarded(event)
        return (operand.trait.place,) if operand is not None and isinstance(operand.trait, Guard) else ()

    def on_op(self, state: frozenset[Hashable], event: Op, report: Report) -> Hashable:
        operand, effect = _guarded(event)
        if operand is None or not isinstance(operand.trait, Guard):
            return state
        guard = operand.trait
        rounded = _rounded(guard, operand.dtype, at_one=event.name in _AT_ONE)
        sure = surely_half(operand)
        if rounded is None or guard.place in state or not (sure or born_half(operand)):
            return state
        if sure and enabled_region(event.regions) is None and born_half(operand):
            return (
                state  # after a region missing-float speaks, in a disabled one disabled-region-without-cast
            )
        what, unsure = rounded
        message = (
            f"{what}{'' if unsure else ', the dtype here'} ({made_half(operand, guard.place)}"
            f"{'' if sure else f', {LIKELY.text}'}), so it guards nothing{f' {FLOAT16.text}' if unsure else ''}"
        )
        assumes = (*(of_float16(operand) if unsure else ()), *of_operand(operand, guard.place))
        builder = CastOperands((guard.tensor,), FLOAT32_RESULT) if guard.tensor is not None else None
        trail = (*birth(operand), (event.place, "used here"))
        report.add(
            self,
            guard.place,
            message,
            why=f"On {line_of(event.place, guard.place)} {effect}.",
            # who casts by hand chooses what comes into it, too
            level=Level.ERROR if born_half(operand) else Level.ADVICE,
            help=f"Cast with `.float()` before the constant is {'added' if guard.below_one is None else 'used'}.",
            trail=trail,
            builder=builder,
            assumes=assumes,
        )
        return state | {guard.place}


def _guarded(event: Op) -> tuple[Operand | None, str]:
    """The operand that must not be zero, or 1, and what happens when it is."""
    if event.name in _OF_GRADIENTS and not event.gradients:
        return None, ""
    if event.name in _AT_ONE and event.operands:
        return event.operands[0], _AT_ONE[event.name]
    if event.name in _DIVIDES and len(event.operands) > 1:
        return event.operands[1], "the division by 0 gives inf, or nan for 0 / 0"
    effect = _AT_ZERO.get(event.name)
    if effect is None or not event.operands:
        return None, ""
    # 1 / x has its operand on the right
    return event.operands[-1 if event.name == "__rtruediv__" else 0], effect


def _rounded(guard: Guard, dtype: DType | None, *, at_one: bool) -> tuple[str, bool] | None:
    """What becomes of a constant in a type, and whether that holds for float16 alone, of which nobody knows whether it
    is the type; None where the constant is there. ``at_one``: the op must not meet 1."""
    if at_one or guard.rest:
        bound = guard.below_one
        largest = NEXT_TO_ONE.get(dtype, NEXT_TO_ONE[DType.FLOAT16]) if dtype is not None else 1.0
        if bound is None or bound <= largest:
            return None
        name = "half precision" if dtype is DType.HALF else str(dtype.value if dtype is not None else "")
        return f"{bound!r} is 1 in {name}", False
    if guard.constant is None or guard.constant > VANISHING or dtype is DType.BFLOAT16:
        return None
    return f"{guard.constant:g} is zero in float16", dtype is DType.HALF
