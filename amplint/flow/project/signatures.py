"""What the parameters of a method admit."""

from __future__ import annotations

from amplint.events import GivenArguments
from amplint.flow.state.values import FunctionValue


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
