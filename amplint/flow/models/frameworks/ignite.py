"""ignite: engines that run a function for each batch, and handlers that write checkpoints.

Source: ``ignite/engine/__init__.py``, ``ignite/engine/engine.py``, ``ignite/handlers/checkpoint.py`` of pytorch-ignite
0.5. ``amp_mode="amp"`` opens a float16 region of torch.autocast; a scaler is there only if it is asked for, and is
``trainer.state.scaler`` then. A checkpoint has the states of what is in ``to_save``, and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from amplint.events import Place
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles, training
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.frameworks.training import ROUNDS, Step
from amplint.flow.models.torch import checkpoints
from amplint.flow.models.torch.values import SCALER, Scaler
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    BoundMethod,
    Constant,
    External,
    Instance,
    Note,
    Partial,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

ENGINES = ("ignite.engine.Engine", "ignite.engine.engine.Engine")
STATE = "ignite.engine.State"
CHECKPOINTS = ("ignite.handlers.Checkpoint", "ignite.handlers.checkpoint.Checkpoint")
MODEL_CHECKPOINTS = ("ignite.handlers.ModelCheckpoint", "ignite.handlers.checkpoint.ModelCheckpoint")
_COMMON = (
    "ignite.contrib.engines.common.setup_common_training_handlers",
    "ignite.contrib.engines.setup_common_training_handlers",
)
_OF_COMMON = ("trainer", "train_sampler", "to_save")
_OF_TRAINER = (
    "model",
    "optimizer",
    "loss_fn",
    "device",
    "non_blocking",
    "prepare_batch",
    "model_transform",
    "output_transform",
    "deterministic",
    "amp_mode",
    "scaler",
)
"""The parameters of ``create_supervised_trainer``."""
_OF_STEP = (*_OF_TRAINER[:8], "scaler")
"""Those of ``supervised_training_step_amp``."""
_UPDATE = "ignite.engine.<update>"
"""What the functions go by that such factories make."""


@dataclass(frozen=True, slots=True)
class Attached(Note):
    """A handler was made, or given what it saves, at ``place``."""

    place: Place


# engines ---------------------------------------------------------------------------------------------------------


def _tell_engine(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Engine(update)``."""
    function = arguments.get(0, "process_function")
    if function is not None:
        api.store(identity, "process_function", function)


def _attach(api: Api, engine: Value, arguments: Arguments, node: Node) -> Value:
    """``trainer.add_event_handler(Events.EPOCH_COMPLETED, handler, {"model": model})``."""
    handler = arguments.get(1, "handler")
    if handler is None:
        return api.unknown(node)
    rest = arguments.positional[2:]
    if isinstance(handler, Instance) and handler.external in MODEL_CHECKPOINTS:
        to_save = rest[0] if rest else arguments.keyword("to_save")
        _add(api, engine, Partial(_checkpoint(api, to_save, node), (engine,)))
    else:
        named = tuple(item for item in arguments.keywords if item[0] not in ("event_name", "handler"))
        _add(api, engine, Partial(handler, (engine, *rest), named))
    return api.unknown(node)


def _add(api: Api, engine: Value, handler: Value) -> None:
    identity = roles.owner_of(api, engine)
    if identity is not None:
        held = api.load(identity, "handlers")
        earlier = held.items if isinstance(held, Sequence) else ()
        api.store(identity, "handlers", Sequence((*(one for one in earlier if one != handler), handler)))


def _on(api: Api, engine: Value, arguments: Arguments, node: Node) -> Value:
    """``@trainer.on(Events.EPOCH_COMPLETED)``."""
    return Partial(BoundMethod(engine, "add_event_handler"), arguments.positional[:1])


def _run(api: Api, engine: Value, arguments: Arguments, node: Node) -> Value:
    """``trainer.run(loader)``: the function for some batches, then what is attached."""
    function = roles.held_by(api, engine, "process_function")
    if function is not None:
        for _ in range(ROUNDS):
            api.call(function, roles.given(engine, api.unknown(node), node=node), node)
    held = roles.held_by(api, engine, "handlers")
    for handler in held.items if isinstance(held, Sequence) else ():
        api.call(handler, Arguments(unclear=True), node)
    return api.unknown(node)


roles.give_constructor(models, ENGINES, _tell_engine, weight=Weight.EFFECT)
roles.give(
    models,
    ENGINES,
    {
        "add_event_handler": Role(_attach),
        "on": Role(_on),
        "run": Role(_run),
    },
)


# supervised trainers ---------------------------------------------------------------------------------------------


@models.call("ignite.engine.create_supervised_trainer", weight=Weight.ENTRY)
def _trainer(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``create_supervised_trainer(model, optimizer, loss_fn, amp_mode="amp", scaler=True)``. Its step is told of where
    the trainer is made: there it says how."""
    engine = Instance(api.fresh(node), None, ENGINES[0])
    named = arguments.by_name(_OF_TRAINER)
    scaler = named.get("scaler", FALSE)
    if scaler == TRUE:
        scaler = training.make_scaler(api, node)
        state = Instance(api.fresh(node, "state"), None, STATE)
        api.store(engine.identity, "state", state)
        api.store(state.identity, "scaler", scaler)
    mode = named.get("amp_mode", NONE)
    if mode in (NONE, Constant("amp")) and not arguments.unclear:
        _play(api, named, scaler, region=mode != NONE, node=node)
    return engine


@models.call("ignite.engine.supervised_training_step_amp", weight=Weight.ENTRY)
def _update(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``Engine(supervised_training_step_amp(model, optimizer, loss_fn, scaler=scaler))``."""
    named = arguments.by_name(_OF_STEP)
    kept = tuple((key, named[key]) for key in (*_OF_TRAINER[:3], "scaler") if key in named)
    return Partial(External(_UPDATE), (), kept)


@models.call(_UPDATE, weight=Weight.EFFECT)
def _updated(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    named = dict(arguments.keywords)
    _play(api, named, named.get("scaler", NONE), region=True, node=node)
    return api.unknown(node)


def _play(api: Api, named: dict[str, Value], scaler: Value, *, region: bool, node: Node) -> None:
    """Plays a step, if it is known whether it scales the loss."""
    known = [named.get(name) for name in _OF_TRAINER[:3]]
    model, optimizer, criterion = known
    if model is None or optimizer is None or criterion is None:
        return
    is_scaler = isinstance(scaler, (Scaler, Instance)) or getattr(scaler, "kind", None) == SCALER
    if is_scaler or scaler in (FALSE, NONE):
        step = Step(model, optimizer, criterion, scaler if is_scaler else None, region)
        training.run(api, step, node)


# checkpoints -----------------------------------------------------------------------------------------------------


def _tell_checkpoint(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Checkpoint({"model": model, "optimizer": optimizer}, DiskSaver(folder))``."""
    _saves(api, identity, arguments.get(0, "to_save"), node)


def _saves(api: Api, identity: Symbol, to_save: Value | None, node: Node) -> None:
    api.store(identity, "to_save", to_save if to_save is not None else api.unknown(node))
    api.set_note(identity, Attached(api.place(node)))


def _checkpoint(api: Api, to_save: Value | None, node: Node) -> Instance:
    """A handler that saves what it is given, where it is attached."""
    made = Instance(api.fresh(node, "checkpoint"), None, CHECKPOINTS[0])
    _saves(api, made.identity, to_save, node)
    return made


def _write(api: Api, handler: Value, arguments: Arguments, node: Node) -> Value:
    """A checkpoint is written; the finding belongs where the handler was told what to save."""
    identity = roles.owner_of(api, handler)
    attached = api.note(identity, Attached) if identity is not None else None
    states = roles.states_of(api, roles.held_by(api, handler, "to_save"), node)
    checkpoints.saved(api, states, node, attached.place if attached is not None else None)
    return NONE


def _write_given(api: Api, handler: Value, arguments: Arguments, node: Node) -> Value:
    """``model_checkpoint(trainer, {"model": model})``."""
    checkpoints.saved(api, roles.states_of(api, arguments.get(1, "to_save"), node), node)
    return NONE


roles.give_constructor(models, CHECKPOINTS, _tell_checkpoint, weight=Weight.EFFECT)
roles.give_constructor(models, MODEL_CHECKPOINTS, weight=Weight.EFFECT)
roles.give(models, CHECKPOINTS, {"__call__": Role(_write)})
roles.give(models, MODEL_CHECKPOINTS, {"__call__": Role(_write_given)})


@models.into(models.havocs, *CHECKPOINTS)
def _out_of_sight(api: Api, handler: Instance, node: Node) -> None:
    """``trainer.add_event_handler(…, checkpoint)`` of a trainer that is not in sight."""
    _write(api, handler, Arguments(), node)


@models.call(*(f"{owner}.load_objects" for owner in CHECKPOINTS), weight=Weight.EFFECT)
def _load(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``Checkpoint.load_objects(to_load=to_save, checkpoint=states)``."""
    roles.restored(api, arguments.get(0, "to_load"), node)
    return NONE


@models.call(*_COMMON, weight=Weight.EFFECT)
def _common(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``common.setup_common_training_handlers(trainer, to_save=to_save, output_path=path)``."""
    named = arguments.by_name(_OF_COMMON)
    trainer, to_save = named.get("trainer"), named.get("to_save")
    if isinstance(trainer, (Instance, Unknown)) and to_save not in (None, NONE):
        _add(api, trainer, Partial(_checkpoint(api, to_save, node), (trainer,)))
    return NONE
