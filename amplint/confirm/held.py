"""Memory that results of casts take up for as long as something keeps them: the graph of the backward pass, the weight
cache. Only the CPU's own records are asked; no device is waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

T = TypeVar("T")


def bytes_of(tensor: Tensor) -> int:
    """The bytes of its elements, 0 where these are not a number but a symbol, and of tensors without a storage."""
    count = tensor.numel()
    return count * tensor.element_size() if type(count) is int and has_storage(tensor) else 0


def has_storage(tensor: Tensor) -> bool:
    """Whether its elements lie in a storage: those of sparse tensors and of what ``torch.func`` maps do not."""
    return bool(torch._C._has_storage(tensor))


_MOST = 20_000
"""Results that are followed at a time."""


class _Copy(Generic[T]):
    __slots__ = ("owner", "references", "size")

    def __init__(self, owner: T, size: int, reference: StorageWeakRef) -> None:
        self.owner = owner
        self.size = size
        self.references = [reference]

    def lives(self) -> bool:
        return not all(reference.expired() for reference in self.references)


class Held(Generic[T]):
    """Results of casts that are alive, each with its owner."""

    def __init__(self) -> None:
        self._copies: dict[int, _Copy[T]] = {}

    def add(self, owner: T, result: Tensor) -> None:
        """A cast made this tensor."""
        if not has_storage(result):
            return
        if len(self._copies) >= _MOST:
            self._sweep()
        if len(self._copies) < _MOST:
            storage = result.untyped_storage()
            self._copies[storage._cdata] = _Copy(owner, bytes_of(result), StorageWeakRef(storage))

    def stands_for(self, result: Tensor, source: Tensor) -> None:
        """A tensor that exists only in the simulation is kept in the place of another one."""
        copy = self._copies.get(source.untyped_storage()._cdata)
        if copy is not None:
            copy.references = [part for part in copy.references if not part.expired()]
            copy.references.append(StorageWeakRef(result.untyped_storage()))

    def alive(self) -> Iterator[tuple[T, int]]:
        """The owner and the size of each that is alive."""
        self._sweep()
        for copy in self._copies.values():
            yield copy.owner, copy.size

    def size(self) -> int:
        """Bytes of all that are alive."""
        return sum(size for _, size in self.alive())

    def forget(self) -> None:
        """Follows none any more."""
        self._copies.clear()

    def _sweep(self) -> None:
        self._copies = {key: copy for key, copy in self._copies.items() if copy.lives()}
