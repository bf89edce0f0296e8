"""Hears the events of a run: lets the rules judge them, keeps account of them by place, and ends the run after
the wanted number of steps.

What it keeps grows with the places of the program, not with the length of the run.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from amplint.confirm.levels import is_sampled
from amplint.confirm.recording import FINISHED, STOPPED, Opened, Reached, Recording, Seen
from amplint.events import (
    AutocastSwitched,
    Backward,
    Cast,
    Constructed,
    Converted,
    Event,
    Forward,
    FunctionEnded,
    IndexPut,
    ObjectGone,
    Op,
    Operand,
    OptimizerMade,
    OptimizerStepped,
    Place,
    Region,
    RegionEntered,
    RegionExited,
    ScalerUsed,
    enabled_region,
)
from amplint.findings import Span
from amplint.rules.base import Draft, FlowRule, Report
from amplint.rules.context import Context
from amplint.rules.dispatcher import Dispatcher, findings_of, shown_by

_MOST_PIECES = 3
"""Different pieces of evidence that are kept for a finding."""
_MOST_DRAFTS = 2000
"""Different drafts that are kept: a rule whose messages hold what changes all the time must not fill the memory."""

_REPEATED = frozenset({Op, Cast, IndexPut, Constructed})
"""The kinds of events of which each is told again and again by the same object."""
_MOST_IDLE = 4096
_FEW_LOSSES = 8


class Loss(Protocol):
    """A tensor with one element, which is not looked at before the report: that would wait for the device."""

    def item(self) -> float:
        """Its value."""


class Measured(Protocol):
    """Numbers of the run, which are not looked at before the report either."""

    @property
    def is_finite(self) -> bool:
        """Whether all of them are."""

    def text(self) -> str:
        """What they say."""


Measure = Callable[[Sequence[str], Event, Place], Measured | None]


class Stopped(SystemExit):
    """Ends the program after the wanted number of steps. It is a SystemExit, so that programs and threads take
    it for what it is."""


@dataclass
class _Telling:
    """What one rule said of one place."""

    draft: Draft
    by_library: bool = False
    count: int = 0
    evidence: dict[str, None] = field(default_factory=dict)
    losses: tuple[Loss, ...] = ()
    measured: list[Measured] = field(default_factory=list)

    def add(self, pieces: Sequence[str]) -> None:
        self.count += 1
        for piece in pieces:
            if len(self.evidence) < _MOST_PIECES:
                self.evidence[piece] = None


@dataclass
class _Visits:
    """Events of one kind at one place."""

    count: int = 0
    inside: int = 0
    dtypes: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Idle:
    """An event that led to nothing where those who hear its kind were in these states. What it tells of is counted in
    ``visits``; ``all`` is the state of everybody when it was last heard."""

    event: Event
    states: tuple[Hashable, ...]
    visits: _Visits
    inside: bool
    all: object


class Observer:
    """The listener of a probe.

    ``steps`` is the number of optimizer steps after which the run ends, at a place where nothing is pending:
    a scaler that has stepped gets its update. ``within_library`` says of the event that is being heard whether a
    library that the user's code calls is behind it; ``measure`` takes numbers for evidence as it is heard.
    """

    def __init__(
        self,
        rules: Sequence[FlowRule],
        *,
        steps: int | None = None,
        within_library: Callable[[], bool] = lambda: False,
        measure: Measure = lambda kinds, event, place: None,
    ) -> None:
        self._within_library = within_library
        self._measure = measure
        self._doers: dict[tuple[str, Place], bool] = {}
        """For a kind of event and its place whether only libraries that the user's code calls were behind it."""
        self._optimizers: set[Hashable] = set()
        self._report = Report()
        self._dispatcher = Dispatcher(rules, self._report)
        self._state = self._dispatcher.start()
        self._wanted = steps
        self._losses: deque[Loss] = deque(maxlen=_FEW_LOSSES)
        self._lock = threading.RLock()
        self._tellings: dict[Hashable, _Telling] = {}
        self._told_at: dict[tuple[Place, type[Event]], set[int]] = {}
        self._visits: dict[tuple[type[Event], Place], _Visits] = {}
        self._idle: dict[int, _Idle] = {}
        """By the id of an event that is told again and again by the same object, as ops are."""
        self._opened: Counter[tuple[Place, str | None, str | None, bool]] = Counter()
        self._without_update: set[Hashable] = set()
        self.notes: dict[str, None] = {}
        self.steps = 0
        self._left_out: Counter[Hashable] = Counter()
        self._left_out_of_gone = 0
        self._stepping: list[Hashable] = []
        """The optimizer whose step a scaler was asked for, until something else is heard."""
        self.stopping = False
        """Set when the run is to end: what happens while it unwinds says nothing about the program."""
        self.last_words: tuple[type[Event], ...] = (Event,)
        """What is taken in after the program's end, which the probe then tells of."""
        self._ended = False
        self._last: Place | None = None
        self.save: Callable[[], None] = lambda: None
        """Called where a run that is killed should leave a record: when the first region is entered, at the first
        backward pass, and after the steps 1, 2, 4 and so on."""
        self._to_save: set[type[Event]] = {RegionEntered, Backward}
        self._save_at = 1

    @property
    def skipped(self) -> int:
        """Steps that a scaler left out. Of an optimizer that is not torch's nobody knows."""
        there = sum(count for optimizer, count in self._left_out.items() if optimizer in self._optimizers)
        return self._left_out_of_gone + there

    def ask(self, context: Context) -> None:
        """Whom the rules may ask about events."""
        self._dispatcher.ask(context)

    def hear(self, event: Event) -> None:
        """Takes in an event. Raises Stopped where the run is to end."""
        with self._lock:
            if self._is_idle(event):
                return
            heard = isinstance(event, self.last_words) if self._ended else not self.stopping
            # what the program switches off while it unwinds is off
            if heard or (isinstance(event, AutocastSwitched) and not event.enabled):
                try:
                    self._take(event)
                except Exception as error:  # the user's program must not suffer from a bug of ours
                    self.note(f"internal error in amplint at {type(event).__name__}: {error!r}")
        if type(event) in self._to_save or self.steps >= self._save_at:
            self._to_save.discard(type(event))
            self._save_at = max(2 * self.steps, 1)
            self.save()
        if self._is_end(event):
            self.stopping = True
            raise Stopped(0)

    def note(self, text: str) -> None:
        """Adds something that readers of the report have to know."""
        if len(self.notes) < 20:
            self.notes[text] = None

    def begin(self) -> None:
        """Begins anew, as at the entry point of a program: a test is one."""
        with self._lock:
            self._state, self._last = self._dispatcher.start(), None

    def refused(self) -> None:
        """The scaler raised an exception instead of making the step that was just told of."""
        with self._lock:
            if self._stepping:
                self._stepping.pop()
                self.steps -= 1

    def over(self) -> None:
        """What began has come to its end by itself."""
        with self._lock:
            if self._last is not None:
                self._take(FunctionEnded(self._last, ()))
            self.begin()

    def forget(self) -> None:
        """Begins a new account, in a process that was forked off: what happened before it belongs to its parent."""
        self._lock = threading.RLock()
        for telling in self._tellings.values():
            telling.count, telling.losses = 0, ()
            telling.evidence.clear()
            telling.measured.clear()
        self._losses.clear()
        self._visits.clear()
        self._idle.clear()
        self._opened.clear()
        self._left_out.clear()
        self._left_out_of_gone = 0
        self._stepping.clear()
        self.notes.clear()
        self.steps = 0

    def end(self, ended: str) -> None:
        """The program came to an end. A run that was stopped in between steps may be judged as if it were over,
        but for what it had no time to use; one that was cut off may not."""
        self._ended = True
        self.last_words = {FINISHED: (Event,), STOPPED: (FunctionEnded,)}.get(ended, ())

    def stop_soon(self) -> None:
        """Has the run end as soon as the next step begins."""
        self._wanted = 0
        self._without_update.clear()

    def _is_end(self, event: Event) -> bool:
        if self._ended or self._wanted is None or self.steps < self._wanted:
            return False
        if not isinstance(event, RegionEntered | Forward):
            return False
        # a program that forgets the update altogether is stopped all the same
        return not self._without_update or self.steps >= 2 * self._wanted + 2

    def _take(self, event: Event) -> None:
        kind = type(event)
        if isinstance(event, ObjectGone):
            self._judge(event)
            self._forget(event.name)
            return
        self._last = event.place
        if kind not in _REPEATED:
            self._count(event)
            self._judge(event)
            return
        before = self._dispatcher.of_those(kind, self._state)
        visits = self._count(event)
        self._judge(event)
        after = self._dispatcher.of_those(kind, self._state)
        if after == before and (event.place, kind) not in self._told_at:
            if len(self._idle) >= _MOST_IDLE:
                self._idle.clear()
            inside = enabled_region(event.regions) is not None
            self._idle[id(event)] = _Idle(event, before, visits, inside, self._state)

    def _is_idle(self, event: Event) -> bool:
        """Whether an event that is told again leads to nothing again; it is counted then."""
        idle = self._idle.get(id(event))
        if idle is None or self.stopping or self._ended:
            return False
        if idle.all is not self._state:
            if idle.states != self._dispatcher.of_those(type(event), self._state):
                return False
            idle.all = self._state
        self._last = event.place
        idle.visits.count += 1
        idle.visits.inside += idle.inside
        return True

    def _forget(self, name: Hashable) -> None:
        """There is no optimizer of this name any more."""
        if name in self._optimizers:
            self._optimizers.remove(name)
            self._left_out_of_gone += self._left_out.pop(name, 0)

    def _judge(self, event: Event) -> None:
        before = self._state
        self._state = self._dispatcher.hear(before, event)
        drafts = self._report.drafts
        told = {id(draft.rule) for draft in drafts}
        if drafts:
            pieces = list(self._evidence(event))
            for draft in drafts:
                self._tell(draft, event, pieces)
            at = (event.place, type(event))
            if at not in self._told_at:
                self._told_at[at] = set()
                self._idle.clear()  # where something was told, it is looked at again each time
            self._told_at[at] |= told
            drafts.clear()
        known = self._told_at.get((event.place, type(event)))
        if known and not known <= told:
            self._recount(before, event, known - told)

    def _tell(self, draft: Draft, event: Event, pieces: Sequence[str]) -> None:
        key = (draft.rule.code, draft.place, draft.message, draft.why, draft.subject)
        telling = self._tellings.get(key)
        if telling is None:
            if len(self._tellings) >= _MOST_DRAFTS:
                self.note("more findings than can be kept")
                return
            telling = self._tellings[key] = _Telling(draft, by_library=self._is_of_library(draft, event))
        telling.add(pieces)
        self._add_numbers(telling, event)

    def _is_of_library(self, draft: Draft, event: Event) -> bool:
        """Whether what a draft is about is done by a library that the user's code calls. What counts is the place that
        it speaks of, not the event that showed it: ``optimizer.step()`` of a framework shows that the user's own
        ``clip_grad_norm_`` came too early."""
        rule = draft.rule
        kinds = shown_by(rule) if draft.place != event.place and isinstance(rule, FlowRule) else ()
        known = [self._doers[kind, draft.place] for kind in kinds if (kind, draft.place) in self._doers]
        return all(known) if known else self._within_library()

    def _add_numbers(self, telling: _Telling, event: Event) -> None:
        rule = telling.draft.rule
        kinds = rule.evidence if isinstance(rule, FlowRule) else ()
        if "loss" in kinds:
            telling.losses = tuple(self._losses)
        if kinds and is_sampled(telling.count):
            measured = self._measure(kinds, event, telling.draft.place)
            if measured is not None:
                telling.measured.append(measured)

    def loss(self, loss: Loss) -> None:
        """A backward pass begins from this loss."""
        self._losses.append(loss)

    def _recount(self, before: Hashable, event: Event, rules: set[int]) -> None:
        """Counts findings that rules tell only once, each time that they are true again."""
        assert isinstance(before, tuple)
        judging = self._dispatcher.rules
        states = tuple(
            rule.again(state) if id(rule) in rules else state
            for rule, state in zip(judging, before[: len(judging)], strict=True)
        )
        self._dispatcher.hear((*states, *before[len(judging) :]), event)
        drafts = [draft for draft in self._report.drafts if id(draft.rule) in rules]
        self._report.drafts.clear()
        for draft in drafts:
            key = (draft.rule.code, draft.place, draft.message, draft.why, draft.subject)
            if key in self._tellings:
                self._tellings[key].add(list(self._evidence(event)))
                self._add_numbers(self._tellings[key], event)

    def _count(self, event: Event) -> _Visits:
        kind = type(event)
        place = event.region.place if isinstance(event, RegionExited) else event.place
        visits = self._visits.get((kind, place))
        if visits is None:
            visits = self._visits[kind, place] = _Visits()
            within = self._within_library()
            self._doers[kind.__name__, place] = within
            for operand in _operands(event):
                key = kind.__name__, operand.place
                self._doers[key] = within and self._doers.get(key, True)
        visits.count += 1
        if enabled_region(event.regions) is not None:
            visits.inside += 1
        self._count_steps(event)
        if isinstance(event, Op | Cast | Converted | IndexPut) and len(visits.dtypes) < _MOST_PIECES:
            for operand in _operands(event):
                visits.dtypes[_dtype(operand)] = None
        if isinstance(event, RegionEntered):
            region = event.regions[-1]
            dtype = region.dtype.value if region.dtype is not None else None
            self._opened[place, region.device, dtype, region.enabled] += 1
        return visits

    def _count_steps(self, event: Event) -> None:
        """A step through a scaler is counted when it is asked for. Where a gradient is inf or nan the scaler leaves it
        out: that shows at the next event."""
        if self._stepping:
            self._left_out.update(self._stepping)
            self._stepping.clear()
        if isinstance(event, OptimizerMade):
            self._optimizers.add(event.optimizer)
        elif isinstance(event, OptimizerStepped):
            self._optimizers.add(event.optimizer)
            self.steps += not event.via_scaler
            self._left_out[event.optimizer] -= event.via_scaler
        elif isinstance(event, ScalerUsed) and event.act == "step":
            self.steps += 1
            self._stepping.append(event.optimizer)
            self._without_update.add(event.scaler)
        elif isinstance(event, ScalerUsed) and event.act == "update":
            self._without_update.discard(event.scaler)

    def _evidence(self, event: Event) -> Iterator[str]:
        region = enabled_region(event.regions)
        where = f" in {_described(region)}" if region is not None else ""
        operands = _operands(event)
        if operands:
            types = ", ".join(map(_dtype, operands))
            name = event.name if isinstance(event, Op | IndexPut) else type(event).__name__.lower()
            result = f" -> {event.result.value}" if isinstance(event, Op) and event.result else ""
            yield f"{name.strip('_')}({types}){result}{where}"
        elif isinstance(event, Backward) and where:
            yield f"backward ran{where}"
        elif where:
            yield f"ran{where}"

    def recording(self, made: Recording, *, numbers: bool = True) -> Recording:
        """What was seen so far, with the rest as in ``made``; ``numbers`` are evidence that waits for the device."""
        from dataclasses import replace

        with self._lock:
            return replace(
                made,
                steps=self.steps,
                skipped=self.skipped,
                seen=tuple(self._seen(numbers)),
                reached=tuple(self._reached()),
                opened=tuple(
                    Opened(place.path, place.span, device, dtype, enabled, count)
                    for (place, device, dtype, enabled), count in self._opened.items()
                ),
                notes=(*made.notes, *self.notes),
            )

    def _seen(self, with_numbers: bool) -> Iterator[Seen]:
        tellings = [
            telling
            for telling in self._tellings.values()
            if telling.count and self._report.stands(telling.draft)
        ]
        for finding in findings_of([telling.draft for telling in tellings]):
            same = [
                telling
                for telling in tellings
                if telling.draft.rule.code == finding.code
                and (telling.draft.place.path, telling.draft.place.span) == (finding.path, finding.span)
            ]
            evidence = dict.fromkeys(piece for telling in same for piece in telling.evidence)
            pieces = tuple(evidence)[:_MOST_PIECES]
            if with_numbers:
                numbers = _in_words([measured for telling in same for measured in telling.measured])
                pieces = (*_standstill(same[0].losses), *numbers, *pieces)
            by_library = all(telling.by_library for telling in same)
            by_text = all(telling.draft.told_by_text for telling in same)
            count = sum(telling.count for telling in same)
            yield Seen(finding, count, pieces, by_library=by_library, told_by_text=by_text)

    def _reached(self) -> Iterator[Reached]:
        # places of different calls may be one piece of text
        found: dict[tuple[str, str, Span], _Visits] = {}
        for (kind, place), visits in self._visits.items():
            total = found.setdefault((kind.__name__, place.path, place.span), _Visits())
            total.count += visits.count
            total.inside += visits.inside
            total.dtypes.update(visits.dtypes)
        for (kind_name, path, span), visits in found.items():
            yield Reached(kind_name, path, span, visits.count, visits.inside, tuple(visits.dtypes))


def _standstill(losses: Sequence[Loss]) -> tuple[str, ...]:
    """What the last losses say, if they are all the same number."""
    values = {loss.item() for loss in losses}
    if len(losses) < 2 or len(values) != 1:
        return ()
    return (f"the loss stood still: {values.pop():.6g} in each of the last {len(losses)} backward passes",)


def _in_words(measured: Sequence[Measured]) -> tuple[str, ...]:
    """One of several measurements, rather one whose numbers are finite: the first scales are often too large."""
    finite = (part for part in measured if part.is_finite)
    return tuple(part.text() for part in (next(finite, measured[0]),)) if measured else ()


def _operands(event: Event) -> tuple[Operand, ...]:
    match event:
        case Op(operands=operands):
            return operands
        case Cast(operand=operand) | Converted(operand=operand):
            return (operand,)
        case IndexPut(target=target, value=value):
            return (target, value)
        case _:
            return ()


def _dtype(operand: Operand) -> str:
    return operand.dtype.value if operand.dtype is not None else "?"


def _described(region: Region) -> str:
    dtype = region.dtype.value if region.dtype is not None else "half"
    return f"the {dtype} region of {region.place.path}:{region.place.line}"
