"""What ops leave of themselves in their results; see events.Trait."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.events import Trait

SMALL = 1e-4
"""Constants below it are there to keep a tensor from zero."""
GUARDS = frozenset({"__add__", "add", "clamp", "clamp_min", "clip"})
"""Ops that keep a tensor from zero by a small constant."""
SQUARING = frozenset({"__pow__", "pow", "square", "__mul__", "mul"})
"""Ops that may square each element."""
_SUMMING = frozenset({"sum", "mean", "nansum", "nanmean"})
_PRODUCTS = frozenset({"__matmul__", "matmul", "mm", "bmm", "einsum"})
_KEEPS = frozenset({"__mul__", "mul", "__truediv__", "div", "__neg__", "neg", "sqrt"})
_ADDING = frozenset({"__add__", "add"})


def left_by(name: str, traits: Sequence[Trait | None], half: bool) -> Trait | None:
    """What an op leaves whose operands have these traits, if it neither guards nor squares; ``half`` says whether
    its result is half."""
    if name in _PRODUCTS:
        return "product" if half else None
    if name in _SUMMING and list(traits[:1]) == ["square"]:
        return "squares"
    if name in _KEEPS and len(traits) == 1:
        return traits[0]
    return "squares" if name in _ADDING and list(traits) == ["squares", "squares"] else None
