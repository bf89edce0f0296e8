"""accelerate: ``Accelerator``, which opens regions, scales losses and unscales gradients by itself.

Source: ``accelerate/accelerator.py`` and ``accelerate/optimizer.py`` of accelerate 1.15. A gradient scaler is made with
``mixed_precision="fp16"`` alone, and on a CPU not even then; ``prepare`` runs the forward of a module in autocast and
converts its outputs to float32; ``clip_grad_norm_`` unscales the gradients of *all* prepared optimizers first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amplint.events import DType, Framework
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Kind, Registry, Weight
from amplint.flow.models.frameworks import roles
from amplint.flow.models.frameworks.roles import Role
from amplint.flow.models.frameworks.scales import (
    Precision,
    prepared,
    region_by,
    scaler_of,
    scales,
    tell_precision,
    told_of_unscaling,
)
from amplint.flow.models.torch.notes import Prepared, Wrapped
from amplint.flow.models.torch.values import MODULE, SCALER, Autocast, StateDict, Tensor
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
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
    backward="accelerator.backward",
    gives_scaler=True,
)
_TYPES: dict[object, DType] = {"fp16": DType.FLOAT16, "bf16": DType.BFLOAT16}
"""What regions run matrix products in, by ``mixed_precision``."""
_NO_REGION = ("no",)
_MODULES = ("accelerate", "accelerate.utils", "accelerate.utils.dataclasses")
_REGION, _SCALER = "AutocastKwargs", "GradScalerKwargs"
"""What tells a region, and what tells the scaler how to be."""
_HANDLERS = (_REGION, _SCALER, "DistributedDataParallelKwargs", "InitProcessGroupKwargs", "ProfileKwargs")
_OF_REGION = ("enabled", "cache_enabled")
"""The parameters of the settings of a region."""
_CPU = 4
"""The position of ``cpu``."""
_ENGINES = ("deepspeed_plugin", "deepspeed_plugins", "megatron_lm_plugin")
"""What hands training over to a package that casts and scales by itself."""
_MASTERS = (*_ENGINES, "fsdp_plugin")
"""What may keep float32 copies of half-precision parameters."""


@dataclass(frozen=True, slots=True)
class Setup(Note):
    """What else the constructor of an Accelerator was given. ``region``: the settings of its regions, None where not
    all are known; ``cpu`` whether it runs on the CPU, if that is known; ``engine``: another package may train;
    ``masters``: something may keep float32 copies of the parameters; ``scaler``: none of the settings switches the
    gradient scaler off."""

    region: tuple[tuple[str, Value], ...] | None = ()
    cpu: bool | None = False
    engine: bool = False
    masters: bool = False
    scaler: bool = True


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
    setup = _setup(api, arguments)
    api.set_note(identity, setup)
    if setup.engine:
        # the package that trains has a scaler of its own
        tell_precision(api, identity, Arguments(), None, frozenset(), node, _FRAMEWORK)
        return
    if setup.cpu and given == Constant("fp16"):
        given = Constant("no")
    tell_precision(api, identity, arguments, given, _SCALED, node, _FRAMEWORK)
    if given is not None and given != NONE:
        api.store(identity, "mixed_precision", given)
    made = api.note(identity, Precision)
    if made is not None and not setup.scaler:
        api.set_note(identity, replace(made, scales=FALSE))


def _setup(api: Api, arguments: Arguments) -> Setup:
    handlers = api.contents(arguments.keyword("kwargs_handlers") or NONE)
    held = Sequence(()) if handlers == NONE else handlers
    told = _told(held.items) if isinstance(held, Sequence) and held.exact else None
    cpu = arguments.get(_CPU, "cpu")
    return Setup(
        None if told is None else tuple(told.items()),
        api.known_truth(cpu) if cpu is not None else False,
        _is_given(arguments, _ENGINES),
        _is_given(arguments, _MASTERS),
        not any(_may_switch_off(one) for one in held.items) if isinstance(held, Sequence) else True,
    )


def _may_switch_off(value: Value) -> bool:
    """``GradScalerKwargs(enabled=False)``."""
    if not isinstance(value, Partial) or not isinstance(value.function, External):
        return False
    return value.function.name.endswith(f".{_SCALER}") and dict(value.keywords).get("enabled", TRUE) != TRUE


def _is_given(arguments: Arguments, names: tuple[str, ...]) -> bool:
    return any(name in names and value != NONE for name, value in arguments.keywords)


roles.give_constructor(models, OWNERS, _tell)


@models.call(*(f"{module}.{name}" for module in _MODULES for name in _HANDLERS))
def _settings(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``AutocastKwargs(enabled=False)``."""
    return Partial(External(name), arguments.positional, arguments.keywords)


# regions ---------------------------------------------------------------------------------------------------------


def _autocast(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.autocast()``: as its settings say, unless settings of its own are given. Nothing is known of it
    where those are not."""
    told = _told(arguments.all)
    if told is None:
        return api.unknown(node)
    setup = _setup_of(api, framework)
    of_region = dict(setup.region) if setup.region is not None else None
    context = _context(api, framework, told or of_region, node)
    return context if context is not None else roles.null(api, framework, arguments, node)


def _context(api: Api, framework: Value, told: dict[str, Value] | None, node: Node) -> Autocast | None:
    """What an Accelerator opens around a forward, None for nothing at all; ``told`` are the settings of the region,
    None where they are not known."""
    setup = _setup_of(api, framework)
    context = region_by(api, framework, _TYPES, _NO_REGION, node)
    if context is None:
        return None
    given = told or {}
    enabled = api.known_truth(given["enabled"]) if "enabled" in given else True
    cache = given.get("cache_enabled")
    known = cache.value if isinstance(cache, Constant) and isinstance(cache.value, bool) else None
    sure = told is not None and enabled is not None and setup.cpu is not None and not setup.engine
    on = enabled if enabled is False else context.enabled if sure else None
    framework_ = context.framework or not sure
    device = "cpu" if setup.cpu else None
    return replace(context, enabled=on, cache_enabled=known, framework=framework_, device=device)


def _setup_of(api: Api, framework: Value) -> Setup:
    identity = roles.owner_of(api, framework)
    found = api.note(identity, Setup) if identity is not None else None
    return found if found is not None else Setup(None, None)


def _told(arguments: tuple[Value, ...]) -> dict[str, Value] | None:
    """What settings that are given to a region say, or None if nothing is known of them."""
    told: dict[str, Value] = {}
    for value in arguments:
        if isinstance(value, Partial) and isinstance(value.function, External):
            named = dict(zip(_OF_REGION, value.positional, strict=False)) | dict(value.keywords)
            told |= named if value.function.name.endswith(f".{_REGION}") else {}
        elif not isinstance(value, Constant):
            return None
    return told


# training --------------------------------------------------------------------------------------------------------


def _prepare(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``model, optimizer = accelerator.prepare(model, optimizer)``."""
    setup = _setup_of(api, framework)
    told = dict(setup.region) if setup.region is not None else None
    context = _context(api, framework, told, node)
    taken = replace(arguments, keywords=()) if arguments.positional else arguments
    roles.prepare_all(api, taken, prepared(api, framework, context), node)
    if setup.masters:
        roles.prepare_all(api, taken, Wrapped(), node)
    return roles.handed_back(taken)


def _unwrap(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.unwrap_model(model)``: the same model, whose forward stays as ``prepare`` has made it, unless
    ``keep_fp32_wrapper=False`` takes that back in place."""
    model, kept = arguments.get(0, "model"), arguments.get(1, "keep_fp32_wrapper")
    identity = roles.owner_of(api, model) if model is not None else None
    if identity is not None and kept is not None and api.known_truth(kept) is not True:
        for note in api.notes(identity, Prepared):
            api.set_note(identity, replace(note, float32_out=False, context=None))
    return model or api.unknown(node)


def _clip(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``norm = accelerator.clip_grad_norm_(parameters, 1.0)``: a tensor; DeepSpeed, without a scaler, gives None."""
    told_of_unscaling(api, framework, node, _FRAMEWORK)
    return Tensor(DType.FLOAT32)


def _clip_values(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.clip_grad_value_(parameters, 1.0)``."""
    told_of_unscaling(api, framework, node, _FRAMEWORK)
    return NONE


def _unscale(api: Api, framework: Value, arguments: Arguments, node: Node) -> Value:
    """``accelerator.unscale_gradients()``, of all optimizers or of those that are given."""
    if arguments.get(0, "optimizer") not in (None, NONE):
        return roles.hidden(api, framework, arguments, node)
    told_of_unscaling(api, framework, node, _FRAMEWORK)
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
    "unwrap_model": Role(_unwrap),
    "save": roles.SAVE,
    "save_state": Role(_save_all),
    "get_state_dict": Role(_state_of_model),
}

roles.give(models, OWNERS, ROLES)
roles.give_kind(models, ACCELERATOR, ROLES)
