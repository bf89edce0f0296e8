"""Checkpoints: what ``torch.save`` writes, however the object that it is given was put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from amplint.events import Place, StateSaved
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.notes import Prepared
from amplint.flow.models.torch.values import MODULE, OPTIMIZER, SCALER, Optimizer, Scaler, StateDict
from amplint.flow.state.conditions import apply, leaves
from amplint.flow.state.symbols import COMPUTED, LOST, LOST_OBJECT, Symbol
from amplint.flow.state.values import (
    NONE,
    UNBOUND,
    Choice,
    Instance,
    Mapping,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

SAVES = {
    "torch.save": "obj",
    "torch_xla.core.xla_model.save": "data",
    "torch.distributed.checkpoint.save": "state_dict",
    "torch.distributed.checkpoint.save_state_dict": "state_dict",
}
"""Functions that write their first argument, with its name."""
OBJECT = "object"
"""The kind of the state of an object that nothing is known of."""
_DEEPEST = 8
_OF_NUMBERS = frozenset({"-", "*", "/", "//", "%", "**"})
"""Operators that no dict has."""
_MOST_CHOICES = 4
"""So many alternatives of parts are told apart."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of what is saved. ``named``: it stands under a key, a position or the name of an attribute; ``key`` is the
    key of a dict, if that is a text. ``last``: all others were looked at before. ``apart``: it is one of a collection
    that stands under a key itself and holds no state that is known: ``"results": {**read(path)}``."""

    value: Value
    named: bool = True
    depth: int = 0
    key: str | None = None
    last: bool = False
    apart: bool = False

    def inner(
        self, value: Value, *, named: bool, key: object = None, beside: tuple[Value, ...] = ()
    ) -> _Part:
        """``beside``: what stands in the same collection and is known."""
        states = any(isinstance(leaf, StateDict) for one in beside for leaf in leaves(one))
        apart = not named and not states and (self.apart or (self.depth > 0 and self.named))
        return _Part(value, named, self.depth + 1, key if isinstance(key, str) else None, apart=apart)


@dataclass(frozen=True, slots=True)
class _Found:
    """The states that were found so far; ``complete``: none of a scaler can hide in a part that is not known, but for
    the ``hidden`` ones."""

    optimizers: tuple[tuple[Symbol, Place | None], ...] = ()
    scalers: tuple[tuple[Symbol, str | None], ...] = ()
    complete: bool = True
    hidden: tuple[Symbol, ...] = ()
    optimizer_keys: tuple[tuple[str, str | None], ...] = ()
    """The keys of optimizers and of objects that may be some, each behind the kind of what it was."""
    choices: int = 0
    seen: frozenset[Symbol] = frozenset()


# states ----------------------------------------------------------------------------------------------------------


@models.method(MODULE, "state_dict", weight=Weight.EFFECT)
@models.method("torch.nn.", "state_dict", weight=Weight.EFFECT)
def _of_module(api: Api, module: Value, name: str, arguments: Arguments, node: Node) -> Value:
    return StateDict(MODULE, identity_of(module), api.place(node))


@models.method("", "state_dict", weight=Weight.EFFECT)
def _of_object(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value | None:
    """The state of an object from out of sight: it may be an optimizer."""
    return None if arguments.positional else StateDict(OBJECT, identity_of(base), api.place(node))


# saving ----------------------------------------------------------------------------------------------------------


@models.call(*SAVES, weight=Weight.EFFECT)
def _save(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    value = arguments.get(0, SAVES[name])
    if value is not None:
        saved(api, value, node)
    return NONE


def saved(api: Api, value: Value, node: Node, place: Place | None = None) -> None:
    """Tells what is written to a checkpoint, on a path of its own for each alternative of what is in it. ``place``:
    where a handler was made that writes it here."""

    def tell(found: _Found) -> None:
        names = tuple(optimizer for optimizer, _ in found.optimizers)
        api.emit(
            StateSaved(
                place or api.place(node),
                regions(api),
                names,
                tuple(scaler for scaler, _ in found.scalers),
                found.complete,
                tuple(place for _, place in found.optimizers),
                prepared=_prepared(api, names),
                written=_written(api, value),
                keys=tuple(key for _, key in found.scalers),
                optimizer_keys=_optimizer_keys(found),
                hidden=found.hidden,
            )
        )

    _collect(api, (_Part(value),), _Found(), tell)


def _prepared(api: Api, optimizers: tuple[Symbol, ...]) -> tuple[Place | None, ...]:
    """For each optimizer, where the framework was made whose scaler steps it, and can be saved; empty if there is
    none."""

    def place_of(note: Prepared) -> Place | None:
        return note.place if note.framework is not None and note.framework.gives_scaler else None

    places = tuple(
        next(filter(None, map(place_of, api.notes(optimizer, Prepared))), None) for optimizer in optimizers
    )
    return places if any(place is not None for place in places) else ()


def _written(api: Api, value: Value, depth: int = 0) -> Place | None:
    """Where the dict is written that is saved, or the first one in it."""
    if depth == _DEEPEST:
        return None
    for leaf in leaves(value):
        held = api.contents(leaf)
        if not isinstance(held, Mapping):
            continue
        if held.place is not None:
            return held.place
        inner = (_written(api, item, depth + 1) for _, item in held.items)
        found = next((place for place in inner if place is not None), None)
        if found is not None:
            return found
    return None


# looking into what is saved --------------------------------------------------------------------------------------


def _collect(api: Api, pending: tuple[_Part, ...], found: _Found, tell: Callable[[_Found], None]) -> None:
    """Looks for states in parts of a checkpoint, and tells what there is: several times if a condition chose a part.
    Where there are many such parts, those of which nothing is known come last, and are no optimizers."""
    may_hold = partial(_may_hold, api)
    while pending:
        part, pending = pending[0], pending[1:]
        many = found.choices == _MOST_CHOICES
        if not isinstance(part.value, Choice):
            found, more = _look_into(api, part, found)
            pending = (*more, *pending)
        elif not any(map(may_hold, leaves(part.value))) or (many and part.last):
            for leaf in leaves(part.value):
                found = _beside_unknown(found, leaf, part)
        elif part.named and not part.last and all(map(_is_of_object, filter(may_hold, leaves(part.value)))):
            pending = (*pending, replace(part, last=True))
        elif not part.named:
            # one of several that are there, like as not: under other keys of a dict, as other items of a list
            pending = (*(replace(part, value=leaf) for leaf in leaves(part.value)), *pending)
        elif many:
            found = replace(found, complete=False)
            pending = (*(replace(part, value=leaf) for leaf in leaves(part.value)), *pending)
        else:
            found = replace(found, choices=found.choices + 1)
            _collect_each(api, part, pending, found, tell)
            return
    tell(found)


def _collect_each(
    api: Api, part: _Part, pending: tuple[_Part, ...], found: _Found, tell: Callable[[_Found], None]
) -> None:
    """Goes on for each alternative of a part. A key that is not there on some path holds nothing."""

    def go_on(value: Value) -> Value:
        _collect(api, (replace(part, value=value), *pending), found, tell)
        return NONE

    api.each(apply(lambda leaf: NONE if leaf == UNBOUND else leaf, part.value), go_on)


def _may_hold(api: Api, value: Value) -> bool:
    """Whether a value holds states that are known, or collections or objects that may."""
    if isinstance(value, StateDict):
        return value.kind in (OPTIMIZER, SCALER, OBJECT)
    return isinstance(value, (Scaler, Optimizer, Mapping, Sequence, Instance))


def _is_of_object(value: Value) -> bool:
    """Whether a value is the state of an object of which nothing is known."""
    return isinstance(value, StateDict) and value.kind == OBJECT


def _beside_unknown(found: _Found, value: Value, part: _Part) -> _Found:
    """The same with a value that may not be known. The state of a scaler may hide in one under keys that are not known
    either, and in one that got lost among too many alternatives."""
    match value:
        case Unknown() if _is_lost(value.symbol):
            return replace(found, complete=False)
        case Unknown() if not part.named and not part.apart and not _is_number(value.symbol):
            return replace(found, hidden=(*found.hidden, value.symbol))
        case StateDict(kind="object", identity=identity):
            hides = not part.named or identity is None or _is_lost(identity)
            return replace(found, complete=found.complete and not hides)
    return found


def _is_number(name: Symbol) -> bool:
    """Whether a value is what an operator gives that merges nothing: ``total / count``."""
    return name.parts[0] == COMPUTED and name.parts[1] in _OF_NUMBERS


def _is_lost(name: Symbol) -> bool:
    """Whether a value, or what it was read from, got lost, or is an attribute whose name is not known."""
    first = name.parts[0] if name.parts else None
    computed = first == "attribute" and not isinstance(name.parts[2], str)
    inside = name.parts[1:2] if first in ("attribute", "item", "call", "part") else ()
    return (
        first in (LOST, LOST_OBJECT)
        or computed
        or any(isinstance(part, Symbol) and _is_lost(part) for part in inside)
    )


def _look_into(api: Api, part: _Part, found: _Found) -> tuple[_Found, tuple[_Part, ...]]:
    """What a part adds to what was found, and its own parts."""
    value = api.contents(part.value)
    match value:
        case Scaler():
            return replace(found, scalers=(*found.scalers, (value.identity, None))), ()
        case StateDict(kind="scaler", identity=Symbol() as identity):
            return replace(found, scalers=(*found.scalers, (identity, part.key))), ()
        case Optimizer():
            identity_ = identity_of(value)
            return (
                found if identity_ is None else _with_optimizer(found, identity_, None, (OPTIMIZER, part.key))
            ), ()
        case StateDict(kind="optimizer" | "object", identity=Symbol() as identity):
            found = _with_optimizer(found, identity, value.place, (value.kind, part.key))
        case Sequence(items=()):
            return found, ()
        case Mapping() | Sequence() | Instance() if part.depth == _DEEPEST:
            return replace(found, complete=False), ()
        case Mapping():
            named = tuple(part.inner(item, named=True, key=key) for key, item in value.items)
            beside = tuple(item for _, item in value.items)
            return found, (*named, *(part.inner(item, named=False, beside=beside) for item in value.rest))
        case Sequence():
            exact, items = value.exact, value.items
            return found, tuple(part.inner(item, named=exact, beside=items) for item in items)
        case Instance() if value.identity not in found.seen:
            found = replace(found, seen=found.seen | {value.identity})
            held = api.attributes_of(value).values()
            return found, tuple(part.inner(item, named=True) for item in held)
    return _beside_unknown(found, value, part), ()


def _with_optimizer(
    found: _Found, optimizer: Symbol, taken: Place | None, key: tuple[str, str | None]
) -> _Found:
    keys = (*found.optimizer_keys, key)
    return replace(found, optimizers=(*found.optimizers, (optimizer, taken)), optimizer_keys=keys)


def _optimizer_keys(found: _Found) -> tuple[str | None, ...]:
    """The keys of optimizers. Beside one that is known to be one nothing else is taken for one."""
    known = tuple(key for kind, key in found.optimizer_keys if kind == OPTIMIZER)
    return known or tuple(key for _, key in found.optimizer_keys)
