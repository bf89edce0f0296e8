"""Parameters of modules: in which values they are, which casts they went through, and their gradients."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.events import CastParameters
from amplint.flow.core.api import Api
from amplint.flow.models.torch.values import Parameters, Tensor
from amplint.flow.models.torch.weights import casts_of_modules, is_module
from amplint.flow.state.conditions import leaves
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import Instance, Iteration, Mapping, Sequence, Unknown, Value

_DEEPEST = 5
"""So deep parameters are looked for in lists and dicts."""


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
            yield from held.values
        case Iteration() as held:
            yield held.each


def casts_of(api: Api, modules: frozenset[Symbol]) -> tuple[CastParameters, ...]:
    """The casts to half precision that parameters of modules went through, those of parts included."""
    return casts_of_modules(api, modules)
