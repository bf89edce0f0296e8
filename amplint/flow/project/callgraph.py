"""Who calls whom, seen from the callee, and where the project is entered.

* ``graph.callers(definition)``: the definitions that the text shows to call it; with ``possible=True`` also those that
  call a method of its name on an object out of sight.
* ``graph.methods(name, given)``: the methods that a call may mean of which only the name is known.
* ``graph.roots()``: where to begin: the definitions that reach an ENTRY key and that nobody in sight calls, of a circle
  that nobody enters the first one. Module bodies come before functions, files in the order of their paths. Calls of
  tests do not count: the users of a library are out of sight.
* ``graph.news(root, reached)``: what a walk from there may meet that no other one has met.
* ``graph.rest(reached)``: what is left to be walked on its own once that was done: definitions that reach an ENTRY key
  and that no walk reached, callers before those that they may call.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from amplint.events import GivenArguments
from amplint.flow.core.registry import About, Weight
from amplint.flow.project.classes import Base
from amplint.flow.project.components import components
from amplint.flow.project.edges import Definition, definitions_in
from amplint.flow.project.effects import OF_PYTHON, Effects
from amplint.flow.project.signatures import takes
from amplint.flow.state.values import ClassValue, FunctionValue
from amplint.source.facts import facts_of
from amplint.source.project import ProjectFile

MOST_FILES = 200
"""A method that is defined in more files has a name that says nothing."""


class CallGraph:
    """The calls between the definitions of some files."""

    def __init__(
        self, effects: Effects, files: Sequence[ProjectFile], tests: Collection[ProjectFile] = ()
    ) -> None:
        """``tests`` are files whose calls do not stand for those of users: what only they call is entered by itself."""
        self._effects = effects
        self._tests = tests
        self._files = sorted(files, key=lambda file: str(file.path))
        self._following: dict[FunctionValue, list[FunctionValue]] = {}

    def callers(self, definition: Definition, *, possible: bool = False) -> list[FunctionValue]:
        """The functions and module bodies that lead to a definition, through classes and names in between."""
        sure, maybe = self._reversed
        found: dict[FunctionValue, None] = {}
        seen: set[Definition] = {definition}
        pending = [definition]
        while pending:
            part = pending.pop()
            for before in [*sure.get(part, ()), *(maybe.get(part, ()) if possible else ())]:
                if isinstance(before, FunctionValue):
                    found[before] = None
                elif before not in seen:
                    seen.add(before)
                    pending.append(before)
        return sorted(found, key=self._place)

    def called_by(self, package: str, name: str) -> list[FunctionValue]:
        """The methods of a name by which a package calls the objects of classes that derive from its own, where nobody
        in sight makes such an object."""
        edges = self._effects.edges
        paths = edges.names.project.files_defining(name)
        files = [edges.names.project.load(path) for path in sorted(paths)] if len(paths) <= MOST_FILES else []
        values = [ClassValue(file, part) for file in files if file for part in facts_of(file.outline).classes]
        return [
            method
            for value in values
            if (method := edges.classes.methods(value).get(name)) is not None
            if edges.classes.derives_from(value, f"{package}.") and not self._is_made_in_sight(value)
        ]

    def _is_made_in_sight(self, value: ClassValue) -> bool:
        """Whether code of the project, other than a test or the class itself, names a class to make its objects."""
        edges = self._effects.edges
        own = set(edges.classes.methods(value).values())
        return any(
            value in edges.of(part).sure
            for file in edges.names.project.files_mentioning(value.outline.name)
            if file not in self._tests
            for part in definitions_in(edges, file)
            if part not in own
        )

    def methods(self, name: str, given: GivenArguments) -> list[FunctionValue]:
        """The methods of a name that take the arguments, of all files of the project, whether these are judged or not.
        None where a model or a type of Python knows the name as well, or where classes that are not related do: then it
        may be anything."""
        if self._effects.keys.of_method(name) != About() or name in OF_PYTHON:
            return []
        edges = self._effects.edges
        project = edges.names.project
        paths = project.files_defining(name)
        if len(paths) > MOST_FILES:
            return []
        files = [file for path in sorted(paths) if (file := project.load(path)) is not None]
        values = (ClassValue(file, part) for file in files for part in facts_of(file.outline).classes)
        found = {
            value: method
            for value in values
            if (method := edges.classes.methods(value).get(name)) is not None
        }
        fitting = [
            value for value, method in found.items() if method.outline is not None and takes(method, given)
        ]
        families = [
            frozenset(base for base in edges.classes.bases(value) if base in found) for value in fitting
        ]
        related = not families or bool(frozenset[Base].intersection(*families))
        return [found[value] for value in fitting if not _is_abstract(found[value])] if related else []

    def roots(self) -> list[FunctionValue]:
        """Where the project is entered."""
        return self._first(self._entries)

    def rest(self, reached: Collection[int]) -> list[FunctionValue]:
        """What no walk has reached so far and nothing else of that kind leads to; ``reached``: the ``id`` of each
        outline that one has."""
        return self._first([part for part in self._entries if id(part.outline) not in reached])

    def news(self, root: FunctionValue, reached: Collection[int]) -> Weight | None:
        """The greatest weight of what a walk of a root may meet in definitions that no walk has reached (``reached``:
        the ``id`` of each outline that one has); None where these name nothing of a package that models know: a second
        script that does nothing but call what the first one called; and for a constructor without a new key of weight
        ENTRY, since what it makes is known to the methods."""
        found: Weight | None = None
        seen: set[Definition] = {root}
        pending: list[Definition] = [root]
        while pending:
            part = pending.pop()
            if self._effects.enters_itself(part):
                return Weight.ENTRY
            if self._effects.touches(part):
                found = Weight.NOTHING
            for after in self._steps(part):
                known = isinstance(after, FunctionValue) and id(after.outline) in reached
                if not known and after not in seen:
                    seen.add(after)
                    pending.append(after)
        return found if not _is_constructor(root) else None

    @cached_property
    def definitions(self) -> list[FunctionValue]:
        """The bodies of the files, then their functions, in order."""
        found = [part for file in self._files for part in definitions_in(self._effects.edges, file)]
        return sorted(found, key=self._place)

    @cached_property
    def _entries(self) -> list[FunctionValue]:
        return [part for part in self.definitions if self._enters(part)]

    def _enters(self, part: FunctionValue) -> bool:
        return self._effects.enters(part)

    def _first(self, parts: Sequence[FunctionValue]) -> list[FunctionValue]:
        """Those of the definitions to which no other of them leads; of a circle, the first one."""
        wanted = set(parts)
        followers = {part: self._followers(part, wanted, tests=part.file in self._tests) for part in parts}
        groups = components(parts, followers.__getitem__)
        group_of = {part: number for number, group in enumerate(groups) for part in group}
        led_to = {
            group_of[after]
            for part, afters in followers.items()
            for after in afters
            if group_of[after] != group_of[part]
        }
        chosen = [min(group, key=self._place) for number, group in enumerate(groups) if number not in led_to]
        return sorted(chosen, key=self._place)

    def _followers(
        self, part: FunctionValue, wanted: Collection[FunctionValue], *, tests: bool
    ) -> list[FunctionValue]:
        """The definitions that one leads to, through classes, names and functions that are not wanted in between;
        ``tests``: those among the tests."""
        found: dict[FunctionValue, None] = {}
        seen = {part}
        pending = [part]
        while pending:
            for after in self._next_entries(pending.pop()):
                if after in wanted:
                    found[after] = None
                elif after not in seen:
                    seen.add(after)
                    pending.append(after)
        found.pop(part, None)
        return [after for after in found if not tests or after.file in self._tests]

    def _next_entries(self, part: FunctionValue) -> list[FunctionValue]:
        """The entries that one leads to without another one in between."""
        known = self._following.get(part)
        if known is not None:
            return known
        found: dict[FunctionValue, None] = {}
        seen: set[Definition] = {part}
        pending: list[Definition] = [part]
        while pending:
            for after in self._steps(pending.pop()):
                if after in seen:
                    continue
                seen.add(after)
                if isinstance(after, FunctionValue) and after in self._entry_set:
                    found[after] = None
                elif self._effects.weight(after) >= Weight.ENTRY:  # nothing else leads to an entry
                    pending.append(after)
        known = self._following[part] = list(found)
        return known

    @cached_property
    def _entry_set(self) -> frozenset[FunctionValue]:
        return frozenset(self._entries)

    @cached_property
    def _reversed(self) -> tuple[dict[Definition, list[Definition]], dict[Definition, list[Definition]]]:
        sure: dict[Definition, list[Definition]] = {}
        possible: dict[Definition, list[Definition]] = {}
        start: list[Definition] = [*self.definitions]
        for group in components(start, self._steps):
            for part in group:
                steps = self._effects.edges.of(part)
                for after in steps.sure:
                    sure.setdefault(after, []).append(part)
                for after in steps.possible:
                    possible.setdefault(after, []).append(part)
        return sure, possible

    def _steps(self, part: Definition) -> list[Definition]:
        steps = self._effects.steps(part)
        return [*steps.sure, *steps.possible]

    def _place(self, part: FunctionValue) -> tuple[bool, str, int, int]:
        outline = part.outline
        assert outline is not None
        is_module = outline is part.file.outline.module
        return (not is_module, str(part.file.path), outline.line, outline.column)


def _is_constructor(part: FunctionValue) -> bool:
    outline = part.outline
    return outline is not None and outline.owner is not None and outline.name == "__init__"


def _is_abstract(method: FunctionValue) -> bool:
    return method.outline is None or method.outline.abstract
