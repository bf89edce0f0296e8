"""What decorators and statements of modules put into a dict, list or object of a module, when the project is imported.

``registrations.of(file, name)`` gives, for ``LOSSES = {}`` or ``LOSSES = Registry("loss")``, the definitions and
statements that fill it::

    @register("dice")
    class DiceLoss(nn.Module): ...

    LOSSES["focal"] = FocalLoss

All files of the project that can import the registry, or what fills it, count, but for tests and the like: which of
them a program imports is not asked.

``held(edges)`` gives, for all registries at once, the classes and functions of the files of a graph that get into them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from amplint.flow.core.machine import Lines
from amplint.flow.project.edges import Definition, Edges
from amplint.flow.project.meanings import Assigned
from amplint.flow.state.values import ClassValue, External, FunctionValue
from amplint.source.bodies import Body
from amplint.source.facts import Scope, facts_of
from amplint.source.outline import ClassOutline, FunctionOutline, dotted
from amplint.source.project import ProjectFile

MOST_REGISTERED = 100
"""What holds more is left alone: none of so many is likelier than the others."""
MOST_FILES = 100
"""A name that more files import is no registry."""

_READING = frozenset({"get", "keys", "values", "items"})
"""Methods of a dict that put nothing into it."""

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
                within = (one for one in self._edges.of(function).sure if one.file is file)
                parts = [function, *(one for one in within if isinstance(one, FunctionValue))]
                if any(registry in filled_in(self._edges, one) for one in parts):
                    found[part.name] = function
        return found

    def _registers(self, file: ProjectFile, name: str) -> bool:
        """Whether a name of a module is an object of a class of the project one of whose methods may decorate."""
        made = self._edges.made_in_module(file, name)
        if not isinstance(made, ClassValue):
            return False
        return any(
            method.outline is not None and _may_decorate(method.file, method.outline)
            for method in self._edges.classes.all_methods(made)
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


def held(edges: Edges) -> dict[Assigned, dict[Definition, None]]:
    """What the registries of some files hold: ``LOSSES`` the classes ``DiceLoss`` and ``FocalLoss``."""
    found: dict[Assigned, dict[Definition, None]] = {}
    for file in edges.files:
        for registry, definition in (*_held_by_decorators(edges, file), *_held_by_items(edges, file)):
            found.setdefault(registry, {})[definition] = None
    return found


def _held_by_decorators(edges: Edges, file: ProjectFile) -> Iterator[tuple[Assigned, Definition]]:
    facts = facts_of(file.outline)
    classes: list[tuple[Scope, Definition]] = [(part, ClassValue(file, part)) for part in facts.classes]
    functions = [(part, edges.names.function(file, part)) for part in facts.functions]
    for part, definition in (*classes, *functions):
        for decorator in facts.of(part).decorators:
            if decorator.name is not None and "<locals>" not in part.qualified:
                yield from ((registry, definition) for registry in _filled_by(edges, file, decorator.name))


def _filled_by(edges: Edges, file: ProjectFile, name: str) -> Iterator[Assigned]:
    """The registries that a decorator puts something into: one whose method it is, or that its function uses."""
    for meaning in edges.named(file, name, None):
        match meaning:
            case Assigned(file=owner, name=of):
                if isinstance(edges.made_in_module(owner, of), ClassValue):
                    yield Assigned(owner, of)
            case FunctionValue() if decorates(meaning):
                within = [one for one in edges.of(meaning).sure if isinstance(one, FunctionValue)]
                filled = {one: None for part in (meaning, *within) for one in filled_in(edges, part)}
                yield from (one for one in filled if _is_of_project(edges, one))


def filled_in(edges: Edges, function: FunctionValue) -> list[Assigned]:
    """The names of modules into whose values a function may put something: under a key, by a method, or by a function
    that it hands them to. What is only looked up in, ``LOSSES[name]``, ``name in LOSSES``, is not filled."""
    if function.outline is None:
        return []
    body = facts_of(function.file.outline).of(function.outline).body
    names = {name for name, _ in body.puts}
    for call in body.calls:
        owner, dot, method = (call.name or "").rpartition(".")
        if dot and method not in _READING:
            names.add(owner)
        handed = [*call.node.args, *(word.value for word in call.node.keywords)]
        if handed and call.name is not None and not _is_builtin(edges, function, call.name):
            names |= {name for value in handed if (name := dotted(value)) is not None}
    for name in names & body.stores.keys():  # ``table = TABLES[kind]``
        names |= Body([store.value for store in body.stores[name] if store.value is not None]).loads
    found = (one for name in sorted(names) for one in edges.named(function.file, name, function.outline))
    return list(dict.fromkeys(Assigned(one.file, one.name) for one in found if isinstance(one, Assigned)))


def _is_builtin(edges: Edges, function: FunctionValue, name: str) -> bool:
    found = edges.named(function.file, name, function.outline)
    return any(isinstance(one, External) and one.name.startswith("builtins.") for one in found)


def _is_of_project(edges: Edges, value: Assigned) -> bool:
    """Whether the project sees what gets into a value: a dict or list, or an object of a class of its own."""
    made = edges.made_in_module(value.file, value.name)
    return not isinstance(made, External) or made.name.startswith(("builtins.", "collections."))


def _held_by_items(edges: Edges, file: ProjectFile) -> Iterator[tuple[Assigned, Definition]]:
    for part in file.outline.tree.body:
        match part:
            case ast.Assign(targets=[ast.Subscript(value=owner)], value=value):
                name, of = dotted(value), dotted(owner)
                if name is None or of is None:
                    continue
                registries = [one for one in edges.named(file, of, None) if isinstance(one, Assigned)]
                for meaning in edges.named(file, name, None):
                    if isinstance(meaning, (ClassValue, FunctionValue)):
                        yield from ((Assigned(one.file, one.name), meaning) for one in registries)


def decorates(function: FunctionValue) -> bool:
    """Whether a function may be a decorator that gives back what it is given or a function around it, or may make
    one."""
    return function.outline is not None and _may_decorate(function.file, function.outline)


def _may_decorate(file: ProjectFile, function: FunctionOutline) -> bool:
    """Whether a function gives back what it is given, or a function inside it that does so or stands for it."""
    facts = facts_of(file.outline).of(function)
    inner = [part for part in facts.nested if isinstance(part, FunctionOutline)]
    parts = [facts, *map(facts_of(file.outline).of, inner)]
    names = {part.name for part in inner}
    return any(dotted(value) in (*part.parameters, *names) for part in parts for value in part.body.returned)
