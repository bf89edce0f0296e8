"""Optimizers: how they are made, what their methods do, and their states."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.amp.scalers import TAKES_SCALE
from amplint.events import (
    AmpHidden,
    CastParameters,
    Event,
    OptimizerMade,
    OptimizerStepped,
    Place,
    ScalerUsed,
    StateLoaded,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Kind, Registry, Weight
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.gradients import zeroed
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.notes import Prepared, Restored, ShardedNote, Wrapped
from amplint.flow.models.torch.parameters import casts_of, parameters_in
from amplint.flow.models.torch.values import (
    MODULE,
    OPTIMIZER,
    Optimizer,
    Parameters,
    Scale,
    Scaler,
    StateDict,
)
from amplint.flow.models.torch.weights import modules_below
from amplint.flow.state.conditions import leaves
from amplint.flow.state.symbols import Symbol, made_from, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    Annotated,
    BoundMethod,
    Decorated,
    FunctionValue,
    Instance,
    Mapping,
    Note,
    Partial,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

FACTORIES = (
    "timm.optim.create_optimizer",
    "timm.optim.create_optimizer_v2",
    "transformers.AdamW",
    "transformers.optimization.AdamW",
    "transformers.Adafactor",
    "transformers.optimization.Adafactor",
    "torch.distributed.optim.ZeroRedundancyOptimizer",
)
"""What makes an optimizer of the parameters among its arguments."""
PACKAGES = ("torch.optim.", "bitsandbytes.optim.", "apex.optimizers.", "torch_optimizer.", "lion_pytorch.")
"""A capitalised name below one of these is a class of optimizers."""
_NO_OPTIMIZERS = ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")
OF_TORCH = (
    "Optimizer",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ASGD",
    "LBFGS",
    "Muon",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
)
"""The classes of torch.optim (torch 2.13), as annotations name them."""
_MODULES_HAVE = frozenset(
    {
        "parameters",
        "named_parameters",
        "requires_grad_",
        "modules",
        "named_modules",
        "named_children",
        "register_forward_hook",
        "register_buffer",
    }
)
"""What an object that has it is no optimizer."""
STEPPED = "<stepped>"
"""In place of a method: the object is given to the step or unscale_ of another one."""

models.kinds += [
    Kind(OPTIMIZER, one_of=frozenset({STEPPED}), none_of=_MODULES_HAVE),
    Kind(OPTIMIZER, all_of=frozenset({"zero_grad", "step"}), none_of=_MODULES_HAVE),
    Kind(OPTIMIZER, all_of=frozenset({"param_groups", "step"}), none_of=_MODULES_HAVE),
]


@dataclass(frozen=True, slots=True)
class Updates(Note):
    """An object of a class of the project is an optimizer of the parameters of these modules."""

    modules: frozenset[Symbol]


@dataclass(frozen=True, slots=True)
class Added(Note):
    """Parameters of these modules were added to an optimizer, or of others if there are none."""

    modules: frozenset[Symbol]


# what is known of an optimizer -----------------------------------------------------------------------------------


def modules_of(api: Api, optimizer: Value | None) -> frozenset[Symbol]:
    """The modules whose parameters an optimizer got, or none if they are not known."""
    match optimizer:
        case Optimizer():
            found = optimizer.modules
        case Instance():
            found = frozenset().union(*(note.modules for note in api.notes(optimizer.identity, Updates)))
        case _:
            return frozenset()
    added = [note.modules for note in api.notes(optimizer.identity, Added)]
    return found.union(*added) if found and all(added) else frozenset() if added else found


def casts(api: Api, optimizer: Value | None) -> tuple[CastParameters, ...]:
    """The casts that the parameters of an optimizer went through."""
    return casts_of(api, modules_of(api, optimizer))


def takes_scale(api: Api, optimizer: Value | None, node: Node) -> bool:
    """Whether an optimizer of the project unscales the gradients in its own step, ``_step_supports_amp_scaling =
    True``: the step of a scaler leaves them alone then, and what type its parameters have is its own affair."""
    if not isinstance(optimizer, Instance):
        return False
    known = api.known_truth(api.attribute(optimizer, TAKES_SCALE, node))
    return bool(known) or (known is None and TAKES_SCALE in api.attributes_of(optimizer))


def sharded(api: Api, optimizer: Value | None) -> Place | None:
    """Where the parameters of an optimizer were split among processes, or None."""
    if not isinstance(optimizer, (Optimizer, Instance)):
        return None
    owners = [optimizer.identity, *sorted(modules_of(api, optimizer), key=lambda name: name.order)]
    notes = (note for owner in owners for note in api.notes(owner, ShardedNote))
    return next((note.place for note in notes), None)


def _is_noted(api: Api, optimizer: Value | None, kind: type[Note]) -> bool:
    identity = optimizer.identity if isinstance(optimizer, Optimizer) else identity_of(optimizer)
    return identity is not None and bool(api.notes(identity, kind))


# making ----------------------------------------------------------------------------------------------------------


@models.namespace(*PACKAGES, weight=Weight.EFFECT)
@models.call(*FACTORIES, weight=Weight.EFFECT)
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``torch.optim.Adam(model.parameters())``. A name that is not known stands as "?"."""
    last = name.rpartition(".")[2]
    if name not in FACTORIES and not last[:1].isupper() and last != "?":
        return None
    optimizer = Optimizer(api.fresh(node), _given_modules(api, arguments))
    _tell(api, optimizer, node)
    return optimizer


def _given_modules(api: Api, arguments: Arguments) -> frozenset[Symbol]:
    """The modules whose parameters are given, and those inside them whose names do not say so: what a constructor was
    given, ``Diffusion(model)``."""
    given: frozenset[Symbol] = frozenset().union(*(parameters_in(api, value) for value in arguments.all))
    parts = frozenset().union(*(modules_below(api, module) for module in given))
    return given | {part for part in parts if parts.isdisjoint(made_from(part))}


def _tell(api: Api, optimizer: Optimizer, node: Node) -> None:
    api.emit(OptimizerMade(api.place(node), regions(api), optimizer.identity, optimizer.modules))


@models.into(models.classes, "torch.optim.")
def _own_class(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    """An object of an optimizer class of the project is made."""
    owner = arguments.receiver
    if owner is None or any(api.derives_from(owner, package) for package in _NO_OPTIMIZERS):
        return None
    modules = _given_modules(api, arguments)
    optimizer = Optimizer(api.fresh(node), modules)
    api.set_note(optimizer.identity, Updates(modules))
    _tell(api, optimizer, node)
    return None


def held(api: Api, arguments: Arguments) -> None:
    """Notes that an object of the project, or code out of sight, is given optimizers: what they update may be
    something else from then on."""
    for value in arguments.all:
        if isinstance(value, Optimizer):
            api.set_note(value.identity, Wrapped())


@models.into(models.annotations, *(f"torch.optim.{name}" for name in OF_TORCH))
def _annotated(api: Api, own: Symbol) -> Value:
    """``optimizer: torch.optim.Optimizer``."""
    return Unknown(own, OPTIMIZER)


def _is_annotated(api: Api, optimizer: Value | None) -> bool:
    """Whether an argument from out of sight is one of torch's optimizers, as the code says."""
    is_unknown = isinstance(optimizer, Unknown) and optimizer.kind == OPTIMIZER
    return is_unknown and _is_noted(api, optimizer, Annotated)


# stepping --------------------------------------------------------------------------------------------------------


def stepped(
    api: Api,
    optimizer: Value | None,
    node: Node,
    *,
    via_scaler: bool = False,
    scaler: Symbol | None = None,
    framework: bool = False,
    closure: bool = False,
) -> None:
    """Tells that an optimizer updates its parameters here, through ``scaler`` or a framework's one, or not."""
    own = isinstance(optimizer, Instance) and bool(api.notes(optimizer.identity, Updates))
    owner = _owner(api, optimizer)

    def tell(scales: Value) -> Value:
        api.emit(
            OptimizerStepped(
                api.place(node),
                regions(api),
                identity_of(optimizer),
                via_scaler=via_scaler or scaler is not None,
                casts=() if _is_noted(api, optimizer, Wrapped) else casts(api, optimizer),
                scaler=scaler,
                modules=modules_of(api, optimizer),
                framework=framework or _is_noted(api, optimizer, Prepared),
                in_sight=own or isinstance(optimizer, Optimizer) or _is_annotated(api, optimizer),
                closure=closure,
                owner=owner.framework if owner is not None else None,
                scales=scales == TRUE,
                chosen=owner is not None and owner.scales != TRUE,
            )
        )
        return NONE

    if owner is None or owner.scales is None:
        tell(FALSE)
    elif casts(api, optimizer):
        # the setting that chooses the scaler may have chosen the type of the parameters
        api.each(owner.scales, tell)
    else:
        tell(owner.scales)


def _owner(api: Api, optimizer: Value | None) -> Prepared | None:
    """What a framework that owns an optimizer does with it."""
    identity = identity_of(optimizer)
    return api.note(identity, Prepared) if identity is not None else None


@models.method(Optimizer, "step", weight=Weight.EFFECT)
@models.method(OPTIMIZER, "step", weight=Weight.EFFECT)
@models.method("torch.optim.", "step", weight=Weight.EFFECT)
def _step(api: Api, optimizer: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``optimizer.step(closure)``: the closure computes the loss and its gradients. What is given a scaler is a wrapper
    that leaves the step to it."""
    if any(isinstance(given, Scaler) for given in arguments.all):
        api.emit(AmpHidden(api.place(node), regions(api)))
        return api.unknown(node)
    closure = arguments.get(0, "closure")
    result: Value = NONE
    if isinstance(closure, (FunctionValue, BoundMethod, Partial, Decorated)):
        result = api.call(closure, Arguments(), node)
    stepped(api, optimizer, node, closure=closure not in (None, NONE))
    return result


@models.into(models.filled_in, ("torch.optim.", "step"))
def _own_step(
    api: Api, optimizer: Instance, arguments: Arguments, told: frozenset[type[Event]], node: Node
) -> None:
    """``def step(self, closure=None)`` of an optimizer class of the project. One that has another optimizer step, or
    the class above, has told so. One that asks a scaler, or is given a scale, may divide the gradients itself."""
    if OptimizerStepped in told or any(api.derives_from(optimizer, package) for package in _NO_OPTIMIZERS):
        return
    closure = arguments.get(0, "closure")
    others = (*arguments.positional[1:], *(value for key, value in arguments.keywords if key != "closure"))
    held = [leaf for value in api.attributes_of(optimizer).values() for leaf in leaves(value)]
    scales = ScalerUsed in told or any(isinstance(value, Scale) for value in held)
    if scales or others or arguments.unclear:
        api.emit(AmpHidden(api.place(node), regions(api)))
    else:
        stepped(api, optimizer, node, closure=closure not in (None, NONE))


@models.method(Optimizer, "zero_grad", weight=Weight.EFFECT)
@models.method("torch.optim.", "zero_grad", weight=Weight.EFFECT)
@models.method("", "zero_grad", weight=Weight.EFFECT)
def _zero_grad(api: Api, optimizer: Value, name: str, arguments: Arguments, node: Node) -> Value:
    zeroed(api, node, optimizer=optimizer, of=modules_of(api, optimizer))
    return NONE


@models.method(MODULE, "zero_grad", weight=Weight.EFFECT)
@models.method("torch.nn.", "zero_grad", weight=Weight.EFFECT)
def _zero_grad_of_module(api: Api, module: Value, name: str, arguments: Arguments, node: Node) -> Value:
    identity = identity_of(module)
    zeroed(api, node, of=frozenset() if identity is None else frozenset({identity}))
    return NONE


# parameter groups and states -------------------------------------------------------------------------------------


@models.method(Optimizer, "add_param_group", weight=Weight.EFFECT)
@models.method("torch.optim.", "add_param_group", weight=Weight.EFFECT)
def _add(api: Api, optimizer: Optimizer | Instance, name: str, arguments: Arguments, node: Node) -> Value:
    earlier = [note.modules for note in api.notes(optimizer.identity, Added)]
    new = parameters_in(api, arguments.get(0, "param_group"))
    known = bool(new) and all(earlier)
    api.set_note(optimizer.identity, Added(new.union(*earlier) if known else frozenset()))
    return NONE


@models.into(models.attributes, Optimizer, "torch.optim.")
def _attribute(api: Api, optimizer: Optimizer | Instance, name: str, node: Node) -> Value | None:
    """``optimizer.param_groups``: a list of dicts, in which "params" are parameters of its modules."""
    if name != "param_groups":
        return None
    modules = sorted(modules_of(api, optimizer), key=lambda module: module.order)
    parts = tuple(Parameters(module) for module in modules)
    held_ = parts[0] if len(parts) == 1 else Sequence(tuple(Parameters(m, one=True) for m in modules), False)
    items = (("params", held_),) if parts else ()
    return Sequence((Mapping(items, (api.unknown(node),)),), exact=False)


@models.into(models.attributes, OPTIMIZER)
def _unknown_groups(api: Api, optimizer: Unknown, name: str, node: Node) -> Value | None:
    """``optimizer.param_groups`` of one that is not known: parameters all the same, of modules out of sight."""
    if name != "param_groups":
        return None
    params = Parameters(symbol("parameters", optimizer.symbol))
    return Sequence((Mapping((("params", params),), (api.unknown(node),)),), exact=False)


@models.method(Optimizer, "state_dict", weight=Weight.EFFECT)
@models.method(OPTIMIZER, "state_dict", weight=Weight.EFFECT)
@models.method("torch.optim.", "state_dict", weight=Weight.EFFECT)
def _state_dict(api: Api, optimizer: Value, name: str, arguments: Arguments, node: Node) -> Value:
    return StateDict(OPTIMIZER, identity_of(optimizer), api.place(node))


@models.method(Optimizer, "load_state_dict", weight=Weight.EFFECT)
@models.method(OPTIMIZER, "load_state_dict", weight=Weight.EFFECT)
@models.method("torch.optim.", "load_state_dict", weight=Weight.EFFECT)
def _load_state_dict(api: Api, optimizer: Value, name: str, arguments: Arguments, node: Node) -> Value:
    identity = identity_of(optimizer)
    if identity is not None:
        api.set_note(identity, Restored())
        api.emit(StateLoaded(api.place(node), regions(api), identity))
    return NONE


@models.method(Optimizer)
def _other(api: Api, optimizer: Optimizer, name: str, arguments: Arguments, node: Node) -> Value:
    """Methods that neither step nor drop gradients."""
    return api.unknown(node)


@models.into(models.havocs, Optimizer)
def _out_of_sight(api: Api, optimizer: Optimizer, node: Node) -> None:
    api.set_note(optimizer.identity, Wrapped())
