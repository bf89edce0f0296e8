"""The parameters of modules: which modules have which, what type they are, whether they take gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from amplint.events import CastParameters, DType, ParameterWritten, Place
from amplint.flow.core.api import Api
from amplint.flow.models.torch.ambient import regions
from amplint.flow.models.torch.dtypes import default_dtype
from amplint.flow.models.torch.notes import Buffers, CastsMade, Frozen, Items, Known, ParametersCast
from amplint.flow.models.torch.values import MODULE, Parameters, Replicas, Tensor
from amplint.flow.state.conditions import apply, leaves
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import NONE, External, Instance, Mapping, Sequence, Unknown, Value
from amplint.lowering.program import Node

_ALL: Symbol = symbol("modules")
"""Who has the note that modules were cast."""
_NO_MODULES = ("torch.autograd.", "torch.nn.Parameter", "torch.optim.", "torch.utils.", "torch.distributed.")


def is_module(api: Api, value: Value) -> bool:
    """Whether a value is a torch module: an object of a class that inherits from one of torch.nn, or that has a
    forward and inherits from something outside."""
    if isinstance(value, Replicas):
        return True
    if isinstance(value, Unknown):
        return value.kind == MODULE
    if not isinstance(value, Instance):
        return False
    if value.made_of is None:
        return value.external is not None and value.external.startswith("torch.nn.")
    if api.derives_from(value, "torch.nn."):
        return True
    outside = [base.name for base in api.bases(value.made_of) if isinstance(base, External)]
    outside = [name for name in outside if not name.startswith((*_NO_MODULES, "builtins."))]
    return bool(outside) and api.find_method(value.made_of, "forward") is not None


# parts -----------------------------------------------------------------------------------------------------------


def parts_of(api: Api, value: Value) -> Iterator[Symbol]:
    """A module, the modules that are its attributes or items, theirs, and the parameters of their own."""
    for part, owner in _parts(api, value, set()):
        if isinstance(part, Tensor):
            assert part.parameter_of is not None
            yield part.parameter_of
        else:
            yield owner


def _parts(api: Api, value: Value, seen: set[Symbol]) -> Iterator[tuple[Value, Symbol]]:
    for leaf in leaves(value):
        one = leaf.module if isinstance(leaf, Replicas) else leaf
        if isinstance(one, Tensor):
            if one.parameter_of is not None and one.parameter_of not in seen:
                seen.add(one.parameter_of)
                yield one, one.parameter_of
            continue
        identity = api.identity_of(one)
        if identity is None or identity in seen or not is_module(api, one):
            continue
        seen.add(identity)
        yield one, identity
        for inner in contents(api, one):
            yield from _parts(api, inner, seen)


def modules_in(api: Api, value: Value) -> list[Instance]:
    """A module and those inside it that were made in sight, each before its parts."""
    return [part for part, _ in _parts(api, value, set()) if isinstance(part, Instance)]


def contents(api: Api, module: Value) -> list[Value]:
    """What a module holds: its attributes, and its items if it is a container."""
    if not isinstance(module, Instance):
        return []
    return [*api.attributes_of(module).values(), *items_in(api, module.identity)]


def items_in(api: Api, identity: Symbol) -> list[Value]:
    """What is in a Sequential, a ModuleList or a ModuleDict."""
    found: list[Value] = []
    for note in api.notes(identity, Items):
        for held in leaves(note.items):
            if isinstance(held, Sequence):
                found.extend(held.items)
            elif isinstance(held, Mapping):
                found.extend(held.values)
    return found


def know(api: Api, module: Value) -> None:
    """Keeps the object that an identity names, for who asks for its parts by the identity alone."""
    if isinstance(module, Instance):
        api.set_note(module.identity, Known(module))


def _roots(api: Api, modules: Iterable[Symbol]) -> Iterator[Value]:
    for identity in sorted(modules, key=lambda part: part.order):
        note = api.note(identity, Known)
        yield note.value if note is not None else Unknown(identity, MODULE)


def modules_below(api: Api, module: Symbol) -> frozenset[Symbol]:
    """A module and all that is known to be inside it."""
    return frozenset(part for root in _roots(api, (module,)) for part in parts_of(api, root)) | {module}


# types -----------------------------------------------------------------------------------------------------------


def cast_parameters(api: Api, module: Value, note: ParametersCast) -> None:
    """``module.half()``: all parameters and buffers that the module has now have another type."""
    parts = list(_parts(api, module, set()))
    for part, identity in parts:
        api.set_note(identity, note)
        if isinstance(part, Instance):
            _cast_buffers(api, part, note)
    api.set_note(_ALL, CastsMade(_is_unclear(api, module) or _casts_unclear(api)))


def may_have_cast(api: Api, module: Value) -> None:
    """A function of the project is not followed that got a module and may do to it what casts it: parameters that
    were as they are made may have any type after that."""
    for _, identity in _parts(api, module, set()):
        if not api.notes(identity, ParametersCast):
            api.set_note(identity, ParametersCast(None))


def replace_data(api: Api, identity: Symbol, value: Value, node: Node) -> None:
    """``p.data = value``, of one of the parameters of a module."""

    def replace_by(data: Value) -> Value:
        data = current(api, data)
        if isinstance(data, Parameters) and data.module == identity:
            return NONE
        for root in _roots(api, (identity,)):
            parts = dict.fromkeys([*parts_of(api, root), identity])
            changed = [_replace(api, part, data, node) for part in parts]
            if any(changed):
                api.set_note(_ALL, CastsMade(_is_unclear(api, root) or _casts_unclear(api)))
        return NONE

    api.each(value, replace_by)


def _replace(api: Api, identity: Symbol, data: Value, node: Node) -> bool:
    """Notes what new data makes of the type of a parameter, if that was cast before or the data is half."""
    before = api.notes(identity, ParametersCast)
    if is_surely_half(data):
        assert isinstance(data, Tensor)
        earlier = [
            place for note in before if note.one and note.dtype is data.dtype for place in _places(note)
        ]
        *others, last = dict.fromkeys([*earlier, data.half_by_user or api.place(node)])
        api.set_note(identity, ParametersCast(data.dtype, last, one=True, others=tuple(others)))
    elif before:
        dtype = data.dtype if isinstance(data, Tensor) else None
        api.set_note(identity, ParametersCast(dtype, one=True))
    return bool(before) or is_surely_half(data)


def _places(note: ParametersCast) -> tuple[Place, ...]:
    """Where the code names the type."""
    return (*note.others, note.place) if note.place is not None else ()


def is_surely_half(value: Value) -> bool:
    """Whether a tensor is float16 or bfloat16 without autocast, so that a parameter made of it is."""
    return isinstance(value, Tensor) and value.dtype in (DType.FLOAT16, DType.BFLOAT16) and value.born is None


def _cast_buffers(api: Api, module: Instance, note: ParametersCast) -> None:
    known = api.note(module.identity, Buffers)
    for name in known.names if known is not None else ():
        value = api.load(module.identity, name)
        if value is not None:
            api.store(module.identity, name, apply(lambda one: _cast_buffer(one, note), value))


def _cast_buffer(value: Value, note: ParametersCast) -> Value:
    if not isinstance(value, Tensor) or (value.dtype is not None and not value.dtype.is_floating):
        return value
    half = note.dtype is not None and note.dtype.is_half
    return Tensor(note.dtype, half_by_user=note.place if half else None)


def _is_unclear(api: Api, module: Value) -> bool:
    """Whether modules that are known by another name may have been cast with this one: it comes from out of sight and
    may hold them. Constructors are walked for all who use their objects, so that what one does counts for itself."""
    function = api.function
    if isinstance(module, Instance) or function is None:
        return False
    around = (function, *api.callers())
    return not any(part.outline is not None and part.outline.name == "__init__" for part in around)


def note_cast(api: Api) -> None:
    """Notes that some module has another type than that of new ones."""
    api.set_note(_ALL, CastsMade(_casts_unclear(api)))


def may_be_cast(api: Api, identity: Symbol) -> bool:
    """Whether a module from out of sight, or one that it is a part of, was cast."""
    if api.notes(identity, ParametersCast):
        return True
    whole = identity.parts[1] if identity.parts[0] in ("attribute", "item", "part") else None
    return isinstance(whole, Symbol) and may_be_cast(api, whole)


def _casts_unclear(api: Api) -> bool:
    return any(note.unclear for note in api.notes(_ALL, CastsMade))


def weight_dtype(api: Api, identity: Symbol) -> DType | None:
    """The type of the parameters that a layer made, or None if it is not known."""
    if api.notes(identity, ParametersCast):
        note = api.note(identity, ParametersCast)
        return note.dtype if note is not None and not note.one else None
    return None if _casts_unclear(api) or _set_elsewhere(identity) else default_dtype(api)


@lru_cache(maxsize=4096)
def _set_elsewhere(identity: Symbol) -> bool:
    """Whether a module is known by the statement of another method alone, which may have cast it after that."""
    kind, *parts = identity.parts
    return kind == "set" or any(isinstance(part, Symbol) and _set_elsewhere(part) for part in parts)


def current(api: Api, value: Value) -> Value:
    """A tensor with the type that it has now: a parameter may have been cast with its module since it was made."""
    if not isinstance(value, Tensor) or value.parameter_of is None:
        return value
    if not api.notes(value.parameter_of, ParametersCast):
        return value
    note = api.note(value.parameter_of, ParametersCast)
    if note is None or note.dtype is None or note.one:
        return Tensor(parameter_of=value.parameter_of)
    if note.dtype is value.dtype:
        return value
    place = note.place if note.dtype.is_half else None
    return Tensor(note.dtype, half_by_user=place, parameter_of=value.parameter_of)


def casts_of_modules(api: Api, modules: Iterable[Symbol]) -> tuple[CastParameters, ...]:
    """The casts that the parameters of modules went through, frozen ones left out."""
    if not api.notes(_ALL, CastsMade):
        return ()
    found: dict[CastParameters, None] = {}
    for root in _roots(api, modules):
        own = api.identity_of(root)
        for identity in dict.fromkeys([*parts_of(api, root), *([own] if own is not None else [])]):
            if not takes_gradients(api, identity):
                continue
            notes = api.notes(identity, ParametersCast)
            if any(note.one and not (note.dtype is not None and note.dtype.is_half) for note in notes):
                continue  # those that are trained may be the ones that are no longer half
            for note in notes:
                if note.dtype is not None and note.dtype.is_half:
                    found |= {CastParameters(note.dtype, place): None for place in _places(note)}
    return tuple(found)


# gradients -------------------------------------------------------------------------------------------------------


def freeze(api: Api, module: Value, frozen: bool) -> None:
    """``module.requires_grad_(False)``."""
    for identity in parts_of(api, module):
        api.set_note(identity, Frozen(frozen))


def freeze_named(api: Api, identity: Symbol, frozen: bool) -> None:
    """``for p in module.parameters(): p.requires_grad = False``."""
    for root in _roots(api, (identity,)):
        freeze(api, root, frozen)
    api.set_note(identity, Frozen(frozen))


def takes_gradients(api: Api, identity: Symbol) -> bool:
    """Whether parameters take gradients, as far as is known."""
    return not any(note.frozen for note in api.notes(identity, Frozen))


def trains(api: Api, identity: Symbol) -> bool:
    """Whether parameters may take gradients on some way."""
    note = api.note(identity, Frozen)
    return note is None or not note.frozen


def written(api: Api, owner: Symbol | None, how: str, node: Node) -> None:
    """Tells that parameters are written in place, if autocast may have cast them."""
    opened = regions(api)
    if owner is None or not opened or not takes_gradients(api, owner):
        return
    types = (note.dtype for note in api.notes(owner, ParametersCast))
    if not any(dtype is None or dtype.is_half for dtype in types):
        api.emit(ParameterWritten(api.place(node), opened, owner, how))
