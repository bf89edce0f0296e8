"""Members of enumerations: each is itself alone."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.values import Constant, Value
from amplint.lowering.program import Node

models = Registry()


@models.call("enum.auto")
def _auto(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``MSE = enum.auto()``: a value that no other member has."""
    place = api.place(node)
    return Constant(f"{name} {place.path}:{place.line}")
