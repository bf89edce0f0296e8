"""Attributes that are replaced for a while and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()
UNCOUNTED = "<amplint importlib._bootstrap>"
"""The file that replaced functions say they are from: ``warnings.warn`` does not count such frames, so that
warnings still point at the user's line."""


class Patches:
    """Replaces attributes of modules and classes. ``undo`` puts everything back as it was, the last first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute, which the owner may have of its own or inherit."""
        self._undo.append((owner, name, vars(owner).get(name, _ABSENT)))
        setattr(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces a function by what ``make`` makes of it, if the owner has one of that name."""
        original = getattr(owner, name, None)
        if original is not None:
            replacement = make(original)
            for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
                if hasattr(original, attribute):
                    setattr(replacement, attribute, getattr(original, attribute))
            replacement.__wrapped__ = original
            # what torch.compile takes where it meets the replacement
            replacement._torchdynamo_inline = original
            replacement.__code__ = replacement.__code__.replace(co_filename=UNCOUNTED)
            raw = vars(owner).get(name)
            self.set(owner, name, staticmethod(replacement) if isinstance(raw, staticmethod) else replacement)

    def everywhere(self, owners: tuple[Any, ...], name: str, make: Callable[[Any], Any]) -> None:
        """Replaces a function in all modules that hand it on."""
        for owner in owners:
            self.wrap(owner, name, make)

    def undo(self) -> None:
        """Puts everything back."""
        while self._undo:
            _put(*self._undo.pop())

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Everything is as it was, for a while."""
        replaced = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in self._undo]
        for before in reversed(self._undo):
            _put(*before)
        try:
            yield
        finally:
            for now in replaced:
                _put(*now)


def _put(owner: Any, name: str, value: Any) -> None:
    if value is not _ABSENT:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)
