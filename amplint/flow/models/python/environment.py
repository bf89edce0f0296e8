"""What a program reads of the process that it runs in: the same question has the same answer."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments, Dead
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.items import named
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import NONE, Constant, External, Instance, Number, Unknown, Usual, Value
from amplint.lowering.program import Node

models = Registry()

_LOGGER = "logging.Logger"
_LEVELS = ("debug", "info", "warning", "warn", "error", "exception", "critical", "log")


@models.call("os.environ.get", "os.getenv")
def _variable(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    key = arguments.get(0, "key")
    what = named(key) if key is not None else None
    return Unknown(symbol("environment", what)) if what is not None else api.unknown(node)


@models.call("os.environ.setdefault", "os.environ.update", "os.putenv", "os.makedirs", "os.mkdir")
def _set(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return NONE


@models.namespace("os.path.", "os.")
def _os(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """Files and folders: the same question to the same path may have another answer later."""
    return api.unknown(node)


@models.namespace("math.", "random.", "time.")
def _number(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """Numbers, and what makes them."""
    plain = all(isinstance(value, (Constant, Number, Unknown)) for value in arguments.all)
    return api.number(node) if plain and arguments.all else api.unknown(node)


@models.call("math.cos", "math.sin")
def _wave(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``math.cos(math.pi * step / steps)``: anything between -1 and 1."""
    made = api.number(node)
    api.set_note(made.symbol, Usual(Constant(0.0)))
    return made


@models.call("logging.getLogger")
def _logger(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return Instance(symbol("logger", *map(named, arguments.positional)), None, _LOGGER)


@models.call(*(f"logging.{level}" for level in _LEVELS), *(f"{_LOGGER}.{level}" for level in _LEVELS))
def _log(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """The same as ``print``."""
    return api.call(External("builtins.print"), arguments, node)


@models.call("sys.exit", "builtins.exit", "builtins.quit", "os._exit")
def _exit(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A program that ends with an error goes no further; one that has done its work is over."""
    status = arguments.positional[0] if arguments.positional else NONE
    if isinstance(status, Constant) and status.value:
        raise Dead
    return NONE
