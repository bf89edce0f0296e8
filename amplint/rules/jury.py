"""Flow rules hear events, and what they draft becomes findings. Serves both producers of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence

from amplint import events
from amplint.events import Event
from amplint.findings import Finding, Span, TrailStep
from amplint.rules.base import Draft, FlowRule, Machine, Report
from amplint.rules.context import Context
from amplint.rules.told import Told

Handler = Callable[[Hashable, Event, Report], Hashable]

_ACCOUNTS = (
    events.RegionEntered,
    events.RegionExited,
    events.CacheCleared,
    events.LoopIterated,
    events.LoopEnded,
    events.OptimizerMade,
    events.ScalerMade,
    events.FunctionEnded,
)
"""Events that rules listen to in order to judge others."""

OF_TEXT = (events.ScalerDiscarded,)
"""Events that no run tells of, and that have no bearing on how a rule judges others."""


class Jury:
    """Lets flow rules hear events. The state handed along each path is a tuple, one entry a rule."""

    def __init__(self, rules: Sequence[FlowRule], report: Report, context: Context | None = None) -> None:
        self.rules = rules
        self.context: Context = Told()
        self.ask(context or self.context)
        self.report = report
        self._handlers: dict[type[Event], list[tuple[int, bool, Handler]]] = {}
        self.machines = tuple(dict.fromkeys(rule.machine for rule in rules if rule.machine is not None))
        """What several rules share: heard once, after the rules' own states."""

    def ask(self, context: Context) -> None:
        """Whom the rules may ask about the events."""
        self.context = context
        for rule in self.rules:
            rule.context = context

    def start(self) -> Hashable:
        """The states at an entry point."""
        return (*(rule.start() for rule in self.rules), *(machine.start() for machine in self.machines))

    def hear(self, machines: Hashable, event: Event) -> Hashable:
        """The states after an event."""
        handlers = self._handlers.get(type(event))
        if handlers is None:
            handlers = self._handlers[type(event)] = self._listeners(type(event))
        if not handlers:
            return machines
        assert isinstance(machines, tuple)
        assumed = bool(event.regions) and event.regions[0].assumed
        states = list(machines)
        for index, hears_assumed, handler in handlers:
            if hears_assumed or not assumed:
                states[index] = handler(states[index], event, self.report)
        return tuple(states)

    def _listeners(self, kind: type[Event]) -> list[tuple[int, bool, Handler]]:
        name = handler_name(kind)
        own = [
            (index, rule.hears_assumed, getattr(rule, name))
            for index, rule in enumerate(self.rules)
            if hasattr(rule, name)
        ]
        return own + [
            (len(self.rules) + index, False, self._shared(machine))
            for index, machine in enumerate(self.machines)
            if kind in machine.hears
        ]

    def _shared(self, machine: Machine) -> Handler:
        """Moves a shared machine and hands what it says to the rules that care."""
        rules = [rule for rule in self.rules if rule.machine is machine]

        def handle(state: Hashable, event: Event, report: Report) -> Hashable:
            after, said = machine.hear(state, event, self.context)
            for part in said:
                for rule in rules:
                    rule.on_said(part, report)
            return after

        return handle


def handler_name(kind: type[Event]) -> str:
    """The method by which a rule listens to events of a kind: ``on_region_entered``."""
    return "on_" + re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()


def heard_by(rule: FlowRule) -> frozenset[str]:
    """The names of all events that a rule listens to."""
    return frozenset(
        kind.__name__
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, Event) and hasattr(rule, handler_name(kind))
    )


def shown_by(rule: FlowRule) -> frozenset[str]:
    """The names of the events at whose place a run shows whether a finding of the rule is true."""
    if rule.shown_by:
        return frozenset(kind.__name__ for kind in rule.shown_by)
    kinds = [
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, Event) and hasattr(rule, handler_name(kind))
    ]
    telling = [kind for kind in kinds if kind not in (*_ACCOUNTS, *OF_TEXT)]
    return frozenset(kind.__name__ for kind in telling or kinds)


def findings_of(drafts: Sequence[Draft]) -> list[Finding]:
    """The drafts that remain, written out."""
    return [finding_of(draft) for draft in remaining(drafts)]


def remaining(drafts: Sequence[Draft]) -> list[Draft]:
    """The worst of the drafts that say the same of one place, without those that give way."""
    spoken: dict[str, set[Hashable]] = {}
    for draft in drafts:
        if draft.subject is not None:
            spoken.setdefault(draft.rule.name, set()).add(draft.subject)
    best: dict[tuple[str, str, Span, Hashable], Draft] = {}
    for draft in drafts:
        if any(draft.subject in spoken.get(name, ()) for name in draft.rule.yields_to):
            continue
        subject = draft.subject if draft.rule.each_subject else None
        key = (draft.rule.code, draft.place.path, draft.place.span, subject)
        known = best.get(key)
        if known is None or draft.level.rank < known.level.rank:
            best[key] = draft
    return list(best.values())


def finding_of(draft: Draft) -> Finding:
    """A draft written out, with the calls that led to its place."""
    place = draft.place
    steps = [TrailStep(step.path, step.span, text) for step, text in draft.trail]
    steps += [TrailStep(call.path, call.span, "called from here") for call in place.calls]
    unique = tuple(
        dict.fromkeys(step for step in steps if (step.path, step.span) != (place.path, place.span))
    )
    rule = draft.rule
    return Finding(
        rule.code,
        rule.name,
        draft.level,
        draft.message,
        place.path,
        place.span,
        unique,
        assumes=draft.assumes,
    )
