"""What is known of single tensors: where autocast or the code made them half, and by whom they were scaled.

Nothing is stored on the tensors, which may be saved or copied. A tensor that is gone is forgotten.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from amplint.events import Place, Region


@dataclass(frozen=True, slots=True)
class History:
    """See events.Operand. ``scaled_by`` are the scalers that multiplied it."""

    born: Place | None = None
    born_in: Region | None = None
    half_by_user: Place | None = None
    raised: Place | None = None
    softened: Place | None = None
    scaled_by: tuple[Hashable, ...] = ()

    def computed(self) -> History:
        """That of what an op computes from it."""
        return replace(self, raised=None) if self.raised is not None else self


class _Reference(weakref.ref[Tensor]):
    __slots__ = ("key",)

    key: int


class Histories:
    """The histories of the tensors that are alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Reference, History]] = {}
        self._forget = self._known.pop

    def __len__(self) -> int:
        return len(self._known)

    def of(self, tensor: Any) -> History | None:
        """The history of a tensor, None if nothing is known."""
        known = self._known.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def note(self, tensor: Tensor, history: History) -> None:
        """Remembers the history of a tensor."""
        key = id(tensor)
        reference = _Reference(tensor, self._gone)
        reference.key = key
        self._known[key] = (reference, history)

    def drop(self, tensor: Tensor) -> None:
        """Forgets the history of a tensor."""
        self._forget(id(tensor), None)

    def _gone(self, reference: weakref.ref[Tensor]) -> None:
        key = reference.key  # type: ignore[attr-defined]
        known = self._known.get(key)
        if known is not None and known[0] is reference:
            del self._known[key]
