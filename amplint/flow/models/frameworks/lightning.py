"""Lightning: ``Fabric``, and modules that are trained by a ``Trainer``.

Source: ``lightning/fabric/fabric.py``, ``lightning/fabric/plugins/precision/amp.py`` and
``lightning/pytorch/plugins/precision/amp.py`` of lightning 2.6. A gradient scaler is made with ``precision="16-mixed"``
(16 and "16" before 2.0); ``setup`` runs the forward of a module in autocast and converts its outputs to float32. A
``Trainer`` runs the steps of a module whole in a region without cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amplint.amp.tokens import SCALES_LOSSES
from amplint.events import CalledByName, DType, Framework, GivenArguments, GradientsRead
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Kind, Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.frameworks.scales import precision_of, prepared, region_by, tell_precision
from amplint.flow.models.torch import checkpoints
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.notes import Prepared, Wrapped
from amplint.flow.models.torch.optimizers import modules_of
from amplint.flow.models.torch.regions import framework_region
from amplint.flow.models.torch.values import Autocast, Optimizer
from amplint.flow.state.conditions import apply, leaves
from amplint.flow.state.counts import told_apart
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    NONE,
    TRUE,
    Constant,
    External,
    Instance,
    Mapping,
    Note,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

FABRICS = (
    "lightning.Fabric",
    "lightning.fabric.Fabric",
    "lightning.fabric.fabric.Fabric",
    "lightning_fabric.Fabric",
    "lightning_fabric.fabric.Fabric",
)
MODULES = tuple(
    f"{module}.LightningModule"
    for module in (
        "lightning",
        "lightning.pytorch",
        "lightning.pytorch.core",
        "lightning.pytorch.core.module",
        "pytorch_lightning",
        "pytorch_lightning.core",
        "pytorch_lightning.core.lightning",
        "pytorch_lightning.core.module",
    )
)
TRAINERS = (
    "lightning.Trainer",
    *(
        f"{package}{module}.Trainer"
        for package in ("lightning.pytorch", "pytorch_lightning")
        for module in ("", ".trainer", ".trainer.trainer")
    ),
)
FABRIC = "fabric"
"""The kind of unknown objects that are used as a Fabric is."""
_SCALED: frozenset[object] = frozenset({16, "16", "16-mixed"})
_FRAMEWORK = Framework(
    'precision="16-mixed"', "fabric.setup", "fabric.clip_gradients", backward="fabric.backward"
)
_CONFIGURED = "what configure_optimizers gave"
_MANUAL = Framework(
    'precision="16-mixed"',
    "self.optimizers",
    hook="on_before_optimizer_step",
    backward="self.manual_backward",
)
_TYPES: dict[object, DType] = {
    16: DType.FLOAT16,
    "16": DType.FLOAT16,
    "16-mixed": DType.FLOAT16,
    "bf16": DType.BFLOAT16,
    "bf16-mixed": DType.BFLOAT16,
}
"""What regions run matrix products in, by ``precision``."""
_PLAIN = {
    "accelerator": ("auto", "cuda", "gpu"),
    "strategy": ("auto", "ddp", "ddp_find_unused_parameters_true", "dp"),
    "plugins": (None,),
}
"""Values of arguments of a Fabric with which ``precision`` alone decides on regions and scaler on GPUs."""
_OF_FABRIC = ("accelerator", "strategy", "devices", "num_nodes", "precision", "plugins")
_NO_REGION = (32, 64, "32", "64", "32-true", "64-true")

models.kinds += [
    Kind(
        FABRIC,
        all_of=frozenset({"backward"}),
        one_of=frozenset(
            {"setup", "setup_module", "setup_optimizers", "setup_dataloaders", "clip_gradients"}
        ),
        none_of=frozenset({"parameters"}),
    )
]


@dataclass(frozen=True, slots=True)
class Special(Note):
    """A strategy or plugin may decide how a Fabric trains, beside ``precision``."""


# Fabric ----------------------------------------------------------------------------------------------------------


def _tell(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Fabric(precision="16-mixed")``."""
    named = arguments.by_name(_OF_FABRIC)
    tell_precision(api, identity, arguments, named.get("precision"), _SCALED, node, _FRAMEWORK)
    values = ((named.get(name), plain) for name, plain in _PLAIN.items())
    if any(
        one is not None and not (isinstance(one, Constant) and one.value in plain) for one, plain in values
    ):
        api.set_note(identity, Special())


roles.give_constructor(models, FABRICS, _tell)


def _autocast(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    return _context(api, framework, node) or roles.null(api, framework, arguments, node)


def _context(api: Api, framework: Value, node: Node) -> Autocast | None:
    """What a Fabric opens around a forward, None for nothing at all. On a CPU float16 becomes bfloat16."""
    context = region_by(api, framework, _TYPES, _NO_REGION, node)
    return replace(context, enabled=None, framework=True) if context and _special(api, framework) else context


def _special(api: Api, framework: Value) -> bool:
    return isinstance(framework, Instance) and bool(api.notes(framework.identity, Special))


def _setup(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``model, optimizer = fabric.setup(model, optimizer)``."""
    # named arguments say how, but for these
    named = tuple(item for item in arguments.keywords if item[0] in ("module", "scheduler"))
    taken = replace(arguments, keywords=named)
    roles.prepare_all(api, taken, prepared(api, framework, _context(api, framework, node)), node)
    if _special(api, framework):
        # a strategy may keep float32 copies of the parameters
        roles.prepare_all(api, taken, Wrapped(), node)
    return roles.handed_back(taken)


def _save(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``fabric.save(path, {"model": model, "optimizer": optimizer})``."""
    checkpoints.saved(api, roles.states_of(api, arguments.get(1, "state"), node), node)
    return NONE


OF_FABRIC = {
    "autocast": Role(_autocast, Weight.ENTRY, roles.REGION.tags),
    "no_backward_sync": roles.NULL,
    "sharded_model": roles.NULL,
    "init_module": roles.NULL,
    "init_tensor": roles.NULL,
    "rank_zero_first": roles.NULL,
    "backward": roles.BACKWARD,
    "clip_gradients": roles.HIDDEN,
    "setup": Role(_setup),
    "setup_module": Role(_setup),
    "setup_optimizers": Role(_setup),
    "setup_dataloaders": Role(_setup),
    "to_device": roles.SAME,
    "save": Role(_save),
}

roles.give(models, FABRICS, OF_FABRIC)
roles.give_kind(models, FABRIC, OF_FABRIC)


# LightningModule -------------------------------------------------------------------------------------------------


def _optimizers(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``self.optimizers()``: what the trainer has made of those that ``configure_optimizers`` gave it."""
    found = roles.held_by(api, framework, _CONFIGURED) or roles.optimizers_of(framework)
    note = prepared(api, framework, None) if precision_of(api, framework) else Prepared()

    def take(one: Value) -> Value:
        roles.prepare(api, one, note)
        return one

    return api.each(found, take)


def _clip(api: Api, module: Value, arguments: Arguments, node: Node) -> Value:
    """``self.clip_gradients(optimizer, gradient_clip_val=1.0)``: divides nothing (lightning 2.6)."""
    named = arguments.by_name(("optimizer", "gradient_clip_val"))
    limit = named.get("gradient_clip_val")
    number = limit.value if isinstance(limit, Constant) and isinstance(limit.value, (int, float)) else None
    of = modules_of(api, named.get("optimizer"))
    api.emit(GradientsRead(api.place(node), regions(api), "clip_gradients", of, True, number))
    return NONE


OF_MODULE = {
    "manual_backward": roles.BACKWARD,
    "clip_gradients": Role(_clip),
    "optimizers": Role(_optimizers),
}

roles.give(models, MODULES, OF_MODULE)
models.about(*MODULES, weight=Weight.NOTHING, tags=(SCALES_LOSSES,))


@models.into(models.stores, *MODULES)
def _kept(api: Api, module: Instance, name: str, value: Value, node: Node) -> bool:
    """``self.optimizer = …``: the trainer may own it and step it through a scaler."""
    if isinstance(value, Optimizer):
        api.set_note(value.identity, Prepared())
    return False


# Trainer ---------------------------------------------------------------------------------------------------------


def _tell_trainer(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Trainer(precision="16-mixed")``, ``Trainer(precision=16 if amp else 32)``."""
    given = arguments.keyword("precision")
    if given is not None:
        api.store(identity, "precision", told_apart(given) or given)


def _fit(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``trainer.fit(model)``: runs the steps of a module, in regions if an argument of the trainer asks for them. Where
    nothing is said of ``precision``, there are none."""
    module = arguments.get(0, "model")
    precision = roles.held_by(api, trainer, "precision")
    if module is not None and precision is not None:
        package = (trainer.external or "").partition(".")[0] if isinstance(trainer, Instance) else ""
        api.each(precision, lambda one: _run_steps(api, module, one, package, node))
    return NONE


def _run_steps(api: Api, module: Value, precision: Value, package: str, node: Node) -> Value:
    name = precision.value if isinstance(precision, Constant) else None
    known = isinstance(precision, Constant)
    if known and name not in _TYPES:
        return NONE
    context = framework_region(api, node, enabled=True if known else None, cache_enabled=False)
    context = replace(context, dtype=_TYPES.get(name), framework=not known)
    if known and package:
        api.each(module, lambda one: _run_unknown(api, one, replace(context, whole_step=True), package, node))
    return api.each(module, lambda one: _run_each(api, one, precision, context, node))


def _run_unknown(api: Api, module: Value, context: Autocast, package: str, node: Node) -> Value:
    """The step of a module of which nothing is known: a file of settings names its class."""
    if isinstance(module, Unknown):
        api.enter(context, node)
        given = GivenArguments(more=True)
        api.emit(CalledByName(api.place(node), regions(api), "training_step", given, package=package))
        api.leave(context, node)
    return NONE


def _run_each(api: Api, module: Value, precision: Value, context: Autocast, node: Node) -> Value:
    """The steps of a module. Where one steps its optimizers by itself, its backward pass and its steps run in the
    region of the trainer, which is not its own doing."""
    if not isinstance(module, Instance) or module.made_of is None:
        return NONE
    automatic = api.truth(api.attribute(module, "automatic_optimization", node))

    def run(on: Value) -> Value:
        if on == TRUE:
            return _walk_steps(api, module, context, node)
        found = api.call(api.attribute(module, "configure_optimizers", node), Arguments(), node)
        configured = api.each(found, _optimizers_in)
        if not all(map(_are_known, leaves(configured))):
            return NONE
        arguments = Arguments((), (("precision", precision),), ())
        tell_precision(api, module.identity, arguments, precision, _SCALED, node, _MANUAL)
        api.store(module.identity, _CONFIGURED, configured)
        return _walk_steps(api, module, replace(context, whole_step=True), node)

    return api.each(automatic, run)


def _optimizers_in(configured: Value) -> Value:
    """The optimizers that ``configure_optimizers`` gives, alone or in a list, perhaps beside schedulers."""
    match configured:
        case Sequence(items=(found, Sequence()), exact=True) if all(
            isinstance(leaf, Sequence) for leaf in leaves(found)
        ):
            return apply(_optimizers_in, found)
        case Sequence(items=(one,), exact=True):
            return _optimizers_in(one)
        case Sequence():
            return replace(configured, items=tuple(map(_optimizers_in, configured.items)))
        case Mapping():
            return configured.get("optimizer") or configured
    return configured


def _are_known(optimizers: Value) -> bool:
    """Whether each of them will be known for one of the trainer's when it steps."""
    match optimizers:
        case Sequence(exact=True):
            return all(map(_are_known, optimizers.items))
        case Optimizer() | Instance():
            return True
    return False


def _walk_steps(api: Api, module: Instance, context: Autocast, node: Node) -> Value:
    assert module.made_of is not None
    for step, around in (("training_step", ()), ("validation_step", (External("torch.no_grad"),))):
        if api.find_method(module.made_of, step) is None:
            continue
        contexts = [*(api.call(one, Arguments(), node) for one in around), context]
        for one in contexts:
            api.enter(one, node)
        api.call(api.attribute(module, step, node), Arguments(unclear=True), node)
        for one in reversed(contexts):
            api.leave(one, node)
    return NONE


roles.give_constructor(models, TRAINERS, _tell_trainer)
roles.give(models, TRAINERS, {"fit": Role(_fit)})
