"""accelerate: ``Accelerator``, which opens regions, scales losses and unscales gradients by itself.

Source: ``accelerate/accelerator.py`` and ``accelerate/optimizer.py`` of accelerate 1.15. A gradient scaler is made with
``mixed_precision="fp16"`` alone; ``prepare`` runs the forward of a module in autocast and converts its outputs to
float32; ``clip_grad_norm_`` unscales the gradients of *all* prepared optimizers first.
"""

from __future__ import annotations

from dataclasses import replace

from amplint.events import DType, Framework
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Kind, Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.frameworks.scales import (
    precision_of,
    scaler_made,
    scaler_of,
    scales,
    tell_precision,
    told_of_unscaling,
)
from amplint.flow.models.torch.regions import framework_region
from amplint.flow.models.torch.values import MODULE, SCALER, Prepared, StateDict, Tensor
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    NONE,
    Constant,
    External,
    Instance,
    Partial,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

OWNERS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator")
ACCELERATOR = "accelerator"
"""The kind of unknown objects that are used as an Accelerator is."""
_PRECISION = 2
"""The position of ``mixed_precision``, behind ``device_placement`` and ``split_batches``."""
_SCALED: frozenset[object] = frozenset({"fp16"})
_FRAMEWORK = Framework(
    'mixed_precision="fp16"',
    "accelerator.prepare",
    "accelerator.clip_grad_norm_",
    (
        ("clip_grad_norm_", ("parameters", "max_norm", "norm_type")),
        ("clip_grad_value_", ("parameters", "clip_value")),
    ),
)
_TYPES = {"fp16": DType.FLOAT16, "bf16": DType.BFLOAT16}
"""What regions run matrix products in, by ``mixed_precision``."""
_NO_REGION = ("no",)
_SETTINGS = (
    "accelerate.AutocastKwargs",
    "accelerate.utils.AutocastKwargs",
    "accelerate.utils.dataclasses.AutocastKwargs",
)
"""What tells a region how to be."""
_OF_SETTINGS = ("enabled", "cache_enabled")
"""The parameters of such settings."""

models.kinds += [
    Kind(
        ACCELERATOR,
        all_of=frozenset({"backward"}),
        one_of=frozenset({"autocast", "prepare", "accumulate", "unwrap_model", "gather_for_metrics"}),
        none_of=frozenset({"setup", "setup_module", "parameters"}),
    )
]


# made ------------------------------------------------------------------------------------------------------------


def _tell(api: Api, identity: Symbol, arguments: Arguments, node: Node) -> None:
    """``Accelerator(mixed_precision="fp16")``."""
    given = arguments.get(_PRECISION, "mixed_precision")
    tell_precision(api, identity, arguments, given, _SCALED, node, _FRAMEWORK)
    if given is not None and given != NONE:
        api.store(identity, "mixed_precision", given)


roles.give_constructor(models, OWNERS, _tell)


@models.call(*_SETTINGS)
def _settings(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``AutocastKwargs(enabled=False)``."""
    return Partial(External(name), arguments.positional, arguments.keywords)


# regions ---------------------------------------------------------------------------------------------------------


def _autocast(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.autocast()``: on where its settings say so, unless settings of its own are given. Nothing is known
    of it where those are not."""
    told = _told(arguments.all)
    if told is None:
        return api.unknown(node)
    enabled = api.known_truth(told["enabled"]) if "enabled" in told else True
    if enabled is None:
        return api.unknown(node)
    precision = precision_of(api, framework)
    given = precision.given if precision is not None else None
    name = given.value if isinstance(given, Constant) else None
    if name in _NO_REGION:
        return roles.null(api, framework, arguments, node)
    cache = told.get("cache_enabled")
    known = cache.value if isinstance(cache, Constant) and isinstance(cache.value, bool) else None
    on = None if enabled else False
    dtype = _TYPES.get(name) if isinstance(name, str) else None
    return replace(framework_region(api, node, on, known), dtype=dtype)


def _told(arguments: tuple[Value, ...]) -> dict[str, Value] | None:
    """What settings that are given to a region say, or None if nothing is known of them."""
    told: dict[str, Value] = {}
    for value in arguments:
        if isinstance(value, Partial) and isinstance(value.function, External):
            named = dict(zip(_OF_SETTINGS, value.positional, strict=False)) | dict(value.keywords)
            told |= named if value.function.name in _SETTINGS else {}
        elif not isinstance(value, Constant):
            return None
    return told


# training --------------------------------------------------------------------------------------------------------


def _prepare(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``model, optimizer = accelerator.prepare(model, optimizer)``."""
    note = Prepared(scaler_made(api, framework), float32_out=True)
    roles.prepare_all(api, replace(arguments, keywords=()), note, node)
    values = replace(arguments, keywords=()) if arguments.positional else arguments
    return roles.handed_back(values)


def _clip(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``norm = accelerator.clip_grad_norm_(parameters, 1.0)``: a tensor; DeepSpeed, without a scaler, gives None."""
    told_of_unscaling(api, framework, node)
    return Tensor(DType.FLOAT32)


def _clip_values(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.clip_grad_value_(parameters, 1.0)``."""
    told_of_unscaling(api, framework, node)
    return NONE


def _unscale(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.unscale_gradients()``, of all optimizers or of those that are given."""
    if arguments.get(0, "optimizer") not in (None, NONE):
        return roles.hidden(api, framework, arguments, node)
    told_of_unscaling(api, framework, node)
    return NONE


# states ----------------------------------------------------------------------------------------------------------


def _save_all(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.save_state(folder)``: the state of the scaler is written, too."""
    if isinstance(framework, Instance) and scales(api, framework) is not False:
        api.each(
            scaler_of(api, framework),
            lambda one: NONE if one == NONE else roles.method(api, one, "state_dict", Arguments(), node),
        )
    return NONE


def _state_of_model(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.get_state_dict(model)``."""
    model = roles.first(arguments)
    return StateDict(MODULE, roles.owner_of(api, model) if model is not None else None, api.place(node))


@models.into(models.attributes, *OWNERS)
def _attribute(api: Api, framework: Instance, name: str, node: Node | None) -> Value | None:
    return scaler_of(api, framework) if name == "scaler" else None


@models.into(models.attributes, ACCELERATOR)
def _attribute_of_unknown(api: Api, framework: Unknown, name: str, node: Node | None) -> Value | None:
    return Unknown(symbol("scaler of", framework.symbol), SCALER) if name == "scaler" else None


ROLES = {
    "autocast": Role(_autocast, Weight.ENTRY, roles.REGION.tags),
    "accumulate": roles.NULL,
    "no_sync": roles.NULL,
    "profile": roles.NULL,
    "join_uneven_inputs": roles.NULL,
    "backward": roles.BACKWARD,
    "clip_grad_norm_": Role(_clip),
    "clip_grad_value_": Role(_clip_values),
    "unscale_gradients": Role(_unscale),
    "prepare": Role(_prepare),
    "prepare_model": Role(_prepare),
    "prepare_optimizer": Role(_prepare),
    "prepare_data_loader": Role(_prepare),
    "prepare_scheduler": Role(_prepare),
    "unwrap_model": roles.SAME,
    "save": roles.SAVE,
    "save_state": Role(_save_all),
    "get_state_dict": Role(_state_of_model),
}

roles.give(models, OWNERS, ROLES)
roles.give_kind(models, ACCELERATOR, ROLES)
