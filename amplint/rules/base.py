"""What a rule is: documentation, a level, and a small state machine over AMP events or a LibCST visitor."""

from __future__ import annotations

import sys
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar, Protocol

import libcst as cst

from amplint.amp.versions import Bounds
from amplint.events import Event, Place, Region, Regions
from amplint.findings import Assumption, Level
from amplint.fixes.base import FixBuilder, NoFix
from amplint.flow.state.conditions import Condition, both, either
from amplint.flow.state.graph import Graph
from amplint.flow.state.values import FALSE, TRUE
from amplint.rules.context import Context, NothingElse
from amplint.rules.ledger import CUT, weighed


@dataclass(frozen=True)
class Setting:
    """What a rule may know of the project: the torch releases it allows, and the device it trains on."""

    torch: Bounds = ((2, 0), None)
    device: str = "cuda"
    torch_stated: bool = False
    """Whether the project or its settings say so, and not the default."""


@dataclass(frozen=True)
class Draft:
    """A finding that is not yet written out. ``message``, ``why`` and ``help`` as in Finding; ``trail`` leads to it;
    ``subject`` is what rules that would
    speak of the same thing share, such as the line where a region opens; ``builder`` is what would fix it;
    ``told_by_text`` as in FlowRule; ``assumes`` is what has to hold beside what the text says. Drafts of a rule with
    the same ``cause`` become one finding, with the places of the others attached."""

    rule: Rule
    level: Level
    place: Place
    message: str
    trail: tuple[tuple[Place, str], ...] = ()
    subject: Hashable = None
    builder: FixBuilder | None = None
    told_by_text: bool = False
    assumes: tuple[Assumption, ...] = ()
    cause: Hashable = None
    part_of: Hashable = None
    """What the subject is one of: withdrawn with all of them."""
    others: tuple[FixBuilder, ...] = ()
    """What would fix it at the further places of its cause, if its own builder has to refuse."""
    why: str = ""
    help: str = ""
    under: tuple[Condition, ...] = ()
    """The conditions under which the events happen at which this was said, TRUE where nothing is known of that."""


@dataclass
class Report:
    """Collects drafts."""

    drafts: list[Draft] = field(default_factory=list)
    withdrawn: set[tuple[str, Hashable]] = field(default_factory=set)
    left: dict[tuple[str, str, Hashable], str] = field(default_factory=dict)
    """Why there is no fix for what a rule says of a place."""
    under: Condition = TRUE
    """The condition under which the event happens that is being heard, if that is known."""
    met: dict[Place, dict[Condition, None]] = field(default_factory=dict)
    """The conditions under which the events at a place were heard since the present run began."""
    whole: bool = True
    """Whether all that leads to the events that are heard was followed."""
    script: frozenset[type[Event]] | None = None
    """The kinds of all events, if they are those of a script that was followed to its end: nothing comes after."""

    def happens(self, under: Condition, event: Event) -> None:
        """Hears of the condition under which the next event happens."""
        self.under = under
        self.met.setdefault(event.place, {})[under] = None

    @property
    def standing(self) -> list[Draft]:
        """The drafts that nothing heard at any entry point has refuted."""
        return [draft for draft in self.drafts if self.stands(draft)]

    def stands(self, draft: Draft) -> bool:
        """Whether nothing has refuted a draft."""
        name, subject = draft.rule.name, draft.subject
        if isinstance(subject, Place):  # the extents of places that nobody asks about are never worked out
            places = (one for rule, one in self.withdrawn if rule == name and isinstance(one, Place))
            return all(one.extent != subject.extent for one in places)
        return (name, subject) not in self.withdrawn and (name, draft.part_of) not in self.withdrawn

    def withdraw(self, rule: Rule, subject: Hashable) -> None:
        """Takes back what a rule says of a subject, at whatever entry point it was or will be said. A place stands for
        the piece of text."""
        self.withdrawn.add((rule.name, subject))

    def leave(self, rule: Rule, place: Place, reason: str) -> None:
        """Lets nothing that a rule says of a place be fixed, at whatever entry point it was or will be said."""
        self.left.setdefault((rule.name, place.path, place.key), reason)

    def builder_of(self, draft: Draft) -> FixBuilder | None:
        """What would fix a draft, or says why nothing does."""
        reason = self.left.get((draft.rule.name, draft.place.path, draft.place.key))
        return draft.builder if reason is None else NoFix(reason)

    def add(
        self,
        rule: Rule,
        place: Place,
        message: str,
        *,
        why: str = "",
        help: str = "",
        level: Level | None = None,
        trail: tuple[tuple[Place, str], ...] = (),
        subject: Hashable = None,
        builder: FixBuilder | None = None,
        told_by_text: bool = False,
        assumes: tuple[Assumption, ...] = (),
        cause: Hashable = None,
        part_of: Hashable = None,
    ) -> None:
        """Adds a draft, unless too much is guessed. ``message`` is a clause without a full stop, which names the guess;
        ``why`` and ``help`` are sentences. ``level`` is how bad it is if all holds that it assumes."""
        unique = tuple(dict.fromkeys(assumes))
        weight = weighed(level or rule.level, unique)
        if weight is Level.ERROR and not self.whole:
            unique = (*unique, CUT)
            weight = weighed(weight, unique)
        if weight is not None:
            self.drafts.append(
                Draft(
                    rule,
                    weight,
                    place,
                    message,
                    trail,
                    subject,
                    builder,
                    told_by_text,
                    unique,
                    cause,
                    part_of,
                    why=why,
                    help=help,
                    under=(self._with_earlier(place),),
                )
            )

    def _with_earlier(self, place: Place) -> Condition:
        """Under which the present event happens, and one at the place of a finding, which may be an earlier one."""
        earlier = self.met.get(place)
        under = both(self.under, reduce(either, earlier)) if earlier else self.under
        return under if under != FALSE else self.under


class Rule:
    """Base of all rules. Code and name come from the name of the rule's file, the page from its docstring."""

    level: Level = Level.WARNING
    kind = "flow"
    default = True
    yields_to: tuple[str, ...] = ()
    """Names of rules which, when they speak of the same subject, make this one silent."""
    one_for_subject = False
    """Whether one finding is enough for a subject, at whatever places: what follows has the same cause."""
    tag = ""
    """How editors show the code that a finding is about: "deprecated" struck out, "unnecessary" faded."""
    each_subject = False
    """Whether one place gets a finding for each subject: each caller's region has to be fixed on its own."""

    def __init__(self, setting: Setting | None = None) -> None:
        self.setting = setting or Setting()

    @property
    def _file_name(self) -> str:
        return type(self).__module__.rpartition(".")[2]

    @property
    def code(self) -> str:
        """AMP and three digits."""
        return self._file_name.partition("_")[0].upper()

    @property
    def name(self) -> str:
        """The name in kebab case."""
        return self._file_name.partition("_")[2].replace("_", "-")

    @property
    def page(self) -> str:
        """The rule's page in Markdown."""
        text = (sys.modules[type(self).__module__].__doc__ or "").strip()
        return f"# {self.name} ({self.code})\n\n{text}\n"

    @property
    def summary(self) -> str:
        """The first sentence of the page."""
        text = (sys.modules[type(self).__module__].__doc__ or "").strip()
        return " ".join(text.split("\n\n")[0].split())


class Machine(Protocol):
    """A state machine over events that several rules share."""

    @property
    def hears(self) -> tuple[type[Event], ...]:
        """The events that move it."""

    @property
    def never_without(self) -> tuple[type[Event], ...]:
        """Events without any of which it says nothing. None: there are no such events."""

    def start(self) -> Hashable:
        """The state at an entry point."""

    def hear(self, state: Any, event: Event, context: Context) -> tuple[Hashable, tuple[Any, ...]]:
        """The next state, and what is to be said to the rules."""


class FlowRule(Rule):
    """A rule that listens to events. For each event class that it cares for it has a method such as
    ``on_backward(state, event, report)`` that gives the next state."""

    for_every_caller = False
    """Whether it says that something is of no use: then it has to be so whoever calls, and nothing is said of a method
    of which a call is known by its name alone."""
    hears_assumed = False
    """Whether it is told of entry points that are walked inside an assumed region."""
    hears_switched_off = False
    """Whether it is told of entry points that are walked once more without the flags of ``switched_off``."""
    shown_by: tuple[type[Event], ...] = ()
    """The events at whose place a run shows whether a finding is true. None: all that it listens to, but for
    those that only keep account, such as the end of a region."""
    never_without: tuple[type[Event], ...] = ()
    """Events without any of which it finds nothing. None: there are no such events."""
    by_subject = False
    """Whether it is run by itself for each object that an event is about."""
    machine: Machine | None = None
    """The machine that it shares with others; what that says goes to ``on_violation``."""
    raises = ""
    """A regular expression for the exceptions that show a finding to be true."""
    needs = ""
    """What a run has to have for this to be seen, if a simulated CUDA does not: "a CUDA graph"."""
    unseen = ""
    """Why no run shows this, if none does."""
    told_by_text = False
    """Whether it rests on what only the text tells, too: then a run confirms findings and has none of its own."""
    evidence: tuple[str, ...] = ()
    """What a run measures where a finding is true: "scale", that of the scaler; "norm", that of the gradients;
    "zeros", how many of them are zero; "loss", whether it stands still."""

    context: Context = NothingElse()
    """Whom it may ask about the events: set by those who let it hear them."""

    def start(self) -> Hashable:
        """The state at an entry point."""
        return None

    def on_violation(self, said: Any, report: Report) -> None:
        """Hears what the shared machine says."""

    def subjects(self, events: Iterable[Any]) -> Iterable[Hashable] | None:
        """The objects for each of which the rule is to be run by itself over the graph of these events, those that can
        come to a finding: the less there is in a state, the fewer paths there are. None: one run hears all events."""
        if not self.by_subject:
            return None
        return dict.fromkeys(subject for event in events for subject in self.about(event) or ())

    def about(self, event: Any) -> Collection[Hashable] | None:
        """The objects that an event is about; None if it concerns all of them."""
        return None

    def switched_off(self, graph: Graph) -> Iterable[Hashable]:
        """The flags of regions without which it wants to hear of an entry point once more."""
        return ()

    def again(self, state: Any) -> Hashable:
        """The state without what was told of already: by it a run counts how often a finding was true."""
        unchanged: Hashable = state
        return unchanged


class SourceView(Protocol):
    """What a syntax rule may ask of the file that it visits."""

    @property
    def text(self) -> str:
        """The whole text of the file."""

    def resolve(self, node: cst.CSTNode) -> str | None:
        """The qualified name that a name or attribute stands for, or None."""

    def import_place(self, node: cst.CSTNode) -> Place | None:
        """Where the name at the root of an expression is imported, or None."""

    def is_read(self, name: str) -> bool:
        """Whether the file reads or calls a dotted name, or an attribute of it."""

    def place(self, node: cst.CSTNode) -> Place:
        """Where a node stands."""

    def code(self, node: cst.CSTNode) -> str:
        """The text of a node."""

    def guard(self, test: cst.BaseExpression) -> str | None:
        """What a condition says about torch's version: "always", "never", "depends", or None if nothing."""


class SyntaxRule(Rule):
    """A rule about spelling, decided on the tree alone."""

    kind = "syntax"
    gate: ClassVar[tuple[tuple[bytes, ...], ...]]
    """Rows for the byte gate: a file that the rule is about has all tokens of one."""

    def wants(self, imports: dict[str, str], text: str) -> bool:
        """Whether a file can hold anything of interest."""
        raise NotImplementedError

    def visitor(self, view: SourceView, report: Report) -> cst.CSTVisitor:
        """The visitor for one slice of a file."""
        raise NotImplementedError

    def finish(self, path: str, report: Report) -> None:
        """Called when all slices of a file were visited."""


def opened(region: Region) -> tuple[Place, str]:
    """The trail step for the opening of a region."""
    state = "enabled" if region.enabled else "disabled"
    flag = ""
    if region.conditional and not region.framework:
        flag = ", if its flag is set" if region.enabled else ", if its flag is not set"
    return region.place, f"autocast is {state} here{flag}"


def surrounding(regions: Regions) -> Place | None:
    """Where the nearest enabled region around the innermost one is opened, if there is one."""
    return next((region.place for region in reversed(regions[:-1]) if region.enabled), None)


def caching(regions: Regions) -> tuple[Place, ...]:
    """Where the open regions that keep casts of weights are opened, outermost first."""
    return tuple(region.place for region in regions if region.enabled and region.cache_enabled)


def dtype_name(region: Region) -> str:
    """ "float16", "bfloat16" or "half precision"."""
    name: Any = region.dtype.value if region.dtype is not None else "half"
    return "half precision" if name == "half" else str(name)
