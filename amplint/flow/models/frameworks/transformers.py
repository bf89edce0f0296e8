"""transformers: subclasses of ``Trainer``, schedulers, and optimizers.

Source: ``transformers/trainer.py``, ``transformers/optimization.py`` of transformers 4.30 to 5.0. Since 4.30 the region
is around the forward of the model alone, which accelerate prepares: ``compute_loss`` gets float32 outputs, and the
trainer's own contexts leave autocast alone on CUDA.
"""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.torch.identities import identity_of
from amplint.flow.models.torch.losses import SCALES_LOSSES
from amplint.flow.models.torch.values import MODULE, Scheduler
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import Instance, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

TRAINERS = (
    "transformers.Trainer",
    "transformers.trainer.Trainer",
    "transformers.Seq2SeqTrainer",
    "transformers.trainer_seq2seq.Seq2SeqTrainer",
)
_ACCELERATOR = "accelerate.Accelerator"
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


# Trainer ---------------------------------------------------------------------------------------------------------


def _training_step(api: Api, trainer: Value, arguments: Arguments, node: Node) -> Value:
    """``super().training_step(model, inputs)``: the loss that the class computes, and its gradients."""
    given = roles.given(*arguments.positional[:2], node=node)
    loss = api.call(api.attribute(trainer, "compute_loss", node), given, node)
    return api.each(loss, lambda one: _trained(api, trainer, one, node))


def _trained(api: Api, trainer: Value, loss: Value, node: Node) -> Value:
    roles.backward(api, trainer, roles.given(loss, node=node), node)
    return api.unknown(node)


roles.give(
    models,
    TRAINERS,
    {
        "training_step": Role(_training_step, tags=frozenset({SCALES_LOSSES})),
        "compute_loss_context_manager": roles.NULL,
        "autocast_smart_context_manager": roles.NULL,
    },
)
models.about(*TRAINERS, weight=Weight.NOTHING, tags=(SCALES_LOSSES,))


@models.into(models.attributes, *TRAINERS)
def _attribute(api: Api, trainer: Instance, name: str, node: Node | None) -> Value | None:
    own = symbol("attribute", trainer.identity, name)
    if name == "accelerator":
        return Instance(own, None, _ACCELERATOR)
    return Unknown(own, MODULE) if name in _MODULES else None


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
