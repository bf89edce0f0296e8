"""Autocast contexts: how they are made, entered and left."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp import regions as known
from amplint.amp.wrappers import REGION_SETTINGS
from amplint.events import (
    CompiledBegan,
    CompiledEnded,
    Constructed,
    DType,
    Given,
    Place,
    Region,
    RegionEntered,
    RegionExited,
    innermost,
)
from amplint.flow import absent, calls
from amplint.flow.values import (
    UNKNOWN,
    Autocast,
    Constant,
    Context,
    Decorated,
    DeviceValue,
    DTypeValue,
    Imported,
    Instance,
    Library,
    Number,
    Partial,
    Text,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.expressions import Expressions


@dataclass
class Opened:
    """What a ``with`` item opened, to be closed when its block is left."""

    regions: tuple[Region, ...] = ()
    gradients: bool | None = None
    instance: Instance | None = None
    stack: Hashable = None
    compiled: bool = False


def is_entry(walker: Expressions, value: Value) -> bool:
    """Whether a value is a callable that makes autocast contexts."""
    return isinstance(value, Library) and value.name in known.ENTRIES


def make(walker: Expressions, name: str, given: calls.Arguments, node: cst.CSTNode) -> Autocast:
    """The context that a call to an autocast class makes."""
    entry = known.ENTRIES[name]
    unclear = given.unclear
    flag = given.by_name(entry.parameters).get("enabled")
    given = looked_up(walker, given)
    arguments = given.by_name(entry.parameters)
    tell_of_arguments(walker, name, entry.parameters, given, node)
    device = entry.device
    if device is None and not entry.framework:
        device = _device_of(arguments.get("device_type"))
    given_dtype = arguments.get("dtype")
    dtype, dtype_given = _dtype_of(given_dtype)
    enabled: bool | None = True
    switch: Value | None = None
    if flag is not None:
        enabled = walker.known_truth(flag)
        if enabled is None or isinstance(flag, Unknown):
            switch = flag
    elif unclear:
        enabled = None
    cache = arguments.get("cache_enabled")
    place = walker.place(node)
    identity: Hashable = (id(node), walker.scope.chain)
    if walker.scope.is_module:
        # one object, whether the file is walked or a function asks for the name
        identity = (place.path, place.span)
    return Autocast(
        place,
        identity,
        device,
        dtype,
        dtype_given,
        entry.inherits_dtype,
        enabled,
        switch,
        cache.value if isinstance(cache, Constant) and isinstance(cache.value, bool) else None,
        entry.framework,
        isinstance(given_dtype, DTypeValue) and given_dtype.chosen,
    )


def looked_up(walker: Expressions, given: calls.Arguments) -> calls.Arguments:
    """Arguments with what the names of other files stand for, where that is known."""

    def found(value: Value) -> Value:
        if not isinstance(value, Imported):
            return value
        meant = walker.pin(walker.engine.reveal(value))
        return value if isinstance(meant, Unknown) else meant

    if not any(isinstance(value, Imported) for value in given.all):
        return given
    keywords = tuple((key, found(value)) for key, value in given.keywords)
    return replace(given, positional=tuple(map(found, given.positional)), keywords=keywords)


def device(first: Value | None) -> DeviceValue:
    """``torch.device(first)``."""
    if isinstance(first, DeviceValue):
        return first
    if isinstance(first, Constant) and isinstance(first.value, str):
        return DeviceValue(first.value.split(":")[0], first.value)
    if isinstance(first, Text):
        return DeviceValue(first.start.split(":")[0], f"{first.start}…")
    return DeviceValue()


def tell_of_arguments(
    walker: Expressions, name: str, parameters: tuple[str, ...], given: calls.Arguments, node: cst.CSTNode
) -> None:
    """Tells what types the arguments of an autocast context or a scaler have."""
    aligned = len(given.nodes) == len(given.positional)
    found: list[Given] = []
    for index, (parameter, value) in enumerate(zip(parameters, given.positional, strict=False)):
        place = walker.place(given.nodes[index] if aligned else node)
        text = given.nodes[index] if aligned else None
        found.append(_absent(walker, text, _given(parameter, value, text, place, True)))
    for parameter, value in given.keywords:
        text = given.node_of(parameter)
        place = walker.place(text if text is not None else node)
        found.append(_absent(walker, text, _given(parameter, value, text, place, False)))
    named = {key for key, _ in given.keywords}
    missing = bool(parameters) and parameters[0] == "device_type"
    missing = missing and not (given.positional or given.unclear or "device_type" in named)
    walker.emit(Constructed(walker.place(node), walker.path.regions, name, tuple(found), missing))


def _absent(walker: Expressions, text: cst.CSTNode | None, given: Given) -> Given:
    """The same, or what is said of an argument that cannot be evaluated."""
    if given.kind != "unknown" or given.parameter not in ("device_type", "dtype") or walker.silent:
        return given
    found = absent.attribute_read_in(walker, text) if text is not None else None
    return given if found is None else replace(given, kind="absent", value=found)


def _given(parameter: str, value: Value, text: cst.CSTNode | None, place: Place, positional: bool) -> Given:
    kind: tuple[str, object]
    match value:
        case Constant(value=bool()):
            kind = "bool", value.value
        case Constant(value=str()):
            kind = "str", value.value
        case Constant(value=None):
            kind = "None", None
        case Constant(value=int() | float()) | Number():
            kind = "number", None
        case Text():
            kind = "str", f"{value.start}…"
        case DTypeValue():
            kind = "torch.dtype", value.dtype
        case DeviceValue():
            kind = "torch.device", value.text or value.device
        case _ if isinstance(text, cst.Comparison) or (
            isinstance(text, cst.UnaryOperation) and isinstance(text.operator, cst.Not)
        ):
            kind = "bool", None
        case _:
            kind = "unknown", None
    return Given(parameter, *kind, place, positional)


def of_framework(walker: Expressions, given: tuple[Value, ...], node: cst.CSTNode) -> Value:
    """The context that a framework's own ``autocast()`` makes: on where its settings say so, unless settings
    of its own are given. Nothing is known of it where those are not."""
    told: dict[str, Value] = {}
    for value in given:
        if isinstance(value, Partial) and isinstance(value.function, Library):
            parameters = REGION_SETTINGS.get(value.function.name, ())
            told = dict(zip(parameters, value.positional, strict=False)) | dict(value.keywords)
        elif not isinstance(value, Constant):
            return UNKNOWN
    enabled = walker.known_truth(told["enabled"]) if "enabled" in told else True
    cache = told.get("cache_enabled")
    if enabled is None:
        return UNKNOWN
    return Autocast(
        walker.place(node),
        (id(node), walker.scope.chain),
        None,
        None,
        False,
        enabled=None if enabled else False,
        cache_enabled=cache.value if isinstance(cache, Constant) and isinstance(cache.value, bool) else None,
        framework=True,
    )


def _device_of(value: Value | None) -> str | None:
    if isinstance(value, Constant) and isinstance(value.value, str):
        return value.value.split(":")[0]
    if isinstance(value, DeviceValue):
        return value.device
    if isinstance(value, Text):
        return value.start.split(":")[0]
    return None


def _dtype_of(value: Value | None) -> tuple[DType | None, bool]:
    if value is None or value == Constant(None):
        return None, False
    return (value.dtype if isinstance(value, DTypeValue) else None), True


def region_of(walker: Expressions, context: Autocast, node: cst.CSTNode) -> Region:
    """The region that a context opens where it is entered now. A flag that nothing is known of is taken to be
    on, and the path remembers it."""
    outer = innermost(walker.path.regions)
    device = context.device
    policy_device = device or (outer.device if outer is not None else None)
    enabled, conditional = context.enabled, context.enabled is None
    if enabled is None:
        enabled = True
        if context.switch is not None:
            truth = walker.known_truth(context.switch)
            if truth is None:
                walker.assume(context.switch, True)
            else:
                enabled = truth
    if context.dtype is not None:
        dtype = context.dtype
    elif context.dtype_given or context.framework:
        dtype = DType.HALF
    elif context.inherits_dtype and outer is not None and outer.dtype is not None:
        dtype = outer.dtype
    elif device is None:
        dtype = DType.FLOAT16 if walker.engine.device == "cuda" else DType.HALF
    else:
        dtype = DType(known.default_dtype(device))
    if dtype is DType.FLOAT32 and policy_device == "cpu":
        enabled = False
    cache = context.cache_enabled
    if cache is None:
        cache = outer.cache_enabled if context.inherits_dtype and outer is not None else True
    return Region(
        walker.place(node) if isinstance(node, cst.BaseExpression) else context.place,
        (context.identity, len(walker.path.regions)),
        policy_device or walker.engine.device,
        dtype,
        enabled,
        conditional,
        cache,
        framework=context.framework,
        switch=context.switch.symbol if isinstance(context.switch, Unknown) else None,
        chosen=context.chosen,
    )


def open_region(
    walker: Expressions, region: Region, instance: Hashable = None, by_hand: str | None = None
) -> None:
    """Enters a region and tells the listeners."""
    walker.path.enter(region)
    walker.emit(RegionEntered(region.place, walker.path.regions, instance, by_hand))


def enter(
    walker: Expressions, value: Value, node: cst.CSTNode, by_hand: str | None = None
) -> tuple[Opened, Value]:
    """Enters a context manager; gives what has to be closed, and what ``as`` binds."""
    value = walker.pin(walker.engine.reveal(value))
    match value:
        case Autocast():
            region = region_of(walker, value, node)
            kept = isinstance(node, (cst.Name, cst.Attribute, cst.Pass)) or by_hand is not None
            open_region(walker, region, value.identity if kept else None, by_hand)
            return Opened((region,)), value
        case Context(kind="grad off" | "grad on"):
            before = walker.path.gradients
            walker.path.gradients = value.kind == "grad on"
            return Opened(gradients=before), UNKNOWN
        case Context(kind="compiled", place=Place() as place):
            if not walker.path.gradients:
                return Opened(), UNKNOWN
            walker.emit(CompiledBegan(walker.place(node), walker.path.regions, place))
            return Opened(compiled=True), UNKNOWN
        case Context(kind="regions"):
            for region in value.regions:
                open_region(walker, region)
            return Opened(value.regions), UNKNOWN
        case Context(kind="stack"):
            return Opened(stack=value.identity), value
        case Instance() if value.made_of is not None:
            method = walker.engine.find_method(value.made_of, "__enter__")
            if method is not None:
                result = calls.invoke(walker, method, calls.Arguments.of(value), node, always=True)
                return Opened(instance=value), result
            return Opened(), value
        case Unknown():
            return Opened(), Unknown(walker.fresh(node), value.kind)
    return Opened(), value


def close(walker: Expressions, opened: Opened, node: cst.CSTNode) -> None:
    """Leaves what ``enter`` opened."""
    for region in reversed(opened.regions):
        close_region(walker, region, node)
    if opened.gradients is not None:
        walker.path.gradients = opened.gradients
    if opened.compiled:
        walker.emit(CompiledEnded(walker.place(node), walker.path.regions))
    if opened.instance is not None and opened.instance.made_of is not None:
        method = walker.engine.find_method(opened.instance.made_of, "__exit__")
        if method is not None:
            given = calls.Arguments.of(opened.instance, UNKNOWN, UNKNOWN, UNKNOWN)
            ways = walker.explore(walker.path, lambda: calls.invoke(walker, method, given, node, always=True))
            if ways:
                walker.path = ways[0][0]
    if opened.stack is not None:
        held = walker.path.load(opened.stack, "<regions>")
        if isinstance(held, Context):
            for region in reversed(held.regions):
                close_region(walker, region, node)
            walker.path.store(opened.stack, "<regions>", Context("regions"))


def close_region(walker: Expressions, region: Region, node: cst.CSTNode) -> None:
    """Leaves a region, if it is still open."""
    if walker.path.leave(region):
        walker.emit(RegionExited(region.place, walker.path.regions, region))


def enter_by_hand(walker: Expressions, value: Value, node: cst.CSTNode) -> None:
    """``context.__enter__()``: open until ``__exit__`` is called."""
    opened, _ = enter(walker, value, node, _local_name(walker, node))
    if opened.regions and isinstance(value, Autocast):
        walker.path.store(value.identity, "<open>", Context("regions", opened.regions))


def _local_name(walker: Expressions, node: cst.CSTNode) -> str | None:
    """The name in ``name.__enter__()``, if the text uses it for nothing but entering and leaving."""
    if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
        return None
    if not isinstance(node.func.value, cst.Name):
        return None
    name = node.func.value.value
    text = walker.scope.text_around(rf"\b{name}\b")
    if text is None or name not in walker.path.names:
        return None
    handed_on = re.compile(rf"\b{name}\b(?!\s*=[^=]|\s*:[^=\n]*=[^=]|\.__enter__\(|\.__exit__\()")
    return None if handed_on.search(text) else name


def exit_by_hand(walker: Expressions, value: Value, node: cst.CSTNode) -> None:
    """``context.__exit__(…)``."""
    if isinstance(value, Autocast):
        held = walker.path.load(value.identity, "<open>")
        regions = held.regions if isinstance(held, Context) else walker.path.regions
        for region in reversed(regions):
            if region.identity[0] == value.identity:  # type: ignore[index]
                close_region(walker, region, node)
                return


def push_on_stack(walker: Expressions, stack: Context, value: Value, node: cst.CSTNode) -> Value:
    """``stack.enter_context(value)``."""
    opened, result = enter(walker, value, node)
    held = walker.path.load(stack.identity, "<regions>")
    before = held.regions if isinstance(held, Context) else ()
    walker.path.store(stack.identity, "<regions>", Context("regions", before + opened.regions))
    return result


def moved(walker: Expressions, stack: Context, node: cst.CSTNode) -> Context:
    """``stack.pop_all()``: another stack that holds what this one held."""
    other = Context("stack", identity=(id(node), walker.scope.chain))
    held = walker.path.load(stack.identity, "<regions>")
    walker.path.store(other.identity, "<regions>", held if isinstance(held, Context) else Context("regions"))
    walker.path.store(stack.identity, "<regions>", Context("regions"))
    return other


def assumed_around(place: Place, device: str) -> Region:
    """The region that code which switches autocast off must expect around it."""
    return Region(place, "assumed", device, DType.HALF, assumed=True)


def with_context(function: Value, context: Value) -> Value:
    """A function decorated with a context."""
    if isinstance(context, (Autocast, Context)):
        return Decorated(function, context)
    return function
