"""Where the names of a file are bound: which scope a name belongs to, the imports there, and what else binds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from amplint.fixes.names import imported_from
from amplint.fixes.parsed import ParsedFile, Refusal

_COMPREHENSIONS = (cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp)
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_BY_TARGET = (
    cst.AssignTarget,
    cst.AnnAssign,
    cst.AugAssign,
    cst.For,
    cst.CompFor,
    cst.NamedExpr,
    cst.Del,
)
_BY_NAME = (
    cst.AsName,
    cst.Param,
    cst.FunctionDef,
    cst.ClassDef,
    cst.MatchAs,
    cst.MatchStar,
    cst.TypeAlias,
    cst.TypeVar,
    cst.TypeVarTuple,
    cst.ParamSpec,
)
_SCOPES = (cst.Module, cst.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS)


@dataclass(frozen=True)
class Binding:
    """The import that binds a name: its statement, the line on which that stands, and its part of it."""

    name: str
    statement: cst.Import | cst.ImportFrom
    alias: cst.ImportAlias
    target: str
    place: cst.CSTNode | None

    @property
    def line(self) -> cst.SimpleStatementLine:
        """The line of the statement. Raises Refusal where that is one of something else: ``if x: import y``."""
        if not isinstance(self.place, cst.SimpleStatementLine):
            raise Refusal("an import stands on the line of something else")
        return self.place

    def at_top(self, file: ParsedFile) -> bool:
        """Whether it is imported whenever the file is."""
        return isinstance(self.place, cst.SimpleStatementLine) and file.parent(self.place) is file.module


def bindings(file: ParsedFile) -> Iterator[Binding]:
    """All that the import statements of a file bind, wherever they stand."""
    for statement in file.nodes(cst.Import):
        for alias in statement.names:
            name = alias.evaluated_name
            local = alias.evaluated_alias
            target = name if local is not None else name.partition(".")[0]
            yield Binding(local or target, statement, alias, target, file.parent(statement))
    for source in file.nodes(cst.ImportFrom):
        if not isinstance(source.names, cst.ImportStar):
            module = imported_from(source)
            for alias in source.names:
                name = alias.evaluated_name
                target = f"{module}{'' if module.endswith('.') else '.'}{name}"
                yield Binding(alias.evaluated_alias or name, source, alias, target, file.parent(source))


@dataclass
class Scope:
    """A module, class, function or comprehension: what imports bind in it, and what else binds or deletes a name. A
    name that it declares ``global`` or ``nonlocal`` is bound further out."""

    node: cst.CSTNode
    around: Scope | None
    imports: dict[str, list[Binding]] = field(default_factory=dict)
    others: dict[str, list[cst.Name]] = field(default_factory=dict)
    declared: dict[str, type[cst.CSTNode]] = field(default_factory=dict)

    def binds(self, name: str) -> bool:
        """Whether the name is bound here."""
        return name in self.imports or name in self.others


class Scopes:
    """The scopes of one file."""

    def __init__(self, file: ParsedFile) -> None:
        self._file = file
        self._of: dict[cst.CSTNode, Scope] = {file.module: Scope(file.module, None)}
        self.module = self._of[file.module]
        declarations: list[cst.Global | cst.Nonlocal] = [*file.nodes(cst.Global), *file.nodes(cst.Nonlocal)]
        for statement in declarations:
            names = {item.name.value: type(statement) for item in statement.names}
            self.around(statement).declared.update(names)
        for binding in bindings(file):
            scope = self._home(binding.name, self.around(binding.statement))
            scope.imports.setdefault(binding.name, []).append(binding)
        self.bound = frozenset(self._bound())
        """The names that are bound or deleted where they stand, those behind `as` in imports included."""
        for name in self._bound():
            if not isinstance(file.parent(file.parent(name) or name), cst.ImportAlias):
                scope = self._home(name.value, self._binding(name))
                scope.others.setdefault(name.value, []).append(name)

    def around(self, node: cst.CSTNode) -> Scope:
        """The scope that an expression or statement is evaluated in."""
        child, outer = node, self._file.parent(node)
        while outer is not None and not (isinstance(outer, _SCOPES) and _holds(outer, child)):
            if isinstance(outer, cst.CompFor) and child is outer.iter:
                above = self._file.parent(outer)
                if isinstance(above, _COMPREHENSIONS):
                    outer = above  # what is iterated first is evaluated around the comprehension
            child, outer = outer, self._file.parent(outer)
        if outer is None:
            return self.module
        known = self._of.get(outer)
        if known is None:
            known = self._of[outer] = Scope(outer, self.around(outer))
        return known

    def all(self) -> Iterable[Scope]:
        """The scopes that bind or declare anything."""
        return self._of.values()

    def found(self, name: str, place: cst.CSTNode) -> Scope | None:
        """The scope in which a name is bound that is, or would be, read at a place; None if that is none here."""
        start = self.around(place)
        scope: Scope | None = start
        while scope is not None:
            if name in scope.declared:
                scope = self._home(name, scope)
                return scope if scope.binds(name) else None
            if scope.binds(name) and (scope is start or not isinstance(scope.node, cst.ClassDef)):
                return scope
            scope = scope.around
        return None

    def _bound(self) -> Iterator[cst.Name]:
        for kind in (*_BY_TARGET, *_BY_NAME, cst.MatchMapping):
            for node in self._file.nodes(kind):
                yield from _bound_by(node)

    def _binding(self, name: cst.Name) -> Scope:
        """The scope in which a name stands that is bound there, declarations aside."""
        outer = self._file.parent(name)
        if isinstance(outer, cst.FunctionDef | cst.ClassDef):
            return self.around(outer)
        if isinstance(outer, cst.Param | cst.TypeVar | cst.TypeVarTuple | cst.ParamSpec):
            owner = next(
                part
                for part in self._file.parents(outer)
                if isinstance(part, cst.FunctionDef | cst.Lambda | cst.ClassDef | cst.TypeAlias)
            )
            return self.around(owner if isinstance(owner, cst.TypeAlias) else owner.body)
        scope = self.around(name)
        while isinstance(outer, cst.NamedExpr) and isinstance(scope.node, _COMPREHENSIONS):
            assert scope.around is not None
            scope = scope.around
        return scope

    def _home(self, name: str, scope: Scope) -> Scope:
        """The scope that a name which is bound in ``scope`` belongs to by its declarations."""
        declared = scope.declared.get(name)
        if declared is cst.Global:
            return self.module
        while name in scope.declared and scope.around is not None:
            scope = scope.around
            while not isinstance(scope.node, _FUNCTIONS) and scope.around is not None:
                scope = scope.around
        return scope


def _holds(scope: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Whether what stands in a part of a scope is evaluated in the scope, and not around it."""
    match scope:
        case cst.FunctionDef() | cst.Lambda() | cst.ClassDef():
            return part is scope.body
        case cst.GeneratorExp() | cst.ListComp() | cst.SetComp() | cst.DictComp():
            return True
    return isinstance(scope, cst.Module)


_KNOWN: dict[ParsedFile, Scopes] = {}


def scopes_of(file: ParsedFile) -> Scopes:
    """The scopes of a file, kept until another one is asked for."""
    known = _KNOWN.get(file)
    if known is None:
        _KNOWN.clear()
        known = _KNOWN[file] = Scopes(file)
    return known


class _Bound(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[cst.Name] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.names += _bound_by(node)
        return not isinstance(node, cst.Import | cst.ImportFrom)


def bound_in(node: cst.CSTNode) -> set[str]:
    """The names that a piece of code binds or deletes by other means than an import."""
    visitor = _Bound()
    node.visit(visitor)
    return {name.value for name in visitor.names}


def times_bound_in(node: cst.CSTNode) -> Counter[str]:
    """The names of ``bound_in``, with how often each is bound."""
    visitor = _Bound()
    node.visit(visitor)
    return Counter(name.value for name in visitor.names)


def times_bound_at_top(file: ParsedFile) -> Counter[str]:
    """The names of the module itself that a file binds by other means than an import, functions that declare one of
    them ``global`` among them, with how often each is bound."""
    return Counter({name: len(places) for name, places in scopes_of(file).module.others.items()})


def _bound_by(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that a node itself binds or deletes."""
    if isinstance(node, _BY_TARGET):
        yield from _names(node.target)
    elif isinstance(node, _BY_NAME):
        yield from _names(node.name)
    elif isinstance(node, cst.MatchMapping):
        yield from _names(node.rest)


def _names(target: cst.CSTNode | None) -> Iterator[cst.Name]:
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _names(element.value)


def rebound(file: ParsedFile) -> Counter[str]:
    """The names that a file binds or deletes anywhere by other means than an import, and how often."""
    return Counter(
        {
            name: total
            for scope in scopes_of(file).all()
            for name, places in scope.others.items()
            if (total := len(places))
        }
    )
