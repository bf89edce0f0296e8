"""What the functions and classes of torch, contextlib and other libraries mean to the flow."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp import ops
from amplint.amp.regions import (
    ABOUT_THE_MACHINE,
    CUSTOM_BWD,
    CUSTOM_FWD,
    ENTRIES,
    GRAD_OFF,
    NULL_CONTEXTS,
    QUESTIONS,
)
from amplint.amp.scalers import SCALERS, SCALES_ITSELF, TAKES_HALF_PARAMETERS, parameters_of
from amplint.amp.wrappers import (
    BY_NAME,
    CAPTURES,
    DATA_PARALLEL,
    MODEL_FACTORIES,
    OBJECTS,
    OPTIMIZER_FACTORIES,
    OPTIMIZER_PACKAGES,
    REGION_SETTINGS,
    SCHEDULER_FACTORIES,
    SHARDING_WRAPPERS,
    TRANSPARENT_CALLS,
)
from amplint.events import (
    INITIAL_SCALE,
    AutocastSwitched,
    CacheCleared,
    Captured,
    CastParameters,
    Converted,
    DType,
    OptimizerMade,
    Place,
    ScalerMade,
    enabled_region,
)
from amplint.flow import attributes, calls, checkpoints, contexts, modules, scaling, tensors, threads
from amplint.flow.values import (
    NONE,
    UNKNOWN,
    Autocast,
    BoundMethod,
    Constant,
    Context,
    Decorated,
    DeviceValue,
    DTypeValue,
    FunctionValue,
    Instance,
    Iteration,
    Library,
    Mapping,
    Number,
    Optimizer,
    Partial,
    ScaledGradient,
    ScaledLoss,
    Scaler,
    Scheduler,
    Sequence,
    Sharded,
    Tensor,
    Text,
    TorchVersion,
    TypeInfo,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.expressions import Expressions

_GRAD_MODES = {
    **dict.fromkeys(GRAD_OFF, "grad off"),
    "torch.enable_grad": "grad on",
    "torch.autograd.enable_grad": "grad on",
}
_SWITCH = re.compile(r"torch\.set_autocast_(?:\w+_)?enabled")
_SWITCHES = re.compile(r"set_autocast_(?:\w+_)?enabled\(")
_FIRST_ARGUMENT = frozenset(
    {
        "builtins.list",
        "builtins.tuple",
        "builtins.sorted",
        "builtins.reversed",
        "builtins.iter",
        "builtins.set",
        "copy.copy",
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
        "tqdm.trange",
        "builtins.dict",
    }
)
_VERSION_PARSERS = frozenset(
    {
        "packaging.version.parse",
        "packaging.version.Version",
        "distutils.version.LooseVersion",
        "distutils.version.StrictVersion",
        "pkg_resources.parse_version",
        "looseversion.LooseVersion",
        "torch.torch_version.TorchVersion",
    }
)


def _is_instance(walker: Expressions, value: Value, kind: Value) -> bool | None:
    if not isinstance(kind, Library):
        return None
    if kind.name in DATA_PARALLEL and walker.path.load(modules.identity_of(value), "<replicas>") is not None:
        return True
    if kind.name == "torch.nn.Module" and modules.is_module(walker, value):
        return True
    if kind.name in ("torch.Tensor", "torch.dtype"):
        if isinstance(value, Tensor) and not value.whole_output:
            return kind.name == "torch.Tensor"
        if isinstance(value, (Constant, Sequence, Mapping)):
            return False
    return None


def grad_mode(name: str) -> str | None:
    """ "grad off" or "grad on" for a context that switches gradients, else None."""
    return _GRAD_MODES.get(name)


def call(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> Value:
    """Calls something of a library."""
    if name.startswith("builtins."):
        return _builtin(walker, name[9:], given, node)
    if name.startswith("torch."):
        found = _torch(walker, name, given, node)
        if found is not None:
            return found
    if name in ENTRIES:
        return contexts.make(walker, name, given, node)
    if name in OBJECTS:
        framework = Instance((id(node), walker.scope.chain), None, name)
        precision = given.keyword("mixed_precision")
        if isinstance(precision, Constant):
            walker.path.store(framework.identity, scaling.PRECISION, precision)
        checkpoints.note_scaler(walker, framework, given, node)
        return framework
    if threads.is_thread_class(name):
        return threads.made(walker, name, given, node)
    if name == "asyncio.to_thread" and threads.elsewhere(walker, name, given, node):
        return Unknown(walker.fresh(node))
    if name in _FIRST_ARGUMENT:
        return given.positional[0] if given.positional else Sequence()
    if name in SCALERS:
        return _scaler(walker, name, given, node)
    if _is_optimizer(name):
        return _optimizer(walker, given, node)
    if name in NULL_CONTEXTS:
        kind = "stack" if name == "contextlib.ExitStack" else "null"
        return Context(kind, identity=(id(node), walker.scope.chain))
    if name in TRANSPARENT_CALLS:
        return _transparent(walker, name, given, node)
    match name:
        case "functools.partial":
            if given.positional:
                return Partial(given.positional[0], given.positional[1:], given.keywords)
            return UNKNOWN
        case "functools.wraps":
            return Library("functools.<wrapped>")
        case "contextlib.contextmanager" if given.positional and isinstance(
            given.positional[0], FunctionValue
        ):
            return calls.apply_decorator(walker, Library(name), given.positional[0], cst.Decorator(node))
        case _ if name == SCALES_ITSELF:
            # apex multiplies it once more, and the context divides the gradients at its end
            return ScaledLoss(None, given.positional[0] if given.positional else UNKNOWN)
        case "copy.deepcopy":
            first = given.positional[0] if given.positional else UNKNOWN
            if modules.is_module(walker, first):
                return Unknown(walker.fresh(node), "module")
            return first
        case "numpy.asarray" | "numpy.array" | "numpy.ascontiguousarray":
            first = given.positional[0] if given.positional else UNKNOWN
            if isinstance(first, Tensor):
                place, piece = walker.place(node), given.nodes[0] if given.nodes else node
                walker.emit(
                    Converted(place, walker.path.regions, tensors.operand(walker, first, piece), "numpy")
                )
            return UNKNOWN
        case "importlib.import_module" if given.positional:
            module = given.positional[0]
            if isinstance(module, Constant) and isinstance(module.value, str):
                return walker.engine.imported(walker.scope.file, module.value)
            return Unknown(walker.fresh(node))
        case "functools.<wrapped>":
            return given.positional[0] if given.positional else UNKNOWN
        case "einops.rearrange" | "einops.repeat":
            first = given.positional[0] if given.positional else UNKNOWN
            return first.moved() if isinstance(first, Tensor) else UNKNOWN
        case "einops.einsum":
            values = [value for value in given.positional if not isinstance(value, Constant)]
            return tensors.apply(walker, node, "einsum", values)
    if name.startswith("timm.utils."):
        read = scaling.gradient_function(walker, name, given, node)
        if read is not None:
            return read
    if name.startswith(SCHEDULER_FACTORIES):
        of = given.positional[0] if given.positional else given.keyword("optimizer") or UNKNOWN
        return Scheduler((id(node), walker.scope.chain), scaling.identity_of(of))
    if name in REGION_SETTINGS:
        return Partial(Library(name), given.positional, given.keywords)
    if name in SHARDING_WRAPPERS:
        return _sharded(walker, given, node)
    if name in _VERSION_PARSERS and given.positional:
        return given.positional[0]
    if any(isinstance(value, TorchVersion) for value in given.positional):
        return TorchVersion()
    if name.startswith(MODEL_FACTORIES) or (name.endswith(".from_pretrained") and _half_asked(given)):
        made = Unknown(walker.fresh(node), "module")
        _cast_while_made(walker, made, given, node)
        return made
    return scaling.out_of_sight(walker, given, node, in_project=name.startswith("torch."))


def _transparent(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> Value:
    """The first argument, which is a module if it is to be run in parallel."""
    first = given.positional[0] if given.positional else given.keyword("module") or UNKNOWN
    if name == "torch.jit.script":
        _capture(walker, name, given, node)
    if name == "torch.compile":
        return (
            compiled(walker, first, node) if given.positional else Partial(Library(name), (), given.keywords)
        )
    if isinstance(first, Unknown) and name.endswith("Parallel"):
        first = Unknown(first.symbol if first.symbol is not None else ("module", name), "module")
    if name in DATA_PARALLEL:
        walker.path.store(modules.identity_of(first), "<replicas>", Constant(True))
    return first


def _sharded(walker: Expressions, given: calls.Arguments, node: cst.Call) -> Value:
    """``FullyShardedDataParallel(module)``: the module, with a note that its parameters are split among
    processes from here on, unless the strategy keeps them whole or is not known."""
    wrapped = _transparent(walker, "Parallel", given, node)
    strategy = given.keyword("sharding_strategy")
    split = strategy is None or strategy == NONE
    if isinstance(strategy, Library):
        split = strategy.name.rpartition(".")[2] != "NO_SHARD"
    identity = modules.identity_of(wrapped)
    if split and identity is not None:
        walker.path.store(identity, scaling.SHARDED, Sharded(walker.place(node)))
    return wrapped


def compiled(walker: Expressions, value: Value, node: cst.CSTNode) -> Value:
    """What torch.compile gives back: the module, marked; or the function, in a context of its own."""
    place = walker.place(node)
    if modules.is_module(walker, value):
        walker.path.store(modules.identity_of(value), "<compiled>", Context("compiled", place=place))
        return value
    if isinstance(value, (FunctionValue, BoundMethod, Decorated, Partial)):
        return Decorated(value, Context("compiled", place=place))
    return value


def _capture(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> None:
    """Tells that a callable is recorded, or a graph is."""
    if name not in CAPTURES:
        return
    first = given.positional[0] if given.positional else UNKNOWN
    trains = modules.is_module(walker, first) and modules.takes_gradients(walker, first)
    decorated: Place | None = None
    if isinstance(first, FunctionValue) and not first.undecorated:
        first = walker.engine.decorated(walker, first)
    if isinstance(first, Decorated) and isinstance(first.context, Autocast):
        decorated = first.context.place
    walker.emit(Captured(walker.place(node), walker.path.regions, CAPTURES[name], trains, decorated))


def _switch(walker: Expressions, given: calls.Arguments, node: cst.Call) -> None:
    """``torch.set_autocast_enabled(…)``: who else sets it in this file may well be its end."""
    flag = given.keyword("enabled") or (given.positional[-1] if given.positional else UNKNOWN)
    known = flag.value if isinstance(flag, Constant) and isinstance(flag.value, bool) else None
    text = walker.scope.text_around(_SWITCH.pattern)
    alone = text is not None and len(_SWITCHES.findall(text)) == len(
        _SWITCHES.findall(walker.scope.file.text)
    )
    walker.emit(AutocastSwitched(walker.place(node), walker.path.regions, known if alone else None))


def _half_asked(given: calls.Arguments) -> bool:
    """Whether a model is loaded in half precision; what is loaded with a type of tensors is a module."""
    dtype = given.keyword("torch_dtype") or given.keyword("dtype")
    return isinstance(dtype, DTypeValue) and dtype.dtype.is_half


def _cast_while_made(walker: Expressions, made: Value, given: calls.Arguments, node: cst.CSTNode) -> None:
    """``from_pretrained(…, torch_dtype=torch.float16)``."""
    for key in ("torch_dtype", "dtype"):
        dtype = given.keyword(key)
        if isinstance(dtype, DTypeValue) and dtype.dtype.is_half:
            modules.cast(walker, made, dtype.dtype, node)


def _torch(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> Value | None:
    if name in ENTRIES:
        return contexts.make(walker, name, given, node)
    if name in SCALERS:
        return _scaler(walker, name, given, node)
    if _is_optimizer(name):
        return _optimizer(walker, given, node)
    if name in SHARDING_WRAPPERS:
        return _sharded(walker, given, node)
    if name in _GRAD_MODES:
        if given.positional and isinstance(given.positional[0], FunctionValue):
            return given.positional[0]
        return Context(_GRAD_MODES[name])
    if name in NULL_CONTEXTS:
        return Context("null")
    if name in CUSTOM_FWD or name in CUSTOM_BWD:
        return given.positional[0] if given.positional else Partial(Library(name), (), given.keywords)
    if name in TRANSPARENT_CALLS:
        return _transparent(walker, name, given, node)
    if name.startswith(("torch.jit.trace", "torch.cuda.")):
        _capture(walker, name, given, node)
    if _SWITCH.fullmatch(name):
        _switch(walker, given, node)
        return NONE
    match name:
        case "torch.cuda.is_available" if walker.engine.device == "cuda":
            # what is linted is the run on the device that AMP is for
            return Constant(True)
        case _ if name in QUESTIONS:
            if walker.path.regions:
                return Constant(enabled_region(walker.path.regions) is not None)
            return Unknown((tensors.ASKED,))
        case _ if not given.all and ABOUT_THE_MACHINE.fullmatch(name):
            return Unknown((name,))
        case "torch.clear_autocast_cache":
            walker.emit(CacheCleared(walker.place(node), walker.path.regions))
            return UNKNOWN
        case "torch.autograd.backward":
            losses = given.positional[0] if given.positional else given.keyword("tensors") or UNKNOWN
            scaling.backward(walker, losses, node, "torch.autograd.backward()")
            return UNKNOWN
        case "torch.autograd.grad":
            return scaling.gradients_of(walker, given, node)
        case "torch.save":
            checkpoints.saved(walker, given.positional[0] if given.positional else UNKNOWN, node)
            return UNKNOWN
        case "torch.set_grad_enabled" | "torch.autograd.set_grad_enabled":
            flag = given.positional[0] if given.positional else UNKNOWN
            known = walker.known_truth(flag)
            return Context("null") if known is None else Context("grad on" if known else "grad off")
        case "torch.finfo":
            first = given.positional[0] if given.positional else given.keyword("type")
            return TypeInfo(first.dtype) if isinstance(first, DTypeValue) else Unknown(walker.fresh(node))
        case "torch.device":
            first = given.positional[0] if given.positional else given.keyword("type")
            return contexts.device(first)
        case "torch.nn.Parameter" | "torch.nn.parameter.Parameter":
            first = given.positional[0] if given.positional else given.keyword("data") or UNKNOWN
            dtype = first.dtype if isinstance(first, Tensor) else DType.FLOAT32
            return Tensor(dtype, parameter_of=(id(node), walker.scope.chain))
        case "torch.utils.checkpoint.checkpoint":
            inner = calls.Arguments(given.positional[1:], (), given.nodes[1:], given.unclear)
            return calls.call_value(walker, given.positional[0], inner, node) if given.positional else UNKNOWN
        case "torch.nn.init.xavier_uniform_" | "torch.nn.init.kaiming_normal_" | "torch.nn.init.normal_":
            return given.positional[0] if given.positional else UNKNOWN
    if name.startswith("torch.nn.init.") and name.endswith("_") and given.positional:
        tensors.write(walker, given.positional[0], f"{name}()", node)
    if name == "torch.nn.utils.vector_to_parameters" and len(given.positional) > 1:
        tensors.write(walker, given.positional[1], f"{name}()", node)
    if name.startswith("torch.nn.functional."):
        return tensors.function(walker, node, name[20:], given)
    scaled = scaling.computed(name, given)
    if scaled is None:
        scaled = scaling.gradient_function(walker, name, given, node)
    if scaled is not None:
        return scaled
    if name.startswith(("torch.nn.utils.", "torch.nn.init.", "torch.nn.parallel.")):
        return Unknown(walker.fresh(node))
    if name.startswith("torch.nn.") and (
        name in ops.MODULES or name in modules.CONTAINERS or name == "torch.nn.Identity"
    ):
        return modules.make_library_module(walker, name, given, node)
    if name.startswith("torch.nn."):
        return Unknown(walker.fresh(node), "module")
    for prefix in ("torch.special.", "torch.linalg.", "torch.fft."):
        if name.startswith(prefix):
            short = name.removeprefix("torch.")
            return tensors.function(walker, node, short, given)
    rest = name[6:]
    if "." not in rest:
        if rest.startswith("Tensor."):
            rest = rest[7:]
        return tensors.function(walker, node, rest, given)
    if name.startswith("torch.Tensor."):
        return tensors.function(walker, node, rest[7:], given)
    return None


def _is_optimizer(name: str) -> bool:
    if name in OPTIMIZER_FACTORIES:
        return True
    last = name.rpartition(".")[2]
    return (
        name.startswith(OPTIMIZER_PACKAGES)
        and last[:1].isupper()
        and ".lr_scheduler" not in name
        and ".swa_utils" not in name
    )


def _identity(walker: Expressions, node: cst.CSTNode) -> Hashable:
    """What tells an optimizer or scaler apart: where it is made. A name of a module is one object, whether the
    module is walked or a function reads the name."""
    place = walker.place(node)
    return (place.path, place.span, walker.scope.chain)


def _optimizer(walker: Expressions, given: calls.Arguments, node: cst.Call) -> Value:
    owners: frozenset[object] = frozenset()
    for value in given.all:
        owners |= modules.parameters_in(walker, value)
    optimizer = Optimizer(_identity(walker, node), owners)
    casts = tuple(CastParameters(dtype, place) for dtype, place in modules.casts_of(walker, optimizer))
    walker.emit(
        OptimizerMade(walker.place(node), walker.path.regions, optimizer.identity, casts, optimizer.modules)
    )
    walker.path.made |= {optimizer.identity}
    return optimizer


def _scaler(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> Value:
    flag = given.keyword("enabled")
    enabled: bool | None = True
    if flag is not None:
        enabled = walker.known_truth(flag)
    # the flag counts although this path knows it: it is why there is a scaler
    switch = flag if enabled is None or (enabled and isinstance(flag, Unknown)) else None
    identity = _identity(walker, node)
    shown = contexts.looked_up(walker, given)
    contexts.tell_of_arguments(walker, name, parameters_of(name), shown, node)
    walker.emit(ScalerMade(walker.place(node), walker.path.regions, identity, enabled))
    if not walker.silent:
        walker.engine.scalers_made.add(identity)
        walker.path.idle = enabled is False
    return Scaler(
        identity,
        enabled,
        name in TAKES_HALF_PARAMETERS,
        switch,
        walker.place(node),
        initial=_initial_scale(given, parameters_of(name)),
    )


def _initial_scale(given: calls.Arguments, parameters: tuple[str, ...]) -> float | None:
    if given.unclear or (given.positional and not parameters):
        return None
    value = given.by_name(parameters).get("init_scale")
    if value is None:
        return INITIAL_SCALE
    number = value.value if isinstance(value, Constant) else None
    return float(number) if isinstance(number, (int, float)) else None


def _builtin(walker: Expressions, name: str, given: calls.Arguments, node: cst.Call) -> Value:
    first = given.positional[0] if given.positional else UNKNOWN
    match name:
        case "list" | "tuple" | "sorted" | "reversed" | "iter" | "set" | "filter" | "dict":
            source = given.positional[-1] if name == "filter" and given.positional else first
            if name == "dict" and not given.positional:
                return Mapping(given.keywords, (UNKNOWN,) if given.unclear else ())
            if not given.positional:
                return Sequence()
            if isinstance(source, Instance):
                return modules.items_of(walker, source) or UNKNOWN
            if isinstance(source, Sequence) and name in ("reversed", "sorted", "set", "filter"):
                return Sequence(source.items, exact=False)
            return source
        case "str" if isinstance(first, DeviceValue):
            if first.text is not None:
                whole = not first.text.endswith("…")
                return Constant(first.text) if whole else Text(first.text[:-1])
            return Unknown(walker.fresh(node))
        case "enumerate":
            return Iteration(Sequence((Number(walker.fresh(node)), modules.element(walker, first))))
        case "zip":
            return Iteration(Sequence(tuple(modules.element(walker, value) for value in given.positional)))
        case "map":
            function = first
            each = tensors.element_of(given.positional[1]) if len(given.positional) > 1 else UNKNOWN
            result = calls.call_value(walker, function, calls.Arguments((each,), (), (node,)), node)
            return Sequence((result,), exact=False)
        case "next":
            return tensors.element_of(first)
        case "bool" if given.positional:
            known = walker.known_truth(first)
            return Constant(known) if known is not None else first
        case "float" | "int" | "len" | "round" | "abs" | "bool" | "str" | "print":
            for loss in given.positional if name in ("float", "int", "str", "print") else ():
                if isinstance(loss, ScaledLoss):
                    scaling.read_loss(walker, loss, name, node)
            if name == "abs" and isinstance(first, Tensor):
                return tensors.apply(walker, node, "abs", [first])
            return Unknown(walker.fresh(node)) if name in ("str", "print") else Number(walker.fresh(node))
        case "sum":
            each = tensors.element_of(first)
            if isinstance(each, ScaledGradient):
                return each
            if isinstance(each, Tensor):
                return each.moved()
            if isinstance(each, ScaledLoss):
                return each
            return Unknown(walker.fresh(node))
        case "range":
            return Iteration(Number(walker.fresh(node)))
        case "getattr":
            key = given.positional[1] if len(given.positional) > 1 else UNKNOWN
            if isinstance(key, Constant) and isinstance(key.value, str) and key.value.isidentifier():
                text = cst.Attribute(node.args[0].value, cst.Name(key.value))
                return attributes.read(walker, first, key.value, text)
            if isinstance(first, Library) and first.name in BY_NAME:
                return Library(BY_NAME[first.name])
            return Unknown(walker.fresh(node))
        case "hasattr":
            key = given.positional[1] if len(given.positional) > 1 else UNKNOWN
            if isinstance(first, Library) and isinstance(key, Constant):
                known = walker.engine.torch_has(first.name, str(key.value))
                return Constant(known) if known is not None else Unknown(("has", first.name, key))
            symbol = first.symbol if isinstance(first, Unknown) else None
            return Unknown(("has", symbol, key)) if symbol is not None else Unknown(walker.fresh(node))
        case "isinstance":
            second = given.positional[1] if len(given.positional) > 1 else UNKNOWN
            known = _is_instance(walker, first, second)
            if known is not None:
                return Constant(known)
            symbol = first.symbol if isinstance(first, Unknown) else None
            return Unknown(("is", symbol, second)) if symbol is not None else Unknown(walker.fresh(node))
        case "super" | "print":
            return Unknown(walker.fresh(node))
        case "staticmethod" | "classmethod" | "property":
            return first
    for value in given.all:
        if isinstance(value, BoundMethod) and value.function is not None and name == "callable":
            return Constant(True)
    return Unknown(walker.fresh(node))
