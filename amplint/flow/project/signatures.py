"""What the parameters of a method admit."""

from __future__ import annotations

import ast

from amplint.events import GivenArguments
from amplint.flow.state.values import FunctionValue
from amplint.source.bodies import Call
from amplint.source.facts import facts_of


def takes(method: FunctionValue, given: GivenArguments) -> bool:
    """Whether a method can be called in this way, its object left aside: ``takes(method, given)``."""
    outline = method.outline
    if outline is None or outline.abstract or outline.arguments is None:
        return False
    arguments = outline.arguments
    positional = [part.arg for part in (*arguments.posonlyargs, *arguments.args)][1:]
    needed = positional[: len(positional) - len(arguments.defaults)]
    named = {*positional, *(part.arg for part in arguments.kwonlyargs)}
    if arguments.vararg is None and given.positional > len(positional):
        return False
    if arguments.kwarg is None and not given.keywords <= named:
        return False
    return given.more or {*positional[: given.positional], *given.keywords} >= set(needed)


def left_out(method: FunctionValue, given: GivenArguments) -> frozenset[str]:
    """The parameters of a method that have their defaults when it is called so: ``left_out(method, given)``."""
    outline = method.outline
    if given.more or outline is None or outline.arguments is None:
        return frozenset()
    arguments = outline.arguments
    positional = [part.arg for part in (*arguments.posonlyargs, *arguments.args)][1:]
    rest = {*positional[given.positional :], *(part.arg for part in arguments.kwonlyargs)}
    return frozenset(rest - given.keywords)


def parameter_at(method: FunctionValue, position: int | None) -> str | None:
    """The parameter of a method that gets the argument at a position, if one of its own does."""
    arguments = method.outline.arguments if method.outline is not None else None
    if arguments is None or position is None:
        return None
    names = [part.arg for part in (*arguments.posonlyargs, *arguments.args)][1:]
    return names[position] if position < len(names) else None


def may_be(method: FunctionValue, call: Call, *, kept: bool) -> bool:
    """Whether a call of something out of sight may be one of this method: ``may_be(method, call, kept=True)``.
    ``kept``: the result gets a name, which is done with methods that return something. What a decorator has made of it
    may be anything."""
    outline = method.outline
    if outline is None or outline.decorated or outline.arguments is None or outline.abstract:
        return True
    body = facts_of(method.file.outline).of(outline).body
    is_async = isinstance(outline.node, ast.AsyncFunctionDef)
    if kept and not (body.returned or body.is_generator or is_async):
        return False
    more = call.positional < len(call.node.args) or len(call.keywords) < len(call.node.keywords)
    return takes(method, GivenArguments(call.positional, frozenset(call.keywords), more=more))


def tensors(function: FunctionValue, bound: bool) -> list[str]:
    """The parameters of a function that may be tensors: those without a default, and those with None. ``bound``: the
    first one is the object or class that it is called on."""
    arguments = function.outline.arguments if function.outline is not None else None
    if arguments is None:
        return []
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    every = [
        *zip(positional, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return [part.arg for part, default in every[bound:] if default is None or _is_none(default)]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
