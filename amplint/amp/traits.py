"""What ops leave of themselves in their results; see events.Trait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from amplint.events import DType, Guard, Trait

SMALL = 1e-4
"""Constants below it are there to keep a tensor from zero."""
GUARDS = frozenset({"__add__", "add", "clamp", "clamp_min", "clip"})
"""Ops that keep a tensor from zero by a small constant."""
UPPER_BOUNDS = {"clamp": 1, "clip": 1, "clamp_max": 0}
"""Ops that keep a tensor from values above a bound, and where it stands among the arguments after the tensor."""
NEXT_TO_ONE = {DType.FLOAT16: 1 - 2.0**-12, DType.BFLOAT16: 1 - 2.0**-9}
"""Larger numbers below 1 are 1 in these types."""
DIFFERENCES = frozenset({"__sub__", "sub"})
"""Ops whose result may be what is left of two values that are nearly equal."""
SQUARING = frozenset({"__pow__", "pow", "square", "__mul__", "mul"})
"""Ops that may square each element."""
_SUMMING = frozenset({"sum", "mean", "nansum", "nanmean"})
_AVERAGING = frozenset(
    f"{name}{number}d" for name in ("conv", "avg_pool", "adaptive_avg_pool") for number in (1, 2, 3)
)
"""Ops that average over windows, the convolution with a window among them."""
_PRODUCTS = frozenset({"__matmul__", "matmul", "mm", "bmm", "einsum"})
_KEEPS = frozenset({"__mul__", "mul", "__truediv__", "div", "__neg__", "neg", "sqrt"})
_ADDING = frozenset({"__add__", "add"})
_JOINING = frozenset({"cat", "concat", "concatenate", "stack"})
_MULTIPLYING = frozenset({"__mul__", "mul", "outer", "ger"})
COUNTING = frozenset({"arange", "randint"})
"""Ops that give positions, or the steps of a schedule."""
FEW = 256
"""So many positions are kept by each half-precision type."""
TURNING = frozenset({"sin", "cos"})
"""Ops of which nothing is left where an angle is off by a radian."""


def left_by(name: str, traits: Sequence[Trait | None], half: bool) -> Trait | None:
    """What an op leaves whose operands have these traits, if it neither guards nor squares; ``half`` says whether
    its result is half."""
    if name in COUNTING:
        return "positions"
    if "positions" in traits:
        return _of_positions(name, traits)
    if name in _PRODUCTS:
        return "product" if half else None
    if (name in _SUMMING or (half and name in _AVERAGING)) and list(traits[:1]) == ["square"]:
        return "squares"
    if name in _KEEPS and len(traits) == 1:
        return _at_zero(traits[0])
    return "squares" if name in _ADDING and list(traits) == ["squares", "squares"] else None


def counts_far(name: str, size: int) -> bool:
    """Whether an op may have given more positions than half precision keeps; ``size``: the elements of its result."""
    return name in COUNTING and (name != "arange" or size > FEW)


def kept_by_cast(trait: Trait | None) -> Trait | None:
    """What is left of a trait when the tensor is cast."""
    return trait if trait == "positions" else None


def _of_positions(name: str, traits: Sequence[Trait | None]) -> Trait | None:
    """Positions are large still after they met another tensor or a number was added; shares of a number may not be."""
    by_others = name in _PRODUCTS or name in _ADDING or (name in _MULTIPLYING and len(traits) > 1)
    together = name in _JOINING and all(trait == "positions" for trait in traits)
    return "positions" if by_others or together else None


def _at_zero(trait: Trait | None) -> Trait | None:
    """What is left of a trait where values other than zero change."""
    if not isinstance(trait, Guard) or trait.rest or trait.below_one is None:
        return trait
    return replace(trait, below_one=None) if trait.constant is not None else None


def rest_to_one(trait: Trait | None) -> Guard | None:
    """What ``1 - p`` leaves, where ``p`` was kept from 1."""
    if not isinstance(trait, Guard) or trait.below_one is None or trait.rest:
        return None
    return replace(trait, constant=None, rest=True)


def below_one(bound: object) -> float | None:
    """A bound from above that is 1 in some half-precision type, and no more than a little below it."""
    is_near = isinstance(bound, float) and min(NEXT_TO_ONE.values()) < bound < 1
    return bound if is_near and isinstance(bound, float) else None
