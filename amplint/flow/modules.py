"""Modules: construction on demand, parameters and their type, and what a forward gives back."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from amplint.amp import ops
from amplint.events import (
    Certainty,
    DType,
    Forward,
    ModuleCast,
    Operand,
    ParameterWritten,
    Place,
    enabled_region,
)
from amplint.flow import calls, contexts, libraries, reaching, scaling, tensors, threads
from amplint.flow.values import (
    NONE,
    UNKNOWN,
    Alternatives,
    Constant,
    Context,
    DTypeValue,
    Instance,
    Library,
    Mapping,
    Optimizer,
    Parameters,
    Partial,
    Sequence,
    StateDict,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.expressions import Expressions

CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})
CASTS = ("<modules>", "<cast>")
"""Where it is noted that modules are cast."""
_IDENTITIES = frozenset({"torch.nn.Identity"})


def is_module(walker: Expressions, value: Value) -> bool:
    """Whether a value is a torch module."""
    if isinstance(value, Unknown):
        return value.kind == "module"
    if not isinstance(value, Instance):
        return False
    if value.made_of is not None:
        return walker.engine.is_module_class(value.made_of)
    return value.library is not None and value.library.startswith("torch.nn.")


def identity_of(value: Value) -> Hashable:
    """What tells a module apart from others."""
    if isinstance(value, Instance):
        return value.identity
    return value.symbol if isinstance(value, Unknown) else None


def constructed(walker: Expressions, instance: Instance, name: str) -> Value | None:
    """What the constructor of an object set an attribute to."""
    if instance.made_of is None:
        return None
    engine = walker.engine
    template = engine.template_for(instance)
    if engine.may_set(instance.made_of, name):
        engine.build(template)
    return walker.path.load(template, name)


def items_of(walker: Expressions, instance: Instance) -> Sequence | None:
    """What is in a Sequential, ModuleList or ModuleDict."""
    found = walker.path.load(instance.identity, "<items>")
    if isinstance(found, Alternatives):
        found = walker.pin(found)
        walker.path.store(instance.identity, "<items>", found)
    if isinstance(found, Sequence):
        return found
    if isinstance(found, Mapping):
        return Sequence(tuple(value for _, value in found.items) + found.rest, exact=False)
    return None


def make_library_module(
    walker: Expressions, name: str, given: calls.Arguments, node: cst.CSTNode
) -> Instance:
    """``nn.Linear(…)``, ``nn.Sequential(…)``."""
    instance = Instance((id(node), walker.scope.chain), None, name)
    path = walker.path
    if name == "torch.nn.Sequential":
        items: Value = Sequence(given.positional, not given.unclear)
        if len(given.positional) == 1 and not isinstance(given.positional[0], (Instance, Unknown)):
            only = given.positional[0]
            items = Sequence(tuple(v for _, v in only.items)) if isinstance(only, Mapping) else UNKNOWN
        path.store(instance.identity, "<items>", items)
    elif name in CONTAINERS:
        first = given.positional[0] if given.positional else Sequence()
        if isinstance(first, (Sequence, Mapping)):
            path.store(instance.identity, "<items>", first)
    dtype = given.keyword("dtype")
    if isinstance(dtype, DTypeValue):
        mark: Value = dtype
        if dtype.dtype.is_half:
            mark = Tensor(dtype.dtype, half_by_user=walker.place(node))
            path.store(*CASTS, Constant(True))
        path.store(instance.identity, "<dtype>", mark)
    return instance


def weight_dtype(walker: Expressions, instance: Instance) -> DType | None:
    """The type of a library module's own parameters, or None if a cast somewhere may have changed it."""
    own = walker.path.load(instance.identity, "<dtype>")
    if isinstance(own, (DTypeValue, Tensor)):
        return own.dtype
    if own is not None or _casts(walker):
        return None
    return DType.FLOAT32


def _casts(walker: Expressions) -> bool:
    """Whether modules are cast on this path, or in constructors that belong to it."""
    return walker.path.load(*CASTS) is not None or walker.engine.casts_in_constructors(walker.scope.file)


def _cast_elsewhere(walker: Expressions, node: cst.Call) -> bool:
    """Whether a line of the file casts a module by the name that is called here."""
    name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    return isinstance(name, cst.Name) and _is_cast(walker.scope.file.text, name.value)


@lru_cache(maxsize=1024)
def _is_cast(text: str, name: str) -> bool:
    pattern = rf"\b{name}(?![\w(])[^\n]*\.(?:half\(|bfloat16\(|to\([^\n)]*(?:dtype|half|float16))"
    return re.search(pattern, text) is not None


def cast(walker: Expressions, value: Value, to: DType, node: cst.CSTNode) -> Value:
    """``module.half()`` and the like."""
    identity = identity_of(value)
    place = walker.place(node)
    walker.emit(ModuleCast(place, walker.path.regions, identity, to))
    walker.path.store(identity, "<dtype>", Tensor(to, half_by_user=place))
    walker.path.store(*CASTS, Constant(True))
    return value


def takes_gradients(walker: Expressions, value: Value) -> bool:
    """Whether the parameters of a module take gradients, as far as is known."""
    return Constant(True) not in _possible(walker, identity_of(value), "<frozen>")


def written(walker: Expressions, owner: Hashable, how: str, node: cst.CSTNode) -> None:
    """Tells that parameters are written in place, if autocast may have cast them."""
    if owner is None or not walker.path.regions or Constant(True) in _possible(walker, owner, "<frozen>"):
        return
    types = (mark.dtype for mark in _possible(walker, owner, "<dtype>") if isinstance(mark, Tensor))
    if any(dtype is not None and dtype.is_half for dtype in types):
        return
    walker.emit(ParameterWritten(walker.place(node), walker.path.regions, owner, how))


def freeze(walker: Expressions, value: Value, frozen: bool) -> None:
    """``module.requires_grad_(False)``."""
    walker.path.store(identity_of(value), "<frozen>", Constant(frozen))


def _possible(walker: Expressions, identity: Hashable, key: str) -> list[Value]:
    """What a note on a module may say, over the paths that were joined."""
    found = walker.path.load(identity, key)
    if isinstance(found, Alternatives):
        return list(dict.fromkeys(value for value, facts in found.options if walker.path.allows(facts)))
    return [found] if found is not None else []


def casts_of(walker: Expressions, optimizer: Optimizer) -> tuple[tuple[DType, Place], ...]:
    """The casts that the parameters of an optimizer went through."""
    found: list[tuple[DType, Place]] = []
    for module in sorted(_with_parts(walker, optimizer.modules), key=repr):
        if Constant(True) in _possible(walker, module, "<frozen>"):
            continue
        for dtype in _possible(walker, module, "<dtype>"):
            if isinstance(dtype, Tensor) and dtype.dtype is not None and dtype.half_by_user is not None:
                found.append((dtype.dtype, dtype.half_by_user))
    return tuple(found)


def _with_parts(walker: Expressions, identities: frozenset[Hashable]) -> set[Hashable]:
    """Modules and the modules that are their attributes or items, a few levels down."""
    found = set(identities)
    if not _casts(walker):
        return found
    contents = [*walker.path.base.items(), *walker.path.heap.items()]
    for _ in range(3):
        owners = {walker.engine.template_of(identity) for identity in found} | found
        more = {
            identity
            for (owner, _name), value in contents
            if owner in owners
            for identity in _module_identities(walker, value)
        }
        if more <= found:
            break
        found |= more
    return found


def _module_identities(walker: Expressions, value: Value) -> list[Hashable]:
    values = [option for option, _ in value.options] if isinstance(value, Alternatives) else [value]
    items = [part for item in values for part in (item.items if isinstance(item, Sequence) else [item])]
    return [identity_of(item) for item in items if isinstance(item, Instance) and is_module(walker, item)]


def parameters_in(walker: Expressions, value: Value, depth: int = 0) -> frozenset[Hashable]:
    """The modules whose parameters are somewhere in a value: a generator, a list, groups, a module."""
    if depth > 4:
        return frozenset()
    inner = depth + 1
    match value:
        case Parameters():
            return frozenset({value.module})
        case Sequence():
            return frozenset().union(*(parameters_in(walker, item, inner) for item in value.items))
        case Mapping():
            parts = [*(item for _, item in value.items), *value.rest]
            return frozenset().union(*(parameters_in(walker, item, inner) for item in parts))
        case Instance() | Unknown() if is_module(walker, value):
            return frozenset({identity_of(value)})
        case Tensor() if value.parameter_of is not None:
            return frozenset({value.parameter_of})
    return frozenset()


def call(walker: Expressions, value: Value, given: calls.Arguments, node: cst.Call) -> Value:
    """``module(…)``."""
    identity = identity_of(value)
    if Constant(True) in _possible(walker, identity, "<replicas>"):
        inside = threads.replicated(walker)
        if inside is not None:
            function = Partial(Library("<replica>"), (value,))
            return threads.run(walker, "nn.DataParallel", function, given, node, inside)
    compiled = walker.path.load(identity, "<compiled>")
    if not isinstance(compiled, Context):
        return run(walker, value, given, node)
    opened, _ = contexts.enter(walker, compiled, node)
    result = run(walker, value, given, node)
    contexts.close(walker, opened, node)
    return result


def run(walker: Expressions, value: Value, given: calls.Arguments, node: cst.Call) -> Value:
    """The forward of a module, in the thread that is being walked."""
    place = walker.place(node)
    identity = identity_of(value)
    frozen = walker.path.load(identity, "<frozen>") == Constant(True)
    if isinstance(value, Instance) and value.library is not None:
        return _call_library(walker, value, given, node, place)
    trains = not frozen
    own = value.made_of if isinstance(value, Instance) else None
    forward = walker.engine.find_method(own, "forward") if own is not None else None
    abstract = forward is not None and forward.outline is not None and forward.outline.abstract
    opaque = own is None or abstract
    inputs: tuple[Operand, ...] = ()
    if not isinstance(value, Instance):
        reaching.called(walker, value, given, node)
    if not isinstance(value, Instance) and not _casts(walker) and not _cast_elsewhere(walker, node):
        given_with_text = zip(given.all, given.nodes, strict=False)
        inputs = tuple(
            tensors.operand(walker, item, text)
            for item, text in given_with_text
            if isinstance(item, Tensor) and item.is_half and item.half_by_user is not None
        )
    walker.emit(Forward(place, walker.path.regions, identity, trains, walker.path.gradients, opaque, inputs))
    if isinstance(value, Instance) and not opaque:
        if forward is None:
            return UNKNOWN
        result = calls.invoke(walker, forward, given.after(value), node)
        return _wrapped(walker, value, result)
    region = enabled_region(walker.path.regions)
    if isinstance(walker.path.load(identity, "<float32 out>"), Constant):
        return Tensor(DType.FLOAT32, whole_output=True)
    if region is not None and region.dtype is not None and region.dtype.is_half and not region.framework:
        return Tensor(region.dtype, Certainty.LIKELY, born=place, born_in=region, whole_output=True)
    return Unknown(walker.fresh(node))


def _wrapped(walker: Expressions, value: Instance, result: Value) -> Value:
    if isinstance(walker.path.load(value.identity, "<float32 out>"), Constant):
        return UNKNOWN
    return result


def _call_library(
    walker: Expressions, value: Instance, given: calls.Arguments, node: cst.Call, place: Place
) -> Value:
    name = value.library or ""
    if name == "torch.nn.Sequential":
        items = items_of(walker, value)
        walker.emit(Forward(place, walker.path.regions, value.identity, gradients=walker.path.gradients))
        if items is None or not items.exact:
            return UNKNOWN
        result: Value = given.positional[0] if given.positional else UNKNOWN
        for item in items.items:
            result = calls.call_value(walker, walker.pin(item), calls.Arguments((result,), (), (node,)), node)
        return result
    if name in _IDENTITIES:
        return given.positional[0] if given.positional else UNKNOWN
    op = ops.MODULES.get(name)
    if op is None:
        return UNKNOWN
    if op in ops.KINDS_OF_WEIGHTS:
        trains = takes_gradients(walker, value)
        walker.emit(
            Forward(place, walker.path.regions, value.identity, trains, walker.path.gradients, opaque=True)
        )
    values = list(given.positional) or [v for k, v in given.keywords if k in ("input", "query")]
    if not values:
        return UNKNOWN
    raises = ops.KINDS_OF_WEIGHTS.get(op) == "raises"
    weights = weight_dtype(walker, value) if op in ops.KINDS_OF_WEIGHTS else None
    result = tensors.apply(
        walker, node, op, values, nodes=list(given.nodes) or [node], weights=weights, weights_raise=raises
    )
    if op in ("embedding", "embedding_bag"):
        # a lookup gives what stands in its table, whatever the type of the indices
        dtype = weight_dtype(walker, value)
        return Tensor(dtype) if dtype is not None else UNKNOWN
    if op in (
        "lstm",
        "gru",
        "rnn",
        "rnn_tanh",
        "rnn_relu",
        "multi_head_attention_forward",
        "multi_head_attention",
    ):
        if isinstance(result, Tensor):
            return Sequence((result, replace(result, whole_output=True)))
        return UNKNOWN
    return result


def method(
    walker: Expressions, base: Value, name: str, given: calls.Arguments, node: cst.Call
) -> Value | None:
    """A method that every module has. None if the name is none of those."""
    identity = identity_of(base)
    match name:
        case "half":
            return cast(walker, base, DType.FLOAT16, node)
        case "bfloat16":
            return cast(walker, base, DType.BFLOAT16, node)
        case "float" | "double":
            walker.path.store(identity, "<dtype>", DTypeValue(DType.FLOAT32))
            walker.emit(ModuleCast(walker.place(node), walker.path.regions, identity, DType.FLOAT32))
            return base
        case "to" | "type":
            for value in (*given.positional, *(v for k, v in given.keywords if k == "dtype")):
                if isinstance(value, DTypeValue):
                    if value.dtype.is_half:
                        return cast(walker, base, value.dtype, node)
                    walker.path.store(identity, "<dtype>", value)
                    if not value.of_tensor:
                        walker.emit(
                            ModuleCast(walker.place(node), walker.path.regions, identity, value.dtype)
                        )
            return base
        case "cuda" | "cpu" | "train" | "eval" | "xpu" | "npu" | "apply" | "share_memory":
            return base
        case "requires_grad_":
            flag = given.positional[0] if given.positional else Constant(True)
            if isinstance(flag, Constant):
                freeze(walker, base, flag.value is False)
            return base
        case "parameters":
            return Parameters(identity)
        case "named_parameters":
            return Parameters(identity, named=True)
        case "zero_grad":
            scaling.zeroed(walker, node, of=frozenset({identity}))
            return NONE
        case "state_dict":
            return StateDict("module", identity)
        case "load_state_dict":
            if given.keyword("assign") in (None, Constant(False)):
                written(walker, identity, name, node)
            return UNKNOWN
        case "compile":
            libraries.compiled(walker, base, node)
            return NONE
        case "register_buffer" | "register_parameter":
            if name.startswith("register_") and isinstance(base, Instance) and len(given.positional) >= 2:
                key, tensor = given.positional[:2]
                if isinstance(key, Constant) and isinstance(key.value, str):
                    walker.path.store(base.identity, key.value, tensor)
            return UNKNOWN
        case "append" | "insert" | "add_module" | "extend" if isinstance(base, Instance):
            held = walker.path.load(base.identity, "<items>")
            items = held.items if isinstance(held, Sequence) else ()
            added = given.positional[-1] if given.positional else UNKNOWN
            more = added.items if name == "extend" and isinstance(added, Sequence) else (added,)
            fresh = tuple(item for item in more if item not in items)
            exact = (
                name == "append"
                and not walker.scope.loops
                and (held is None or (isinstance(held, Sequence) and held.exact))
            )
            walker.path.store(base.identity, "<items>", Sequence(items + fresh, exact))
            return base
        case "items" | "values" | "named_children" | "children" | "modules" if isinstance(base, Instance):
            found = items_of(walker, base)
            if found is None:
                return UNKNOWN
            if name in ("values", "children", "modules"):
                return Sequence(found.items, exact=False)
            return Sequence(tuple(Sequence((UNKNOWN, item)) for item in found.items), exact=False)
    return None


def element(walker: Expressions, value: Value) -> Value:
    """One item of a collection, module lists included."""
    if isinstance(value, Instance):
        items = items_of(walker, value)
        return tensors.one_of(walker, items.items) if items is not None else UNKNOWN
    if isinstance(value, Sequence):
        return tensors.one_of(walker, value.items) if len(value.items) <= 4 else UNKNOWN
    found = tensors.element_of(value)
    fresh = isinstance(found, Unknown) and found.symbol is None
    return Unknown(walker.fresh(cst.Name("item"))) if fresh else found
