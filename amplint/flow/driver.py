"""Brings models, core and project together: the one file that sees them all.

A function that switches autocast off with no region around expects one of a caller: it is walked once more inside an
assumed region. Last come the forwards of modules that a model may be of whose making nothing is known, and methods
that were called by name alone inside a region; never ``forward``, which every module has. What is said of either
assumes that the call gets there (``Assumed.REACHES``), and is a warning at most.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from amplint.amp.tokens import SCALES_LOSSES
from amplint.events import (
    Backward,
    Call,
    CalledByName,
    Cast,
    DType,
    Event,
    Forward,
    FunctionApplied,
    GivenArguments,
    ModuleCast,
    Op,
    OptimizerStepped,
    Place,
    Region,
    RegionEntered,
    ScalerMade,
    ScalerUsed,
    enabled_region,
)
from amplint.flow import models
from amplint.flow.core.api import Settings
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.core.walks import FEWER, FEWEST, Walks
from amplint.flow.models.own import with_own
from amplint.flow.models.torch.releases import asks_for_release
from amplint.flow.models.torch.steps import is_a_step, only_saved, trains
from amplint.flow.models.torch.values import OpenRegions, Tensor
from amplint.flow.project.callgraph import CallGraph
from amplint.flow.project.candidates import Candidates
from amplint.flow.project.classes import Classes
from amplint.flow.project.edges import Definition, Edges, definitions_in
from amplint.flow.project.effects import Effects, keys_of
from amplint.flow.project.names import Names
from amplint.flow.project.questions import Questions
from amplint.flow.project.ranks import Ranks
from amplint.flow.project.receivers import Receivers
from amplint.flow.project.savers import Savers
from amplint.flow.project.signatures import left_out, tensors
from amplint.flow.project.view import View
from amplint.flow.state import conditions, symbols
from amplint.flow.state.graph import Graph
from amplint.flow.state.values import ClassValue, External, FunctionValue, Instance, Value
from amplint.lowering.lower import lower_module
from amplint.lowering.program import Program
from amplint.source.project import Project, ProjectFile

_ENTERED = frozenset({RegionEntered})
_LEVELS = 2
"""A context may be made by a helper, which an island calls: ``with maybe_autocast(enabled=False)``."""
_TRAINS = frozenset({Backward, OptimizerStepped, ScalerMade, ScalerUsed, ModuleCast})
_HEARD = frozenset({CalledByName, Forward, Op, Cast, FunctionApplied})
"""What shows that code runs inside a region, calls of what is not known among them."""


@lru_cache(maxsize=1)
def registry() -> Registry:
    """All models, found by walking the package."""
    found = Registry()
    for part in pkgutil.walk_packages(models.__path__, f"{models.__name__}."):
        module = importlib.import_module(part.name)
        own = getattr(module, "models", None)
        if isinstance(own, Registry):
            found.take(own)
    return found


def known(contexts: Sequence[str], backward_functions: Sequence[str]) -> Registry:
    """All models, those of a project's own wrappers from its settings included."""
    return with_own(registry(), contexts, backward_functions)


@dataclass(frozen=True, slots=True)
class Walk:
    """The events of one entry point. ``cut``: it met its budget. ``whole``: it did not, and nothing was forgotten of
    the conditions under which they happen. ``off``: regions that a flag switches are off, where else they are taken to
    be on."""

    entry: FunctionValue
    graph: Graph
    cut: bool = False
    whole: bool = True
    off: bool = False


@dataclass(frozen=True)
class Islands:
    """Float32 islands: functions that only switch autocast off, whatever they are given.

        def forward(self, x, positions):
            with torch.autocast("cuda", enabled=False):
                return torch.outer(positions.float(), self.frequencies)

    Libraries have one in each of hundreds of models. What could be wrong with it is that it computes with half tensors
    in a region that should give float32. Where nothing is wrong even if all that it is given is half, it is judged:
    there is no need to walk through all that leads to it. ``is_silent`` tells whether no rule says anything of some
    events, ``receiver`` on what a method is walked.
    """

    interpreter: Walks
    effects: Effects
    calls: CallGraph
    receiver: Callable[[FunctionValue], Value | None]
    is_silent: Callable[[Graph], bool]

    def found(self) -> Iterator[tuple[FunctionValue, Graph]]:
        """Each island with its events."""
        pending = {part: False for part in self.calls.definitions if self.effects.enters_itself(part)}
        tried: set[FunctionValue] = set()
        for _ in range(_LEVELS):
            open_ended: dict[Definition, bool] = {}
            for part, switched in pending.items():
                tried.add(part)
                if _is_body(part) or SCALES_LOSSES in self.effects.tags(part):
                    continue
                off = switched or _passes_false(part)
                graph = self._judged(part) if off else None
                if graph is None:
                    open_ended[part] = off
                else:
                    yield part, graph
            pending = self._leading_to(open_ended, tried)

    def _leading_to(
        self, parts: dict[Definition, bool], tried: set[FunctionValue]
    ) -> dict[FunctionValue, bool]:
        """What calls some functions, and whether one of these has a False to hand over."""
        found: dict[FunctionValue, bool] = {}
        for part in self.calls.definitions if parts else ():
            called = [parts[after] for after in self.effects.edges.of(part).sure if after in parts]
            if called and part not in tried:
                found[part] = any(called)
        return found

    def _judged(self, function: FunctionValue) -> Graph | None:
        """The events of a function, if it is an island."""
        reached = set(self.interpreter.reached)
        try:
            graph = self._if_silent(function)
        except Exception:  # its own walk fails, too, and is told of
            graph = None
        if graph is None:
            self.interpreter.reached = reached
        return graph

    def _if_silent(self, function: FunctionValue) -> Graph | None:
        self.interpreter.make_room()
        receiver = self.receiver(function)
        graph = self.interpreter.walk_function(function, receiver, most=FEWEST)
        cut = self.interpreter.cut_off
        if graph is None or any(True for _ in graph.different(_TRAINS)):
            return None
        entered = [event.regions[-1] for event in graph.different(_ENTERED)]
        if not entered or any(region.enabled for region in entered):
            return None
        place = entered[0].place
        around = Region(place, "assumed", self.interpreter.settings.device, DType.HALF, assumed=True)
        half = Tensor(DType.HALF, born=place, born_in=around)
        given = dict.fromkeys(tensors(function, receiver is not None), half)
        worst = self.interpreter.walk_function(
            function, receiver, OpenRegions((around,)), FEWEST, given=given
        )
        cut = cut or self.interpreter.cut_off
        return graph if worst is not None and not cut and self.is_silent(worst) else None


class Driver:
    """Walks the entry points of a project. ``files`` are those that are judged; others are read when they are
    needed."""

    def __init__(
        self,
        project: Project,
        files: Sequence[ProjectFile],
        settings: Settings,
        *,
        contexts: Sequence[str] = (),
        backward_functions: Sequence[str] = (),
        in_passing: Callable[[Path], bool] = lambda path: False,
    ) -> None:
        """``contexts`` and ``backward_functions`` are wrappers of the project itself, from its settings; ``in_passing``
        tells the files whose entry points come last and get a small budget, such as tests."""
        models_known = known(contexts, backward_functions)
        self.project = project
        symbols.name_files(project.place_of)
        self.is_silent: Callable[[Graph], bool] = lambda graph: False
        """Whether nobody would say anything of some events; who listens sets it."""
        self.flags_to_switch_off: Callable[[Graph], frozenset[Hashable]] = lambda graph: frozenset()
        """The flags of an entry point that it is to be walked without, once more; who listens sets it."""
        self.failed: list[tuple[str, Exception]] = []
        """Files with an entry point that amplint itself failed at."""
        self._any_release: Walks | None = None
        self._called: dict[str, CalledByName] = {}
        """Calls of methods by name inside regions, the first of each name, that are still to be followed."""
        self._known_by_name: set[str] = set()
        self._inside: dict[str, set[int]] = {}
        """The lines of files on which something happens inside a region."""
        self._models: dict[tuple[ProjectFile, GivenArguments], Forward] = {}
        """Calls of models inside regions of which nothing is known, the first of each form for each entered file."""
        self.files = sorted(files, key=lambda file: str(file.path))
        self._edges = Edges(Classes(Names(project, keys_of(models_known).knows)), self.files)
        self.effects = Effects(self._edges, models_known)
        self._in_passing = {file for file in self.files if in_passing(file.path)}
        self.calls = CallGraph(self.effects, self.files, self._in_passing)
        self.view = View(self.effects, in_passing)
        self._receivers = Receivers(self.view, in_passing)
        overrides = self._receivers.overrides
        self._ranks = Ranks(self.effects, self.files, self._in_passing, overrides, SCALES_LOSSES)
        self.questions = Questions(self.view, models_known.kinds)
        """What rules may ask about the events."""
        self.interpreter = Walks(models_known, self.view, settings)

    def walks(self) -> Iterator[Walk]:
        """Each entry point with its events: what files do when they are imported, then where the project is
        entered, then what was not reached from there."""
        for file in self.files:
            self.interpreter.make_room()
            parts = list(definitions_in(self._edges, file))
            program = lower_module(file)
            if program is None:
                continue
            graph = self.interpreter.walk_definitions(file, program, parts)
            if graph.items and parts:
                yield Walk(parts[0], graph)
        yield from self._islands()
        for entry in sorted(self.calls.roots(), key=self._ranks.of):
            yield from self._from(entry)
        while rest := self.calls.rest(self.interpreter.reached):
            yield from self._from(rest[0])
        yield from self._unknown_models()
        yield from self._called_by_name()

    def _from(self, entry: FunctionValue) -> Iterator[Walk]:
        overrides = self._receivers.overrides(entry)
        told = id(entry.outline) in self.interpreter.reached or entry.file in self._in_passing
        if overrides and not told:
            for outer, value in self._receivers.around(entry):
                yield from self._started(outer, Weight.ENTRY, value)
        if not overrides or id(entry.outline) not in self.interpreter.reached:
            news = self.calls.news(entry, self.interpreter.reached)
            if news is not None:
                yield from self._started(entry, news)
        self.interpreter.reached.add(id(entry.outline))

    def _started(self, entry: FunctionValue, news: Weight, on: ClassValue | None = None) -> Iterator[Walk]:
        """The walks of an entry point, on an object of the class ``on`` if one is named."""
        passing, known = entry.file in self._in_passing, frozenset(self.interpreter.cut_short)
        scales = entry.file in self._ranks.training
        most = self.interpreter.budget(entry, new=news >= Weight.ENTRY, passing=passing, scales=scales)
        yield from self._guarded(entry, self._walks_of(entry, most, on))
        if passing:  # what a test did not get to has had no walk of its own
            self.interpreter.cut_short &= known

    def _islands(self) -> Iterator[Walk]:
        """Functions that only switch autocast off and do no harm by it: what leads to them need not be walked."""
        found: set[FunctionValue] = set()
        # a walk of their own: what it has met is no part of the others
        alone = Walks(self.interpreter.registry, self.view, self.interpreter.settings)
        islands = Islands(alone, self.effects, self.calls, partial(self.receiver, alone), self.is_silent)
        for function, graph in islands.found():
            found.add(function)
            yield Walk(function, graph)
        if found:
            self.interpreter.reached |= alone.reached
            effects = Effects(self._edges, self.interpreter.registry, found)
            self.calls = CallGraph(effects, self.files, self._in_passing)

    def _called_by_name(self) -> Iterator[Walk]:
        """Methods of the project that are called by their name inside a region, on objects of which nothing is known,
        and that no walk has reached otherwise; of those that a package calls, no walk inside a region."""
        while self._called:
            name, event = self._called.popitem()
            for method in (
                self.calls.called_by(event.package, name)
                if event.package
                else self.calls.methods(name, event.given)
            ):
                reached = id(method.outline) in self.interpreter.reached
                if self._is_judged(method) if event.package else reached:
                    continue
                call = Call(event.place, name)
                yield from self._guarded(method, self._walk_inside(method, event, event.given, call))

    def _unknown_models(self) -> Iterator[Walk]:
        """The forwards of modules that a model may be of which nothing is known, and which is trained in a region."""
        candidates = Candidates(self._edges)
        for (file, given), event in self._models.items():
            for forward in candidates.forwards(file, given):
                if not self._is_judged(forward):
                    walks = self._walk_inside(forward, event, given, Call(event.place, None))
                    yield from self._guarded(forward, walks)

    def _is_judged(self, forward: FunctionValue) -> bool:
        """Whether some walk went through a function inside a region."""
        assert forward.outline is not None
        lines = range(forward.outline.line, forward.outline.end_line + 1)
        return not self._inside.get(forward.file.display, set()).isdisjoint(lines)

    def _walk_inside(
        self, method: FunctionValue, event: Event, given: GivenArguments, call: Call
    ) -> Iterator[Walk]:
        """A method as if it were what a call inside a region means."""
        self.interpreter.make_room()
        regions = OpenRegions(tuple(replace(region, through=call) for region in event.regions))
        defaults = left_out(method, given)
        # an object that is made with an option which nobody in sight sets would be one guess more
        receiver = self.receiver(self.interpreter, method, usual=True)
        graph = self.interpreter.walk_function(method, receiver, regions, FEWER, left_out=defaults)
        if graph is not None:
            yield self._walked(method, graph)

    def _note_calls(self, entry: FunctionValue, graph: Graph) -> None:
        for event in graph.different(_HEARD):
            if _opened_by_code(event):
                self._inside.setdefault(event.place.path, set()).add(event.place.line)
            if (
                isinstance(event, CalledByName)
                and _opened_by_code(event)
                and event.method not in self._known_by_name
            ):
                self._known_by_name.add(event.method)
                self._called[event.method] = event
            elif isinstance(event, Forward) and event.given is not None and _is_trained(event):
                self._models.setdefault((entry.file, event.given), event)

    def outside(self, file: ProjectFile, dotted: str) -> str | None:
        """The qualified name of what a dotted name of a file stands for, if that is outside the project."""
        found = self.view.resolve(file, dotted)
        return found.name if isinstance(found, External) else None

    def truth_of(self, file: ProjectFile, program: Program) -> tuple[conditions.Condition, bool]:
        """The condition under which an expression of a file is true for the releases of torch that the project
        admits, and whether it asks for the release at all."""
        if self._any_release is None:
            every = Settings(((1, 0), None), self.interpreter.settings.device)
            self._any_release = Walks(self.interpreter.registry, self.view, every)
        admitted = self.interpreter.truth_of(file, program)
        some = self._any_release.truth_of(file, program)
        return admitted, admitted != some or any(map(asks_for_release, conditions.atoms(some)))

    def _guarded(self, entry: FunctionValue, walks: Iterator[Walk]) -> Iterator[Walk]:
        """The walks of an entry point; where amplint itself fails, the others are walked all the same."""
        try:
            yield from walks
        except Exception as error:
            self.failed.append((entry.file.display, error))

    def _walks_of(self, entry: FunctionValue, most: int, on: ClassValue | None) -> Iterator[Walk]:
        left = 2 * most  # for all the classes of its objects together
        for receiver in self._on(entry) if on is None else [self.interpreter.receiver_of(on)]:
            self.interpreter.make_room()
            given = min(most, max(left, FEWER))
            walk = self.walk_of(entry, given, receiver)
            if walk is None:
                return
            left -= self.interpreter.steps
            yield walk
            self._note_calls(entry, walk.graph)
            yield from self._without_flags(walk, given, receiver)
            place = _switched_off(walk.graph) if not _trains_itself(entry, walk.graph) else None
            if place is not None:
                around = OpenRegions((Region(place, "assumed", self._device, DType.HALF, assumed=True),))
                assumed = self.interpreter.walk_function(entry, receiver, around, given)
                if assumed is not None:
                    yield self._walked(entry, assumed)

    def _without_flags(self, walk: Walk, most: int, receiver: Value | None) -> Iterator[Walk]:
        """An entry point once more, with the regions switched off that are asked for. Not one that somebody in sight
        names but no walk got to: he may choose it by the same flags, as no test does."""
        flags = self.flags_to_switch_off(walk.graph)
        named = flags and any(one.file not in self._in_passing for one in self.calls.callers(walk.entry))
        if flags and not walk.cut and not named:
            settings = replace(self.interpreter.settings, off=flags)
            interpreter = Walks(self.interpreter.registry, self.view, settings)
            made_of = receiver.made_of if isinstance(receiver, Instance) else None
            # an object of its own: what an interpreter knows of its objects, no other one knows
            receiver = interpreter.receiver_of(made_of) if made_of is not None else receiver
            graph = _events_of(interpreter, walk.entry, most, receiver)
            if graph is not None:
                yield Walk(walk.entry, graph, interpreter.cut_off, interpreter.is_whole, off=True)

    def _walked(self, entry: FunctionValue, graph: Graph) -> Walk:
        """What the interpreter has just walked."""
        return Walk(entry, graph, self.interpreter.cut_off, self.interpreter.is_whole)

    def walk_of(self, entry: FunctionValue, most: int, receiver: Value | None) -> Walk | None:
        """The events of an entry point; after a method that trains also what other methods of its object save."""
        graph = _events_of(self.interpreter, entry, most, receiver)
        if graph is None:
            return None
        walk = self._walked(entry, graph)
        # what is forgotten in a checkpoint is no error, which is all that tests and the like are asked for
        if not isinstance(receiver, Instance) or not trains(graph) or entry.file in self._in_passing:
            return walk
        made = partial(self.receiver, self.interpreter, usual=True)
        savers = Savers(only_saved, self.interpreter, self.view, self.effects, self.calls, made)
        before = only_saved(graph).items if is_a_step(graph) else []  # before the next step
        whole = Graph()
        whole.items = [*graph.items, *before, *savers.of(graph, receiver).items]
        return replace(walk, graph=whole)

    def _on(self, entry: FunctionValue) -> Iterator[Value | None]:
        """On what an entry point is walked."""
        receiver = self.receiver(self.interpreter, entry)
        made_of = receiver.made_of if isinstance(receiver, Instance) else None
        if made_of is None:
            yield receiver
            return
        for value in self._receivers.of(entry, made_of, self.interpreter.reached):
            yield self.interpreter.receiver_of(value)

    @property
    def _device(self) -> str:
        return self.interpreter.settings.device

    def receiver(self, interpreter: Walks, entry: FunctionValue, *, usual: bool = False) -> Value | None:
        """The object or class on which a method is walked that nobody in sight calls. ``usual``: an object that is made
        with the defaults of its class."""
        owner = entry.outline.owner if entry.outline is not None else None
        if owner is None:
            return None
        value = ClassValue(entry.file, owner)
        match self.view.kind_of_method(entry):
            case "static method":
                return None
            case "class method":
                return value
        return interpreter.receiver_of(value, usual=usual)


def _events_of(interpreter: Walks, entry: FunctionValue, most: int, receiver: Value | None) -> Graph | None:
    """The events of an entry point: a file that is run, or a function."""
    if not _is_body(entry):
        return interpreter.walk_function(entry, receiver, most=most)
    interpreter.reached.add(id(entry.outline))
    program = lower_module(entry.file)
    return interpreter.walk_module(entry.file, program, most) if program is not None else None


def _switched_off(graph: Graph) -> Place | None:
    """Where a function switches autocast off, whatever its flags are, with no region around: it must expect one of
    its callers."""
    alone = [event for event in graph.different(_ENTERED) if len(event.regions) == 1]
    enabled = {event.place for event in alone if event.regions[0].enabled}
    return next((event.place for event in alone if event.place not in enabled), None)


def _is_trained(event: Forward) -> bool:
    """Whether a module runs with gradients inside a region that is known."""
    return _opened_by_code(event) and event.trains and event.gradients


def _opened_by_code(event: Event) -> bool:
    """Whether something happens inside an enabled region that is neither assumed nor reached by a guess."""
    region = enabled_region(event.regions)
    return region is not None and not region.assumed and region.through is None


def _trains_itself(entry: FunctionValue, graph: Graph) -> bool:
    """Whether a script or a training step is entered here: nobody opens a region around it."""
    script = entry.outline is entry.file.outline.module
    return script or any(True for _ in graph.different(frozenset({Backward, OptimizerStepped})))


def _is_body(function: FunctionValue) -> bool:
    return function.outline is None or function.outline is function.file.outline.module


def _passes_false(function: FunctionValue) -> bool:
    """Whether a function hands False to something, as one does that switches autocast off by itself."""
    node = function.outline.node if function.outline is not None else None
    return node is not None and any(
        isinstance(value, ast.Constant) and value.value is False
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        for value in (*call.args, *(keyword.value for keyword in call.keywords))
    )
