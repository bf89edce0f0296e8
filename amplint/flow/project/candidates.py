"""Which classes a model may be of whose making nothing is known: ``model = build_model(config)``.

``candidates.forwards(file, given)`` gives the forwards of the modules that a call with such arguments may mean. A class
is a candidate if code that the file imports, directly or not, names it outside of modules: a factory, a registry, a
table, a decorator, or a table of files, of one of which it calls such a class. What other modules name, in a function
that they call too, is a part of these, and is walked with them. What a function of another package has made can be such
a class only if the class was registered there, or a function that makes it: ``@timm.models.register_model``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from amplint.events import GivenArguments
from amplint.flow.project.edges import Definition, Edges, definitions_in
from amplint.flow.project.meanings import Assigned
from amplint.flow.project.signatures import takes
from amplint.flow.state.values import ClassValue, External, FunctionValue, ModuleFile, Value
from amplint.source.facts import facts_of
from amplint.source.outline import children, dotted
from amplint.source.project import ProjectFile

MOST_READ = 300
"""A file that leads to more files says nothing of what it uses."""
MOST_CLASSES = 48
"""Of so many classes none is likelier than the others."""
_MODULES = "torch.nn."
_NO_REGISTRIES = frozenset({"torch", *sys.stdlib_module_names})
"""Packages whose decorators leave a class where it is: ``@torch.jit.script``, ``@dataclass``."""


class Candidates:
    """The modules that files lead to."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._known: dict[ProjectFile, list[ClassValue]] = {}
        self._made: dict[Value, set[str]] = {}
        """In which packages functions were registered that make a class."""
        self._registering: set[Definition] = set()
        """The functions for which that was asked."""
        self._imported: dict[ProjectFile, list[ProjectFile]] = {}

    def forwards(self, file: ProjectFile, given: GivenArguments) -> list[FunctionValue]:
        """The forwards that take the arguments, in the order of files and lines. None where there are too many."""
        known = self._known.get(file)
        if known is None:
            known = self._known[file] = self._in_reach(file)
        found = (self._edges.classes.find_method(value, "forward") for value in known)
        fitting = dict.fromkeys(
            method
            for value, method in zip(known, found, strict=True)
            if isinstance(method, FunctionValue) and takes(method, given)
            if not given.package or given.package in self._registered_in(value)
        )
        return list(fitting) if len(fitting) <= MOST_CLASSES else []

    def _in_reach(self, file: ProjectFile) -> list[ClassValue]:
        files = self._files_from(file)
        modules = [value for one in files for value in self._modules_in(one)]
        inside: set[Definition] = set(modules)
        for value in modules:
            inside |= set(self._edges.classes.methods(value).values())
        parts: set[Value] = {base for value in modules for base in self._edges.classes.bases(value)[1:]}
        parts |= self._made_by(inside)
        outside = [part for one in files for part in definitions_in(self._edges, one) if part not in inside]
        self._register(outside)
        named = {*self._named_by(outside), *self._in_tables(outside)}
        return [
            value
            for value in modules
            if value not in parts and (value in named or not self._registered_in(value) <= _NO_REGISTRIES)
        ]

    def _register(self, definitions: Iterable[Definition]) -> None:
        """Notes which classes are made by functions that a decorator of a package hands to that package."""
        for part in definitions:
            if part in self._registering or not isinstance(part, FunctionValue):
                continue
            self._registering.add(part)
            packages = self._decorated_by(part) - {"", *_NO_REGISTRIES}
            for value in self._made_by([part]) if packages else ():
                self._made.setdefault(value, set()).update(packages)

    def _registered_in(self, value: ClassValue) -> set[str]:
        """The packages of what decorates a class, or a function that makes it; empty text for what is defined in the
        project or not known."""
        return self._decorated_by(value) | self._made.get(value, set())

    def _decorated_by(self, value: ClassValue | FunctionValue) -> set[str]:
        node = value.outline.node if value.outline is not None else None
        return {self._package(value.file, one) for one in node.decorator_list} if node is not None else set()

    def _package(self, file: ProjectFile, decorator: ast.expr) -> str:
        name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
        found = self._edges.names.resolve(file, name) if name is not None else None
        found = self._edges.names.followed(found) if found is not None else None
        return found.name.partition(".")[0] if isinstance(found, External) else ""

    def _made_by(self, definitions: Iterable[Definition]) -> set[Value]:
        """What definitions name, by themselves or in functions that they call, but for a class that they are a part of:
        ``super(Model, self)`` makes no part."""
        found: set[Value] = set()
        pending = [*definitions]
        while pending:
            definition = pending.pop()
            own = (
                definition.outline.owner
                if isinstance(definition, FunctionValue) and definition.outline
                else None
            )
            for part in self._edges.of(definition).sure:
                if part not in found and not (isinstance(part, ClassValue) and part.outline is own):
                    found.add(part)
                    if isinstance(part, FunctionValue):
                        pending.append(part)
        return found

    def _named_by(self, definitions: Iterable[Definition]) -> Iterator[Definition]:
        """What definitions name, each by itself, and the tables of modules that they name."""
        seen: set[Definition] = set()
        pending = [*definitions]
        while pending:
            for part in self._edges.of(pending.pop()).sure:
                yield part
                if isinstance(part, Assigned) and part not in seen:
                    seen.add(part)
                    pending.append(part)

    def _in_tables(self, definitions: Iterable[Definition]) -> Iterator[ClassValue]:
        """The classes of files that definitions name, where they call such a class of something that they look up:
        ``{"a": a, "b": b}[name].Model(config)``."""
        bodies = [
            (part.file, body)
            for part in definitions
            if isinstance(part, FunctionValue) and part.outline is not None
            for body in facts_of(part.file.outline).of(part.outline).bodies()
        ]
        called = {call.method for _, body in bodies for call in body.calls if call.receiver == "item"}
        for file, body in bodies if called else ():
            meant = (self._edges.names.resolve(file, name) for name in body.loads)
            for held in (one.file for one in meant if isinstance(one, ModuleFile)):
                yield from (value for value in self._modules_in(held) if value.outline.qualified in called)

    def _modules_in(self, file: ProjectFile) -> Iterator[ClassValue]:
        for part in facts_of(file.outline).classes:
            value = ClassValue(file, part)
            if self._edges.classes.derives_from(value, _MODULES):
                yield value

    def _files_from(self, file: ProjectFile) -> list[ProjectFile]:
        """The files that are imported with a file, itself among them."""
        found = {file.path: file}
        pending = [file]
        while pending and len(found) <= MOST_READ:
            for after in self._imports_of(pending.pop()):
                if after.path not in found:
                    found[after.path] = after
                    pending.append(after)
        return [found[path] for path in sorted(found)] if len(found) <= MOST_READ else []

    def _imports_of(self, file: ProjectFile) -> list[ProjectFile]:
        known = self._imported.get(file)
        if known is None:
            paths = {
                path: None
                for name in _imported_in(file.outline.tree)
                for part in _modules_of(name)
                for path in self._places(file, part)
            }
            load = self._edges.names.project.load
            known = [after for path in paths if (after := load(path)) is not None]
            self._imported[file] = known
        return known

    def _places(self, file: ProjectFile, module: str) -> list[Path]:
        """The files that a module may be, as an import of a file writes it."""
        modules = self._edges.names.project.modules
        name = module.lstrip(".")
        if name != module:
            found = [modules.relative(file.path, len(module) - len(name), name)]
        else:
            found = [*modules.absolute(file.path, name)]
        return [place.path for place in found if place is not None and not place.is_folder]


def _imported_in(tree: ast.AST) -> Iterator[str]:
    """What a file imports, at whatever depth, as it is written."""
    pending = [tree]
    while pending:
        node = pending.pop()
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, level=level, names=names):
                source = "." * level + (module or "")
                joint = "" if source.endswith(".") else "."
                yield source
                yield from (f"{source}{joint}{alias.name}" for alias in names if alias.name != "*")
            case ast.stmt() | ast.Module() | ast.ExceptHandler() | ast.match_case():
                pending += children(node)


def _modules_of(name: str) -> Iterator[str]:
    """A module and the packages that are imported with it."""
    while name.strip("."):
        yield name
        name = name.rpartition(".")[0]
