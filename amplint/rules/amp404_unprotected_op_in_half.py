"""Finds ops on half-precision values that autocast leaves alone and that raise, overflow or cancel there.

## What it does

Reports, on values that are surely half,

* ops without a half-precision kernel: `torch.linalg` decompositions, inverses, determinants and solvers,
  `quantile`, `ctc_loss`, `polar`, and in bfloat16 `complex` and `view_as_complex`;
* Fourier transforms;
* in an enabled region, the sum or mean of `x * x`, `exp2`, and `nansum`;
* in an enabled region, squared distances by `|a|^2 - 2 a b + |b|^2`, where the squares are float32 and the
  product is half;
* in an enabled region, variances as the average of `x * x` less the square of the average, where the former is
  half: a convolution with a window, as in SSIM, is an average, and runs in half precision;
* the sine and cosine of positions and time steps, as of a rotary embedding: what `arange` counts, if that may go beyond
  256, or `randint` draws, multiplied in half precision.

Silent on what autocast runs in float32 on CUDA (`exp`, `log`, `softmax`, `pow`, `x ** 2`, `sum`, `prod`,
`norm`, `cdist`, `rsqrt`, losses, layer norms), and on `mean`, `var`, `std` and `sqrt` of half values: their
kernels compute in float32 and round the result once.

## Why is this bad

The list of ops that autocast sends to float32 is long but not complete. It has `sum` and not `nansum`,
`exp` and not `exp2`, `x ** 2` and not `x * x`, and nothing of `torch.linalg` but norms. In float32 all of
these work, so the code was right until AMP was switched on.

## What torch does at run time

Measured with torch 2.13.0 on the CPU (dtypes in a CUDA region with fake tensors), `h` in float16:

| expression | what happens |
|---|---|
| `torch.linalg.inv(h)`, `h.inverse()`, `logdet`, `slogdet` | `RuntimeError: Low precision dtypes not supported` |
| `linalg.svd`, `eigh`, `qr`, `cholesky`, `solve`, `det` | `NotImplementedError: ... not implemented for 'Half'` |
| `torch.quantile(h, 0.5)` | `RuntimeError: quantile() input tensor must be either float or double dtype` |
| `torch.fft.fft(h)` | CUDA: only for lengths that are powers of two, in complex32; bfloat16 and CPU: raises |
| `(h * h).mean()` with values of 300 | inf, since 90000 is beyond 65504 |
| `(h ** 2).mean()` with values of 300, in a CUDA region | 90000 in float32 |
| `h.exp2()` | float16, inf beyond 16; `h.exp()` is float32 |
| `torch.nansum(h)` | float16, inf beyond 65504; `h.sum()` is float32 |

Squared distances: for two points of 64 coordinates around 1 that are 0.01 apart in each, the squared
distance is 0.0064. The product of such points is about 64, and float16 keeps 64 to 0.03 only.

Variances: for values around 0.8 with a standard deviation of 0.01 the variance is 1e-4. The average of their
squares is 0.64, which float16 keeps to 5e-4 and bfloat16 to 4e-3: SSIM is far off, and its gradients are noise.

Angles: the product of positions and frequencies of at most 1 is off by up to 0.27 below position 128, 1.8 below 512
and 14 below 4,096 in bfloat16, in float16 by 0.02, 0.2 and 2.2. (`torch.einsum("i,j->ij", …)` runs in half precision
in regions of CUDA, `torch.outer` does not.)

## Example

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 8).to(device)
with torch.autocast(device, dtype=torch.float16):
    h = 1000 * layer(torch.randn(4, 8, device=device))
    energy = (h * h).mean()
assert energy.isinf()
```

## Use instead

```python
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(8, 8).to(device)
with torch.autocast(device, dtype=torch.float16):
    h = 1000 * layer(torch.randn(4, 8, device=device))
    energy = h.float().square().mean()
assert energy.isfinite()
```

For distances use `torch.cdist`, which autocast runs in float32, or a nested `enabled=False` region with
`.float()` on both sides: a cast alone would be undone by the product.

## Fix safety

The fix writes `.float()` on the operands, or on the factors of the square, and is unsafe: the result is float32
then, and what follows has to take it. There is no fix for squared distances and variances.

## References

* [torch.amp: op reference](https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference)
* [pytorch#40427](https://github.com/pytorch/pytorch/issues/40427),
  [apex#779](https://github.com/NVIDIA/apex/issues/779): inverse in half precision
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from amplint.amp.ops import lacks_kernel
from amplint.amp.traits import DIFFERENCES, TURNING
from amplint.amp.versions import Bounds
from amplint.events import DType, Op, Operand, enabled_region, innermost
from amplint.findings import Assumed, Assumption, Level
from amplint.fixes.base import FixBuilder, NoFix
from amplint.fixes.numerics import FLOAT32_RESULT, CastOperands
from amplint.rules.base import FlowRule, Report
from amplint.rules.half_operands import birth, born_half, made_half, surely_half, type_name
from amplint.rules.ledger import FLOAT16, Assumptions, of_float16, of_operand, of_regions
from amplint.rules.wording import quoted

_SUMS = frozenset({"sum", "mean", "nansum", "nanmean"})
_SUMS_OF_TWO = DIFFERENCES | {"__add__", "add"}
_UNLISTED = {
    "exp2": ("beyond 16", "exp"),
    "special.exp2": ("beyond 16", "exp"),
    "nansum": ("whose sum is beyond 65504", "sum"),
}
"""The values that overflow in float16, and the like op that would run in float32."""

_OVERFLOW = _SUMS | _UNLISTED.keys()
"""Ops that harm in float16 and not in bfloat16."""

_CAST = "Cast the operand with `.float()`."


@dataclass(frozen=True)
class Harm:
    """What half precision does to an op: as a clause, why that is so, what to write instead, and the values that it
    assumes."""

    effect: str
    why: str
    remedy: str
    level: Level = Level.WARNING
    guesses: Assumptions = ()


class UnprotectedOpInHalf(FlowRule):
    """Has no state."""

    level = Level.WARNING

    def on_op(self, state: Hashable, event: Op, report: Report) -> Hashable:
        operand = next((operand for operand in event.operands if surely_half(operand)), None)
        region = enabled_region(event.regions)
        if operand is None or event.in_place or (region is None and born_half(operand)):
            return (
                state  # after a region missing-float speaks, in a disabled one disabled-region-without-cast
            )
        cast = region is not None and event.policy == "float32"  # on CUDA autocast leaves all of these alone
        harm = _raises(event, operand, self.setting.torch) if not cast else None
        if harm is None and not cast:
            harm = _turns(event, operand)
        if harm is None and region is not None:
            harm = _suffers(event, operand)
        if harm is None:
            return state
        effect, level, guesses = harm.effect, harm.level, harm.guesses
        if operand.dtype is DType.HALF and level is Level.WARNING and event.name in _OVERFLOW:
            guesses = (*guesses, *of_float16(operand))
            effect = f"{effect} {FLOAT16.text}"
        protection = "Autocast does not cast it here." if region is not None else "It is not cast here."
        if innermost(event.regions) is not None and region is None:
            protection = "Autocast is switched off here."
        message = (
            f"{quoted(operand.place)} is {type_name(operand)} ({made_half(operand, event.place)}): {effect}"
        )
        assumes = (*guesses, *of_operand(operand, event.place), *of_regions(region, seen_from=event.place))
        builder = _builder(event, operand)
        report.add(
            self,
            event.place,
            message,
            why=f"{protection} {harm.why}",
            help=harm.remedy,
            level=level,
            trail=birth(operand),
            builder=builder,
            assumes=assumes,
            # the sine and the cosine of one angle
            cause=(birth(operand)[-1][0].extent, event.place.path) if event.name in TURNING else None,
        )
        return state


def _builder(event: Op, operand: Operand) -> FixBuilder:
    if event.name in TURNING:
        return NoFix(
            "the angles are rounded before, and have to be computed in a region with `enabled=False`"
        )
    if event.name in _SUMS_OF_TWO:
        return NoFix("both sides have to be computed in a nested region with `enabled=False`")
    if event.name in _SUMS and operand.trait == "square":
        return CastOperands((operand.place,), FLOAT32_RESULT, square=True)
    halves = dict.fromkeys(other.place for other in event.operands if surely_half(other))
    return CastOperands(tuple(halves), FLOAT32_RESULT)


def _raises(event: Op, operand: Operand, torch: Bounds) -> Harm | None:
    name = event.name
    bfloat16 = operand.dtype is DType.BFLOAT16
    if operand.dtype is not None and lacks_kernel(name, operand.dtype.value, torch):
        return Harm(f"`{name}` has no kernel for this dtype", "It raises RuntimeError.", _CAST, Level.ERROR)
    if bfloat16 and event.sensitivity in ("fourier", "spectrum"):
        return Harm(f"`{name}` does not take this dtype", "It raises RuntimeError.", _CAST, Level.ERROR)
    if (
        event.sensitivity == "fourier" and operand.half_by_user is None
    ):  # who casts by hand chooses the lengths, too
        why = "It raises RuntimeError for lengths that are no power of two, and computes in complex32 for the others."
        return Harm(f"`{name}` takes few lengths in it", why, _CAST)
    return None


def _turns(event: Op, operand: Operand) -> Harm | None:
    """What is left of an angle that grows with a position."""
    if event.name not in TURNING or operand.trait != "positions":
        return None
    far, guesses = "from position 256 on", Assumptions()
    if operand.dtype is not DType.BFLOAT16:
        far = "if there are positions or steps beyond 2,048"
        guesses = (Assumption(Assumed.VALUES, far),)
    return Harm(
        f"the angle is off by a radian {far}",
        "The angle has as few digits as the type: what it is beyond whole turns is noise.",
        "Compute the angles in a nested region with `enabled=False`, in float32, and cast their sine and cosine.",
        guesses=guesses,
    )


def _suffers(event: Op, operand: Operand) -> Harm | None:
    """What float16 does to the op without an error; None where nothing is sure."""
    name = event.name
    overflows = operand.dtype in (DType.FLOAT16, DType.HALF)
    if overflows and name in _SUMS and operand.trait == "square":
        where = "if there are values beyond 255"
        return Harm(
            f"the squares overflow {where}",
            "They become inf in float16 before they are summed up.",
            "Use `x ** 2`, which runs in float32 on CUDA, or cast with `.float()` first.",
            guesses=(Assumption(Assumed.VALUES, where),),
        )
    if overflows and name in _UNLISTED:
        values, other = _UNLISTED[name]
        where = f"if there are values {values}"
        return Harm(
            f"`{name}` overflows {where}",
            f"`{name}` runs in float16 here, where `{other}` would run in float32.",
            _CAST,
            guesses=(Assumption(Assumed.VALUES, where),),
        )
    squares = any(other.trait == "squares" and other.dtype is DType.FLOAT32 for other in event.operands)
    if name in _SUMS_OF_TWO and squares and operand.trait == "product":
        where = "where the two nearly cancel"
        return Harm(
            f"rounding error is left {where}",
            "The product is rounded to three digits, and squares in float32 are subtracted, as in the distance of "
            "close points.",
            "Compute the product in a nested region with `enabled=False` and `.float()` on both sides, or use "
            "torch.cdist for distances.",
            guesses=(Assumption(Assumed.VALUES, where),),
        )
    averages = [other.trait for other in event.operands] == ["squares", "square"]
    if name in DIFFERENCES and averages and operand is event.operands[0]:
        where = "where the two nearly cancel"
        return Harm(
            f"rounding error is left {where}",
            "The average of squares is rounded to three digits, and so is the average whose square is subtracted: what "
            "is left of a small variance is noise.",
            "Compute both in a nested region with `enabled=False`, from `.float()` of what is averaged.",
            guesses=(Assumption(Assumed.VALUES, where),),
        )
    return None
