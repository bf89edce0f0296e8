"""Weights of which autocast keeps a copy, and writes to them.

Of weights that nobody writes in a region nothing is told.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType

import torch
from torch import Tensor

from amplint.confirm.places import Site
from amplint.confirm.provenance import Names, Notes
from amplint.confirm.watching import Watch
from amplint.events import ParameterWritten, Regions, WeightCast


@dataclass(slots=True)
class Kept:
    """A weight that was cast while ``cache`` was the content of the weight cache."""

    cache: object
    site: Site
    regions: Regions
    written: bool = False


class Weights:
    """Follows leaves from their cast to a write, and to their next use."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._kept: Notes[Kept] = Notes()
        self._names = Names("weight")
        self._data: Notes[weakref.ref[Tensor]] = Notes()

    def used(self, tensors: Iterable[Tensor], frame: FrameType) -> None:
        """An op that autocast lowers ran with these operands in a region that keeps casts."""
        watch, here = self._watch, self._watch.here
        for tensor in tensors:
            if not _is_weight(tensor):
                continue
            kept = self._kept.of(tensor)
            if kept is None:
                self._kept.note(tensor, Kept(here.cache, watch.sites.at(frame), here.regions))
            elif kept.cache is not here.cache:
                kept.cache, kept.site, kept.regions = here.cache, watch.sites.at(frame), here.regions
                kept.written = False
            elif kept.written:
                kept.written = False
                watch.tell(WeightCast(watch.sites.at(frame), here.regions, self._names.of(tensor)))

    def aliased(self, weight: Tensor, data: Tensor) -> None:
        """``data`` is the ``.data`` of a tensor."""
        if _is_weight(weight):
            self._data.note(data, weakref.ref(weight))

    def wrote(self, name: str, target: Tensor) -> None:
        """An op in place ran in a region."""
        weight: Tensor | None = target
        if not _is_weight(target):
            reference = self._data.of(target)
            weight = reference() if reference is not None else None
        # most of what is written is no weight: batch norms count their batches
        site = self._watch.sites.here(3) if weight is not None else None
        if weight is None or site is None:
            return
        watch, here = self._watch, self._watch.here
        owner = self._names.of(weight)
        kept = self._kept.of(weight)
        if kept is not None and kept.cache is here.cache and not kept.written:
            kept.written = True
            watch.tell(WeightCast(kept.site, kept.regions, owner))
        watch.tell(ParameterWritten(site, here.regions, owner, _how(site, name)))


def _is_weight(tensor: Tensor) -> bool:
    return tensor.dtype is torch.float32 and tensor.requires_grad and tensor.is_leaf


def _how(site: Site, name: str) -> str:
    """The method or function as the code calls it."""
    match site.node:
        case ast.Call(func=ast.Attribute(attr=called)) | ast.Call(func=ast.Name(id=called)):
            return called
    return name
