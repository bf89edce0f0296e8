"""The dispatcher: hands events to flow rules, and what they draft becomes findings. Serves both producers of events.

A rule that speaks of objects one by one is run for each of them by itself, so that no state holds what happened to
all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from amplint import events
from amplint.events import Event, innermost
from amplint.findings import Finding, TrailStep
from amplint.flow.state.conditions import Condition
from amplint.flow.state.graph import Graph, Relevant, Run
from amplint.rules.base import Draft, FlowRule, Machine, Report
from amplint.rules.context import Context, NothingElse
from amplint.rules.ledger import CUT, of_call, weighed
from amplint.rules.wording import happens_if

Hear = Callable[[Hashable, Event], Hashable]


_HANDLERS: dict[type[FlowRule], dict[type[Event], str]] = {}
_ACCOUNTS = (
    events.RegionEntered,
    events.RegionExited,
    events.CacheCleared,
    events.LoopIterated,
    events.LoopEnded,
    events.ObjectGone,
    events.OptimizerMade,
    events.ScalerMade,
    events.FunctionEnded,
)
"""Events that rules listen to in order to judge others."""


@dataclass(frozen=True, slots=True)
class Listener:
    """One rule, or a state machine that several share: the events that it listens to, its state at an entry point, and
    its state after an event."""

    name: str
    kinds: frozenset[type[Event]]
    start: Hashable
    hear: Hear
    never_without: tuple[type[Event], ...]
    """Events without any of which it says nothing, if there are such."""
    rule: FlowRule | None = None
    """Whose it is, if it is not shared."""

    def runs(
        self, graph: Graph, under: Callable[[Condition, Event], None] = lambda condition, event: None
    ) -> Iterator[Run[Hashable]]:
        """The runs over a graph that it needs: one, or one for each object that it speaks of. ``under`` as in Run."""
        rule = self.rule
        if self.kinds.isdisjoint(graph.kinds):
            return
        if self.never_without and graph.kinds.isdisjoint(self.never_without):
            return
        subjects = rule.subjects(graph.different(self.kinds)) if rule is not None else None
        if rule is None or subjects is None:
            yield Run(self.kinds, self.hear, under=under)
            return
        relevant = Relevant(self.kinds, rule.about)
        for subject in subjects:
            yield Run(self.kinds, self.hear, under, relevant=relevant, subject=subject)


class Dispatcher:
    """Lets flow rules hear events, each with a state of its own: a producer of graphs runs each listener by itself, one
    of streams all of them at once."""

    def __init__(self, rules: Sequence[FlowRule], report: Report, context: Context | None = None) -> None:
        self.rules = rules
        self.context: Context = NothingElse()
        self.ask(context or self.context)
        self.report = report
        machines = dict.fromkeys(rule.machine for rule in rules if rule.machine is not None)
        self._all = [self._rule(rule) for rule in rules] + [self._machine(machine) for machine in machines]
        self._heard: dict[type[Event], list[tuple[int, Hear]]] = {}

    def ask(self, context: Context) -> None:
        """Whom the rules may ask about the events."""
        self.context = context
        for rule in self.rules:
            rule.context = context

    def listeners(self) -> list[Listener]:
        """The rules that listen to events, and the machines that they share."""
        return [listener for listener in self._all if listener.kinds]

    def start(self) -> tuple[Hashable, ...]:
        """The states of all rules at an entry point, and then those of the machines that they share."""
        return tuple(listener.start for listener in self._all)

    def hear(self, states: tuple[Hashable, ...], event: Event) -> tuple[Hashable, ...]:
        """The states of all after an event."""
        after: list[Hashable] | None = None
        for index, hear in self._listening(type(event)):
            state = hear(states[index], event)
            if state is not states[index]:
                after = after or list(states)
                after[index] = state
        return states if after is None else tuple(after)

    def of_those(self, kind: type[Event], states: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        """The states of those who listen to events of a kind. They decide what such an event leads to, with what a rule
        asks its context."""
        return tuple([states[index] for index, _ in self._listening(kind)])

    def _listening(self, kind: type[Event]) -> list[tuple[int, Hear]]:
        listening = self._heard.get(kind)
        if listening is None:
            listening = [(index, one.hear) for index, one in enumerate(self._all) if kind in one.kinds]
            self._heard[kind] = listening
        return listening

    def _rule(self, rule: FlowRule) -> Listener:
        hearing = {kind: getattr(rule, name) for kind, name in _handlers(rule).items()}
        report = self.report

        def hear(state: Hashable, event: Event) -> Hashable:
            if event.regions:
                outermost = event.regions[0]
                if outermost.assumed and not rule.hears_assumed:
                    return state
                if outermost.through is not None and rule.for_every_caller:
                    return state
            drafts = report.drafts
            before = len(drafts)
            after: Hashable = hearing[type(event)](state, event, report)
            if len(drafts) > before:
                self._by_name(before, event)
                self._reached(before, event)
            return after

        return Listener(rule.name, frozenset(hearing), rule.start(), hear, rule.never_without, rule)

    def _machine(self, machine: Machine) -> Listener:
        rules = [rule for rule in self.rules if rule.machine is machine]

        def hear(state: Hashable, event: Event) -> Hashable:
            if event.regions and (event.regions[0].assumed or event.regions[0].through is not None):
                return state
            before = len(self.report.drafts)
            after, said = machine.hear(state, event, self.context)
            for part in said:
                for rule in rules:
                    rule.on_violation(part, self.report)
            self._reached(before, event)
            return after

        return Listener(rules[0].name, frozenset(machine.hears), machine.start(), hear, machine.never_without)

    def _by_name(self, before: int, event: Event) -> None:
        """Has what was drafted inside a method that was called by its name alone say so."""
        region = innermost(event.regions[:1])
        call = region.through if region is not None else None
        if isinstance(event, events.StateSaved):
            call = call or event.through
        assumption = of_call(call, event.place)
        drafts = self.report.drafts
        if assumption is None:
            return
        made = drafts[before:]
        del drafts[before:]
        for draft in made:
            assumes = tuple(dict.fromkeys((*draft.assumes, assumption)))
            level = weighed(draft.level, assumes)
            if level is not None:
                message = f"{draft.message}, {assumption.text}"
                drafts.append(replace(draft, level=level, message=message, assumes=assumes))

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


def _handlers(rule: FlowRule) -> dict[type[Event], str]:
    """The kinds of events that a rule listens to, with the names of its methods."""
    known = _HANDLERS.get(type(rule))
    if known is None:
        known = {kind: name for kind in event_kinds() if hasattr(rule, name := handler_name(kind))}
        _HANDLERS[type(rule)] = known
    return known


def event_kinds() -> list[type[Event]]:
    """All classes of events."""
    return [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]


def handler_name(kind: type[Event]) -> str:
    """The method by which a rule listens to events of a kind: ``on_region_entered``."""
    return "on" + "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__)


def heard_by(rule: FlowRule) -> frozenset[str]:
    """The names of all events that a rule listens to."""
    return frozenset(kind.__name__ for kind in _handlers(rule))


def shown_by(rule: FlowRule) -> frozenset[str]:
    """The names of the events at whose place a run shows whether a finding of the rule is true."""
    if rule.shown_by:
        return frozenset(kind.__name__ for kind in rule.shown_by)
    kinds = list(_handlers(rule))
    telling = [kind for kind in kinds if kind not in _ACCOUNTS]
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
    best: dict[Hashable, Draft] = {}
    under: dict[Hashable, tuple[Condition, ...]] = {}
    further: dict[Hashable, list[Draft]] = {}
    for draft in drafts:
        if any(draft.subject in spoken.get(name, ()) for name in draft.rule.yields_to):
            continue
        subject = draft.subject if draft.rule.each_subject else None
        key: Hashable = (draft.rule.code, draft.place.path, draft.place.span, subject)
        if draft.rule.one_for_subject and draft.subject is not None:
            key = (draft.rule.code, draft.subject)
        elif draft.cause is not None:
            key = (draft.rule.code, draft.cause)
            further.setdefault(key, []).append(draft)
        known = best.get(key)
        under[key] = (*under.get(key, ()), *draft.under)
        if known is None or _first(draft) < _first(known):
            best[key] = draft
    told: dict[Hashable, Draft] = {}
    for key, draft in best.items():
        whole = replace(_with_places(draft, further.get(key, ())), under=under[key])
        # what differs in nothing but where its cause lies is one: for each release, or each class, a scaler of its own
        rest = draft.trail[1:] if draft.cause is not None else ()
        same: Hashable = (
            (draft.rule.code, draft.level, draft.place.path, draft.place.span, rest) if rest else key
        )
        known = told.get(same)
        if known is not None:
            trail, also = (*known.trail, draft.trail[0]), (*known.under, *whole.under)
            told[same] = replace(known, trail=trail, under=also)
        else:
            told[same] = whole
    return _worded_once(told.values())


def _worded_once(drafts: Iterable[Draft]) -> list[Draft]:
    """Of the drafts that say the same words of one place, each for another way to get there, the worst."""
    told: dict[Hashable, Draft] = {}
    for draft in drafts:
        key = (draft.rule.code, draft.place.path, draft.place.span, draft.message)
        known = told.get(key)
        if known is None:
            told[key] = draft
        else:
            worst = min(known, draft, key=lambda one: one.level.rank)
            told[key] = replace(worst, under=(*known.under, *draft.under))
    return list(told.values())


def _first(draft: Draft) -> tuple[object, ...]:
    """By what the draft is chosen that speaks for others: the worst, and of the places of one cause the first."""
    return (
        (draft.level.rank, draft.place.path, draft.place.span)
        if draft.cause is not None
        else (draft.level.rank,)
    )


def _with_places(draft: Draft, further: Iterable[Draft]) -> Draft:
    """A draft with the other places of the same cause in its trail."""
    others = {one.place: one for one in further if one.place != draft.place}
    if not others:
        return draft
    builders = tuple(one.builder for one in others.values() if one.builder is not None)
    steps = ((place, "the same happens here") for place in others)
    return replace(draft, trail=(*draft.trail, *steps), others=builders)


_NOT_FOLLOWED = "Not all that leads here could be followed."


def finding_of(draft: Draft, needs: Sequence[str] = ()) -> Finding:
    """A draft written out, with the calls that led to its place. ``needs``: what settings decide that it happens, as
    code asks for it."""
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
        why=" ".join(
            filter(None, (draft.why, happens_if(needs), _NOT_FOLLOWED if CUT in draft.assumes else ""))
        ),
        help=draft.help,
    )
