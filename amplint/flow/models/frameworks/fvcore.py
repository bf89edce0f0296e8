"""fvcore and detectron2: checkpointers that write the states of what they are given, and trainers.

Source: ``fvcore/common/checkpoint.py`` of fvcore 0.1.5, ``detectron2/checkpoint/detection_checkpoint.py`` and
``detectron2/engine/train_loop.py`` of detectron2 0.6. ``Checkpointer(model, folder, optimizer=optimizer)`` writes the
module and the named objects; ``AMPTrainer`` has a torch.cuda.amp.GradScaler, which is in its own state alone.
"""

from __future__ import annotations

from dataclasses import replace

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles, training
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.frameworks.training import ROUNDS, Step
from amplint.flow.models.torch import checkpoints
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import NONE, Constant, Mapping, Number, Sequence, Value
from amplint.lowering.program import Node

models = Registry()

CHECKPOINTERS = (
    "fvcore.common.checkpoint.Checkpointer",
    "detectron2.checkpoint.DetectionCheckpointer",
    "detectron2.checkpoint.detection_checkpoint.DetectionCheckpointer",
    "detectron2.checkpoint.Checkpointer",
)
PERIODIC = (
    "fvcore.common.checkpoint.PeriodicCheckpointer",
    "detectron2.checkpoint.PeriodicCheckpointer",
    "detectron2.engine.hooks.PeriodicCheckpointer",
)
SIMPLE = ("detectron2.engine.SimpleTrainer", "detectron2.engine.train_loop.SimpleTrainer")
AMP = ("detectron2.engine.AMPTrainer", "detectron2.engine.train_loop.AMPTrainer")
_NO_OBJECTS = frozenset({"model", "save_dir", "save_to_disk"})
"""Keywords of a checkpointer that name nothing which it saves, but the module."""
_SAVED = "checkpointables"


# checkpointers ---------------------------------------------------------------------------------------------------


def _tell(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Checkpointer(model, folder, optimizer=optimizer, scheduler=scheduler)``."""
    model = arguments.get(0, "model")
    items = [("model", model)] if model is not None else []
    items += [(key, value) for key, value in arguments.keywords if key not in _NO_OBJECTS]
    rest = (api.unknown(node),) if arguments.unclear else ()
    if model is not None:
        api.store(identity, "model", model)
    api.store(identity, _SAVED, Mapping(tuple(items), rest, place=api.place(node)))


def _add(api: Api, checkpointer: Value, arguments: Arguments, node: Node) -> Value:
    """``checkpointer.add_checkpointable("scaler", scaler)``."""
    identity = roles.owner_of(api, checkpointer)
    held = roles.held_by(api, checkpointer, _SAVED)
    key, value = arguments.get(0, "key"), arguments.get(1, "checkpointable")
    if identity is None or not isinstance(held, Mapping) or value is None:
        return NONE
    if isinstance(key, Constant):
        api.store(identity, _SAVED, replace(held, items=(*held.items, (key.value, value))))
    else:
        api.store(identity, _SAVED, replace(held, rest=(*held.rest, value)))
    return NONE


def _save(api: Api, checkpointer: Value, arguments: Arguments, node: Node) -> Value:
    """``checkpointer.save("last", iteration=7)``: further data is written as it is."""
    held = roles.held_by(api, checkpointer, _SAVED)
    states = roles.states_of(api, held, node)
    further = tuple(item for item in arguments.keywords if item[0] not in ("name", "iteration"))
    if further:
        states = Sequence((states, Mapping(further)))
    checkpoints.saved(api, states, node)
    return NONE


def _load(api: Api, checkpointer: Value, arguments: Arguments, node: Node) -> Value:
    """``checkpointer.resume_or_load(path)`` gives further data."""
    roles.restored(api, roles.held_by(api, checkpointer, _SAVED), node)
    return api.unknown(node)


roles.give_constructor(models, CHECKPOINTERS, _tell, weight=Weight.EFFECT)
roles.give(
    models,
    CHECKPOINTERS,
    {
        "add_checkpointable": Role(_add),
        "save": Role(_save),
        "load": Role(_load),
        "resume_or_load": Role(_load),
    },
)


def _tell_periodic(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``PeriodicCheckpointer(checkpointer, period=1000)``."""
    checkpointer = arguments.get(0, "checkpointer")
    if checkpointer is not None:
        api.store(identity, "checkpointer", checkpointer)


def _save_now(api: Api, periodic: Value, arguments: Arguments, node: Node) -> Value:
    """``periodic.step(iteration)``."""
    held = roles.held_by(api, periodic, "checkpointer")
    if held is not None:
        given = replace(arguments, positional=(), nodes=())
        api.each(held, lambda one: roles.method(api, one, "save", given, node))
    return NONE


roles.give_constructor(models, PERIODIC, _tell_periodic, weight=Weight.EFFECT)
roles.give(models, PERIODIC, dict.fromkeys(("step", "save", "after_step"), Role(_save_now)))


# trainers --------------------------------------------------------------------------------------------------------


def _tell_trainer(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``SimpleTrainer(model, loader, optimizer)``."""
    named = arguments.by_name(("model", "data_loader", "optimizer"))
    for name in ("model", "optimizer"):
        value = named.get(name)
        if value is not None:
            api.store(identity, name, value)


def _tell_amp_trainer(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``AMPTrainer(model, loader, optimizer, grad_scaler=None)`` makes a scaler if it is given none."""
    _tell_trainer(api, identity, arguments, node)
    fourth = arguments.positional[3] if len(arguments.positional) > 3 else NONE
    # in its place stands how often metrics are gathered, since 0.6
    scaler = arguments.keyword("grad_scaler") or (NONE if isinstance(fourth, (Constant, Number)) else fourth)
    if scaler == NONE:
        scaler = training.make_scaler(api, node)
    api.store(identity, "grad_scaler", scaler)


def _step(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``trainer.run_step()``: the model gives the losses."""
    model, optimizer = (roles.held_by(api, trainer, name) for name in ("model", "optimizer"))
    scaler = roles.held_by(api, trainer, "grad_scaler")
    if model is not None and optimizer is not None:
        training.run(api, Step(model, optimizer, None, scaler, scaler is not None), node)
    return NONE


def _register(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``trainer.register_hooks([hooks.PeriodicCheckpointer(checkpointer, 1000)])``."""
    identity, hooks = roles.owner_of(api, trainer), arguments.get(0, "hooks")
    if identity is not None and hooks is not None:
        api.store(identity, "hooks", api.contents(hooks))
    return NONE


def _train(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``trainer.train(0, 1000)``: some steps, then the hooks."""
    nothing = Arguments()
    for _ in range(ROUNDS):
        roles.method(api, trainer, "run_step", nothing, node)
    held = roles.held_by(api, trainer, "hooks")
    for hook in held.items if isinstance(held, Sequence) else ():
        api.each(hook, lambda one: roles.method(api, one, "after_step", nothing, node))
    return NONE


def _state(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """The state of a trainer: the optimizer's and that of the scaler."""
    names = ("optimizer", "grad_scaler")
    held = tuple((name, roles.held_by(api, trainer, name)) for name in names)
    items = tuple((name, roles.states_of(api, value, node)) for name, value in held if value is not None)
    return Mapping(items, place=api.place(node))


def _load_state(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    for name in ("optimizer", "grad_scaler"):
        roles.restored(api, roles.held_by(api, trainer, name), node)
    return NONE


ROLES = {
    "run_step": Role(_step),
    "register_hooks": Role(_register),
    "train": Role(_train),
    "state_dict": Role(_state),
    "load_state_dict": Role(_load_state),
}

roles.give_constructor(models, SIMPLE, _tell_trainer, weight=Weight.EFFECT)
roles.give_constructor(models, AMP, _tell_amp_trainer)
roles.give(models, (*SIMPLE, *AMP), ROLES)
