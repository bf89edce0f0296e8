"""Members of enumerations: each is itself alone."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import Value
from amplint.lowering.program import Node


@dataclass(frozen=True, slots=True)
class Member(Value):
    """What ``enum.auto()`` gives: equal to nothing else."""

    identity: Symbol


models = Registry(constants={Member})


@models.call("enum.auto")
def _auto(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``MSE = enum.auto()``, by the line on which it stands."""
    return Member(api.unknown(node).symbol)
