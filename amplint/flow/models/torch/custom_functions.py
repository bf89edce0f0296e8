"""Autograd Functions of the project: their decorators, and what their methods do about autocast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from amplint.amp.functions import PRODUCTS
from amplint.amp.ops import CASTS, INTEGERS
from amplint.amp.regions import CUSTOM_BWD, CUSTOM_FWD, ENTRIES
from amplint.events import (
    CacheCleared,
    CustomFunction,
    DType,
    FunctionApplied,
    FunctionDefined,
    Place,
    enabled_region,
)
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.torch.ambient import gradients, regions
from amplint.flow.models.torch.recomputation import Applied, InFunction
from amplint.flow.models.torch.values import Autocast, DTypeValue, GradientSwitch, OpenRegions, Tensor
from amplint.flow.state.atoms import is_true
from amplint.flow.state.conditions import choice, leaves
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    ClassValue,
    Constant,
    External,
    FunctionValue,
    Instance,
    Partial,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering import program as ir
from amplint.lowering.program import Node, Program
from amplint.lowering.walk import nodes
from amplint.source.project import ProjectFile

models = Registry()

FUNCTIONS = ("torch.autograd.Function",)
CONTEXT = "context of a Function"
"""The kind of ``ctx``."""
MOST_WRAPPERS = 2
"""So many functions of the project are looked into for the context that they make of a flag."""
_HALF_TYPES = frozenset({"torch.float16", "torch.half", "torch.bfloat16"})
_ABOUT_AUTOCAST = ("torch.is_autocast_", "torch.get_autocast_", "torch.set_autocast_")
_NOTED = "_fwd_used_autocast"
"""What custom_fwd notes on ``ctx`` (torch/amp/autocast_mode.py of torch 2.13.0)."""


# the decorators --------------------------------------------------------------------------------------------------


@models.call(*CUSTOM_FWD, *CUSTOM_BWD, weight=Weight.ENTRY)
def _custom(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if arguments.positional:
        return arguments.positional[0]
    return Partial(External(name), (), arguments.keywords)


@models.call("torch.autograd.function.once_differentiable")
def _once_differentiable(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return arguments.positional[0] if arguments.positional else api.unknown(node)


# events ----------------------------------------------------------------------------------------------------------


@models.into(models.definitions, *FUNCTIONS)
def _defined(api: Api, value: ClassValue) -> None:
    found = describe(api, value)
    place = found.backward or found.forward
    if place is not None and (found.custom_fwd or found.custom_bwd or found.restored is not None):
        api.emit(FunctionDefined(place, (), found))


@models.call(*(f"{name}.apply" for name in FUNCTIONS), weight=Weight.EFFECT)
def _applied(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    owner = arguments.receiver
    if isinstance(owner, Instance):
        owner = owner.made_of
    if not isinstance(owner, ClassValue):
        return api.opaque(arguments, node)
    wide = any(isinstance(item, Tensor) and item.dtype is DType.FLOAT32 for item in arguments.all)
    described = describe(api, owner)
    api.emit(FunctionApplied(api.place(node), regions(api), described, wide))
    forward = api.find_method(owner, "forward")
    if forward is None:
        return api.opaque(arguments, node)
    if described.cast_inputs:
        return api.unknown(node)
    return _run(api, owner, described, forward, replace(arguments, receiver=None), node)


# what runs -------------------------------------------------------------------------------------------------------


def _run(
    api: Api,
    owner: ClassValue,
    described: CustomFunction,
    forward: FunctionValue,
    given: Arguments,
    node: Node,
) -> Value:
    """Runs a Function as ``apply`` does: forward in the regions around, and backward after them, if it leaves autocast
    to chance there. What others do in their backward is not looked at."""
    applied = _left_to_chance(api, described, node)
    if applied is None:
        return _forward(api, described, forward, api.unknown(node), given, node)
    around = api.ambient(InFunction)
    context = Unknown(symbol("context", applied.place.key), CONTEXT)
    api.surround(InFunction(applied))
    result = _forward(api, described, forward, context, given, node)
    api.surround(around)
    asked = choice(is_true(symbol("asked for gradients", context.symbol)), TRUE, FALSE)
    api.each(asked, lambda one: _backward(api, owner, applied, context, node) if one == TRUE else NONE)
    return result


def _left_to_chance(api: Api, described: CustomFunction, node: Node) -> Applied | None:
    """What is known of a Function that is applied in a region with gradients and has a backward without decorators."""
    region = enabled_region(regions(api))
    if region is None or region.dtype is None or not region.dtype.is_half:
        return None
    decorated = described.custom_fwd is not False or described.custom_bwd is not False
    if decorated or described.hands_on or described.backward is None or not gradients(api):
        return None
    return Applied(described, region, api.place(node))


def _forward(
    api: Api,
    described: CustomFunction,
    forward: FunctionValue,
    context: Value,
    given: Arguments,
    node: Node,
) -> Value:
    """``forward``, in the regions around, without gradients."""
    switch, around = GradientSwitch(False), api.ambient(InFunction)
    api.surround(replace(around, forward=True))
    api.enter(switch, node)
    result = api.call(forward, given if described.setup_context else given.after(context, node), node)
    api.leave(switch, node)
    api.surround(around)
    return result


def _backward(api: Api, owner: ClassValue, applied: Applied, context: Value, node: Node) -> Value:
    """``backward``, as a backward pass outside all regions runs it. Nothing is known of the gradients: what is computed
    with them in half precision is what autograd does by itself."""
    backward = api.find_method(owner, "backward")
    assert backward is not None
    outside, around, switch = regions(api), api.ambient(InFunction), GradientSwitch(False)
    api.surround(OpenRegions())
    api.surround(InFunction(applied, backward=True))
    api.emit(CacheCleared(api.place(node), ()))  # as the outermost region was left
    api.enter(switch, node)
    api.call(backward, Arguments((context,), (), (node,), unclear=True), node)
    api.leave(switch, node)
    api.surround(around)
    api.surround(OpenRegions(outside))
    return NONE


@models.method(CONTEXT, "save_for_backward", "save_for_forward")
def _save(api: Api, context: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    """``ctx.save_for_backward(x, y)``."""
    api.store(context.symbol, "saved_tensors", Sequence(arguments.positional, exact=not arguments.unclear))
    return NONE


# description -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Method:
    """``forward`` or ``backward`` of a Function."""

    function: FunctionValue
    program: Program

    @property
    def place(self) -> Place | None:
        """Where its name stands."""
        return place_in(self.program, self.program.head) if self.program.head is not None else None

    @property
    def context(self) -> str:
        """Its first parameter, ``ctx``."""
        return self.program.parameters[0].name if self.program.parameters else ""


@dataclass(frozen=True)
class Marks:
    """What the decorators of a method are: whether a wanted one is among them (None where that is not known), for
    which device, and to what it casts the inputs."""

    found: bool | None
    device: str | None = None
    cast: Value | None = None
    autocast: bool = False


def describe(api: Api, value: ClassValue) -> CustomFunction:
    """What a Function does about autocast."""
    forward, backward = _method(api, value, "forward"), _method(api, value, "backward")
    if forward is None or backward is None:
        return CustomFunction(value.outline.name, None, None, None, None)
    marks, back = _marks(api, forward, CUSTOM_FWD), _marks(api, backward, CUSTOM_BWD)
    return CustomFunction(
        value.outline.name,
        forward.place,
        backward.place,
        marks.found,
        back.found,
        marks.device,
        back.device,
        marks.cast is not None,
        marks.cast.dtype if isinstance(marks.cast, DTypeValue) else None,
        api.find_method(value, "setup_context") is not None,
        _hands_on(forward),
        marks.autocast or back.autocast or _minds_types(api, forward) or _minds_types(api, backward),
        _multiplies(api, forward) and _multiplies(api, backward),
        _restored(api, backward),
    )


def _method(api: Api, value: ClassValue, name: str) -> Method | None:
    function = api.find_method(value, name)
    program = api.program_of(function) if function is not None else None
    return Method(function, program) if function is not None and program is not None else None


def _marks(api: Api, method: Method, wanted: frozenset[str]) -> Marks:
    found, unknown, autocast = False, False, False
    device: str | None = None
    cast: Value | None = None
    for decorator in api.decorators(method.function):
        parts = list(leaves(decorator))
        names = {_name_of(part) for part in parts}
        autocast = autocast or any(isinstance(part, Autocast) for part in parts)
        if not names <= wanted:
            unknown = unknown or None in names or not names.isdisjoint(wanted)
            continue
        found = True
        keywords = dict(parts[0].keywords) if isinstance(parts[0], Partial) else {}
        given = keywords.get("device_type")
        device = given.value if isinstance(given, Constant) and isinstance(given.value, str) else None
        if all(name is not None and name.startswith("torch.cuda.") for name in names):
            device = "cuda"
        cast = keywords.get("cast_inputs")
        cast = None if cast == NONE else cast
    return Marks(True if found else None if unknown else False, device, cast, autocast)


def _name_of(decorator: Value) -> str | None:
    """The qualified name of a decorator; None for one that is not known. Contexts have no name that is wanted."""
    if isinstance(decorator, Partial):
        decorator = decorator.function
    if isinstance(decorator, (Autocast, GradientSwitch)):
        return ""
    return decorator.name if isinstance(decorator, External) else None


def place_in(program: Program, node: Node) -> Place:
    """Where a node of a program stands that is not being walked."""
    number = node.number
    return Place(
        program.path,
        (program.path, program.root, number),
        lambda: program.locate(number),
        lambda: program.text_of(number),
        named=program.line_name,
    )


# what the methods do ---------------------------------------------------------------------------------------------


def _hands_on(method: Method) -> bool:
    """Whether ``ctx`` itself is an argument of a call, or gets what custom_fwd would note on it."""
    for node in nodes(method.program):
        if isinstance(node, ir.Call) and any(_is_name(part.value, method.context) for part in node.arguments):
            return True
        if isinstance(node, ir.Attribute) and node.name == _NOTED:
            return True
    return False


def _minds_types(api: Api, method: Method) -> bool:
    """Whether a method minds autocast or types by itself."""
    for node in nodes(method.program):
        match node:
            case ir.Call(function=ir.Attribute(name=name)) as call if name in CASTS:
                if not _to_integers(call):
                    return True
            case ir.Call(arguments=arguments) if any(part.keyword == "dtype" for part in arguments):
                return True
            case ir.Attribute(name="dtype"):
                return True
    names = set(_qualified(api, method))
    return any(name in _HALF_TYPES or name in ENTRIES or name.startswith(_ABOUT_AUTOCAST) for name in names)


def _to_integers(call: ir.Call) -> bool:
    """``x.to(torch.int8)``: says nothing of the type of what is computed with."""
    names = [part.value.name for part in call.arguments if isinstance(part.value, ir.Attribute)]
    return bool(names) and INTEGERS.issuperset(names)


def _multiplies(api: Api, method: Method) -> bool:
    """Whether matrix products or convolutions are among the calls."""
    for node in nodes(method.program):
        match node:
            case ir.Binary(operator="@") | ir.AugmentedAssign(operator="@"):
                return True
            case ir.Call(function=ir.Attribute(name=name)) if name in PRODUCTS:
                return True
            case ir.Call(function=ir.Name(id=name)):
                found = api.resolve(name, method.function.file)
                outside = found.name if isinstance(found, External) else ""
                if outside.startswith("torch.") and outside.rpartition(".")[2] in PRODUCTS:
                    return True
    return False


def _qualified(api: Api, method: Method) -> Iterator[str]:
    """The qualified names outside the project that a method mentions."""
    for node in nodes(method.program):
        text = _dotted(node)
        found = api.resolve(text, method.function.file) if text is not None else None
        if isinstance(found, External):
            yield found.name


def _dotted(node: Node) -> str | None:
    """``a.b.c`` for a chain of attributes that starts with a name."""
    parts: list[str] = []
    while isinstance(node, ir.Attribute):
        parts.append(node.name)
        node = node.value
    if not isinstance(node, ir.Name):
        return None
    return ".".join((node.id, *reversed(parts)))


def _is_name(node: ir.Expression, name: str) -> bool:
    return isinstance(node, ir.Name) and node.id == name


# contexts that restore the flag of the forward -------------------------------------------------------------------

IsFlag = Callable[[ir.Expression], bool]


def _restored(api: Api, backward: Method) -> Place | None:
    """See CustomFunction.restored."""
    saved = partial(_is_attribute_of, backward.context)
    node = _switched_by(api, backward.function.file, backward.program, saved, 0)
    return place_in(backward.program, node) if node is not None else None


def _switched_by(
    api: Api, file: ProjectFile, program: Program, is_flag: IsFlag, depth: int
) -> ir.Call | None:
    """The call that makes an autocast context from a flag and from no type, in a function or, through its
    parameters, in one that it calls."""
    for node in nodes(program):
        if not isinstance(node, ir.Call) or any(part.star == "*" for part in node.arguments):
            continue
        text = _dotted(node.function)
        if text is None or not any(is_flag(part.value) for part in node.arguments):
            continue
        found = api.resolve(text, file)
        if isinstance(found, External) and found.name in ENTRIES:
            named = _by_name(ENTRIES[found.name].parameters, node)
            if "enabled" in named and is_flag(named["enabled"]) and not named.keys() & {"dtype", "**"}:
                return node
        elif isinstance(found, FunctionValue) and depth < MOST_WRAPPERS:
            inner = api.program_of(found)
            if inner is None:
                continue
            named = _by_name(tuple(part.name for part in inner.parameters), node)
            flags = frozenset(name for name, part in named.items() if is_flag(part))
            if _switched_by(api, found.file, inner, partial(_is_one_of, flags), depth + 1) is not None:
                return node
    return None


def _by_name(parameters: tuple[str, ...], node: ir.Call) -> dict[str, ir.Expression]:
    """The arguments of a call by the parameters that they are for."""
    positional = [part.value for part in node.arguments if part.keyword is None and not part.star]
    named = dict(zip(parameters, positional, strict=False))
    for part in node.arguments:
        if part.keyword is not None or part.star == "**":
            named[part.keyword or "**"] = part.value
    return named


def _is_attribute_of(context: str, node: ir.Expression) -> bool:
    """Whether an expression is what was saved on ``ctx``."""
    return isinstance(node, ir.Attribute) and _is_name(node.value, context)


def _is_one_of(names: frozenset[str], node: ir.Expression) -> bool:
    return isinstance(node, ir.Name) and node.id in names
