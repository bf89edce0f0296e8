"""What methods of frameworks do: roles, which are played through the models of torch.

A framework is a table of names and roles: ``{"autocast": roles.REGION, "backward": roles.BACKWARD}``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from amplint.amp.tokens import SCALES_LOSSES
from amplint.events import AmpHidden
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks.scales import told_of_scaling
from amplint.flow.models.torch import checkpoints, losses
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.regions import framework_region
from amplint.flow.models.torch.values import OPTIMIZER, Optimizer, Scaler, Scheduler
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    NONE,
    BoundMethod,
    ContextManager,
    External,
    Instance,
    Note,
    Sequence,
    Unknown,
    Value,
)
from amplint.flow.state.values import Mapping as Dict
from amplint.lowering.program import Node

Play = Callable[[Api, Value, Arguments, Node], Value]
"""``play(api, framework, arguments, node)``: what a method of a framework's object gives."""
Action = Callable[[Value], Value]
"""What is done with each alternative of a value."""
Tell = Callable[[Api, Symbol, Arguments, Node], None]
"""``tell(api, identity, arguments, node)``: what the arguments of a constructor say of an object."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a method does, and what meeting it means for a definition."""

    play: Play
    weight: Weight = Weight.EFFECT
    tags: frozenset[str] = frozenset()


# registering -----------------------------------------------------------------------------------------------------


def give(models: Registry, owners: Iterable[str], roles: Mapping[str, Role]) -> None:
    """Registers what methods of classes of a framework do. ``owners`` are qualified names."""
    for owner in owners:
        for name, role in roles.items():
            models.call(f"{owner}.{name}", weight=role.weight, tags=role.tags)(partial(_called, role.play))


def give_kind(models: Registry, kind: str, roles: Mapping[str, Role]) -> None:
    """Registers what methods of a kind of unknown objects do. A name alone is no sign of AMP: regions apart, what
    matters is told by the kind."""
    for name, role in roles.items():
        models.method(kind, name, weight=role.weight, tags=role.tags)(partial(_called_on, role.play))


def give_constructor(
    models: Registry, owners: Iterable[str], tell: Tell | None = None, *, weight: Weight = Weight.ENTRY
) -> None:
    """Registers how objects of classes of a framework are made, by calling the class or through ``super()``, and
    that parameters may be annotated with them."""
    tags = (SCALES_LOSSES,) if weight is Weight.ENTRY else ()
    for owner in owners:
        models.call(owner, weight=weight, tags=tags)(partial(_made, tell))
        models.call(f"{owner}.__init__", weight=weight, tags=tags)(partial(_initialised, tell))
        models.annotations[owner] = partial(_annotated, owner)


def _called(play: Play, api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    framework = arguments.receiver
    if framework is None:
        # called as a function of the class
        return api.unknown(node)
    return play(api, framework, arguments, node)


def _called_on(play: Play, api: Api, framework: Value, name: str, arguments: Arguments, node: Node) -> Value:
    return play(api, framework, arguments, node)


def _made(tell: Tell | None, api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    made = Instance(api.fresh(node), None, name)
    if tell is not None:
        tell(api, made.identity, arguments, node)
    return made


def _initialised(tell: Tell | None, api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if tell is not None and isinstance(arguments.receiver, Instance):
        tell(api, arguments.receiver.identity, arguments, node)
    return NONE


def _annotated(owner: str, api: Api, own: Symbol) -> Value:
    return Instance(own, None, owner)


# what roles do ---------------------------------------------------------------------------------------------------


def first(arguments: Arguments) -> Value | None:
    """The first argument, however it is given."""
    return next(iter(arguments.all), None)


def method(api: Api, value: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``value.name(arguments)`` for a value whose methods models know, or the project defines."""
    known = isinstance(value, Unknown) and api.load(value.symbol, name) is not None
    if isinstance(value, Instance) or known:
        return api.call(api.attribute(value, name, node), arguments, node)
    return api.call(BoundMethod(value, name), arguments, node)


def given(*values: Value, node: Node) -> Arguments:
    """Positional arguments that a framework gives to a function."""
    return Arguments(values, (), (node,) * len(values))


def given_to(api: Api, owner: Value, name: str, *values: Value, node: Node) -> Arguments:
    """What a framework gives to a method that the project may define: these values, and something unknown for each
    further parameter without a default, which releases differ in."""
    own = (
        api.find_method(owner.made_of, name)
        if isinstance(owner, Instance) and owner.made_of is not None
        else None
    )
    program = api.program_of(own) if own is not None else None
    asked = program.parameters[1 + len(values) :] if program is not None else ()
    more = (part for part in asked if part.kind in ("normal", "positional") and part.default is None)
    return given(*values, *(api.unknown(node) for _ in more), node=node)


def region(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``fabric.autocast()``: a region that the framework configures."""
    return framework_region(api, node)


def null(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.accumulate(model)``: a context that leaves autocast alone."""
    return ContextManager("null", api.fresh(node))


def backward(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.backward(loss)``: it may scale the loss first."""
    loss = arguments.get(0, "loss")
    losses.backward(api, loss if loss is not None else first(arguments), node, ".backward()", unclear=True)
    told_of_scaling(api, framework, node)
    return NONE


def loaded(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``scaler.load_state_dict(state)`` of an object whose state is no torch optimizer's or scaler's."""
    return NONE


def same(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.unwrap_model(model)``: the first argument."""
    return first(arguments) or api.unknown(node)


def save(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.save(states, path)``: it writes its first argument as torch.save does."""
    value = first(arguments)
    if value is not None:
        checkpoints.saved(api, value, node)
    return NONE


def hidden(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``fabric.clip_gradients(model, optimizer)``: it may do anything to gradients, and does it rightly."""
    api.emit(AmpHidden(api.place(node), regions(api)))
    return api.unknown(node)


REGION = Role(region, Weight.ENTRY, frozenset({"opens a region"}))
NULL = Role(null, Weight.NOTHING)
BACKWARD = Role(backward, tags=frozenset({SCALES_LOSSES}))
LOADED = Role(loaded)
SAME = Role(same, Weight.NOTHING)
SAVE = Role(save)
HIDDEN = Role(hidden)


# objects that a framework takes over -----------------------------------------------------------------------------


def prepare_all(api: Api, arguments: Arguments, note: Note, node: Node) -> None:
    """Notes it of all arguments. Where not all are in sight, any optimizer may be among them."""
    if arguments.unclear:
        api.emit(AmpHidden(api.place(node), regions(api)))
    for value in arguments.all:
        prepare(api, value, note)


def prepare(api: Api, value: Value, note: Note) -> None:
    """Notes of a module or optimizer that a framework owns it from now on."""
    match value:
        case Sequence():
            for item in value.items:
                api.each_item(item, partial(_prepared, api, note))
        case Dict():
            for _, item in value.items:
                api.each_item(item, partial(_prepared, api, note))
        case _:
            identity = owner_of(api, value)
            if identity is not None:
                api.set_note(identity, note)


def _prepared(api: Api, note: Note, value: Value) -> Value:
    prepare(api, value, note)
    return NONE


def held_by(api: Api, framework: Value, name: str) -> Value | None:
    """What an object of a framework was given under a name. May be a Choice."""
    identity = owner_of(api, framework)
    return api.load(identity, name) if identity is not None else None


def owner_of(api: Api, value: Value) -> Symbol | None:
    """Under which symbol notes of a value are kept."""
    found = getattr(value, "identity", None)
    return found if isinstance(found, Symbol) else api.identity_of(value)


def handed_back(arguments: Arguments) -> Value:
    """What a method gives that gives its arguments back: one, or all of them in a tuple."""
    values = arguments.all
    if len(values) == 1 and not arguments.unclear:
        return values[0]
    return Sequence(values, not arguments.unclear, len(arguments.positional) if arguments.unclear else 0)


def optimizer_of(api: Api, arguments: Arguments, node: Node) -> Value:
    """An optimizer of the parameters that are among the arguments."""
    return api.call(External("torch.optim.Optimizer"), arguments, node)


def optimizers_of(framework: Value) -> Value:
    """The optimizers of a framework of which no more is in sight: ``module.optimizers()``."""
    assert isinstance(framework, (Instance, Unknown))
    name = framework.identity if isinstance(framework, Instance) else framework.symbol
    return Unknown(symbol("optimizers of", name), OPTIMIZER)


# states ----------------------------------------------------------------------------------------------------------


def states_of(api: Api, objects: Value | None, node: Node) -> Value:
    """``{"model": model, "optimizer": optimizer}`` with the state of each object in its place, as frameworks write
    such dicts."""
    if objects is None:
        return api.unknown(node)
    return api.each_item(api.contents(objects), partial(_state_of, api, node))


def _state_of(api: Api, node: Node, value: Value) -> Value:
    match value:
        case Dict():
            items = tuple((key, states_of(api, item, node)) for key, item in value.items)
            rest = tuple(states_of(api, item, node) for item in value.rest)
            return Dict(items, rest, place=value.place)
        case Sequence():
            return Sequence(tuple(states_of(api, item, node) for item in value.items), value.exact)
        case Instance() | Unknown() | Optimizer() | Scaler() | Scheduler():
            return method(api, value, "state_dict", Arguments(), node)
    return value


def restored(api: Api, objects: Value | None, node: Node) -> None:
    """Calls ``load_state_dict`` of all objects in a dict."""
    if objects is None:
        return

    def restore(value: Value) -> Value:
        match value:
            case Dict():
                for _, item in value.items:
                    restored(api, item, node)
            case Instance() | Optimizer() | Scaler():
                method(api, value, "load_state_dict", given(api.unknown(node), node=node), node)
        return NONE

    api.each_item(api.contents(objects), restore)
