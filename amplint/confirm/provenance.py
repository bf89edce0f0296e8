"""What is known of single tensors: where autocast or the code made them half, and by whom they were scaled.

Nothing is stored on the tensors, which may be saved or copied. A tensor that is gone is forgotten.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.nn import Parameter

from amplint.confirm.dtypes import named
from amplint.events import Operand, Place, Region, Trait

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class History:
    """Where a tensor got its precision; see events.Operand."""

    born: Place | None = None
    born_in: Region | None = None
    half_by_user: Place | None = None
    raised: Place | None = None
    softened: Place | None = None
    trait: Trait | None = None


def operand(place: Place, tensor: Tensor, history: History | None) -> Operand:
    """A tensor as an event names it."""
    parameter = isinstance(tensor, Parameter)
    if history is None:
        return Operand(place, named(tensor.dtype), parameter=parameter)
    return Operand(
        place,
        named(tensor.dtype),
        born=history.born,
        born_in=history.born_in,
        half_by_user=history.half_by_user,
        raised=history.raised,
        parameter=parameter,
        trait=history.trait,
    )


@dataclass(frozen=True, slots=True)
class Penalty:
    """A gradient that was computed from a scaled output at ``born``, or a power of it."""

    scaler: Hashable
    born: Place


@dataclass(frozen=True, slots=True)
class Scaled:
    """The scalers that multiplied a tensor, the last first, and the name of the loss that they began with."""

    by: tuple[Hashable, ...]
    loss: Hashable


class Names:
    """Gives objects names that stay theirs: ("optimizer", 1)."""

    def __init__(self, kind: str, gone: Callable[[Hashable], None] = lambda name: None) -> None:
        """``gone`` is told the names of objects that are no more; it must not run any of the program's code."""
        self._kind = kind
        self._tell_gone = gone
        self._count = 0
        self._known: dict[int, tuple[weakref.ref[Any], Hashable]] = {}

    def of(self, thing: Any) -> Hashable:
        """The name of an object."""
        key = id(thing)
        known = self._known.get(key)
        if known is not None and known[0]() is thing:
            return known[1]
        self._count += 1
        return self.give(thing, self._count)

    def give(self, thing: Any, what: Hashable) -> Hashable:
        """Gives an object a name that tells what it is; those of the same kind may share it."""
        key, name = id(thing), (self._kind, what)
        self._known[key] = (weakref.ref(thing, partial(self._gone, key)), name)
        return name

    def _gone(self, key: int, reference: object) -> None:
        known = self._known.get(key)
        if known is not None and known[0] is reference:
            del self._known[key]
            self._tell_gone(known[1])


class Owners:
    """Which optimizers have which parameters, by the names of the optimizers."""

    def __init__(self, gone: Callable[[Hashable], None] = lambda name: None) -> None:
        self._names = Names("optimizer", self._forget)
        self._tell_gone = gone
        self._sizes: dict[Hashable, int] = {}
        self._sharing: dict[Hashable, frozenset[Hashable]] = {}
        self._of: dict[int, tuple[weakref.ref[Any], frozenset[Hashable]]] = {}

    def add(self, optimizer: Any) -> Hashable:
        """The name of an optimizer. Its parameters are noted anew if their number has changed."""
        name = self._names.of(optimizer)
        size = sum(len(group["params"]) for group in optimizer.param_groups)
        if self._sizes.get(name) != size:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    key = id(parameter)
                    owners = self._owners(parameter) | {name}
                    self._of[key] = (weakref.ref(parameter, partial(self._gone, key)), owners)
            self._sizes[name] = size
            self._sharing.clear()
        return name

    def of_optimizer(self, optimizer: Any) -> frozenset[Hashable]:
        """The optimizers that share parameters with this one, itself included."""
        name = self.add(optimizer)
        sharing = self._sharing.get(name)
        if sharing is None:
            groups = optimizer.param_groups
            sharing = self.of(parameter for group in groups for parameter in group["params"])
            self._sharing[name] = sharing
        return sharing

    def of(self, parameters: Iterable[Any]) -> frozenset[Hashable]:
        """The optimizers that have any of these parameters."""
        found: set[Hashable] = set()
        for parameter in parameters:
            found |= self._owners(parameter)
        return frozenset(found)

    def names(self) -> set[Hashable]:
        """Those of the optimizers that there are."""
        return {*self._sizes}

    def _forget(self, name: Hashable) -> None:
        self._sizes.pop(name, None)
        self._sharing.clear()
        self._tell_gone(name)

    def _owners(self, parameter: Any) -> frozenset[Hashable]:
        known = self._of.get(id(parameter))
        return known[1] if known is not None and known[0]() is parameter else frozenset()

    def _gone(self, key: int, reference: object) -> None:
        known = self._of.get(key)
        if known is not None and known[0] is reference:
            del self._of[key]


class _Reference(weakref.ref[Tensor]):
    __slots__ = ("key",)

    key: int


class Notes(Generic[T]):
    """What was noted of the tensors that are alive."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[_Reference, T]] = {}
        """By the id of a tensor; a mode asks for each op whether there is anything."""
        self._shared: dict[T, T] = {}

    def shared(self, what: T) -> T:
        """What is equal to it and was shared before, or itself: plans know histories by identity, and a new tensor with
        an old history is to make no new plan."""
        return self._shared.setdefault(what, what)

    def __len__(self) -> int:
        return len(self.known)

    def of(self, tensor: Any) -> T | None:
        """What was noted of a tensor, or None."""
        known = self.known.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def of_each(self, tensors: Iterable[Any]) -> list[T | None]:
        """What was noted of each of some tensors."""
        found: list[T | None] = []
        for tensor in tensors:
            known = self.known.get(id(tensor))
            found.append(known[1] if known is not None and known[0]() is tensor else None)
        return found

    def note(self, tensor: Tensor, what: T) -> None:
        """Notes something of a tensor, in place of what was noted before."""
        key = id(tensor)
        reference = _Reference(tensor, self._gone)
        reference.key = key
        self.known[key] = (reference, what)

    def drop(self, tensor: Tensor) -> None:
        """Forgets a tensor."""
        self.known.pop(id(tensor), None)

    def _gone(self, reference: weakref.ref[Tensor]) -> None:
        key = reference.key  # type: ignore[attr-defined]
        known = self.known.get(key)
        if known is not None and known[0] is reference:
            del self.known[key]
