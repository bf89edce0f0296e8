"""What half-precision operands suffer in an op that autocast does not look after: shared by the rules on
values that leave a region and on regions that switch autocast off."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.amp.ops import INTEGER_TARGETS, OF_LOG_PROBABILITIES, OF_TARGET_TYPE, lacks_kernel
from amplint.amp.versions import Bounds
from amplint.events import Certainty, DType, Op, Operand, Place
from amplint.fixes.casts import AddFloat, float_of
from amplint.rules.ledger import FLOAT16, Assumptions, of_float16
from amplint.rules.wording import line_of

MISMATCH = r"same dtype|[Dd]types?\b.*\b(match|same)|expected .* but (got|found)|not implemented for '(Half|BFloat16)'"
"""What torch says of operands whose dtypes do not agree, or that an op has no kernel for."""

_PROBABILITIES = frozenset({"softmax", "softmin"})
VANISHING = 2.0**-25
"""The largest constant that rounds to zero in float16."""
_GUARDS = frozenset({"__add__", "__sub__", "add", "sub", "clamp", "clamp_min", "maximum"})
_ROUNDED = "Half precision has two or three digits."
_OVERFLOWS = "It has three digits, and overflows beyond 65504."
_EFFECTS = {
    "loss": ("the loss is computed in it", _ROUNDED),
    "softmax": ("the softmax is computed in it", _ROUNDED),
    "exponential": ("`{op}` is computed in it", "It overflows or loses the small values."),
    "power": ("`{op}` is computed in it", _OVERFLOWS),
    "reduction": ("`{op}` is computed in it", _OVERFLOWS),
    "norm": ("`{op}` is computed in it", _OVERFLOWS),
    "accumulation": ("the running sum is kept in it", "Additions below a thousandth of the sum are lost."),
    "fourier": ("`{op}` is computed in it", "It raises for most lengths, and loses digits for the others."),
    "spectrum": ("`{op}` is computed in it", _ROUNDED),
}
"""What an op that minds precision does in half precision, and what comes of that."""
_BY_RANGE = frozenset({"exponential", "power", "reduction", "norm"})
"""What overflows in float16 alone: bfloat16 has the range of float32, and fewer digits."""


@dataclass(frozen=True)
class Harm:
    """What happens to a half-precision operand, as a clause, why that is bad, and what to write instead."""

    operand: Operand
    effect: str
    why: str
    remedy: str
    raises: bool = False
    place: Place | None = None
    assumes: Assumptions = ()
    """What has to hold for it that the operand's type does not say."""
    floating: bool = False
    """Whether the op takes nothing but a floating tensor for this operand: not a tuple, a dictionary, or indices."""
    also: tuple[Place, ...] = ()
    """Other operands without whose cast the op would be computed in half precision all the same."""


def born_half(operand: Operand) -> bool:
    """Whether autocast made the operand half."""
    return (
        operand.born is not None
        and operand.born_in is not None
        and operand.dtype is not None
        and operand.dtype.is_half
        and not operand.born_in.framework
    )


def surely_half(operand: Operand) -> bool:
    """Whether the operand is half on every run of this path, by autocast or by a cast in the code. What a
    framework's own region leaves depends on its settings."""
    return (
        operand.dtype is not None
        and operand.dtype.is_half
        and operand.certainty is Certainty.SURE
        and (operand.born is not None or operand.half_by_user is not None)
        and (operand.born_in is None or not operand.born_in.framework)
    )


def type_name(operand: Operand) -> str:
    """ "float16", "bfloat16", or "half precision" where the region's type is not known."""
    if operand.dtype is None or operand.dtype is DType.HALF:
        return "half precision"
    return str(operand.dtype.value)


def made_half(operand: Operand, seen_from: Place) -> str:
    """How the operand became half, as a clause."""
    if operand.half_by_user is not None:
        return f"cast on {line_of(operand.half_by_user, seen_from)}"
    assert operand.born is not None
    if operand.born_in is None:
        return f"made on {line_of(operand.born, seen_from)}"
    return f"made half by autocast on {line_of(operand.born, seen_from)}"


def birth(operand: Operand) -> tuple[tuple[Place, str], ...]:
    """The trail of a half-precision value: its region, and the op that made it."""
    steps: list[tuple[Place, str]] = []
    if operand.born_in is not None and not operand.born_in.assumed:
        steps.append((operand.born_in.place, "autocast is enabled here"))
    if operand.born is not None:
        steps.append((operand.born, "the half-precision value is made here"))
    if operand.half_by_user is not None:
        steps.append((operand.half_by_user, "cast to half precision here"))
    return tuple(steps)


def origin(operand: Operand) -> str:
    """ "float16 value made by autocast"."""
    name = operand.dtype.value if operand.dtype is not None else "half"
    return f"{'half-precision' if name == 'half' else name} value made by autocast"


def cast_of(harm: Harm, rule: str, region: Place | None = None) -> AddFloat:
    """The builder that casts the operand where it is used, in ``region`` if that is given; ``rule`` tells of a value
    once, at the first op that suffers."""
    doubt = "" if harm.floating else doubt_of(harm.operand)
    if harm.place is not None:
        return AddFloat(harm.place, doubt, softmax=True, region=region, told_once=rule)
    return AddFloat(harm.operand.place, doubt, region=region, also=harm.also, told_once=rule)


def doubt_of(operand: Operand) -> str:
    """Why an operand may be no floating tensor, or nothing."""
    if operand.certainty is Certainty.SURE:
        return ""
    return (
        f"`{operand.place.text}` comes out of a module that is not in sight, and may hold no floating numbers"
    )


def harm_of(event: Op, torch: Bounds, *, strict: bool = False) -> Harm | None:
    """What the op does to an operand that autocast left in half precision, or None. ``torch``: the releases that the
    project admits. ``strict``: where the code itself asks for float32, even a softmax that is only looked at counts."""
    halves = [operand for operand in event.operands if born_half(operand)]
    if not halves or event.policy in ("view", "integer") or event.ranks:
        return None
    operand = halves[0]
    sure = all(half.certainty is Certainty.SURE for half in halves)
    remedy = f"Write `{float_of(operand.place.text)}`."
    if sure and _raises(event):
        effect = f"meets float32 {'weights' if event.weights is not None else 'operands'} in `{event.name}`"
        return Harm(
            operand, effect, "It raises RuntimeError: the dtypes must be the same.", remedy, raises=True
        )
    if sure and _lacks_kernel(event, operand, torch):
        effect = f"`{event.name.strip('_')}` has no half-precision kernel"
        return Harm(operand, effect, "It raises RuntimeError.", remedy, raises=True)
    if event.sensitivity is None:
        return _small_constant(event, operand, remedy) if sure else None
    if strict and event.sensitivity == "accumulation":
        return None  # it goes on from an op that was told of
    others = [other for other in event.operands if other not in halves]
    also: tuple[Place, ...] = ()
    if event.name in OF_TARGET_TYPE and len(event.operands) > 1 and event.operands[1] in halves:
        # a float32 input does not lift it; both have to be cast
        also = tuple(other.place for other in event.operands[:2] if other in halves and other is not operand)
    elif _promotes(event, others):
        return None
    if not sure and not _is_of_a_loss(event):
        return None
    if event.name in OF_LOG_PROBABILITIES and _on_cuda(operand):
        return None  # log-probabilities leave a region in float32; what is half here belongs to another way
    if event.sensitivity == "softmax" and event.name in _PROBABILITIES and not strict:
        # told of when something is computed from it: ranking and thresholds survive half precision
        return None
    if event.sensitivity not in _EFFECTS:
        return None
    is_input = operand is event.operands[0]
    if event.name in INTEGER_TARGETS and not is_input:
        return None  # the loss is computed in the type of its input
    place = event.softened if event.softened is not None and not strict else None
    effect, why = _EFFECTS["softmax" if place is not None else event.sensitivity]
    if place is not None:
        remedy = "Cast with `.float()` before the softmax."
    if event.sensitivity in _BY_RANGE and operand.dtype is DType.BFLOAT16:
        why = _ROUNDED
    if also:
        remedy = (
            f"{remedy[:-1]} and `{float_of(event.operands[1].place.text)}`: the type of the target decides."
        )
    effect = effect.format(op=event.name.strip("_"))
    floating = event.sensitivity == "loss" and (is_input or event.name in OF_TARGET_TYPE)
    return Harm(operand, effect, why, remedy, place=place, floating=floating, also=also)


def _is_of_a_loss(event: Op) -> bool:
    """Whether the op is a loss, or the part of one by which it is computed in half precision: cross entropy is the
    logarithm of a softmax, and a choice. Where no gradients are taken, that is as often a figure to look at."""
    if event.sensitivity == "softmax":
        return event.gradients and event.name not in _PROBABILITIES
    is_logarithm = event.sensitivity == "exponential" and event.softened is not None
    return event.sensitivity == "loss" or (event.gradients and is_logarithm)


def _lacks_kernel(event: Op, operand: Operand, torch: Bounds) -> bool:
    """Whether the op takes no half precision: as it was measured, or by its kind, since some of linalg were not."""
    if event.sensitivity == "linalg":
        return True
    return operand.dtype is not None and lacks_kernel(event.name, operand.dtype.value, torch)


def _on_cuda(operand: Operand) -> bool:
    return operand.born_in is not None and operand.born_in.device != "cpu"


def _raises(event: Op) -> bool:
    if event.weights is DType.FLOAT32 and event.weights_raise:
        return True
    if event.policy != "lower":
        return False
    return any(other.dtype is DType.FLOAT32 for other in event.operands)


def _promotes(event: Op, others: list[Operand]) -> bool:
    """Whether another operand lifts the op to float32, or may do so."""
    if event.name in INTEGER_TARGETS or event.sensitivity not in ("loss", "norm"):
        return any(other.dtype is DType.FLOAT32 for other in others) and event.name not in INTEGER_TARGETS
    return any(not other.constant and (other.dtype is None or not other.dtype.is_half) for other in others)


def _small_constant(event: Op, operand: Operand, remedy: str) -> Harm | None:
    small = event.small_constant
    if small is None or small > VANISHING or event.name not in _GUARDS:
        return None
    if operand.dtype is DType.BFLOAT16:
        return None
    unsure = operand.dtype is DType.HALF
    where = f" {FLOAT16.text}" if unsure else ""
    effect = f"the guard {small:g} rounds to zero in float16{where}"
    why = "The division gives inf or nan."
    return Harm(operand, effect, why, remedy, assumes=of_float16(operand))
