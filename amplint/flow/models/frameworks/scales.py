"""Gradient scalers that frameworks make for themselves, if they are told to train in float16."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from amplint.events import AmpHidden, DType, Framework, FrameworkScaled, FrameworkUnscaled, Place
from amplint.flow.core.api import Api, Arguments
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.notes import Prepared
from amplint.flow.models.torch.regions import framework_region
from amplint.flow.models.torch.values import Autocast, Scaler
from amplint.flow.state.atoms import equals, is_true
from amplint.flow.state.conditions import Condition, apply, choice, either, leaves
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
    """How an object of a framework is told to train, if that is known on this path. Where settings choose between
    several ways, ``mixed_precision="fp16" if flag else "no"``, so do its conditions."""
    noted = api.noted(framework.identity, Precision) if isinstance(framework, Instance) else None
    ways = [leaf for leaf in leaves(noted) if isinstance(leaf, Precision)] if noted is not None else []
    if noted is None or len(ways) != len(leaves(noted)):
        return None
    return replace(
        ways[0],
        scales=apply(_scales, noted),
        told=any(way.told for way in ways),
        given=apply(_given, noted) if any(way.given is not None for way in ways) else None,
    )


def _scales(way: Value) -> Value:
    assert isinstance(way, Precision)
    return way.scales


def _given(way: Value) -> Value:
    assert isinstance(way, Precision)
    return way.given if way.given is not None else NONE


def scales(api: Api, framework: Value | None) -> bool | None:
    """Whether an object of a framework scales losses, or None."""
    found = precision_of(api, framework)
    return None if found is None else api.known_truth(found.scales)


def called_here(api: Api, framework: Instance, name: Framework) -> None:
    """Notes what the code calls the precision that an object of a framework is told, if not by the framework's name."""
    found = precision_of(api, framework)
    if found is not None:
        api.set_note(framework.identity, replace(found, framework=name))


def chosen(api: Api, framework: Value | None, among: Iterable[object]) -> object | None:
    """The value of the argument that tells an object in which precision to train, if it is known on this path;
    ``among`` are those that it may be asked for."""
    found = precision_of(api, framework)
    match found.given if found is not None else None:
        case Constant() as given:
            return given.value
        case Unknown() | Number() as given:
            asked = ((value, choice(equals(given.symbol, Constant(value)), TRUE, FALSE)) for value in among)
            return next((value for value, condition in asked if api.known_truth(condition)), None)
    return None


def region_by(
    api: Api, framework: Value | None, types: Mapping[object, DType], off: tuple[object, ...], node: Node
) -> Autocast | None:
    """What an object of a framework opens, by the argument that tells it in which precision to train: ``types`` are
    those of its regions, ``off`` what it opens none for. Where the argument is not known, settings decide."""
    name = chosen(api, framework, (*types, *off))
    if name in off:
        return None
    dtype = types.get(name)
    context = framework_region(api, node, None if dtype is None else True)
    return replace(context, dtype=dtype, framework=dtype is None)


def prepared(api: Api, framework: Value, context: Autocast | None) -> Prepared:
    """The note of a module or optimizer that an object of a framework takes over. ``context`` is what the forward of a
    module runs in, if that is known."""
    known = context is not None and context.enabled is not None
    context = replace(context, decorates=True) if context is not None and known else None
    found = precision_of(api, framework)
    if found is None or found.given is None:
        name = found.framework if found is not None else None
        return Prepared(scaler_made(api, framework), True, context, framework=name)
    return Prepared(scaler_made(api, framework), True, context, found.scales, found.framework)


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
    found, on = precision_of(api, framework), scales(api, framework)
    told = found.framework if found is not None and found.told else None
    scaled = FrameworkScaled(api.place(node), regions(api), on is True, told)
    _where_it_scales(api, found, lambda: api.emit(scaled))


def _where_it_scales(api: Api, found: Precision | None, happens: Callable[[], None]) -> None:
    """Does it on the paths on which a framework scales losses, as far as they are known."""

    def on_a_path(one: Value) -> Value:
        if one == TRUE:
            happens()
        return NONE

    api.each(TRUE if found is None else found.scales, on_a_path)


def told_of_unscaling(api: Api, framework: Value, node: Node, name: Framework) -> None:
    """Tells that a framework divides the gradients of all optimizers that it has prepared, if it scales losses."""
    found, on = precision_of(api, framework), scales(api, framework)
    if on is not False:
        told = found is not None and found.told
        divided = FrameworkUnscaled(api.place(node), regions(api), name, on is True, told)
        _where_it_scales(api, found, lambda: api.emit(divided))
        api.set_note(_GRADIENTS, Unscaled())


def may_step(api: Api, node: Node) -> None:
    """Something out of sight is called: where a framework has unscaled gradients, it may be what applies them."""
    if api.notes(_GRADIENTS, Unscaled):
        api.drop_note(_GRADIENTS, Unscaled)
        api.emit(AmpHidden(api.place(node), regions(api)))
