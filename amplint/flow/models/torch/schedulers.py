"""Learning-rate schedulers, and averages of weights."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.amp.schedulers import FACTORIES, OWN
from amplint.events import Place, SchedulerStepped
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.losses import COMPARED, Compared
from amplint.flow.models.torch.values import MODULE, Scheduler, StateDict
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import NONE, Instance, Note, Unknown, Value
from amplint.lowering.program import Node

models = Registry()


@dataclass(frozen=True, slots=True)
class Sets(Note):
    """An object of a class of the project sets the learning rate of an optimizer."""

    optimizer: Symbol | None


@models.namespace(*FACTORIES, weight=Weight.EFFECT)
@models.call("torch.optim.swa_utils.SWALR", weight=Weight.EFFECT)
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``torch.optim.lr_scheduler.StepLR(optimizer, 30)``."""
    return Scheduler(api.fresh(node), identity_of(arguments.get(0, "optimizer")))


@models.into(models.classes, OWN)
def _own_class(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """An object of a scheduler class of the project is made."""
    api.set_note(api.fresh(node), Sets(identity_of(arguments.get(0, "optimizer"))))
    return None


@models.method(Scheduler, "step", weight=Weight.EFFECT)
@models.method(OWN, "step", weight=Weight.EFFECT)
def _step(api: Api, scheduler: Scheduler | Instance, name: str, arguments: Arguments, node: Node) -> Value:
    """``scheduler.step()``; one that is given a metric or an epoch counts no steps."""
    if not arguments.all:
        optimizer, place = _optimizer_of(api, scheduler), api.place(node)
        api.emit(SchedulerStepped(place, regions(api), scheduler.identity, optimizer, _compared(api)))
    return NONE


def _optimizer_of(api: Api, scheduler: Scheduler | Instance) -> Symbol | None:
    if isinstance(scheduler, Scheduler):
        return scheduler.optimizer
    note = api.note(scheduler.identity, Sets)
    return note.optimizer if note is not None else None


def _compared(api: Api) -> Place | None:
    """Where the scale was found to be the same as before, if this path has gone by that."""
    asked = [question for note in api.notes(COMPARED, Compared) for question in note.questions]
    found = (place for question, place in asked if api.known_truth(Unknown(question)))
    return next(found, None)


@models.method(Scheduler, "state_dict", weight=Weight.EFFECT)
@models.method(OWN, "state_dict", weight=Weight.EFFECT)
def _state(api: Api, scheduler: Scheduler | Instance, name: str, arguments: Arguments, node: Node) -> Value:
    return StateDict("scheduler", scheduler.identity, api.place(node))


@models.method(Scheduler)
def _other(api: Api, scheduler: Scheduler, name: str, arguments: Arguments, node: Node) -> Value:
    """Methods that count no steps."""
    return api.unknown(node)


# averages of weights ---------------------------------------------------------------------------------------------


@models.call("torch.optim.swa_utils.AveragedModel")
def _averaged(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``AveragedModel(model)``: a copy, with parameters of its own."""
    return Unknown(api.fresh(node), MODULE)


@models.call("torch.optim.swa_utils.update_bn")
def _update_statistics(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``update_bn(loader, averaged)`` runs the copy over the data."""
    return NONE


@models.method(MODULE, "update_parameters")
def _update_average(api: Api, module: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``averaged.update_parameters(model)``."""
    return NONE
