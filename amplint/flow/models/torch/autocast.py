"""Autocast contexts: how they are made, entered by hand, put around functions, inherited from and thrown away."""

from __future__ import annotations

from dataclasses import dataclass, replace

from amplint.amp.regions import ENTRIES
from amplint.events import DType, GeneratorDecorated, NeverOn, RegionAbandoned, RegionDropped, enabled_region
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch import arguments as given
from amplint.flow.models.torch import regions as opened
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.devices import never
from amplint.flow.models.torch.values import TYPE_OF_MODULE, Autocast, DeviceValue, DTypeValue
from amplint.flow.state.atoms import equals
from amplint.flow.state.conditions import asked, negation
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    NONE,
    BoundMethod,
    Choice,
    ClassValue,
    Constant,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Note,
    Number,
    Partial,
    Text,
    Unknown,
    Value,
)
from amplint.lowering import program as ir
from amplint.lowering.program import Node

models = Registry()

_OF_TORCH = tuple(name for name, entry in ENTRIES.items() if not entry.framework)
"""Those of frameworks have models of their own."""
_BY_HAND = frozenset({"__enter__", "__exit__"})
_MANAGERS = frozenset({"contextlib.contextmanager", "contextlib.asynccontextmanager"})
_CALLABLE = (FunctionValue, BoundMethod, Decorated, Partial, ClassValue)


@dataclass(frozen=True, slots=True)
class Inherits(Note):
    """An object of a class of the project that derives from autocast: the context that it is."""

    context: Autocast


# made ------------------------------------------------------------------------------------------------------------


@models.call(*_OF_TORCH, weight=Weight.ENTRY, tags=("opens a region",))
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else None
    if isinstance(first, _CALLABLE):
        # @autocast without a call: Python takes the function for the first parameter
        return first
    return make(api, name, arguments, node)


def make(api: Api, name: str, arguments: Arguments, node: Node) -> Autocast:
    """The context that a call to an autocast class makes."""
    entry = ENTRIES[name]
    given.tell(api, name, entry.parameters, arguments, node)
    named = arguments.by_name(entry.parameters)
    device = entry.device
    if device is None and not entry.framework:
        device = _device_of(api, named.get("device_type"))
    dtype, dtype_given = _dtype_of(named.get("dtype"))
    enabled, switch = _enabled(api, named.get("enabled"), arguments)
    compared = never(api, named.get("enabled"))
    if compared is not None:
        api.emit(NeverOn(api.place(node), regions(api), compared))
    cache = named.get("cache_enabled")
    return Autocast(
        api.place(node),
        api.fresh(node),
        device,
        dtype,
        dtype_given,
        entry.inherits_dtype,
        enabled,
        switch,
        cache.value if isinstance(cache, Constant) and isinstance(cache.value, bool) else None,
        entry.framework,
        _chosen(entry.parameters, arguments),
    )


def _chosen(parameters: tuple[str, ...], arguments: Arguments) -> tuple[str, ...]:
    """Which of ``enabled`` and ``dtype`` are given by an expression: no literal, and no attribute such as that of
    torch."""
    written = dict(zip(parameters, arguments.nodes, strict=False)) | dict(arguments.keyword_nodes)
    flag, dtype = written.get("enabled"), written.get("dtype")
    found = []
    if flag is not None and not isinstance(flag, ir.LiteralNode):
        found.append("enabled")
    if dtype is not None and not isinstance(dtype, (ir.LiteralNode, ir.Attribute)):
        found.append("dtype")
    return tuple(found)


def _enabled(api: Api, flag: Value | None, arguments: Arguments) -> tuple[bool | None, Value | None]:
    """Whether a context is switched on, and the flag that decides. A flag counts although this path knows how it
    came out: it is why there is a context."""
    if flag is None:
        return (None if arguments.unclear else True), None
    known = api.known_truth(flag)
    return known, flag if known is None or isinstance(flag, (Unknown, Number, Choice)) else None


def _device_of(api: Api, value: Value | None) -> str | None:
    match value:
        case Constant(value=str() as text):
            return text.split(":")[0]
        case DeviceValue() if value.device is not None or value.symbol is None:
            return value.device
        case Unknown() | DeviceValue() if value.symbol is not None:
            return _asked_for(api, value.symbol)
        case Text() if ":" in value.start:
            return value.start.split(":")[0]
    return None


def _asked_for(api: Api, symbol: Symbol) -> str | None:
    """The device that the code has asked for on this path, ``if device_type == "cpu":``. A run is on one device: a path
    on which another one is asked for in a region goes no further."""
    for device in ("cuda", "cpu", "mps"):
        is_it = asked(equals(symbol, Constant(device)))
        if api.known_truth(is_it) is True:
            around = enabled_region(regions(api))
            if around is not None and around.device not in (None, device):
                api.assume(negation(is_it))
            return device
    return None


def _dtype_of(value: Value | None) -> tuple[DType | None, bool]:
    """The type that a region is given. In that of a module, ``dtype=model.dtype``, nothing becomes half that is not so
    already."""
    if value is None or value == NONE:
        return None, False
    if isinstance(value, Unknown) and value.kind == TYPE_OF_MODULE:
        return DType.FLOAT32, True
    return (value.dtype if isinstance(value, DTypeValue) else None), True


# entered and left by hand ----------------------------------------------------------------------------------------


@models.method(Autocast, "__enter__", weight=Weight.EFFECT)
def _enter_by_hand(api: Api, context: Autocast, name: str, arguments: Arguments, node: Node) -> Value:
    opened.enter(api, context, node, _only_name(api, node))
    return context


@models.method(Autocast, "__exit__", weight=Weight.EFFECT)
def _exit_by_hand(api: Api, context: Autocast, name: str, arguments: Arguments, node: Node) -> Value:
    opened.leave(api, context, node)
    return NONE


def _only_name(api: Api, node: Node) -> str | None:
    """The name in ``name.__enter__()``, if the code uses it for nothing but entering and leaving."""
    if not (isinstance(node, ir.Call) and isinstance(node.function, ir.Attribute)):
        return None
    name = node.function.value
    return name.id if isinstance(name, ir.Name) and api.is_only_called(name, _BY_HAND) else None


# around functions ------------------------------------------------------------------------------------------------


@models.into(models.decorates, Autocast)
def _decorated(api: Api, context: Autocast, function: Value, node: Node) -> Value:
    return put_around(api, context, function, node)


def put_around(api: Api, context: Autocast, function: Value, node: Node) -> Value:
    """A function decorated with a context; of one whose body does not run during the call it is told."""
    kind = _kind_of_body(api, function)
    if kind is None:
        return Decorated(function, replace(context, decorates=True))
    plain = _plain(function)
    assert plain is not None
    api.emit(GeneratorDecorated(api.place(node), regions(api), _name_of(plain), kind))
    # the region is open while the generator or coroutine is made, and none of its code runs then
    return function


@models.method(Autocast, "__call__")
def _around(api: Api, context: Autocast, name: str, arguments: Arguments, node: Node) -> Value:
    if not arguments.positional:
        return api.unknown(node)
    return put_around(api, context, arguments.positional[0], node)


def _plain(function: Value) -> FunctionValue | None:
    """The function inside all that was put around it."""
    while isinstance(function, Decorated):
        function = function.function
    return function if isinstance(function, FunctionValue) else None


def _kind_of_body(api: Api, value: Value) -> str | None:
    """ "generator", "coroutine" or "context manager" for a function that only returns one of these."""
    function = _plain(value)
    if function is None:
        return None
    if function.manages_context:
        return "context manager"
    program = api.program_of(function)
    if program is None:
        return None
    if program.is_generator:
        above = api.decorators(function)
        managed = any(isinstance(part, External) and part.name in _MANAGERS for part in above)
        return "context manager" if managed else "generator"
    return "coroutine" if program.is_coroutine else None


def _name_of(function: FunctionValue) -> str:
    if function.program is not None:
        return function.program.name
    return function.outline.name if function.outline is not None else ""


# thrown away -----------------------------------------------------------------------------------------------------


@models.into(models.discards, Autocast)
def _dropped(api: Api, context: Autocast, how: str, name: str, node: Node) -> None:
    region = opened.opened_by(api, context)
    if region is not None:  # ``with torch.autocast("cuda") as context`` has entered it
        if how == "statement" and _enters_what_is_made(node) and next(api.callers(), None) is not None:
            # nobody can leave it again; what a script enters so may stay open until its end
            api.emit(RegionAbandoned(region.place, regions(api), region, context.place.text))
        return
    place = api.place(node)
    if how == "unused name" or (context.place == place and how in ("statement", "boolean")):
        api.emit(RegionDropped(context.place, regions(api), how, name))
    elif how == "statement" and _is_made_by(api, context, node) and not api.is_kept(context):
        api.emit(RegionDropped(place, regions(api), how, name))


def _enters_what_is_made(node: Node) -> bool:
    """Whether a context is made and entered in one: ``torch.autocast("cuda").__enter__()``."""
    match node:
        case ir.Call(function=ir.Attribute(value=ir.Call(), name="__enter__")):
            return True
    return False


def _is_made_by(api: Api, context: Autocast, node: Node) -> bool:
    """Whether a context comes from the call of a function of the project at this node: ``self.autocast()``."""
    here = api.fresh(node).parts[1]
    part = context.identity.parts[1]
    while isinstance(part, Symbol) and part.parts[0] == "call":
        if part.parts[1] is here and part.parts[2] == node.number:
            return True
        part = part.parts[1]
    return False


@models.into(models.discards, External)
def _not_made(api: Api, entry: External, how: str, name: str, node: Node) -> None:
    """``with torch.autocast:`` raises."""
    if how == "class" and entry.name in ENTRIES:
        api.emit(RegionDropped(api.place(node), regions(api), "class"))


# classes of the project that derive from autocast ----------------------------------------------------------------


@models.into(models.classes, *ENTRIES)
def _inheriting(api: Api, name: str, arguments: Arguments, node: Node) -> Value | None:
    made_of = arguments.receiver
    if not isinstance(made_of, ClassValue) or api.find_method(made_of, "__init__") is not None:
        return None
    made = Instance(api.fresh(node), made_of)
    api.set_note(made.identity, Inherits(make(api, name, arguments, node)))
    return made


@models.call(*(f"{name}.__init__" for name in ENTRIES), weight=Weight.ENTRY)
def _initialised(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if isinstance(arguments.receiver, Instance):
        context = make(api, name.removesuffix(".__init__"), arguments, node)
        api.set_note(arguments.receiver.identity, Inherits(context))
    return NONE


@models.into(models.enters, *ENTRIES)
def _enter_inheriting(api: Api, value: Instance, node: Node) -> Value | None:
    if value.made_of is not None and api.find_method(value.made_of, "__enter__") is not None:
        return None
    context = _context_of(api, value, node)
    if context is not None:
        opened.enter(api, context, node)
    return value


@models.into(models.exits, *ENTRIES)
def _leave_inheriting(api: Api, value: Instance, node: Node) -> None:
    if value.made_of is not None and api.find_method(value.made_of, "__exit__") is not None:
        api.call(api.attribute(value, "__exit__", node), Arguments((NONE, NONE, NONE), (), (node,) * 3), node)
        return
    context = _context_of(api, value, node)
    if context is not None:
        opened.leave(api, context, node)


@models.call(*(f"{name}.__enter__" for name in ENTRIES), weight=Weight.EFFECT)
def _enter_as_autocast(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    context = _context_of(api, arguments.receiver, node)
    if context is not None:
        opened.enter(api, context, node)
    return arguments.receiver or NONE


@models.call(*(f"{name}.__exit__" for name in ENTRIES), weight=Weight.EFFECT)
def _leave_as_autocast(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    context = _context_of(api, arguments.receiver, node)
    if context is not None:
        opened.leave(api, context, node)
    return NONE


@models.into(models.instances, *ENTRIES)
def _around_by_inheriting(
    api: Api, value: Instance, name: str, arguments: Arguments, node: Node
) -> Value | None:
    if not arguments.positional:
        return None
    return _put_inheriting_around(api, value, arguments.positional[0], node)


@models.into(models.decorates, Instance)
def _decorated_by_inheriting(api: Api, value: Instance, function: Value, node: Node) -> Value | None:
    if not any(api.derives_from(value, name) for name in ENTRIES):
        return None
    return _put_inheriting_around(api, value, function, node)


def _put_inheriting_around(api: Api, value: Instance, function: Value, node: Node) -> Value:
    context = _context_of(api, value, node)
    return put_around(api, context, function, node) if context is not None else function


def _context_of(api: Api, value: Value | None, node: Node) -> Autocast | None:
    """The context that an object of the project is."""
    if not isinstance(value, Instance):
        return None
    found = api.note(value.identity, Inherits)
    if found is None:
        # its constructor is walked when something of the object is asked for
        api.attribute(value, "fast_dtype", node)
        found = api.note(value.identity, Inherits)
    return found.context if found is not None else None
