"""The ledger of a finding: what it assumes beside the text, and what level it may have with that.

An error rests on nothing but settings that are on, and on releases of torch, and all that leads to it was
followed. One guess makes at most a warning, whose message names the guess; two guesses make nothing. What rests on
numbers that may never occur, or on a caller that nobody has seen, is advice: docs/levels.md says how often such
findings were worth a change.
"""

from __future__ import annotations

from collections.abc import Iterable

from amplint.amp.versions import Version, compare
from amplint.bounds import TorchBounds
from amplint.events import Call, Certainty, DType, Operand, Place, Region, Regions, ScalerUsed
from amplint.findings import Assumed, Assumption, Level
from amplint.rules.wording import line_of

Assumptions = tuple[Assumption, ...]

LIKELY = Assumption(Assumed.LIKELY, "if the model's last op runs in it")
FLOAT16 = Assumption(Assumed.TYPE, "where the region runs in float16")
ON_THE_CPU = Assumption(Assumed.TYPE, "where float16 is asked for on the CPU")
CALLER = Assumption(Assumed.CALLER, "when the caller runs under autocast")
CUT = Assumption(Assumed.CUT, "if what was too much to follow on the way changes nothing")
SCALER = Assumption(Assumed.FLAG, "if the flag of the gradient scaler is set")


def weighed(level: Level, assumes: Iterable[Assumption]) -> Level | None:
    """The level of a finding that may be as bad as ``level``; None where too much is guessed."""
    unsure = {assumption for assumption in assumes if not assumption.kind.is_sure}
    if sum(assumption.kind.is_guess for assumption in unsure) > 1:
        return None
    mildest = max((assumption.kind.costs for assumption in unsure), key=_rank, default=Level.ERROR)
    return max(level, mildest, key=_rank)


def _rank(level: Level) -> int:
    return level.rank


def of_regions(*regions: Region | None, seen_from: Place) -> Assumptions:
    """That the regions are switched on, where flags or callers decide that."""
    found: dict[Assumption, None] = {}
    for region in regions:
        if region is None:
            continue
        if region.assumed:
            found[CALLER] = None
        elif region.framework and region.conditional:
            where = f"on {line_of(region.place, seen_from)}"
            found[Assumption(Assumed.FLAG, f"if mixed precision is switched on for the region {where}")] = (
                None
            )
        elif region.conditional or region.switch is not None:  # a path may know what the flag says
            found[
                Assumption(
                    Assumed.FLAG, f"if the flag of the region on {line_of(region.place, seen_from)} is set"
                )
            ] = None
    return tuple(found)


def of_call(call: Call | None, seen_from: Place) -> Assumption | None:
    """That a call gets here of which the name alone is known, or that of an unknown model."""
    if call is None:
        return None
    where = f"on {line_of(call.place, seen_from)}"
    if call.method is None:
        return Assumption(Assumed.REACHES, f"if the model that is called {where} is this one")
    return Assumption(Assumed.REACHES, f"if the call of `{call.method}` {where} gets here")


def of_open(regions: Regions, seen_from: Place) -> Assumptions:
    """That the regions that are open are switched on."""
    return of_regions(*(region for region in regions if region.enabled), seen_from=seen_from)


def of_scaler(event: ScalerUsed) -> Assumptions:
    """That a scaler is on, where a flag decides that."""
    return (SCALER,) if event.switch is not None and event.enabled is not False else ()


def of_operand(operand: Operand, seen_from: Place) -> Assumptions:
    """That a value has the type that it is taken to have."""
    likely = (LIKELY,) if operand.certainty is Certainty.LIKELY else ()
    return (*likely, *of_regions(operand.born_in, seen_from=seen_from))


def of_float16(operand: Operand) -> Assumptions:
    """That a half precision of which no more is known is float16. Regions on the CPU run in bfloat16 unless they are
    told otherwise, so it takes one guess more there."""
    if operand.dtype is not DType.HALF:
        return ()
    region = operand.born_in
    return (FLOAT16, ON_THE_CPU) if region is not None and region.device == "cpu" else (FLOAT16,)


def of_torch(bounds: TorchBounds, sign: str, version: Version) -> Assumptions:
    """That ``torch sign version``, where the releases that the project allows differ in that."""
    if compare(bounds, sign, version) is not None:
        return ()
    words = {"<": "before", ">=": "since"}[sign]
    return (Assumption(Assumed.TORCH, f"{words} torch {'.'.join(map(str, version))}"),)
