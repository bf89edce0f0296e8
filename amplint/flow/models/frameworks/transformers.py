"""transformers: ``Trainer`` and its subclasses, adapters, schedulers, and optimizers.

Source: ``transformers/trainer.py``, ``transformers/training_args.py``, ``transformers/optimization.py`` of transformers
4.30 to 5.23, ``peft/tuners/tuners_utils.py`` of peft 0.17. Since 4.30 the region is around the forward of the model
alone, which accelerate prepares: ``compute_loss`` gets float32 outputs, and the trainer's own contexts leave autocast
alone on CUDA. ``fp16=True`` is accelerate's ``mixed_precision="fp16"``. Adapters are float32, and the model that gets
them is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass

from amplint.amp.tokens import SCALES_LOSSES
from amplint.events import Framework
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.frameworks.scales import called_here
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.values import MODULE, Scheduler
from amplint.flow.models.torch.weights import freeze, is_module
from amplint.flow.state.conditions import both, negation, select
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    Constant,
    External,
    Instance,
    Note,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

TRAINERS = (
    "transformers.Trainer",
    "transformers.trainer.Trainer",
    "transformers.Seq2SeqTrainer",
    "transformers.trainer_seq2seq.Seq2SeqTrainer",
)
ARGUMENTS = tuple(
    f"transformers.{module}{name}"
    for module, name in (
        ("", "TrainingArguments"),
        ("training_args.", "TrainingArguments"),
        ("", "Seq2SeqTrainingArguments"),
        ("training_args_seq2seq.", "Seq2SeqTrainingArguments"),
    )
)
_ACCELERATOR = "accelerate.Accelerator"
_FRAMEWORK = Framework("fp16=True", "Trainer", "Trainer", backward="self.accelerator.backward")
_OF_TRAINER = ("model", "args")
_ELSEWHERE = ("deepspeed", "fsdp", "half_precision_backend", "fp16_backend", "parallelism_config")
"""Arguments that may hand training over to a package which casts and scales by itself."""
_OWN_OPTIMIZER = ("create_optimizer", "create_optimizer_and_scheduler", "get_optimizer_cls_and_kwargs")
"""Methods by which a class decides what is trained."""
_OPTIMIZERS_GIVEN = "optimizers given"
_FP16, _BF16 = Constant("fp16"), Constant("bf16")
_MODULES = frozenset({"model", "model_wrapped"})
"""Attributes of a trainer that are modules."""
_SCHEDULERS = (
    "get_constant_schedule",
    "get_constant_schedule_with_warmup",
    "get_linear_schedule_with_warmup",
    "get_cosine_schedule_with_warmup",
    "get_cosine_with_hard_restarts_schedule_with_warmup",
    "get_cosine_with_min_lr_schedule_with_warmup",
    "get_cosine_with_min_lr_schedule_with_warmup_lr_rate",
    "get_polynomial_decay_schedule_with_warmup",
    "get_inverse_sqrt_schedule",
    "get_wsd_schedule",
)
"""What makes a scheduler that counts steps. The others are given a metric."""
_NAMED = "get_scheduler"
"""The one that is told by name which to make."""
_PACKAGES = ("transformers", "transformers.optimization", "diffusers.optimization")
_OPTIMIZERS = ("AdamW", "Adafactor")


@dataclass(frozen=True, slots=True)
class Told(Note):
    """What TrainingArguments were given that are in sight as a whole, and that leave training to torch."""

    fp16: Value
    bf16: Value


# TrainingArguments -----------------------------------------------------------------------------------------------


def _tell_arguments(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``TrainingArguments("out", fp16=True)``, which raises if both types are asked for."""
    fp16, bf16 = (arguments.keyword(name) or FALSE for name in ("fp16", "bf16"))
    api.assume(negation(both(api.truth(fp16), api.truth(bf16))))
    elsewhere = any(name in _ELSEWHERE and value not in (NONE, FALSE) for name, value in arguments.keywords)
    if len(arguments.positional) <= 1 and not arguments.unclear and not elsewhere:
        api.set_note(identity, Told(fp16, bf16))


roles.give_constructor(models, ARGUMENTS, _tell_arguments, weight=Weight.EFFECT)


# Trainer ---------------------------------------------------------------------------------------------------------


def _training_step(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``super().training_step(model, inputs)``: the loss that the class computes, and its gradients."""
    given = roles.given_to(api, trainer, "compute_loss", *arguments.positional[:2], node=node)
    loss = api.call(api.attribute(trainer, "compute_loss", node), given, node)
    return api.each(loss, lambda one: _trained(api, trainer, one, node))


def _compute_loss(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``super().compute_loss(model, inputs)``: the model is given what the inputs are."""
    model = arguments.get(0, "model")
    if model is not None:
        api.call(model, Arguments(unclear=True), node)
    return api.unknown(node)


def _trained(api: Api, trainer: Value, loss: Value, node: Node) -> Value:
    roles.backward(api, trainer, roles.given(loss, node=node), node)
    return api.unknown(node)


def _tell_trainer(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Trainer(model=model, args=TrainingArguments("out"))``."""
    named = arguments.by_name(_OF_TRAINER)
    for name in _OF_TRAINER:
        value = named.get(name)
        if value is not None and value != NONE:
            api.store(identity, name, value)
    if arguments.keyword("optimizers") is not None:
        api.store(identity, _OPTIMIZERS_GIVEN, TRUE)


def _train(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``trainer.train()``: what accelerate does with the model and an optimizer of its parameters, if all that decides
    on it is in sight. What is meant by a region around all of it is not."""
    model, told = (roles.held_by(api, trainer, name) for name in _OF_TRAINER)
    if model is None or told is None or not isinstance(trainer, Instance) or regions(api):
        return api.unknown(node)
    notes = api.each(told, lambda one: _told_by(api, one))
    api.each(notes, lambda one: api.each(model, lambda module: _train_with(api, trainer, module, one, node)))
    return api.unknown(node)


def _told_by(api: Api, arguments: Value) -> Value:
    noted = api.noted(arguments.identity, Told) if isinstance(arguments, Instance) else None
    return noted if noted is not None else NONE


def _train_with(api: Api, trainer: Instance, model: Value, note: Value, node: Node) -> Value:
    if not isinstance(note, Told):
        return NONE
    precision = select(api.truth(note.fp16), _FP16, select(api.truth(note.bf16), _BF16, NONE))
    return api.each(precision, lambda one: _train_in(api, trainer, model, one, node))


def _train_in(api: Api, trainer: Instance, model: Value, precision: Value, node: Node) -> Value:
    """Trains a model in one precision."""
    given = Arguments((), (("mixed_precision", precision),))
    accelerator = api.call(External(_ACCELERATOR), given, node)
    assert isinstance(accelerator, Instance)
    called_here(api, accelerator, _FRAMEWORK)
    api.store(trainer.identity, "accelerator", accelerator)
    roles.method(api, accelerator, "prepare", roles.given(model, node=node), node)
    given = roles.given_to(api, trainer, "training_step", model, api.unknown(node), node=node)
    roles.method(api, trainer, "training_step", given, node)
    if _owns_optimizer(api, trainer):
        optimizer = roles.optimizer_of(api, roles.given(model, node=node), node)
        roles.method(api, accelerator, "prepare", roles.given(optimizer, node=node), node)
        roles.method(api, optimizer, "step", Arguments(), node)
    return NONE


def _owns_optimizer(api: Api, trainer: Instance) -> bool:
    """Whether the trainer makes an optimizer of all parameters that take gradients."""
    if api.load(trainer.identity, _OPTIMIZERS_GIVEN) is not None:
        return False
    own = trainer.made_of
    return own is None or not any(api.find_method(own, name) for name in _OWN_OPTIMIZER)


roles.give_constructor(models, TRAINERS, _tell_trainer)
roles.give(
    models,
    TRAINERS,
    {
        "train": Role(_train),
        "training_step": Role(_training_step, tags=frozenset({SCALES_LOSSES})),
        "compute_loss": Role(_compute_loss),
        "compute_loss_context_manager": roles.NULL,
        "autocast_smart_context_manager": roles.NULL,
    },
)


@models.into(models.attributes, *TRAINERS)
def _attribute(api: Api, trainer: Instance, name: str, node: Node | None) -> Value | None:
    own = symbol("attribute", trainer.identity, name)
    if name == "accelerator":
        return Instance(own, None, _ACCELERATOR)
    return Unknown(own, MODULE) if name in _MODULES else None


# adapters --------------------------------------------------------------------------------------------------------


@models.method(MODULE, "add_adapter")
def _add_adapter(api: Api, model: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    """``model.add_adapter(LoraConfig())``: what the model had is frozen."""
    freeze(api, model, True)
    return NONE


@models.call("peft.get_peft_model")
def _adapted(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``get_peft_model(model, LoraConfig())``: the model is frozen, and part of what is given back."""
    model = arguments.get(0, "model")
    if model is not None and is_module(api, model):
        freeze(api, model, True)
    return api.unknown(node)


# schedulers and optimizers ---------------------------------------------------------------------------------------


@models.call(*(f"{package}.{name}" for package in _PACKAGES for name in (*_SCHEDULERS, _NAMED)))
def _scheduler(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``get_linear_schedule_with_warmup(optimizer, 100, 1000)``; ``get_scheduler("linear", optimizer)``."""
    position = 1 if name.endswith(f".{_NAMED}") else 0
    return Scheduler(api.fresh(node), identity_of(arguments.get(position, "optimizer")))


@models.call(*(f"{package}.{name}" for package in _PACKAGES for name in _OPTIMIZERS), weight=Weight.EFFECT)
def _optimizer(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``transformers.AdamW(model.parameters())``."""
    return roles.optimizer_of(api, arguments, node)
