"""Checkpoints: what ``torch.save`` writes, and the methods that save what other methods have trained."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp.wrappers import ACCELERATORS, ACCELERATORS_SCALER
from amplint.events import Place, ScalerUsed, StateSaved
from amplint.flow import calls, kinds, scaling
from amplint.flow.budget import OutOfBudget
from amplint.flow.scopes import Scope
from amplint.flow.values import (
    UNKNOWN,
    Alternatives,
    ClassValue,
    Constant,
    FunctionValue,
    Instance,
    Mapping,
    Optimizer,
    Preparer,
    Scaler,
    Sequence,
    StateDict,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.engine import Engine
    from amplint.flow.expressions import Expressions
    from amplint.flow.paths import Path
    from amplint.flow.statements import Walker
    from amplint.source.outline import FunctionOutline
    from amplint.source.project import ProjectFile

MAX_STEPS = 400
MAX_ENDS = 4
_HEARD = (StateSaved, ScalerUsed)
"""What is told of methods that save: for the rest they are walked where they are called."""
_NAMES_SCALER = re.compile(r"scal|\bamp\b|grad", re.IGNORECASE)
"""A key of a checkpoint under which the state of a scaler may stand."""
_SCALES = "<scales>"
_TAKES_STATE = re.compile(r"\.state_dict\(")
_SAVES = re.compile(r"\.save\(")


def saved(walker: Expressions, value: Value, node: cst.CSTNode) -> None:
    """Tells what ``torch.save`` writes."""
    optimizers: list[tuple[Hashable, Place | None]] = []
    scalers: list[Hashable] = []
    complete = _collect(value, optimizers, scalers, 0)
    names = tuple(optimizer for optimizer, _ in optimizers)
    walker.emit(
        StateSaved(
            walker.place(node),
            walker.path.regions,
            names,
            tuple(scalers),
            complete,
            tuple(place for _, place in optimizers),
            not names or _may_be_restored(walker, names),
            _prepared(walker, names),
            _written(value),
        )
    )


def note_scaler(walker: Expressions, framework: Instance, given: calls.Arguments, node: cst.CSTNode) -> None:
    """Notes of an ``Accelerator`` that was made that it may have a scaler: that it is told to use float16, or
    that an argument says what it is told."""
    if framework.library not in ACCELERATORS:
        return
    precision = given.keyword("mixed_precision")
    told = given.unclear if precision is None else not isinstance(precision, Constant)
    if told or precision == Constant("fp16"):
        walker.path.store(framework.identity, _SCALES, Preparer(walker.place(node)))


def preparer(walker: Expressions, framework: Value) -> Value:
    """What to note of an optimizer that a framework prepares."""
    note = walker.path.load(framework.identity, _SCALES) if isinstance(framework, Instance) else None
    return note if isinstance(note, Preparer) else Constant(True)


def _prepared(walker: Expressions, optimizers: tuple[Hashable, ...]) -> tuple[Place | None, ...]:
    """Where the frameworks were made whose scalers step these optimizers. Empty if somebody mentions such a
    scaler, or there is none."""
    notes = [walker.path.load(optimizer, "<prepared>") for optimizer in optimizers]
    if not any(isinstance(note, Preparer) for note in notes):
        return ()
    scope: Scope | None = walker.scope
    while scope is not None:
        if walker.engine.holds(scope.file.path, ACCELERATORS_SCALER):
            return ()
        scope = scope.reached_from or scope.outer
    return tuple(note.place if isinstance(note, Preparer) else None for note in notes)


def _written(value: Value, depth: int = 0) -> Place | None:
    """Where the dict is written that holds the state of an optimizer."""
    if not isinstance(value, Mapping) or value.place is not None or depth == 4:
        return value.place if isinstance(value, Mapping) else None
    inner = (_written(item, depth + 1) for _, item in value.items)
    return next((place for place in inner if place is not None), None)


def _collect(
    value: Value, optimizers: list[tuple[Hashable, Place | None]], scalers: list[Hashable], depth: int
) -> bool:
    """Looks for states in a checkpoint; whether none can hide in a part that is not known."""
    match value:
        case StateDict():
            if value.kind == "scaler":
                scalers.append(value.identity)
            elif value.kind != "module" and value.identity is not None:
                optimizers.append((value.identity, value.place))
            return True
        case Scaler():
            scalers.append(value.identity)
            return True
        case Optimizer():
            optimizers.append((scaling.identity_of(value), None))
            return True
        case Mapping() if depth < 4:
            named = [
                _collect(item, optimizers, scalers, depth + 1)
                or not (isinstance(key, str) and _NAMES_SCALER.search(key))
                for key, item in value.items
            ]
            spread = [_collect(item, optimizers, scalers, depth + 1) for item in value.rest]
            return all(named) and all(spread)
        case Sequence() if depth < 4:
            parts = list(value.items)
        case _:
            return not isinstance(value, (Unknown, Instance)) or value == UNKNOWN
    complete = [_collect(part, optimizers, scalers, depth + 1) for part in parts]
    return all(complete)


def _may_be_restored(walker: Expressions, optimizers: tuple[Hashable, ...]) -> bool:
    """Whether somebody may load the state of one of these optimizers: the code on the way here loads states, or
    loads none at all, so that whoever resumes is out of sight. Code that loads those of modules alone does not
    resume."""
    if any(walker.path.load(optimizer, scaling.RESTORED) is not None for optimizer in optimizers):
        return True
    found: set[str | None] = set()
    scope: Scope | None = walker.scope
    while scope is not None:
        found |= walker.engine.kinds_restored(scope.file)
        scope = scope.reached_from or scope.outer
    return found != {"module"}


def kinds_restored(file: ProjectFile) -> frozenset[str | None]:
    """What ``load_state_dict`` is called on in a file: see kinds.kind_of."""
    found: set[str | None] = set()
    parts: list[FunctionOutline] = [*file.outline.definitions()]
    if file.outline.module is not None:
        parts.append(file.outline.module)
    for part in parts:
        for name, uses in part.uses.items():
            if "load_state_dict" in uses:
                everywhere = part.owner.uses.get(name, set()) if part.owner is not None else set()
                found.add(kinds.kind_of(uses | everywhere))
    return frozenset(found)


# methods that save -----------------------------------------------------------------------------------------------


def walk_savers(walker: Walker, scope: Scope, ends: list[Path]) -> None:
    """Walks the methods of an object that save, after one that trains it with a scaler which outlives the call, or
    with that of a framework. Who calls them in turn is out of sight, or too far away."""
    receiver = scope.self_value
    engine = walker.engine
    if not isinstance(receiver, Instance) or receiver.made_of is None:
        return
    if not (_scalers_last(engine, ends) or (engine.trained_by_framework and not engine.stepped)):
        return
    told, active = walker.told, walker.active
    walker.told = _HEARD
    try:
        for function in _savers(engine, receiver):
            for end in ends[:MAX_ENDS]:
                walker.active = []
                _walk_saver(walker, receiver, function, end)
    finally:
        walker.told, walker.active, walker.scope = told, active, scope


def _scalers_last(engine: Engine, ends: list[Path]) -> bool:
    """Whether each scaler that stepped is there after the entry point: made before it, or kept by an object."""
    kept = {
        option.identity
        for end in ends
        for value in end.heap.values()
        for option in ([part for part, _ in value.options] if isinstance(value, Alternatives) else [value])
        if isinstance(option, Scaler)
    }
    return bool(engine.stepped) and engine.stepped & engine.scalers_made <= kept


def _savers(engine: Engine, receiver: Instance) -> list[FunctionValue]:
    """The methods that write what they, or methods that they call, ask others for by ``state_dict()``, as far
    as they were not walked on the way."""
    assert receiver.made_of is not None
    methods: dict[str, FunctionValue] = {}
    for base in engine.bases(receiver.made_of):
        if isinstance(base, ClassValue):
            for name, outline in base.outline.methods.items():
                methods.setdefault(name, engine.function_value(base.file, outline))
    taking = {f"self.{name}" for name, method in methods.items() if takes_state(method)}
    return [
        method
        for name, method in methods.items()
        if f"self.{name}" in taking or (_SAVES.search(_text(method)) and _calls_of(method) & taking)
        if name != "__init__" and id(method.outline) not in engine.entered
    ]


def takes_state(function: FunctionValue) -> bool:
    """Whether a function asks something for its state."""
    return _TAKES_STATE.search(_text(function)) is not None


def _text(method: FunctionValue) -> str:
    return method.file.text_of(method.outline) if method.outline is not None else ""


def _calls_of(method: FunctionValue) -> frozenset[str]:
    return method.outline.called if method.outline is not None else frozenset()


def _walk_saver(walker: Walker, receiver: Instance, function: FunctionValue, end: Path) -> None:
    engine = walker.engine
    assert function.outline is not None
    node, piece = engine.parsed(function.file, function.outline)
    if node is None:
        return
    chain = ("root", function.file.display, function.outline.qualified)
    scope = Scope(function.file, piece, function.outline, self_value=receiver, chain=chain)
    path = end.fork()
    path.regions = ()
    path.enter_scope({})
    walker.scope = scope
    given = calls.Arguments(unclear=True).after(receiver)
    try:
        with engine.budget.apart(MAX_STEPS):
            calls.bind_parameters(walker, path, node.params, given, scope)
            walker.run_suite(node.body, [walker.path])
    except OutOfBudget:
        return
