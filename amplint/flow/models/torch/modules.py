"""Modules as objects: what is taken for one, the methods that all of them have, casts and containers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from amplint.amp.attributes import MODULE_ATTRIBUTES
from amplint.events import DType, ModuleCast
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Kind, Registry, Weight
from amplint.flow.models.python.dicts import has_key, made_of, merged, with_item
from amplint.flow.models.python.questions import under_no_name
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.casts import target_of
from amplint.flow.models.torch.notes import Buffers, CompiledNote, Frozen, Items, Parallel, ParametersCast
from amplint.flow.models.torch.values import MODULE, TYPE_OF_MODULE, Parameters, Tensor
from amplint.flow.models.torch.weights import (
    cast_parameters,
    freeze,
    is_module,
    items_in,
    know,
    modules_in,
    weight_dtype,
    written,
)
from amplint.flow.state.conditions import apply, leaves
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    BoundMethod,
    Constant,
    Instance,
    Mapping,
    Note,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

OF_TORCH = "torch.nn."
"""The key of objects whose class is one of torch.nn or inherits from one."""
_OWN_METHODS = frozenset(
    {
        "parameters",
        "named_parameters",
        "requires_grad_",
        "modules",
        "named_modules",
        "named_children",
        "register_forward_hook",
        "register_buffer",
    }
)
_CASTS = {"half": DType.FLOAT16, "bfloat16": DType.BFLOAT16, "float": DType.FLOAT32, "double": DType.FLOAT64}
_SAME = frozenset({"cuda", "cpu", "xpu", "npu", "ipu", "mtia", "share_memory", "to_empty"})
"""Methods that give the module itself."""
_COLLECTIONS = frozenset(
    {"items", "values", "keys", "named_children", "children", "modules", "named_modules"}
)
_ADDING = frozenset({"append", "insert", "extend", "add_module", "register_module", "update"})
_VIEWS = frozenset({"items", "values", "keys"})
_WITH_KEYS = frozenset({"torch.nn.ModuleDict", "torch.nn.ParameterDict"})
_OTHERS = MODULE_ATTRIBUTES - {
    "forward",
    "training",
    "T_destination",
    "dump_patches",
    "call_super_init",
    "state_dict",
    "zero_grad",
}

models.members["torch.nn.Module"] = frozenset(
    # what wraps a module, ``DistributedDataParallel(model)``, is that module here
    {*MODULE_ATTRIBUTES, "module", "_orig_mod"}
)
_WRAPPED_AS: dict[str, type[Note]] = {"module": Parallel, "_orig_mod": CompiledNote}
models.kinds.append(Kind(MODULE, one_of=_OWN_METHODS))
_ALSO_OF_OTHERS = frozenset({"eval", "train", "parameters", "named_parameters"})
models.kinds.append(Kind(MODULE, one_of=_ALSO_OF_OTHERS, all_of=frozenset({"__call__"})))
_METHODS = _OTHERS | _COLLECTIONS | _ADDING | {"state_dict", "zero_grad"}


@models.into(models.annotations, "torch.nn.Module")
def _annotated(api: Api, own: Symbol) -> Value:
    """``model: nn.Module``."""
    return Unknown(own, MODULE)


# methods ---------------------------------------------------------------------------------------------------------


@models.method(OF_TORCH, *_CASTS)
@models.method(MODULE, *_CASTS)
@models.method(Instance, *_CASTS)
def _cast(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``model.half()``."""
    if not is_module(api, base):
        return None
    return cast_module(api, base, _CASTS[name], node)


def cast_module(api: Api, module: Value, to: DType, node: Node, *, named: bool = True) -> Value:
    """All parameters of a module get another type. ``named``: the code names the type here."""
    place = api.place(node)
    api.emit(ModuleCast(place, regions(api), api.identity_of(module), to))
    cast_parameters(api, module, ParametersCast(to, place if named and to.is_half else None))
    return module


@models.method(OF_TORCH, "to", "type")
@models.method(MODULE, "to", "type")
@models.method(Instance, "to", "type")
def _to(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``model.to(torch.float16)``, ``model.to(device)``."""
    if not is_module(api, base):
        return None
    target = target_of(api, arguments, name)
    if target.unclear:
        cast_parameters(api, base, ParametersCast(None))
    if target.dtype is None:
        return base
    dtype = target.dtype
    if dtype.of_tensor and not dtype.dtype.is_half:
        cast_parameters(api, base, ParametersCast(dtype.dtype))
        return base
    return cast_module(api, base, dtype.dtype, node, named=not dtype.of_tensor)


@models.method(OF_TORCH, *_SAME)
@models.method(MODULE, *_SAME)
@models.method(Instance, *_SAME)
def _same(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    return base if is_module(api, base) else None


@models.method(OF_TORCH, "train", "eval")
@models.method(MODULE, "train", "eval")
@models.method(Instance, "train", "eval")
def _mode(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``model.eval()``: ``self.training`` is False in it and in all that is inside."""
    if not is_module(api, base):
        return None
    trains = Constant(False) if name == "eval" else arguments.get(0, "mode") or Constant(True)
    for part in modules_in(api, base):
        if part.made_of is not None:
            api.store(part.identity, "training", trains)
    return base


@models.method(OF_TORCH, "apply")
@models.method(MODULE, "apply")
@models.method(Instance, "apply")
def _apply(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``model.apply(function)`` calls it with each module inside, and with the model last."""
    function = arguments.get(0, "fn")
    if function is None or not is_module(api, base):
        return None
    for part in reversed(modules_in(api, base)):
        api.call(function, Arguments((part,), (), (node,)), node)
    return base


@models.method(OF_TORCH, "requires_grad_")
@models.method(MODULE, "requires_grad_")
@models.method(Instance, "requires_grad_")
def _requires_gradients(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``model.requires_grad_(False)``."""
    if not is_module(api, base):
        return None
    flag = arguments.get(0, "requires_grad") or TRUE
    if isinstance(flag, Constant):
        freeze(api, base, flag.value is False)
    return base


@models.method(OF_TORCH, "parameters", "named_parameters")
@models.method(MODULE, "parameters", "named_parameters")
@models.method(Instance, "parameters", "named_parameters")
def _parameters(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value | None:
    """``model.parameters()``."""
    identity = api.identity_of(base)
    if identity is None or not is_module(api, base):
        return None
    know(api, base)
    return Parameters(identity, named=name == "named_parameters")


@models.method(OF_TORCH, "load_state_dict", weight=Weight.EFFECT)
@models.method(MODULE, "load_state_dict", weight=Weight.EFFECT)
def _load(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``model.load_state_dict(state)`` writes all parameters in place."""
    if arguments.keyword("assign") in (None, FALSE):
        written(api, api.identity_of(base), name, node)
    return api.unknown(node)


@models.method(OF_TORCH, "compile")
@models.method(MODULE, "compile")
def _compile(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``model.compile()`` compiles the module in place."""
    identity = api.identity_of(base)
    if identity is not None:
        api.set_note(identity, CompiledNote(api.place(node)))
    return NONE


@models.method(OF_TORCH, "register_buffer", "register_parameter")
def _register(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``self.register_buffer("mean", x)``."""
    key, value = arguments.get(0, "name"), arguments.get(1, "tensor" if name.endswith("buffer") else "param")
    if isinstance(base, Instance) and isinstance(key, Constant) and isinstance(key.value, str):
        api.store(base.identity, key.value, value if value is not None else NONE)
        if name == "register_buffer":
            known = api.note(base.identity, Buffers)
            names = known.names if known is not None else ()
            api.set_note(base.identity, Buffers(tuple(dict.fromkeys((*names, key.value)))))
    return NONE


# attributes ------------------------------------------------------------------------------------------------------


@models.into(models.attributes, OF_TORCH, Instance)
def _attribute(api: Api, base: Instance, name: str, node: Node) -> Value | None:
    """``self.half``, ``linear.weight``, ``wrapped.module``."""
    if not is_module(api, base):
        return None
    if _is_itself(api, base.identity, name):
        return base
    if name in _METHODS:
        return BoundMethod(base, name)
    layer = base.made_of is None or api.derives_from(base, "torch.nn.Linear")
    if layer and name in ("weight", "bias"):
        return Tensor(weight_dtype(api, base.identity), parameter_of=base.identity)
    return None


@models.into(models.attributes, MODULE)
def _of_unknown(api: Api, base: Unknown, name: str, node: Node) -> Value | None:
    """``wrapped.module``, ``model.dtype``."""
    if name == "dtype":
        return Unknown(symbol("attribute", base.symbol, name), TYPE_OF_MODULE)
    return base if _is_itself(api, base.symbol, name) else None


def _is_itself(api: Api, identity: Symbol, name: str) -> bool:
    """Whether an attribute is the module that is wrapped, which the wrapper stands for: ``parallel.module``."""
    note = _WRAPPED_AS.get(name)
    return note is not None and api.note(identity, note) is not None


@models.into(models.stores, MODULE)
def _set(api: Api, base: Unknown, name: str, value: Value, node: Node) -> bool:
    """``model.requires_grad = False`` sets an attribute that nobody reads; who writes it means the parameters."""
    if name == "requires_grad" and value == FALSE:
        api.set_note(base.symbol, Frozen())
    return False


# containers ------------------------------------------------------------------------------------------------------


def hold(api: Api, identity: Symbol, name: str, arguments: Arguments) -> None:
    """Notes what a container is made with: ``nn.Sequential(a, b)``, ``nn.ModuleList([a, b])``."""
    first = arguments.positional[0] if arguments.positional else None
    items: Value | None = None
    if name == "torch.nn.Sequential":
        items = Sequence((*arguments.positional, *arguments.starred), not arguments.unclear)
        if isinstance(first, Mapping) and len(arguments.positional) == 1:
            items = Sequence(first.values, not first.rest)
        elif len(arguments.positional) == 1 and not isinstance(first, (Instance, Unknown, BoundMethod)):
            items = None
    elif isinstance(first, Mapping):
        items = replace(first, identity=None)  # what the dict gets later is not in the container
    elif isinstance(first, Sequence):
        items = first
    elif first is None:
        items = Mapping() if name in _WITH_KEYS else Sequence()
    if items is not None:
        api.set_note(identity, Items(items))


def _by_key(api: Api, module: Instance) -> Mapping | None:
    """What is in a ModuleDict, under its keys."""
    note = api.note(module.identity, Items)
    return note.items if note is not None and isinstance(note.items, Mapping) else None


def _keys(api: Api, module: Instance, node: Node) -> Value | None:
    held = _by_key(api, module)
    return api.call(BoundMethod(held, "keys"), Arguments(), node) if held is not None else None


def items_of(api: Api, module: Value) -> Sequence | None:
    """What is in a Sequential, a ModuleList or a ModuleDict. Where it differs by path, ``nn.Sequential(a, act, b)``,
    each of the items does, if there are as many on all paths."""
    if not isinstance(module, Instance):
        return None
    note = api.note(module.identity, Items)
    if note is None:
        several = _item_by_item(api.noted(module.identity, Items))
        if several is not None:
            return several
        found = items_in(api, module.identity)
        return Sequence(tuple(dict.fromkeys(found)), exact=False) if found else None
    if isinstance(note.items, Sequence):
        return note.items
    if isinstance(note.items, Mapping):
        values = tuple(value for _, value in note.items.items)
        return Sequence(values + note.items.rest, exact=False)
    return None


def _item_by_item(noted: Value | None) -> Sequence | None:
    alike = [
        leaf.items.items
        if isinstance(leaf, Items) and isinstance(leaf.items, Sequence) and leaf.items.exact
        else None
        for leaf in (leaves(noted) if noted is not None else ())
    ]
    if (
        noted is None
        or not alike
        or any(items is None or len(items) != len(alike[0] or ()) for items in alike)
    ):
        return None

    def item(index: int, leaf: Value) -> Value:
        assert isinstance(leaf, Items) and isinstance(leaf.items, Sequence)
        return leaf.items.items[index]

    return Sequence(tuple(apply(partial(item, index), noted) for index in range(len(alike[0] or ()))))


@models.method(OF_TORCH, *sorted(_COLLECTIONS))
def _collection(api: Api, base: Instance, name: str, arguments: Arguments, node: Node) -> Value:
    """``self.blocks.items()``."""
    held = _by_key(api, base)
    view = {"children": "values", "named_children": "items"}.get(name, name)
    if held is not None and view in _VIEWS:
        return api.call(BoundMethod(held, view), Arguments(), node)
    found = items_of(api, base)
    if found is None and name in ("children", "named_children", "modules", "named_modules"):
        parts = tuple(held for held in api.attributes_of(base).values() if is_module(api, held))
        found = Sequence(parts, exact=False) if parts else None
    if found is None or name == "keys":
        return api.unknown(node)
    if name in ("values", "children", "modules"):
        return Sequence(found.items, found.exact and name != "modules")
    return Sequence(tuple(Sequence((api.unknown(node), item)) for item in found.items), found.exact)


@models.method(OF_TORCH, "__iter__")
def _iterated(api: Api, base: Instance, name: str, arguments: Arguments, node: Node) -> Value:
    """All that a loop takes out of a container."""
    found = _keys(api, base, node) or items_of(api, base)
    return found if found is not None else api.unknown(node)


@models.method(OF_TORCH, *sorted(_ADDING))
def _add(api: Api, base: Instance, name: str, arguments: Arguments, node: Node) -> Value:
    """``self.blocks.append(block)``."""
    if name in ("add_module", "register_module") and len(arguments.positional) > 1:
        key, part = arguments.positional[:2]
        identity = api.identity_of(part)
        if isinstance(key, Constant) and isinstance(key.value, str):
            api.store(base.identity, key.value, part)
        elif identity is not None:
            api.store(base.identity, under_no_name(identity), part)
    by_key = _by_key(api, base)
    if by_key is not None:
        if name == "update":
            by_key = merged(api, by_key, made_of(api, arguments.positional[:1], Arguments(), node))
        elif len(arguments.positional) > 1:
            by_key = with_item(api, by_key, *arguments.positional[:2])
        api.set_note(base.identity, Items(by_key))
        return base
    held = items_of(api, base)
    items = held.items if held is not None else ()
    added = arguments.positional[-1] if arguments.positional else api.unknown(node)
    more: tuple[Value, ...] = (added,)
    if name in ("extend", "update") and isinstance(added, Sequence):
        more = added.items
    elif name in ("extend", "update") and isinstance(added, Mapping):
        more = added.values
    exact = name == "append" and not api.in_loop and (held is None or held.exact)
    fresh = tuple(item for item in more if exact or item not in items)
    api.set_note(base.identity, Items(Sequence((*items, *fresh), exact)))
    return base


@models.into(models.operators, Instance)
def _operate(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``self.blocks += [block]``, ``name in self.heads``."""
    if operator == "in" and isinstance(right, Instance):
        by_key = _by_key(api, right)
        return has_key(by_key, left) if by_key is not None else None
    grows = operator == "+=" and isinstance(left, Instance) and api.derives_from(left, "torch.nn.ModuleList")
    if not grows or not isinstance(left, Instance) or right is None:
        return None
    return _add(api, left, "extend", Arguments((api.contents(right),), (), (node,)), node)


@models.into(models.items, OF_TORCH)
def _item(api: Api, base: Instance, keys: tuple[Value, ...], node: Node) -> Value | None:
    """``self.blocks[0]``, ``self.heads["box"]``."""
    key = keys[0] if len(keys) == 1 else None
    by_key = _by_key(api, base)
    if by_key is not None and isinstance(key, Constant) and not by_key.rest:
        return by_key.get(key.value)
    found = items_of(api, base)
    if found is None:
        return None
    if isinstance(key, Constant) and isinstance(key.value, slice):
        part = api.subscript(found, keys, node)
        if not isinstance(part, Sequence) or base.external is None:
            return part
        made = Instance(api.fresh(node), None, base.external)
        api.set_note(made.identity, Items(part))
        return made
    if isinstance(key, Constant) and type(key.value) is int and found.exact:
        return found.items[key.value] if -len(found.items) <= key.value < len(found.items) else None
    return api.iterate(found, node)


@models.into(models.item_stores, OF_TORCH)
def _set_item(api: Api, base: Instance, keys: tuple[Value, ...], value: Value, node: Node) -> bool:
    """``self.heads["box"] = head``."""
    by_key = _by_key(api, base)
    if by_key is not None and len(keys) == 1:
        api.set_note(base.identity, Items(with_item(api, by_key, keys[0], value)))
        return True
    held = items_of(api, base)
    if held is None:
        return False
    api.set_note(base.identity, Items(Sequence((*held.items, value), exact=False)))
    return True


@models.into(models.iterations, OF_TORCH)
def _one(api: Api, base: Instance, node: Node) -> Value | None:
    """``for block in self.blocks``, ``for name in self.heads``."""
    found = _keys(api, base, node) or items_of(api, base)
    return api.iterate(found, node) if found is not None else None


@models.call(
    "torch.nn.Sequential.__init__",
    "torch.nn.ModuleList.__init__",
    "torch.nn.ModuleDict.__init__",
    "torch.nn.ParameterList.__init__",
    "torch.nn.ParameterDict.__init__",
)
def _begin(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``super().__init__(*layers)`` of a class of the project."""
    if isinstance(arguments.receiver, Instance):
        hold(api, arguments.receiver.identity, name.removesuffix(".__init__"), arguments)
    return NONE


# all others ------------------------------------------------------------------------------------------------------


def _left(key: str) -> list[str]:
    """The methods of modules that have no model above."""
    return sorted(name for name in _OTHERS if (key, name) not in models.methods)


@models.method(OF_TORCH, *_left(OF_TORCH))
@models.method(MODULE, *_left(MODULE))
def _other(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """What else every module has changes nothing that matters here: ``model.register_forward_hook(f)``."""
    return api.unknown(node)
