"""Parameters of modules: in which values they are, which casts they went through, and their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.events import CastParameters
from amplint.flow.core.api import Api
from amplint.flow.models.torch.values import MODULE, Frozen, Items, Parameters, ParametersCast, Tensor
from amplint.flow.state.conditions import leaves
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import Instance, Iteration, Mapping, Sequence, Unknown, Value

_DEEPEST = 5
"""So deep parameters are looked for in lists and dicts."""
_LEVELS = 3
"""So many levels of modules inside of modules are looked at."""


def is_module(api: Api, value: Value) -> bool:
    """Whether a value is a torch module."""
    if isinstance(value, Unknown):
        return value.kind == MODULE
    return isinstance(value, Instance) and api.derives_from(value, "torch.nn.")


def parameters_in(api: Api, value: Value | None, depth: int = 0) -> frozenset[Symbol]:
    """The modules whose parameters are somewhere in a value: a generator, a list, groups, a module."""
    if value is None or depth == _DEEPEST:
        return frozenset()
    found: set[Symbol] = set()
    for leaf in leaves(value):
        match leaf:
            case Parameters():
                found.add(leaf.module)
            case Tensor() if leaf.parameter_of is not None:
                found.add(leaf.parameter_of)
            case Instance() | Unknown() if is_module(api, leaf):
                found.add(leaf.identity if isinstance(leaf, Instance) else leaf.symbol)
            case _:
                for part in parts_of(api, leaf):
                    found |= parameters_in(api, part, depth + 1)
    return frozenset(found)


def parts_of(api: Api, value: Value) -> Iterator[Value]:
    """What is in a list, a dict or an iteration."""
    match api.contents(value):
        case Sequence() as held:
            yield from held.items
        case Mapping() as held:
            yield from (item for _, item in held.items)
            yield from held.rest
        case Iteration() as held:
            yield held.each


def casts_of(api: Api, modules: frozenset[Symbol]) -> tuple[CastParameters, ...]:
    """The casts to half precision that parameters of modules went through, those of parts included."""
    found: list[CastParameters] = []
    for module in sorted(_with_parts(api, modules), key=lambda name: name.order):
        if any(note.frozen for note in api.notes(module, Frozen)):
            continue
        for note in api.notes(module, ParametersCast):
            if note.dtype is not None and note.dtype.is_half and note.place is not None:
                found.append(CastParameters(note.dtype, note.place))
    return tuple(found)


def _with_parts(api: Api, modules: frozenset[Symbol]) -> set[Symbol]:
    """Modules, and the modules that are their attributes or items, a few levels down."""
    found = set(modules)
    pending = sorted(modules, key=lambda name: name.order)
    for _ in range(_LEVELS):
        parts = [part for module in pending for part in _parts_of_module(api, module)]
        pending = [part for part in dict.fromkeys(parts) if part not in found]
        found.update(pending)
    return found


def _parts_of_module(api: Api, module: Symbol) -> Iterator[Symbol]:
    held = list(api.attributes_of(Instance(module)).values())
    held += [note.items for note in api.notes(module, Items)]
    for value in held:
        for leaf in leaves(value):
            inner = [one for part in parts_of(api, leaf) for one in leaves(part)]
            for part in (leaf, *inner):
                if isinstance(part, Instance) and is_module(api, part):
                    yield part.identity
