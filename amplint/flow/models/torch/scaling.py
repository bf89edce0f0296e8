"""Gradient scalers: how they are made, and what their methods tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amplint.amp.scalers import SCALERS, TAKES_HALF_PARAMETERS, parameters_of
from amplint.amp.tokens import SCALES_LOSSES
from amplint.events import INITIAL_SCALE, ScalerMade, ScalerUsed
from amplint.flow.core.api import Api, Arguments, Dead
from amplint.flow.core.registry import BARE, Kind, MethodModel, Registry, Weight
from amplint.flow.models.torch import arguments as arguments_of
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.losses import UnitScale, scaled, scaled_by
from amplint.flow.models.torch.optimizers import casts, modules_of, sharded, stepped, takes_scale
from amplint.flow.models.torch.regions import may_be_left_out, switch_of
from amplint.flow.models.torch.values import SCALER, Scale, Scaler, StateDict
from amplint.flow.state.atoms import is_none
from amplint.flow.state.conditions import apply, asked, leaves, negation
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    NONE,
    TRUE,
    UNBOUND,
    AskedForNone,
    Choice,
    Constant,
    Instance,
    Note,
    Number,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

models.kinds += [
    Kind(SCALER, all_of=frozenset({"unscale_"})),
    Kind(SCALER, all_of=frozenset({"scale", "update"})),
    Kind(SCALER, all_of=frozenset({"scale", "step"})),
]

UNSCALES = "unscales gradients"
"""The tag of keys that divide gradients by the scale."""
_STAGES = "_per_optimizer_states"
"""torch's own record of what each optimizer has gone through since the last update."""
_GIVEN = ("given", "cut")
_ANYWAY = ("state_dict", "load_state_dict")
"""What is done with a scaler that is off, too."""
_OWNERS: tuple[type[Value] | str, ...] = (Scaler, SCALER, *sorted(SCALERS))
"""What has the methods of a scaler: known ones, unknown ones, objects of classes that derive from torch's."""


# making ----------------------------------------------------------------------------------------------------------


@models.call(*SCALERS, weight=Weight.ENTRY)
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.amp.GradScaler("cuda", enabled=flag)``."""
    enabled, switch = _switched(api, _flag(arguments))
    identity = api.fresh(node)
    arguments_of.tell(api, name, parameters_of(name), arguments, node)
    anew, once_in = api.is_built_each_round, api.runs_once_in
    api.emit(ScalerMade(api.place(node), regions(api), identity, enabled, anew, once_in))
    initial = _initial_scale(arguments, parameters_of(name))
    if initial == 1.0:
        api.set_note(identity, UnitScale())
    else:
        api.drop_note(identity, UnitScale)
    half = name in TAKES_HALF_PARAMETERS
    call = api.called_at
    made = api.place(node).reached_by((call,) if call is not None else ())
    return Scaler(identity, enabled, half, switch, made, initial, initial == 1.0)


def _flag(arguments: Arguments) -> Value:
    flag = arguments.keyword("enabled")
    return flag if flag is not None else TRUE


def _switched(api: Api, flag: Value) -> tuple[bool | None, Value | None]:
    """Whether a scaler is on, and the flag that decides it."""
    enabled = api.known_truth(flag)
    # the flag counts although this path knows it: it is why there is a scaler
    switched = enabled is None or (enabled and isinstance(flag, (Unknown, Number, Choice)))
    return enabled, flag if switched else None


@dataclass(frozen=True, slots=True)
class MadeWith(Note):
    """The flag that the constructor of torch was given for an object of a class that derives from its scaler."""

    flag: Value


@models.call(*(f"{name}.__init__" for name in sorted(SCALERS)), weight=Weight.EFFECT)
def _initialised(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``super().__init__(enabled=flag)`` in the constructor of a class that derives from torch's scaler."""
    hidden = arguments.unclear and arguments.keyword("enabled") is None
    if isinstance(arguments.receiver, Instance) and not hidden:
        api.set_note(arguments.receiver.identity, MadeWith(_flag(arguments)))
    return NONE


def _initial_scale(arguments: Arguments, parameters: tuple[str, ...]) -> float | None:
    if arguments.unclear or (arguments.positional and not parameters):
        return None
    value = arguments.by_name(parameters).get("init_scale")
    if value is None:
        return INITIAL_SCALE
    number = value.value if isinstance(value, Constant) else None
    return float(number) if isinstance(number, (int, float)) else None


@models.into(models.annotations, *SCALERS)
def _annotated(api: Api, own: Symbol) -> Value:
    """``scaler: torch.amp.GradScaler``."""
    return Unknown(own, SCALER)


def _noted_flag(note: Value) -> Value:
    return note.flag if isinstance(note, MadeWith) else UNBOUND


def as_scaler(api: Api, value: Value) -> Scaler:
    """A scaler, whatever is known of it."""
    if isinstance(value, Unknown):
        return Scaler(value.symbol)
    if isinstance(value, Instance):
        flag = apply(_noted_flag, api.noted(value.identity, MadeWith) or UNBOUND)
        enabled, switch = _switched(api, flag) if UNBOUND not in set(leaves(flag)) else (None, None)
        return Scaler(value.identity, enabled, takes_half=True, switch=switch, initial=None)
    assert isinstance(value, Scaler)
    return value


@dataclass(frozen=True, slots=True)
class TakenOn(Note):
    """The flag of a scaler was taken to be on, since nothing was known of it. ``decided``: a region that came before
    may have been left out, which that flag may have decided."""

    decided: bool


def _enabled(api: Api, scaler: Scaler, act: str) -> tuple[bool | None, bool]:
    """Whether a scaler that is used is on, and whether a condition on this path has asked for its flag. One that
    nothing is known of is taken to be on; this path is only one of those on which it is if the act needs that."""
    if act in _GIVEN:
        return scaler.enabled, False
    if scaler.switch is None:
        return scaler.enabled, False
    on = api.known_truth(scaler.switch)
    if on is None and act in _ANYWAY:
        return True, False
    if on is None:
        decided = may_be_left_out(api)
        api.assume(api.truth(scaler.switch))
        api.set_note(scaler.identity, TakenOn(decided))
        return True, decided
    return on, all(note.decided for note in api.notes(scaler.identity, TakenOn))


# what is told ----------------------------------------------------------------------------------------------------


def used(
    api: Api,
    scaler: Scaler,
    act: str,
    node: Node,
    *,
    optimizer: Value | None = None,
    loss: Value | None = None,
    new_scale: bool = False,
    closure: str = "",
) -> ScalerUsed:
    """Tells that a scaler is asked to do something."""
    plain = not scaler.takes_half
    enabled, decided = _enabled(api, scaler, act)
    event = ScalerUsed(
        api.place(node),
        regions(api),
        scaler.identity,
        act,
        casts=casts(api, optimizer)
        if plain and not (act == "step" and takes_scale(api, optimizer, node))
        else (),
        enabled=enabled,
        optimizer=identity_of(optimizer),
        modules=modules_of(api, optimizer),
        loss=identity_of(loss),
        scaled_by=scaled_by(loss)[0],
        new_scale=new_scale,
        made=scaler.made,
        switch=switch_of(scaler.switch),
        closure=closure,
        sharded=sharded(api, optimizer) if plain and act == "step" else None,
        initial=scaler.initial,
        decided=decided,
    )
    api.emit(event)
    return event


def _for_all(*names: str, tags: tuple[str, ...] = ()) -> Callable[[MethodModel], MethodModel]:
    """Registers what a method of everything that is a scaler does."""

    def register(model: MethodModel) -> MethodModel:
        for owner in _OWNERS:
            models.method(owner, *names, weight=Weight.EFFECT, tags=tags)(model)
        return model

    return register


@_for_all("scale", tags=(SCALES_LOSSES,))
def _scale(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``scaler.scale(loss)``."""
    scaler, loss = as_scaler(api, base), arguments.get(0, "outputs")
    _there_is(api, loss)
    event = used(api, scaler, name, node, loss=loss)
    if loss is None:
        loss = api.unknown(node)
    return loss if event.enabled is False else scaled(scaler.identity, loss)


@_for_all("unscale_", tags=(SCALES_LOSSES, UNSCALES))
def _unscale(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``scaler.unscale_(optimizer)``."""
    scaler, optimizer = as_scaler(api, base), arguments.get(0, "optimizer")
    if scaler.enabled is not False:
        _there_is(api, optimizer)
    used(api, scaler, name, node, optimizer=optimizer)
    return NONE


@_for_all("step")
def _step(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``scaler.step(optimizer)``."""
    scaler, optimizer, closure = as_scaler(api, base), arguments.get(0, "optimizer"), _closure(arguments)
    _there_is(api, optimizer)
    used(api, scaler, name, node, optimizer=optimizer, closure=closure)
    stepped(api, optimizer, node, scaler=scaler.identity, closure=bool(closure))
    return NONE


def _there_is(api: Api, value: Value | None) -> None:
    """``scaler.step(optimizer)`` raises where there is no optimizer, and ``scaler.scale(loss)`` where there is no
    loss."""
    if value == NONE:
        raise Dead
    if isinstance(value, Unknown):
        if any(api.notes(value.symbol, AskedForNone)):
            api.assume(negation(asked(is_none(value.symbol))))
        api.exists(value, apart=True)


def _closure(arguments: Arguments) -> str:
    """How a closure is given, "" if none is. What is handed on from out of sight, ``closure=None``, may be none. The
    optimizers of torch take one closure: a step that is given more, ``scaler.step(optimizer, loss, constraint)``, is
    of another kind."""
    if len(arguments.positional) == 2 and not _may_be_none(arguments.positional[1]):
        return "positional"
    given = arguments.keyword("closure")
    return "keyword" if given is not None and not _may_be_none(given) else ""


def _may_be_none(value: Value) -> bool:
    return value == NONE or isinstance(value, Unknown)


@_for_all("update", tags=(BARE,))
def _update(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``scaler.update()``."""
    scaler = as_scaler(api, base)
    used(api, scaler, name, node, new_scale=arguments.get(0, "new_scale") not in (None, NONE))
    api.drop_note(scaler.identity, UnitScale)
    return NONE


@_for_all("get_scale", tags=(SCALES_LOSSES,))
def _get_scale(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``scaler.get_scale()``."""
    scaler = as_scaler(api, base)
    used(api, scaler, name, node)
    return Scale(scaler.identity)


@_for_all("state_dict")
def _state_dict(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    scaler = as_scaler(api, base)
    used(api, scaler, name, node)
    return StateDict(SCALER, scaler.identity, api.place(node))


@_for_all("load_state_dict")
def _load_state_dict(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    scaler = as_scaler(api, base)
    used(api, scaler, name, node)
    api.drop_note(scaler.identity, UnitScale)
    return NONE


@_for_all("is_enabled")
def _is_enabled(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``scaler.is_enabled()``: the flag that it was made with."""
    scaler = as_scaler(api, base)
    if scaler.switch is not None:
        return api.truth(scaler.switch)
    if scaler.enabled is not None:
        return Constant(scaler.enabled)
    return Unknown(symbol("enabled", scaler.identity))


@models.method(Scaler)
def _other(api: Api, scaler: Scaler, name: str, arguments: Arguments, node: Node) -> Value:
    """Methods that are told nothing of, such as ``get_growth_factor``."""
    return api.unknown(node)


@models.into(models.attributes, *_OWNERS)
def _attribute(api: Api, base: Value, name: str, node: Node) -> Value | None:
    """The code asks a scaler itself for its scale, or in which stages its optimizers are."""
    if name == _STAGES:
        used(api, as_scaler(api, base), "stages", node)
        return api.unknown(node)
    if name == "_scale":
        used(api, as_scaler(api, base), "get_scale", node)
        return Scale(as_scaler(api, base).identity)
    return None


@models.into(models.havocs, *_OWNERS)
def _given(api: Api, base: Value, node: Node) -> None:
    """A scaler is given to code that is not followed."""
    used(api, as_scaler(api, base), "cut" if api.is_cut else "given", node)
