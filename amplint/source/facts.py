"""What the ``ast`` of a file says, beyond its outline, of each definition in it.

``facts_of(outline)`` gives the facts of a file; they are worked out when they are asked for, and once.
"""

from __future__ import annotations

import ast
from functools import cached_property

from amplint.source.bindings import Bindings, FunctionNode, exported
from amplint.source.outline import (
    ClassOutline,
    FunctionOutline,
    Outline,
    children,
    outline_class,
    outline_function,
)

Scope = FunctionOutline | ClassOutline


class FileFacts:
    """The facts of one file."""

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self._bound: dict[int, Bindings] = {}

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

    def function_at(self, line: int, name: str) -> FunctionOutline | None:
        """The function of a name whose decorators or head begin on a line."""
        return next((part for part in self.functions if part.line == line and part.name == name), None)

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
    if outline.facts is None:
        outline.facts = FileFacts(outline)
    return outline.facts


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
