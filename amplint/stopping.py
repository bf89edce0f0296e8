"""Ends an analysis before it is done, when nobody wants its result any more.

    with stoppable(lambda: newer_text_is_there):
        check(...)  # raises Stopped soon after that becomes true

Whatever takes long asks ``stop_if_asked`` now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stopped(BaseException):
    """The analysis was ended. It is no Exception: what guards a file or a rule against errors lets it through."""


def _never() -> bool:
    return False


_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=_never)


@contextmanager
def stoppable(asked: Callable[[], bool]) -> Iterator[None]:
    """What runs inside, in this thread, is ended with Stopped once ``asked`` says so."""
    token = _asked.set(asked)
    try:
        yield
    finally:
        _asked.reset(token)


def stop_if_asked() -> None:
    """Raises Stopped if somebody has asked for it."""
    if _asked.get()():
        raise Stopped
