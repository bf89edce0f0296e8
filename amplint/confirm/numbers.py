"""Numbers of a run that are evidence: what a scale was, how large gradients were.

They are taken where a finding turns out to be true, a few times for each, and kept as tensors that nobody looks at
before the report: that would wait for the device.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from amplint.confirm.levels import is_sampled
from amplint.events import Event, OptimizerStepped, Place


@dataclass(frozen=True)
class Size:
    """How large gradients were: their norm, or the largest of them. ``limit`` is what a clip allows."""

    what: str
    value: Tensor
    limit: float | None = None


@dataclass(frozen=True)
class Measured:
    """What was measured where a finding was true."""

    scale: Tensor | None = None
    size: Size | None = None
    zeros: Tensor | None = None
    """How much of the gradients is zero, between 0 and 1."""

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are."""
        found = (self.scale, self.size.value if self.size is not None else None, self.zeros)
        return all(math.isfinite(number.item()) for number in found if number is not None)

    def text(self) -> str:
        """ "the gradient norm was 83421.5 where 1 is allowed, the scale was 65536"."""
        said = []
        if self.size is not None:
            allowed = "" if self.size.limit is None else f" where {self.size.limit:g} is allowed"
            said.append(f"the {self.size.what} was {self.size.value.item():.6g}{allowed}")
        if self.zeros is not None:
            said.append(f"{100 * self.zeros.item():.3g} % of the gradients were zero")
        if self.scale is not None:
            said.append(f"the scale was {self.scale.item():.6g}")
        return ", ".join(said)


class Numbers:
    """Measures what ``FlowRule.evidence`` names."""

    def __init__(self) -> None:
        self._optimizers: dict[Hashable, weakref.ref[Any]] = {}
        self._scalers: dict[Hashable, weakref.ref[Any]] = {}
        self._sizes: dict[Place, Size] = {}
        self._asked: Counter[Place] = Counter()

    def forget(self) -> None:
        """Drops what was measured: a process that was forked off cannot look at tensors on a device."""
        self._sizes.clear()
        self._asked.clear()

    def optimizer(self, name: Hashable, optimizer: Any) -> None:
        """An optimizer and its name."""
        self._know(self._optimizers, name, optimizer)

    def scaler(self, name: Hashable, scaler: Any) -> None:
        """A scaler and its name."""
        self._know(self._scalers, name, scaler)

    def _know(self, where: dict[Hashable, weakref.ref[Any]], name: Hashable, thing: Any) -> None:
        known = where.get(name)
        if known is None or known() is not thing:
            where[name] = weakref.ref(
                thing, lambda gone: where.pop(name) if where.get(name) is gone else None
            )

    def norm(self, place: Place, value: Any, limit: float | None = None, what: str = "gradient norm") -> None:
        """The norm of gradients that was computed at a place, or ``what`` was computed of them."""
        if type(value) is Tensor and value.dim() == 0:
            with _apart():
                self._sizes[place] = Size(what, value.detach(), limit)

    def largest(self, place: Place, parameters: Iterable[Any], limit: float | None) -> None:
        """Takes the largest of some gradients."""
        self._asked[place] += 1
        gradients = _gradients(parameters) if is_sampled(self._asked[place]) else []
        if gradients and not _is_capturing():
            with _apart():
                value = _gathered([part.abs().amax() for part in gradients]).amax()
                self._sizes[place] = Size("largest gradient", value, limit)

    def measured(self, kinds: Sequence[str], event: Event, place: Place) -> Measured | None:
        """What there is to measure when an event has made true what a rule says of a place."""
        if not kinds or _is_capturing():
            return None
        scale = size = zeros = None
        with _apart():
            if "scale" in kinds:
                scale = self._scale(event)
            if "norm" in kinds:
                size = self._sizes.get(place)
            if ("norm" in kinds and size is None) or "zeros" in kinds:
                known = self._optimizers.get(getattr(event, "optimizer", None))
                optimizer = known() if known is not None else None
                groups = getattr(optimizer, "param_groups", ())
                gradients = _gradients(part for group in groups for part in group["params"])
                if gradients and size is None:
                    norms = [torch.linalg.vector_norm(part, dtype=torch.float32) for part in gradients]
                    size = Size("gradient norm", torch.linalg.vector_norm(_gathered(norms)))
                if gradients and "zeros" in kinds:
                    count = _gathered([(part == 0).sum() for part in gradients]).sum()
                    zeros = count / sum(part.numel() for part in gradients)
        return Measured(scale, size, zeros) if scale is not None or size or zeros is not None else None

    def _scale(self, event: Event) -> Tensor | None:
        # a step around the scaler does not name it
        around = isinstance(event, OptimizerStepped)
        names = list(self._scalers) if around else [getattr(event, "scaler", None)]
        references = [self._scalers[name] for name in names if name in self._scalers]
        known = [scaler for made in references if (scaler := made()) is not None and scaler._enabled]
        if len(known) != 1:
            return None
        [scaler] = known
        if type(scaler._scale) is Tensor:
            return scaler._scale.clone()
        return torch.tensor(float(scaler._init_scale))


def _is_capturing() -> bool:
    """Whether what is computed now would be a part of a CUDA graph of the program."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    """Ops in here are no part of the program."""
    with torch.no_grad(), torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def _gradients(parameters: Iterable[Any]) -> list[Tensor]:
    """Gradients, if all of them are tensors that say nothing to other processes when they are looked at."""
    found = [part.grad for part in parameters if isinstance(part, Tensor) and part.grad is not None]
    plain = all(type(part) is Tensor and part.layout is torch.strided and part.numel() for part in found)
    return found if plain else []


def _gathered(values: Sequence[Tensor]) -> Tensor:
    """Numbers from several devices as one tensor."""
    return torch.stack([value.to(values[0].device) for value in values])
