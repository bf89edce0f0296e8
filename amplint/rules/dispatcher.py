"""The dispatcher: hands events to flow rules, and what they draft becomes findings. Serves both producers of events."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from amplint import events
from amplint.events import Event
from amplint.rules.base import Draft, FlowRule, Machine, Report
from amplint.rules.context import Context
from amplint.rules.told import Told

Hear = Callable[[Hashable, Event], Hashable]


@dataclass(frozen=True, slots=True)
class Listener:
    """One rule, or a state machine that several share: the events that it listens to, its state at an entry point, and
    its state after an event."""

    kinds: frozenset[type[Event]]
    start: Hashable
    hear: Hear


class Dispatcher:
    """Lets flow rules hear events, each with a state of its own."""

    def __init__(self, rules: Sequence[FlowRule], report: Report, context: Context | None = None) -> None:
        self.rules = rules
        self.context: Context = Told()
        self.ask(context or self.context)
        self.report = report

    def ask(self, context: Context) -> None:
        """Whom the rules may ask about the events."""
        self.context = context
        for rule in self.rules:
            rule.context = context

    def listeners(self) -> list[Listener]:
        """The rules, and the machines that they share."""
        machines = dict.fromkeys(rule.machine for rule in self.rules if rule.machine is not None)
        found = [self._rule(rule) for rule in self.rules]
        return [one for one in found if one.kinds] + [self._machine(machine) for machine in machines]

    def _rule(self, rule: FlowRule) -> Listener:
        handlers = {
            kind: getattr(rule, handler_name(kind))
            for kind in event_kinds()
            if hasattr(rule, handler_name(kind))
        }

        def hear(state: Hashable, event: Event) -> Hashable:
            if not rule.hears_assumed and event.regions and event.regions[0].assumed:
                return state
            before = len(self.report.drafts)
            after: Hashable = handlers[type(event)](state, event, self.report)
            self._reached(before, event)
            return after

        return Listener(frozenset(handlers), rule.start(), hear)

    def _machine(self, machine: Machine) -> Listener:
        rules = [rule for rule in self.rules if rule.machine is machine]

        def hear(state: Hashable, event: Event) -> Hashable:
            if event.regions and event.regions[0].assumed:
                return state
            before = len(self.report.drafts)
            after, said = machine.hear(state, event, self.context)
            for part in said:
                for rule in rules:
                    rule.on_said(part, self.report)
            self._reached(before, event)
            return after

        return Listener(frozenset(machine.hears), machine.start(), hear)

    def _reached(self, before: int, event: Event) -> None:
        """Gives what was drafted at an event the calls that led there, where it stands in the same file."""
        calls = event.place.calls
        if not calls:
            return
        drafts = self.report.drafts
        for index in range(before, len(drafts)):
            draft: Draft = drafts[index]
            if not draft.place.calls and draft.place.path == event.place.path:
                drafts[index] = replace(draft, place=draft.place.reached_by(calls))


def event_kinds() -> list[type[Event]]:
    """All classes of events."""
    return [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]


def handler_name(kind: type[Event]) -> str:
    """The method by which a rule listens to events of a kind: ``on_region_entered``."""
    return "on_" + re.sub(r"(?<!^)([A-Z])", r"_\1", kind.__name__).lower()
