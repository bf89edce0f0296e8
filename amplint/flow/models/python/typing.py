"""``typing``: what is there for type checkers alone."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.values import FALSE, NONE, ClassValue, Value
from amplint.lowering.program import Node

models = Registry()

_GENERIC = ("typing.Generic", "typing.Protocol", "typing_extensions.Generic", "typing_extensions.Protocol")


@models.call("typing.cast", "typing_extensions.cast")
def _cast(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return arguments.get(1, "val") or api.unknown(node)


@models.call(
    "typing.assert_type", "typing.overload", "typing.final", "typing.no_type_check", "typing.override"
)
def _itself(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return arguments.positional[0] if arguments.positional else NONE


@models.into(models.externals, "typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING")
def _type_checking(api: Api, value: Value, name: str, node: Node | None) -> Value:
    return FALSE


@models.into(models.items, ClassValue)
def _parametrised(api: Api, base: ClassValue, keys: tuple[Value, ...], node: Node) -> Value | None:
    """``Predictor[int]``, of a generic class: calling it makes a ``Predictor``."""
    parameters = getattr(base.outline.node, "type_params", ())  # PEP 695
    return base if parameters or any(api.derives_from(base, name) for name in _GENERIC) else None
