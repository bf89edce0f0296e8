"""Gradient scalers that frameworks make for themselves, if they are told to train in float16."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.events import AmpHidden, Framework, FrameworkScaled, FrameworkUnscaled, Place
from amplint.flow.core.api import Api, Arguments
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.values import Scaler
from amplint.flow.state.atoms import equals, is_true
from amplint.flow.state.conditions import Condition, choice, either
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    Constant,
    Instance,
    Note,
    Number,
    Unknown,
    Value,
)
from amplint.lowering.program import Node


@dataclass(frozen=True, slots=True)
class Precision(Note):
    """How an object of a framework is told to train. ``scales``: under which condition it has a gradient scaler;
    ``told``: an argument says so, not a setting out of sight; ``given`` is that argument."""

    place: Place
    scales: Condition
    told: bool = False
    given: Value | None = None
    framework: Framework | None = None


@dataclass(frozen=True, slots=True)
class Unscaled(Note):
    """A framework has divided the gradients, and nothing has applied them since, as far as is in sight."""


_GRADIENTS = symbol("gradients of frameworks")
"""What holds the note that a framework has unscaled gradients."""


def tell_precision(
    api: Api,
    identity: Symbol,
    arguments: Arguments,
    given: Value | None,
    scaled: frozenset[object],
    node: Node,
    framework: Framework | None = None,
) -> None:
    """Notes how an object is told to train. ``scaled`` are the values of the argument with which it scales
    losses; ``framework`` says how its optimizers divide the gradients, where they do that in ``step``."""
    if given == NONE:
        given = None
    scales: Condition
    match given:
        case Constant():
            scales = TRUE if given.value in scaled else FALSE
        case Unknown() | Number():
            scales = FALSE
            for value in sorted(scaled, key=repr):
                scales = either(scales, choice(equals(given.symbol, Constant(value)), TRUE, FALSE))
        case _:
            scales = choice(is_true(symbol("scales losses", identity)), TRUE, FALSE)
    told = arguments.unclear if given is None else True
    api.set_note(identity, Precision(api.place(node), scales, told, given, framework))


def precision_of(api: Api, framework: Value | None) -> Precision | None:
    """How an object of a framework is told to train, if that is known on this path."""
    return api.note(framework.identity, Precision) if isinstance(framework, Instance) else None


def scales(api: Api, framework: Value | None) -> bool | None:
    """Whether an object of a framework scales losses, or None."""
    found = precision_of(api, framework)
    return None if found is None else api.known_truth(found.scales)


def scaler_made(api: Api, framework: Value | None) -> Place | None:
    """Where an object was made that may have a scaler because an argument tells it to train in float16."""
    found = precision_of(api, framework)
    if found is None or not found.told or api.known_truth(found.scales) is False:
        return None
    return found.place


def scaler_of(api: Api, framework: Instance) -> Value:
    """``accelerator.scaler``: None if it does not train in float16."""
    found = precision_of(api, framework)
    identity = symbol("scaler of", framework.identity)
    if found is None:
        condition = choice(is_true(symbol("scales losses", framework.identity)), TRUE, FALSE)
        return _where(api, condition, Scaler(identity, True))
    return _where(api, found.scales, Scaler(identity, True, made=found.place))


def _where(api: Api, condition: Condition, scaler: Scaler) -> Value:
    return api.each(condition, lambda one: scaler if one == TRUE else NONE)


def told_of_scaling(api: Api, framework: Value, node: Node) -> None:
    """Tells that a framework has computed gradients of a loss that it may have scaled."""
    on = scales(api, framework)
    if on is not False:
        found = precision_of(api, framework)
        told = found.framework if found is not None and found.told else None
        api.emit(FrameworkScaled(api.place(node), regions(api), on is True, told))


def told_of_unscaling(api: Api, framework: Value, node: Node) -> None:
    """Tells that a framework divides the gradients of all optimizers that it has prepared, if it scales losses."""
    on = scales(api, framework)
    if on is not False:
        api.emit(FrameworkUnscaled(api.place(node), regions(api), on is True))
        api.set_note(_GRADIENTS, Unscaled())


def may_step(api: Api, node: Node) -> None:
    """Something out of sight is called: where a framework has unscaled gradients, it may be what applies them."""
    if api.notes(_GRADIENTS, Unscaled):
        api.drop_note(_GRADIENTS, Unscaled)
        api.emit(AmpHidden(api.place(node), regions(api)))
