"""Optimizers that a scaler is given as two objects: the optimizer itself, and one around it with its parameters."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint.events import ScalerUsed
from amplint.flow import scaling
from amplint.flow.paths import Path
from amplint.flow.values import Alternatives, ClassValue, Instance, Library, Optimizer, Unknown, Value

if TYPE_CHECKING:
    from amplint.flow.engine import Engine
    from amplint.flow.expressions import Expressions

_DIVIDES = re.compile(r"\.unscale_\(|\.step\(\s*[A-Za-z_]")
_HARMLESS_BASES = ("torch.", "abc.", "typing.")
_OWN_RECORD = "_step_supports_amp_scaling"
"""An optimizer with this attribute is given the scale and divides by itself."""


def named(walker: Expressions, value: Value) -> tuple[Hashable, Hashable]:
    """What identifies an optimizer that a scaler is given, and, if that is the one inside or around an object that was
    unscaled on the way here, what was given instead."""
    own = scaling.identity_of(value)
    if own is None or own in walker.engine.unscaled:
        return own, None
    for other, unscaled in walker.engine.unscaled.items():
        if _related(walker.engine, walker.path, value, unscaled):
            return other, own
    return own, None


def _related(engine: Engine, path: Path, one: Value, other: Value) -> bool:
    return _is_inside(engine, path, one, other) or _is_inside(engine, path, other, one)


def _is_inside(engine: Engine, path: Path, inner: Value, outer: Value) -> bool:
    """Whether an optimizer is an attribute of another object, or of one of its attributes."""
    own, around = scaling.identity_of(inner), scaling.identity_of(outer)
    if own is None or around is None:
        return False
    if isinstance(outer, Instance) and isinstance(outer.made_of, ClassValue):
        if _OWN_RECORD in outer.made_of.file.text_of(outer.made_of.outline):
            return False
        if any(_is(value, own) for value in engine.attributes_of(path, outer).values()):
            return True
    part = own
    while (
        isinstance(inner, Unknown) and isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], str)
    ):
        part = part[0]
        if part == around:
            return True
    return False


def _is(value: Value, identity: Hashable) -> bool:
    options = [option for option, _ in value.options] if isinstance(value, Alternatives) else [value]
    return any(
        (isinstance(option, (Optimizer, Unknown)) and scaling.identity_of(option) == identity)
        # one that the constructor was given has no owner
        or (isinstance(option, Optimizer) and option.identity == identity)
        for option in options
    )


def note(walker: Expressions, event: ScalerUsed, value: Value) -> None:
    """Keeps in mind what a scaler is given by ``unscale_`` and ``step``."""
    if walker.silent or event.enabled is False:
        return
    if event.act == "unscale_" and event.optimizer is None:
        walker.engine.unscaled_of_many.add(event.scaler)
    elif event.act == "unscale_":
        walker.engine.unscaled.setdefault(event.optimizer, value)
    receiver = walker.scope.self_value
    if isinstance(receiver, Instance) and receiver.made_of is not None and event.made is not None:
        key = (event.scaler, receiver)
        walker.engine.divisions.setdefault(key, []).append((event, value))


def tell_of_classes(engine: Engine) -> None:
    """Tells of the classes of a file one method of which unscales an optimizer while another one steps the object
    around it, as if they were called one after the other. A class that also unscales what it steps, or of which not all
    is known, may know better."""
    for (_, receiver), divisions in engine.divisions.items():
        unscaled = {event.place: (event, value) for event, value in divisions if event.act == "unscale_"}
        stepped = {event.place: (event, value) for event, value in divisions if event.act == "step"}
        names = [{event.optimizer for event, _ in kind.values()} for kind in (unscaled, stepped)]
        if not unscaled or not stepped or None in names[0] | names[1] or names[0] & names[1]:
            continue
        if not _is_whole(engine, receiver, len(unscaled) + len(stepped)):
            continue
        for division, inner in unscaled.values():
            for step, outer in stepped.values():
                if _related(engine, Path(engine.base), inner, outer):
                    machines = engine.listener.hear(engine.listener.start(), division)
                    given = replace(step, optimizer=division.optimizer, given=step.optimizer)
                    engine.listener.hear(machines, given)
    engine.divisions.clear()


def _is_whole(engine: Engine, receiver: Instance, known: int) -> bool:
    """Whether the methods of an object, but for those that are overridden, unscale and step no more than what is known,
    and none is out of sight."""
    assert receiver.made_of is not None
    found: set[str] = set()
    count = 0
    for base in engine.bases(receiver.made_of):
        if isinstance(base, Library) and not base.name.startswith(_HARMLESS_BASES):
            return False
        if isinstance(base, ClassValue):
            for name, method in base.outline.methods.items():
                if name not in found:
                    count += len(_DIVIDES.findall(base.file.text_of(method)))
            text = base.file.text_of(base.outline)
            found |= {name for name in base.outline.methods if f"super().{name}(" not in text}
    return count <= known
