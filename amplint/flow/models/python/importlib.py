"""Modules by their names."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.values import Constant, Value
from amplint.lowering.program import Node

models = Registry()


@models.call("importlib.import_module", "builtins.__import__")
def _import_module(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``import_module("torch.amp")``; ``__import__`` gives the package of a dotted name."""
    target = arguments.get(0, "name")
    if not isinstance(target, Constant) or not isinstance(target.value, str):
        return api.unknown(node)
    dotted: str = target.value
    if dotted.startswith("."):
        package = arguments.get(1, "package")
        if not isinstance(package, Constant) or not isinstance(package.value, str):
            return api.unknown(node)
        up = len(dotted) - len(dotted.lstrip(".")) - 1
        folders = package.value.split(".")
        dotted = ".".join([*folders[: len(folders) - up], dotted.lstrip(".")])
    return api.imported(dotted.partition(".")[0] if name == "builtins.__import__" else dotted)


@models.call("importlib.reload")
def _reload(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return arguments.positional[0] if arguments.positional else api.unknown(node)
