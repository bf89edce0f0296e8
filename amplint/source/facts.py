"""What the ``ast`` of a file says, beyond its outline, of each definition in it.

``facts_of(outline)`` gives the facts of a file, ``facts.of(definition)`` those of a function, class or of the module
(``outline.module``). All are worked out when they are asked for, and once. Facts of a definition tell of its own body;
``uses``, ``passed``, ``reads`` and ``bodies`` count in the functions and classes that are nested in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from amplint.source.bindings import Bindings, FunctionNode, exported
from amplint.source.bodies import Body, Store, parameters_of
from amplint.source.outline import (
    ClassOutline,
    FunctionOutline,
    Outline,
    children,
    dotted,
    outline_class,
    outline_function,
)

Scope = FunctionOutline | ClassOutline


class Decorator(NamedTuple):
    """``@name``, or ``@name(…)`` if ``called``. ``name`` is None for other expressions."""

    name: str | None
    called: bool
    node: ast.expr


class Facts:
    """The facts of one definition."""

    def __init__(self, file: FileFacts, scope: Scope) -> None:
        self.file = file
        self.scope = scope

    @cached_property
    def body(self) -> Body:
        """What its own statements do: calls, stores, loads."""
        if self.scope is self.file.outline.module:
            return Body(self.file.outline.tree.body)
        return Body(self.scope.node.body if self.scope.node is not None else ())

    @property
    def bindings(self) -> Bindings:
        """What its own statements bind."""
        return self.file.bindings_of(self.scope)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of all its parameters, ``*args`` and ``**kwargs`` included."""
        arguments = self.scope.arguments if isinstance(self.scope, FunctionOutline) else None
        return tuple(parameters_of(arguments)) if arguments is not None else ()

    @cached_property
    def decorators(self) -> tuple[Decorator, ...]:
        """Its decorators, outermost first."""
        nodes = self.scope.node.decorator_list if self.scope.node is not None else []
        called = [isinstance(node, ast.Call) for node in nodes]
        names = [dotted(node.func if isinstance(node, ast.Call) else node) for node in nodes]
        return tuple(map(Decorator, names, called, nodes))

    @cached_property
    def functions(self) -> list[FunctionOutline]:
        """The functions that its own statements define."""
        return [self.file.function_of(node) for node in self.body.functions]

    @cached_property
    def classes(self) -> list[ClassOutline]:
        """The classes that its own statements define."""
        return [self.file.class_of(node) for node in self.body.classes]

    @cached_property
    def nested(self) -> list[Scope]:
        """All functions and classes inside it, however deep."""
        found: list[Scope] = []
        pending: list[Scope] = [*self.functions, *self.classes]
        while pending:
            part = pending.pop()
            found.append(part)
            inner = self.file.of(part)
            pending += [*inner.functions, *inner.classes]
        return found

    def bodies(self) -> Iterator[Body]:
        """Its body and those nested in it."""
        yield self.body
        for part in self.nested:
            yield self.file.of(part).body

    def is_local(self, name: str) -> bool:
        """Whether a name is one of its own: a parameter, or bound in its body."""
        body = self.body
        if name in body.elsewhere:
            return False
        return (
            name in self.parameters
            or name in body.hidden
            or name in body.stores
            or (self.defines and name in self.bindings.all)
        )

    @cached_property
    def defines(self) -> bool:
        """Whether it has imports or definitions of its own."""
        return self.body.imports or bool(self.body.functions or self.body.classes)

    @cached_property
    def uses(self) -> dict[str, frozenset[str]]:
        """For each dotted name, the methods called on it; "__call__" if it is called itself."""
        found: dict[str, set[str]] = {}
        for body in self.bodies():
            for call in body.calls:
                if call.name is not None:
                    found.setdefault(call.name, set()).add("__call__")
                    base, dot, method = call.name.rpartition(".")
                    if dot:
                        found.setdefault(base, set()).add(method)
        return {name: frozenset(methods) for name, methods in found.items()}

    @cached_property
    def reads(self) -> dict[str, frozenset[str]]:
        """For each dotted name, the attributes that are read of it or called."""
        found: dict[str, set[str]] = {}
        for body in self.bodies():
            called = (call.name for call in body.calls if call.name is not None)
            for name in (*body.loads, *called, *(stored for stored in body.stores if "." in stored)):
                parts = name.split(".")
                for end in range(1, len(parts)):
                    found.setdefault(".".join(parts[:end]), set()).add(parts[end])
        return {name: frozenset(attributes) for name, attributes in found.items()}

    @cached_property
    def passed(self) -> dict[str, frozenset[tuple[str, int | str]]]:
        """For each dotted name, what is called with it, and as which argument: its position or keyword."""
        return _passed(self.bodies())

    @cached_property
    def passed_by_body(self) -> dict[str, frozenset[tuple[str, int | str]]]:
        """The same without the functions and classes that are nested in it."""
        return _passed([self.body])

    @cached_property
    def stores(self) -> dict[str, list[Store]]:
        """What is assigned in it, functions inside it included."""
        found: dict[str, list[Store]] = {}
        for body in self.bodies():
            for name, stores in body.stores.items():
                found.setdefault(name, []).extend(stores)
        return found

    @cached_property
    def loads(self) -> frozenset[str]:
        """The names and attributes that are read for other ends than to call them or a method of theirs; those in
        decorators and bases of nested definitions, too."""
        found: set[str] = set()
        for body in self.bodies():
            found |= body.loads
            if body.heads:
                inner = Body(body.heads)
                found |= inner.loads | {call.name for call in inner.calls if call.name is not None}
        return frozenset(found)

    @cached_property
    def roots(self) -> frozenset[str]:
        """The names that are read in it, for whatever end."""
        names = set(self.loads)
        for body in self.bodies():
            names.update(call.name for call in body.calls if call.name is not None)
            names.update(name for name in body.stores if "." in name)
        return frozenset(name.partition(".")[0] for name in names)


def _passed(bodies: Iterable[Body]) -> dict[str, frozenset[tuple[str, int | str]]]:
    found: dict[str, set[tuple[str, int | str]]] = {}
    for body in bodies:
        for call in body.calls:
            if call.name is None:
                continue
            for key, argument in _arguments(call.node):
                name = dotted(argument)
                if name is not None:
                    found.setdefault(name, set()).add((call.name, key))
    return {name: frozenset(given) for name, given in found.items()}


def _arguments(node: ast.Call) -> Iterator[tuple[int | str, ast.expr]]:
    for index, argument in enumerate(node.args):
        if isinstance(argument, ast.Starred):
            break
        yield index, argument
    for keyword in node.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value


class FileFacts:
    """The facts of one file."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self._bound: dict[int, Bindings] = {}
        self._facts: dict[int, Facts] = {}

    def of(self, scope: Scope) -> Facts:
        """The facts of a function, of a class or of the module."""
        known = self._facts.get(id(scope))
        if known is None:
            known = self._facts[id(scope)] = Facts(self, scope)
        return known

    @cached_property
    def bindings(self) -> Bindings:
        """What the statements of the module bind."""
        return Bindings(self.outline.tree.body)

    @cached_property
    def exports(self) -> tuple[str, ...] | None:
        """``__all__`` if it is put together from literals, else None."""
        return exported(self.outline.tree)

    def function_of(self, node: FunctionNode) -> FunctionOutline:
        """The outline of a function of this file."""
        return self._index.functions[node]

    def class_of(self, node: ast.ClassDef) -> ClassOutline:
        """The outline of a class of this file."""
        return self._index.classes[node]

    def class_at(self, line: int, name: str) -> ClassOutline | None:
        """The class of a name whose decorators or head begin on a line."""
        return next((part for part in self.classes if part.line == line and part.name == name), None)

    @property
    def functions(self) -> list[FunctionOutline]:
        """All functions of the file in the order of the text: methods and nested ones, too."""
        return list(self._index.functions.values())

    @property
    def classes(self) -> list[ClassOutline]:
        """All classes of the file in the order of the text, nested ones and those in functions, too."""
        return list(self._index.classes.values())

    def around(self, scope: Scope) -> Scope | None:
        """The function or class in whose body a definition stands; None for the module."""
        return self._index.around.get(scope)

    def bindings_of(self, scope: Scope) -> Bindings:
        """What the statements in the body of a function or class bind; for the module itself, see ``bindings``."""
        if scope is self.outline.module:
            return self.bindings
        known = self._bound.get(id(scope))
        if known is None:
            body = scope.node.body if scope.node is not None else []
            known = self._bound[id(scope)] = Bindings(body)
        return known

    @cached_property
    def _index(self) -> _Index:
        return _Index(self.outline)

    @cached_property
    def attributes_read(self) -> dict[str, frozenset[str]]:
        """For each name, the attributes that the file reads of it anywhere: ``np.zeros`` is np -> {zeros}."""
        found: dict[str, set[str]] = {}
        pending: list[ast.AST] = [self.outline.tree]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.setdefault(node.value.id, set()).add(node.attr)
            else:
                pending.extend(children(node))
        return {name: frozenset(attributes) for name, attributes in found.items()}


def facts_of(outline: Outline) -> FileFacts:
    """The facts of a file."""
    known = outline.facts
    if not isinstance(known, FileFacts):
        known = outline.facts = FileFacts(outline)
    return known


class _Index:
    """The definitions of a file by their nodes. Those that the outline has are taken from it."""

    def __init__(self, outline: Outline) -> None:
        self.functions: dict[FunctionNode, FunctionOutline] = {}
        self.classes: dict[ast.ClassDef, ClassOutline] = {}
        self.around: dict[Scope, Scope] = {}
        self._known: dict[ast.AST, Scope] = {}
        for owner in outline.classes.values():
            if owner.node is not None:
                self._known[owner.node] = owner
        self._known.update((part.node, part) for part in outline.definitions() if part.node is not None)
        self._enter(outline.tree.body, None, None, "")

    def _enter(
        self, body: list[ast.stmt], around: Scope | None, owner: ClassOutline | None, prefix: str
    ) -> None:
        pending: list[tuple[ast.AST, Scope | None, ClassOutline | None, str]] = [
            (node, around, owner, prefix) for node in reversed(body)
        ]
        while pending:
            node, around, owner, prefix = pending.pop()
            inner: list[tuple[ast.AST, Scope | None, ClassOutline | None, str]]
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                function = self._function(node, owner, prefix)
                self.functions[node] = function
                scope: Scope = function
                inner = [(part, scope, None, f"{function.qualified}.<locals>.") for part in node.body]
            elif isinstance(node, ast.ClassDef):
                scope = self._class(node, prefix)
                self.classes[node] = scope
                inner = [(part, scope, scope, f"{scope.qualified}.") for part in node.body]
            elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                inner = [
                    (part, around, owner, prefix)
                    for part in children(node)
                    if isinstance(part, (ast.stmt, ast.ExceptHandler, ast.match_case))
                ]
                pending.extend(reversed(inner))
                continue
            else:
                continue
            if around is not None:
                self.around[scope] = around
            pending.extend(reversed(inner))

    def _function(self, node: FunctionNode, owner: ClassOutline | None, prefix: str) -> FunctionOutline:
        known = self._known.get(node)
        if isinstance(known, FunctionOutline):
            return known
        made = outline_function(node, owner)
        made.qualified = f"{prefix}{node.name}"
        return made

    def _class(self, node: ast.ClassDef, prefix: str) -> ClassOutline:
        known = self._known.get(node)
        if isinstance(known, ClassOutline):
            return known
        made = outline_class(node, f"{prefix}{node.name}")
        for method in made.methods.values():
            if method.node is not None:
                self._known[method.node] = method
        return made
