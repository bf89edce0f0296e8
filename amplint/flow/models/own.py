"""A project's own wrappers, as its settings name them: ``autocast-contexts`` and ``backward-functions``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from amplint.amp.tokens import SCALES_LOSSES
from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import About, CallModel, Registry, Weight
from amplint.flow.models.torch import losses
from amplint.flow.models.torch.regions import framework_region
from amplint.flow.state.values import NONE, Value
from amplint.lowering.program import Node

_REGION = About(Weight.ENTRY)
_BACKWARD = About(Weight.ENTRY, frozenset({SCALES_LOSSES}))


def with_own(registry: Registry, contexts: Sequence[str], backward_functions: Sequence[str]) -> Registry:
    """A registry that knows the wrappers, too. A name with dots is the end of a qualified name; methods of objects
    that are not known go by the last part."""
    if not contexts and not backward_functions:
        return registry
    known: dict[str, list[tuple[str, tuple[CallModel, About]]]] = {}
    for names, found in ((contexts, (_opened, _REGION)), (backward_functions, (_ran_backward, _BACKWARD))):
        for name in names:
            known.setdefault(name.rpartition(".")[2], []).append((name, found))

    def own(name: str) -> tuple[CallModel, About] | None:
        before, _, last = name.rpartition(".")
        for setting, found in known.get(last, ()):
            if not before or "." not in setting or f".{name}".endswith(f".{setting}"):
                return found
        return None

    return replace(registry, own=own)


def _opened(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A context of the project: it takes what it likes, and opens a region of a type that it chooses."""
    return framework_region(api, node)


def _ran_backward(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """Backward on the first argument, which it may scale before."""
    loss = arguments.positional[0] if arguments.positional else None
    losses.backward(api, loss, node, ".backward()", unclear=True)
    return NONE
