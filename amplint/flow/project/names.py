"""What a dotted name means in a file of the project, across files and without evaluating anything.

* ``names.resolve(file, "engine.train")``: its meaning, or None for a local name of unknown value or one that nobody
  binds. ``scope`` is the function or class in which the name stands.
* ``names.meanings(…)``: all that it may mean, where conditions decide; the first is what ``resolve`` gives.
* ``names.imported(file, ".engine.train")``: what an import statement binds.
* ``names.attribute(meaning, "train")``: what an attribute of a module, package or outside name means.
* ``names.global_bindings(file, "scaler")``: everything that binds a name of a module, in the order of the text.
* ``names.followed(meaning)``: a name that a statement only sets to another one, ``cast = torch.autocast``, is that.

``knows`` says whether a qualified name outside is one that models know; it tells which of several star imports
(``from torch import *``) a name comes from, and whether it hides a builtin. Files that are not ``within`` are not
read: what they give is unseen.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from amplint.amp.reexports import public
from amplint.flow.project.meanings import UNSEEN, Assigned, Folder, Meaning, Member
from amplint.flow.state.values import ClassValue, External, FunctionValue, ModuleFile
from amplint.source.bindings import (
    Binding,
    Bindings,
    ClassBinding,
    FunctionBinding,
    ImportBinding,
    Star,
    StatementBinding,
)
from amplint.source.facts import FileFacts, Scope, facts_of
from amplint.source.modules import Location
from amplint.source.outline import FunctionOutline, dotted
from amplint.source.project import Project, ProjectFile
from amplint.source.words import STAR

_ALL = re.compile(rb"^__all__[ \t]*=[ \t]*[\[(]([^\])=]*)[\])][ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
_QUOTED = re.compile(rb"[\w]+")
_BUILTINS = frozenset(dir(builtins))
_MOST_MEANINGS = 8
_MOST_STEPS = 32
"""So many times a name may be set to another one, and so on."""

Way = frozenset[tuple[str, str]]
"""The names of modules that are being looked up, by file and name: imports may go in circles."""


class Names:
    """Resolution of names in one project."""

    def __init__(
        self,
        project: Project,
        knows: Callable[[str], bool] = lambda name: False,
        within: Callable[[Path], bool] = lambda path: True,
    ) -> None:
        self.project = project
        self._within = within
        self._knows = knows
        self._globals: dict[tuple[str, str], tuple[Meaning, ...]] = {}
        self._functions: dict[FunctionOutline, FunctionValue] = {}
        self._listed: dict[Path, frozenset[bytes] | None] = {}
        self._starry: dict[Path, bool] = {}
        self._outside_of: dict[Path, list[External]] = {}
        self._cut = False

    # what is asked

    def resolve(self, file: ProjectFile, name: str, scope: Scope | None = None) -> Meaning | None:
        """The meaning of a dotted name, or None."""
        return next(iter(self.meanings(file, name, scope)), None)

    def meanings(self, file: ProjectFile, name: str, scope: Scope | None = None) -> tuple[Meaning, ...]:
        """All meanings of a dotted name."""
        first, *rest = name.split(".")
        found = self._in_scopes(file, first, scope)
        for part in rest:
            found = _unique(after for one in found for after in self._attributes(one, part, frozenset()))
        return found

    def imported(self, file: ProjectFile, target: str) -> Meaning | None:
        """What an import binds, by its target as Outline.imports and programs write it."""
        return next(iter(self._imported(file, target, frozenset())), None)

    def attribute(self, meaning: Meaning, name: str) -> Meaning | None:
        """An attribute."""
        return next(iter(self._attributes(meaning, name, frozenset())), None)

    def global_bindings(self, file: ProjectFile, name: str) -> list[Binding]:
        """What binds a name of a module, stars not counted."""
        return list(facts_of(file.outline).bindings.all.get(name, ()))

    def bound_beside(self, file: ProjectFile, name: str, line: int) -> int | None:
        """The last line of the branch of a module that a line is part of, if that branch binds a name above it and
        nothing below the statement does: ``except ImportError:`` with an import and a function that calls it."""
        bindings = self.global_bindings(file, name)
        if len(bindings) < 2:
            return None
        branch = branch_of(file.outline.tree.body, line)
        if branch is None:
            return None
        first, last, end = branch
        beside = any(first <= one.line and one.end_line < last for one in bindings)
        return last if beside and all(one.line <= end for one in bindings) else None

    def global_meanings(self, file: ProjectFile, name: str) -> tuple[Meaning, ...]:
        """What a name of a module may mean at the end of its body. Submodules of a package are none of it."""
        return self._global(file, name, frozenset())

    def followed(self, meaning: Meaning) -> Meaning:
        """What a name that is set once, to another name, means in the end."""
        for _ in range(_MOST_STEPS):
            after = self._followed_once(meaning)
            if after is None:
                break
            meaning = after
        return meaning

    def function(self, file: ProjectFile, outline: FunctionOutline) -> FunctionValue:
        """The value of a function of the project."""
        known = self._functions.get(outline)
        if known is None:
            known = FunctionValue(file, outline, undecorated=not outline.decorated)
            self._functions[outline] = known
        return known

    def starred(self, file: ProjectFile, star: Star) -> ProjectFile | None:
        """The module of the project of which a star import takes the names."""
        found = self._module(file, star.module, None)
        return found.file if isinstance(found, ModuleFile) and found.file is not file else None

    # scopes

    def _in_scopes(self, file: ProjectFile, name: str, scope: Scope | None) -> tuple[Meaning, ...]:
        facts = facts_of(file.outline)
        innermost = True
        while scope is not None and scope is not file.outline.module:
            is_function = isinstance(scope, FunctionOutline)
            if is_function or innermost:  # functions do not see the names of a class around them
                inner = facts.of(scope)
                if inner.defines and name in inner.bindings.all and name not in inner.body.elsewhere:
                    return self._bound(file, facts, inner.bindings, name)
                if inner.is_local(name):
                    return ()
            innermost = False
            scope = facts.around(scope)
        return self._global(file, name, frozenset()) or self._outside(file, facts, name)

    def _bound(
        self, file: ProjectFile, facts: FileFacts, bindings: Bindings, name: str
    ) -> tuple[Meaning, ...]:
        """What a local name stands for: an import or a definition in the function."""
        options = bindings.at_end(name)
        if any(isinstance(option, StatementBinding) for option in options):
            return ()
        return _unique(one for option in options for one in self._meaning(file, facts, option, frozenset()))

    # modules

    def _global(self, file: ProjectFile, name: str, way: Way) -> tuple[Meaning, ...]:
        key = (str(file.path), name)
        known = self._globals.get(key)
        if known is not None:
            return known
        if key in way:
            self._cut = True
            return ()
        before, self._cut = self._cut, False
        found = self._looked_up(file, name, way | {key})
        if not self._cut or not way:
            self._globals[key] = found
        # a search that was cut by another one above it is not the whole truth for anybody else
        self._cut = before or (self._cut and bool(way))
        return found

    def _looked_up(self, file: ProjectFile, name: str, way: Way) -> tuple[Meaning, ...]:
        facts = facts_of(file.outline)
        options = facts.bindings.at_end(name)
        last = max((option.order for option in options), default=0)
        further: list[Meaning] = []
        for star in reversed(facts.bindings.stars):
            if options and star.order < last:
                break
            given = self._given(file, star, name, way)
            if given and star.certain:
                return _unique([*given, *further])
            further += given
        own = [one for option in options for one in self._meaning(file, facts, option, way)]
        return _unique([*own, *further])

    def _meaning(
        self, file: ProjectFile, facts: FileFacts, binding: Binding, way: Way
    ) -> tuple[Meaning, ...]:
        match binding:
            case FunctionBinding(node=function):
                return (self.function(file, facts.function_of(function)),)
            case ClassBinding(node=node):
                return (ClassValue(file, facts.class_of(node)),)
            case ImportBinding(target=target, top=True):
                return self._top(file, binding.name, target)
            case ImportBinding(target=target):
                return self._imported(file, target, way)
        return (Assigned(file, binding.name),)

    def _given(self, file: ProjectFile, star: Star, name: str, way: Way) -> tuple[Meaning, ...]:
        """What ``from module import *`` of the project gives for a name; stars of outside come last of all."""
        if not self._may_give(file, star, name):
            return ()
        source = self.starred(file, star)
        if source is None:
            return ()
        exports = facts_of(source.outline).exports
        if (name.startswith("_") if exports is None else name not in exports) or name == "__all__":
            return ()
        found = self._global(source, name, way)
        return found or (self._submodule(ModuleFile(source), name) if exports is not None else ())

    def _may_give(self, file: ProjectFile, star: Star, name: str | None) -> bool:
        """Whether the bytes of a module that nobody has read so far allow that it gives a name (None: one of a star
        import in it): packages hand on hundreds of modules by stars, of which one has the name."""
        found = self._first(file, star.module)
        if found is not None and not found.is_folder and not self._within(found.path):
            return False
        if found is None or found.is_folder or self.project.is_loaded(found.path):
            return True
        data = self.project.bytes_of(found.path)
        if name is None or name.encode() not in data:
            return self._has_star(found.path, data) or (name is not None and not name.isascii())
        exports = self._exports(found.path, data)
        return exports is None or name.encode() in exports

    def _has_star(self, path: Path, data: bytes) -> bool:
        """Whether something in a module that nobody has read looks like a star import."""
        if path not in self._starry:
            self._starry[path] = STAR.search(data) is not None
        return self._starry[path]

    def _exports(self, path: Path, data: bytes) -> frozenset[bytes] | None:
        """``__all__`` of a module that nobody has read, if it is one plain list."""
        if path not in self._listed:
            lists = _ALL.findall(data) if data.count(b"__all__") == 1 else []
            plain = len(lists) == 1 and b"\\" not in lists[0]
            self._listed[path] = frozenset(_QUOTED.findall(lists[0])) if plain else None
        return self._listed[path]

    def _first(self, file: ProjectFile, module: str) -> Location | None:
        """The place of a module, if there is one place alone that it can mean."""
        level = len(module) - len(module.lstrip("."))
        if level:
            return self.project.modules.relative(file.path, level, module[level:])
        found = self.project.modules.absolute(file.path, module)
        return found[0] if len(found) == 1 and not found[0].weak else None

    def _outside(self, file: ProjectFile, facts: FileFacts, name: str) -> tuple[Meaning, ...]:
        """A name that nothing in sight binds: of a star import of a package outside, or a builtin."""
        qualified = [public(f"{package.name}.{name}") for package in self._stars(file) if package.name]
        known = next((one for one in qualified if self._knows(one)), None)
        if known is not None:
            return (External(known),)
        if name in _BUILTINS:
            return (External(f"builtins.{name}"),)
        return (External(qualified[0]),) if qualified else ()

    def _stars(self, file: ProjectFile) -> list[External]:
        """The packages outside of which a module has everything, the last import first."""
        known = self._outside_of.get(file.path)
        if known is None:
            known = self._outside_of[file.path] = self._stars_outside(file, frozenset())
        return known

    def _stars_outside(self, file: ProjectFile, way: frozenset[str]) -> list[External]:
        found: list[External] = []
        if str(file.path) in way:
            return found
        for star in reversed(facts_of(file.outline).bindings.stars):
            if not self._may_give(file, star, None):
                continue
            match self._module(file, star.module, None):
                case External(name=name) as outside if not name.startswith(UNSEEN):
                    found.append(outside)
                case ModuleFile(file=inner) if facts_of(inner.outline).exports is None:
                    found += self._stars_outside(inner, way | {str(file.path)})
        return list(dict.fromkeys(found))

    # imports

    def _imported(self, file: ProjectFile, target: str, way: Way) -> tuple[Meaning, ...]:
        level = len(target) - len(target.lstrip("."))
        parent, _, last = target[level:].rpartition(".")
        if not parent and not level:
            return (self._module(file, target, None),)
        source = self._module(file, "." * level + parent, last)
        return self._attributes(source, last, way)

    def _top(self, file: ProjectFile, name: str, target: str) -> tuple[Meaning, ...]:
        """What ``import a.b.c`` binds: ``a`` from where ``a.b.c`` is found."""
        for location in self.project.modules.absolute(file.path, target):
            if self._accepts(file, location, target, name if target == name else None):
                top = self.project.modules.submodule(location.base, name)
                if top is not None:
                    return (self._at(top, name),)
        return (External(name),) if target != name else (self._module(file, name, None),)

    def _module(self, file: ProjectFile, module: str, wanted: str | None) -> Meaning:
        """The module of an import, of which an attribute is wanted (None: itself)."""
        level = len(module) - len(module.lstrip("."))
        name = module[level:]
        if level:
            found = self.project.modules.relative(file.path, level, name)
            return self._at(found, UNSEEN + module) if found is not None else External(UNSEEN + module)
        locations = self.project.modules.absolute(file.path, name)
        if len(locations) == 1 and not locations[0].weak:
            return self._at(locations[0], name)
        for location in locations:
            if self._binds(location, wanted) if wanted is not None else self._accepts(file, location, name):
                return self._at(location, name)
        firm = next((location for location in locations if not location.weak), None)
        if firm is not None and not firm.is_folder:
            return self._at(firm, name)
        return External(name)

    def _accepts(self, file: ProjectFile, location: Location, module: str, name: str | None = None) -> bool:
        """Whether ``import module`` may mean a place. A guess has to have all that the file reads of it."""
        if not location.weak:
            return True
        read = facts_of(file.outline).attributes_read.get(name or module, frozenset())
        return bool(read) and all(self._binds(location, attribute) for attribute in read)

    def _binds(self, location: Location, name: str) -> bool:
        """Whether a module has a name: by its statements, or as a submodule."""
        found = self._at(location, "")
        if isinstance(found, ModuleFile):
            bindings = facts_of(found.file.outline).bindings
            if name in bindings.all or bindings.stars or "__getattr__" in bindings.all:
                return True
        return isinstance(found, (ModuleFile, Folder)) and bool(self._submodule(found, name))

    def _at(self, location: Location, name: str) -> ModuleFile | Folder | External:
        if location.is_folder:
            return Folder(location.path, name)
        loaded = self.project.load(location.path) if self._within(location.path) else None
        return ModuleFile(loaded) if loaded is not None else External(UNSEEN + name.lstrip(UNSEEN))

    # attributes

    def _attributes(self, meaning: Meaning, name: str, way: Way) -> tuple[Meaning, ...]:
        match meaning:
            case External(name=qualified):
                return (External(public(f"{qualified}.{name}")),)
            case Folder():
                return self._submodule(meaning, name) or (External(_joined(meaning.name, name)),)
            case ModuleFile(file=file):
                facts = facts_of(file.outline)
                found = self._global(file, name, way) or self._submodule(meaning, name)
                if not found and (str(file.path), name) in way:
                    return (External(f"{UNSEEN}a circle of imports"),)
                return found or self._from_outside(file, facts, name)
            case ClassValue():
                return (Member(meaning, (name,)),)
            case Member(owner=owner, rest=rest):
                return (Member(owner, (*rest, name)),)
            case Assigned(file=file, name=first, rest=rest):
                return (Assigned(file, first, (*rest, name)),)
        return ()

    def _from_outside(self, file: ProjectFile, facts: FileFacts, name: str) -> tuple[Meaning, ...]:
        """An attribute of a module that nothing in sight binds: of a star import, or made by ``__getattr__``."""
        stars = self._stars(file)
        known = next((one for one in stars if self._knows(f"{one.name}.{name}")), None)
        if known is not None or len(stars) == 1:
            return (External(public(f"{(known or stars[0]).name}.{name}")),)
        return (External(f"{UNSEEN}{file.module}.{name}"),)

    def _submodule(self, package: ModuleFile | Folder, name: str) -> tuple[Meaning, ...]:
        if isinstance(package, ModuleFile):
            if not package.file.is_package:
                return ()
            folder: Path = package.file.path.parent
        else:
            folder = package.path
        found = self.project.modules.submodule(folder, name)
        qualified = _joined(package.name, name) if isinstance(package, Folder) else name
        return (self._at(found, qualified),) if found is not None else ()

    def _followed_once(self, meaning: Meaning) -> Meaning | None:
        if not isinstance(meaning, Assigned):
            return None
        file = meaning.file
        options = facts_of(file.outline).bindings.at_end(meaning.name)
        match options:
            case [StatementBinding(value=value)] if value is not None:
                name = dotted(value)
            case _:
                return None
        if name is None:
            return None
        after = self.resolve(file, name)
        for part in meaning.rest:
            after = self.attribute(after, part) if after is not None else None
        return after if after != meaning else None


def _joined(package: str, name: str) -> str:
    return f"{package}{name}" if package.endswith(".") else f"{package}.{name}"


def _unique(found: Iterable[Meaning]) -> tuple[Meaning, ...]:
    return tuple(list(dict.fromkeys(found))[:_MOST_MEANINGS])


def branch_of(body: list[ast.stmt], line: int) -> tuple[int, int, int] | None:
    """The first and the last line of the innermost branch of an ``if`` or ``try`` around a line outside of functions
    and classes, and the last line of the whole statement; None if there is none."""
    part = statement_at(body, line)
    branches: list[list[ast.stmt]] = []
    match part:
        case ast.If():
            branches = [part.body, part.orelse]
        case ast.Try():
            branches = [part.body, *(handler.body for handler in part.handlers), part.orelse]
    for branch in branches:
        if branch and branch[0].lineno <= line <= (branch[-1].end_lineno or branch[-1].lineno):
            assert part is not None
            inner = branch_of(branch, line)
            end = branch[-1].end_lineno or branch[-1].lineno
            return inner or (branch[0].lineno, end, part.end_lineno or part.lineno)
    return None


def statement_at(body: list[ast.stmt], line: int) -> ast.stmt | None:
    """The statement of a body that a line is part of."""
    return next((part for part in body if part.lineno <= line <= (part.end_lineno or part.lineno)), None)
