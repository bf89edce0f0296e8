"""Methods of strings. A method of a string that is not known gives the same unknown each time: the same question to
the same string has the same answer."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.items import named, special
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import FALSE, TRUE, Constant, Sequence, Text, Unknown, Value
from amplint.lowering.program import Node

models = Registry()

_PURE = frozenset(
    {
        "capitalize",
        "casefold",
        "count",
        "endswith",
        "find",
        "isalnum",
        "isalpha",
        "isdigit",
        "isnumeric",
        "lower",
        "lstrip",
        "partition",
        "removeprefix",
        "removesuffix",
        "replace",
        "rpartition",
        "rsplit",
        "rstrip",
        "split",
        "splitlines",
        "startswith",
        "strip",
        "title",
        "upper",
    }
)
_OF_ANY_STRING = (
    "startswith",
    "endswith",
    "lower",
    "upper",
    "strip",
    "lstrip",
    "rstrip",
    "casefold",
    "capitalize",
    "removeprefix",
    "removesuffix",
)
"""Methods that tensors, modules and other objects that matter do not have."""


@models.method(Constant)
def _of_constant(api: Api, base: Constant, name: str, arguments: Arguments, node: Node) -> Value:
    if not isinstance(base.value, str):
        return api.unknown(node)
    if name == "join":
        return _joined(api, base.value, arguments, node)
    if name == "format":
        return _formatted(api, base.value, arguments, node)
    given = [part.value for part in arguments.positional if isinstance(part, Constant)]
    if name not in _PURE or arguments.keywords or len(given) != len(arguments.positional):
        return api.unknown(node)
    try:
        result = getattr(base.value, name)(*given)
    except (TypeError, ValueError):
        return api.unknown(node)
    if isinstance(result, (list, tuple)):
        return Sequence(tuple(map(Constant, result)))
    return Constant(result)


def _joined(api: Api, between: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.positional[0] if arguments.positional else None
    if isinstance(source, Sequence) and source.exact:
        parts = [part.value for part in source.items if isinstance(part, Constant)]
        if len(parts) == len(source.items) and all(isinstance(part, str) for part in parts):
            return Constant(between.join(map(str, parts)))
    return api.unknown(node)


def _formatted(api: Api, text: str, arguments: Arguments, node: Node) -> Value:
    values = (*arguments.positional, *(value for _, value in arguments.keywords))
    if all(isinstance(value, Constant) and isinstance(value.value, (str, int)) for value in values):
        positional = [part.value for part in arguments.positional if isinstance(part, Constant)]
        named_ = {key: part.value for key, part in arguments.keywords if isinstance(part, Constant)}
        try:
            return Constant(text.format(*positional, **named_))
        except (IndexError, KeyError, ValueError, AttributeError):
            return api.unknown(node)
    _put_into_text(api, values, node)
    start = text.partition("{")[0]
    return Text(start, api.unknown(node).symbol) if start else api.unknown(node)


def _put_into_text(api: Api, values: tuple[Value, ...], node: Node) -> None:
    """Asks values for their text, as an f-string does."""
    for value in values:
        api.each(value, lambda one: special(api, one, "__format__", node) or api.unknown(node))


@models.into(models.operators, Constant, Text)
def _interpolated(api: Api, operator: str, left: Value, right: Value | None, node: Node) -> Value | None:
    """``"step %d: %.4f" % (step, loss)``."""
    text = isinstance(left, Text) or (isinstance(left, Constant) and isinstance(left.value, str))
    if operator != "%" or not text or right is None:
        return None
    _put_into_text(api, right.items if isinstance(right, Sequence) else (right,), node)
    return api.unknown(node)


@models.method(Text)
def _of_beginning(api: Api, base: Text, name: str, arguments: Arguments, node: Node) -> Value:
    """A method of a string of which the beginning is known: ``f"cuda:{rank}".split(":")``."""
    first = arguments.positional[0] if arguments.positional else None
    given = first.value if isinstance(first, Constant) and isinstance(first.value, str) else None
    match name:
        case "startswith" if given is not None and base.start.startswith(given):
            return TRUE
        case "startswith" if given is not None and not given.startswith(base.start):
            return FALSE
        case "split" | "partition" if given and given in base.start:
            known = tuple(map(Constant, base.start.split(given)[:-1]))
            if name == "partition":
                return Sequence((known[0], Constant(given), api.unknown(node)))
            return Sequence((*known, api.unknown(node)), exact=False, prefix=len(known))
        case "lower" | "upper" | "casefold":
            return Text(getattr(base.start, name)(), base.symbol)
        case "strip" | "rstrip" | "lstrip" if given is None and base.start == base.start.strip():
            return base
    return api.unknown(node)


@models.method("", *_OF_ANY_STRING)
def _of_unknown(api: Api, base: Unknown, name: str, arguments: Arguments, node: Node) -> Value:
    given = [named(value) for value in arguments.positional]
    if arguments.unclear or arguments.keywords or None in given:
        return api.unknown(node)
    return Unknown(symbol("call", base.symbol, name, *given))
