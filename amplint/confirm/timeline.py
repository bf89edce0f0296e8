"""The timeline of one step, as the host saw it: on a device ops are queued, so that times are those of the queueing."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import perf_counter_ns

from amplint.confirm.module_names import Node
from amplint.confirm.places import Site
from amplint.confirm.trace import Timeline, TimeSpan

_LAST = 3
"""The step that is kept if the run has so many: the first ones allocate and warm up."""
_MOST = 20_000
_PAUSE = 8
"""Ops between two looks at the memory."""


@dataclass(slots=True)
class _Span:
    lane: str
    name: str
    start: int
    end: int
    dtype: str = ""
    module: Node | None = None
    site: Site | None = None
    depth: int = 0


class Recorder:
    """Takes down the first steps and keeps the last of them. ``held`` gives the bytes that casts take up."""

    def __init__(self, held: Callable[[], int]) -> None:
        self.on = True
        self._held = held
        self._number = 0
        self._spans: list[_Span] = []
        self._memory: list[tuple[int, int]] = []
        self._opened: dict[Hashable, tuple[int, int]] = {}
        self._forward: tuple[int, int] | None = None
        self._kept: tuple[int, list[_Span], list[tuple[int, int]]] | None = None
        self._ops = 0

    def op(self, name: str, start: int, dtype: str, module: Node | None, site: Site | None) -> None:
        """An op ran since ``start``."""
        self._add(_Span("op", name, start, perf_counter_ns(), dtype, module, site))
        self._ops += 1
        if self._ops % _PAUSE == 0:
            self.look()

    def look(self) -> None:
        """Takes down how much memory the casts hold."""
        if self.on and len(self._memory) < _MOST:
            self._memory.append((perf_counter_ns(), self._held()))

    def module(self, node: Node, start: int, depth: int) -> None:
        """A module ran since ``start``; ``depth`` modules are around it."""
        if self.on:
            end = perf_counter_ns()
            self._add(_Span("module", node.kind, start, end, "", node, node.site, depth))
            if not depth:
                self.look()

    def forward(self, start: int) -> None:
        """A model ran since ``start``."""
        if self.on:
            self._forward = (self._forward[0] if self._forward else start, perf_counter_ns())

    def opened(self, key: Hashable) -> None:
        """A region was entered."""
        if self.on:
            self._opened[key] = (perf_counter_ns(), self._number)

    def closed(self, key: Hashable, dtype: str, site: Site | None, depth: int) -> None:
        """A region was left."""
        start, number = self._opened.pop(key, (0, -1))
        if self.on and number == self._number:
            self._add(_Span("region", "autocast", start, perf_counter_ns(), dtype, None, site, depth))

    def backward_begins(self, now: int) -> None:
        """What ran before it was the forward pass, and then the loss."""
        if self.on:
            self._end_forward(now)
            self.look()

    def phase(self, name: str, start: int) -> None:
        """A backward pass or an optimizer's step ran since ``start``."""
        if self.on:
            self._add(_Span("phase", name, start, perf_counter_ns()))
            self.look()

    def step_over(self) -> None:
        """An optimizer has stepped."""
        if not self.on:
            return
        self._number += 1
        self._end_forward(None)
        self._kept = (self._number, self._spans, self._memory)
        self._spans, self._memory = [], []
        self.on = self._number < _LAST

    def made(self, names: dict[Node, str]) -> Timeline | None:
        """The timeline as data."""
        number, spans, memory = self._kept or (0, self._spans, self._memory)
        spans = sorted(spans, key=lambda span: span.start)
        if not spans:
            return None
        first = spans[0].start
        return Timeline(
            number,
            tuple(_as_data(span, first, names) for span in spans),
            tuple(((at - first) // 1000, size) for at, size in memory if at >= first),
        )

    def forget(self) -> None:
        """Begins anew."""
        self.__init__(self._held)  # type: ignore[misc]

    def _end_forward(self, backward: int | None) -> None:
        if self._forward is not None:
            start, end = self._forward
            self._add(_Span("phase", "forward", start, end))
            if backward is not None:
                self._add(_Span("phase", "loss", end, backward))
            self._forward = None

    def _add(self, span: _Span) -> None:
        if len(self._spans) < _MOST:
            self._spans.append(span)


def _as_data(span: _Span, first: int, names: dict[Node, str]) -> TimeSpan:
    return TimeSpan(
        span.lane,
        span.name,
        (span.start - first) // 1000,
        max((span.end - span.start) // 1000, 1),
        span.dtype,
        names.get(span.module.standing(), "") if span.module is not None else "",
        span.site.path if span.site is not None else "",
        span.site.span.line if span.site is not None else 0,
        span.depth,
    )
