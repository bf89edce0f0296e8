"""What decorators and statements of modules put into a dict, list or object of a module, when the project is imported.

``registrations.of(file, name)`` gives, for ``LOSSES = {}`` or ``LOSSES = Registry("loss")``, the definitions and
statements that fill it::

    @register("dice")
    class DiceLoss(nn.Module): ...

    LOSSES["focal"] = FocalLoss

All files of the project that can import the registry, or what fills it, count, but for tests and the like: which of
them a program imports is not asked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from amplint.flow.core.machine import Lines
from amplint.flow.project.edges import Edges
from amplint.flow.project.meanings import Assigned
from amplint.flow.state.values import ClassValue, FunctionValue
from amplint.source.facts import facts_of
from amplint.source.outline import ClassOutline, FunctionOutline, dotted
from amplint.source.project import ProjectFile

MOST_REGISTERED = 100
"""What holds more is left alone: none of so many is likelier than the others."""
MOST_FILES = 100
"""A name that more files import is no registry."""

Registered = ClassValue | FunctionValue | Lines


class Registrations:
    """What fills the registries of a project."""

    def __init__(self, edges: Edges, in_passing: Callable[[Path], bool]) -> None:
        self._edges = edges
        self._in_passing = in_passing
        self._known: dict[tuple[ProjectFile, str], list[Registered]] = {}

    def of(self, file: ProjectFile, name: str) -> list[Registered]:
        """What fills what a module binds to a name, in the order of files and lines; nothing if that is too much."""
        known = self._known.get((file, name))
        if known is None:
            known = self._known[file, name] = self._found(file, name)
        return known

    def _found(self, file: ProjectFile, name: str) -> list[Registered]:
        registry = Assigned(file, name)
        fillers = self._fillers(file, registry)
        found: list[Registered] = [*self._statements(file, name)]
        names = [name, *fillers] if fillers or self._registers(file, name) else []
        if names:
            for one in self._files(file, names):
                found += self._decorated(one, registry, set(fillers.values()))
                if len(found) > MOST_REGISTERED:
                    return []
        return found if len(found) <= MOST_REGISTERED else []

    def _fillers(self, file: ProjectFile, registry: Assigned) -> dict[str, FunctionValue]:
        """The functions of the file that use the registry and may decorate: ``register``."""
        found = {}
        for part in facts_of(file.outline).functions:
            if part.owner is None and "." not in part.qualified and _may_decorate(file, part):
                function = self._edges.names.function(file, part)
                parts = [function, *(one for one in self._edges.of(function).sure if one.file is file)]
                if any(registry in self._edges.of(one).sure for one in parts):
                    found[part.name] = function
        return found

    def _registers(self, file: ProjectFile, name: str) -> bool:
        """Whether a name of a module is an object of a class of the project one of whose methods may decorate."""
        made = self._edges.made_in_module(file, name)
        if not isinstance(made, ClassValue):
            return False
        return any(
            method is not None and method.outline is not None and _may_decorate(method.file, method.outline)
            for base in self._edges.classes.bases(made)
            if isinstance(base, ClassValue)
            for method in self._edges.classes.methods(base).values()
        )

    def _files(self, file: ProjectFile, names: list[str]) -> list[ProjectFile]:
        """The file and those that can import one of some names from it, by way of packages, too."""
        project = self._edges.names.project
        found = {file.path: file}
        pending = [file]
        while pending and len(found) <= MOST_FILES:
            source = pending.pop()
            paths = {path for name in names for path in project.importers(source.display, name)}
            for path in sorted(paths - found.keys()):
                after = project.load(path) if not self._in_passing(path) else None
                if after is not None:
                    found[path] = after
                    if after.is_package:
                        pending.append(after)
        return [found[path] for path in sorted(found)] if len(found) <= MOST_FILES else []

    def _decorated(
        self, file: ProjectFile, registry: Assigned, fillers: set[FunctionValue]
    ) -> Iterator[ClassValue | FunctionValue]:
        facts = facts_of(file.outline)
        parts: list[ClassOutline | FunctionOutline] = [*facts.classes, *facts.functions]
        for part in sorted(parts, key=lambda part: part.line):
            if "<locals>" in part.qualified:
                continue
            for decorator in facts.of(part).decorators:
                if decorator.name is not None and self._fills(file, decorator.name, registry, fillers):
                    if isinstance(part, ClassOutline):
                        yield ClassValue(file, part)
                    else:
                        yield self._edges.names.function(file, part)
                    break

    def _fills(self, file: ProjectFile, name: str, registry: Assigned, fillers: set[FunctionValue]) -> bool:
        for meaning in self._edges.names.meanings(file, name):
            found = self._edges.names.followed(meaning)
            if found in fillers:
                return True
            if isinstance(found, Assigned) and (found.file, found.name) == (registry.file, registry.name):
                return True
        return False

    def _statements(self, file: ProjectFile, name: str) -> Iterator[Lines]:
        """The statements of the module itself that set an item: ``LOSSES["focal"] = FocalLoss``."""
        for part in file.outline.tree.body:
            match part:
                case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner))]) if owner == name:
                    yield Lines(file, part.lineno, part.end_lineno or part.lineno)


def _may_decorate(file: ProjectFile, function: FunctionOutline) -> bool:
    """Whether a function gives back what it is given, or has a function inside it that does."""
    facts = facts_of(file.outline).of(function)
    inner = [part for part in facts.nested if isinstance(part, FunctionOutline)]
    parts = [facts, *map(facts_of(file.outline).of, inner)]
    return any(dotted(value) in part.parameters for part in parts for value in part.body.returned)
