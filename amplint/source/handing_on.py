"""What another file does with a name of a module: reads it, puts something else in its place, or asks for its type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from amplint.source.outline import dotted

Use = Literal["reads", "replaces", "asks", "passes on"]
"""``asks``: the name stands for a class that an ``isinstance`` looks for. ``passes on``: a file imports all names and
does not mention this one."""

_LOOKS = frozenset({"getattr", "hasattr"})
_REPLACES = frozenset({"patch", "setattr"})
"""Calls that put something else in the place of what a string names: ``mock.patch``, ``monkeypatch.setattr``."""
_ASKS = frozenset({"isinstance", "issubclass"})


def uses(tree: ast.Module, module: str, name: str) -> frozenset[Use]:
    """What a file does with a name of a module that is known by the last parts of its own name: ``from base import
    name``, ``base.name``, ``getattr(base, "name")``, ``mock.patch("base.name")``. What is read off an object that no
    import explains counts if a string names the module."""
    return frozenset(_Uses(tree, module, name).found())


class _Uses:
    def __init__(self, tree: ast.Module, module: str, name: str) -> None:
        self.nodes = list(ast.walk(tree))
        self.module = module
        self.name = name
        self.targets = dict(_imported(self.nodes))
        texts = [
            node.value for node in self.nodes if isinstance(node, ast.Constant) and type(node.value) is str
        ]
        self.named = any(map(self._ends_with_module, texts))

    def found(self) -> Iterator[Use]:
        """Each use."""
        for node in self.nodes:
            match node:
                case ast.ImportFrom(module=parent, names=names):
                    is_it = parent is None or self._ends_with_module(parent)
                    if is_it and any(alias.name == self.name for alias in names):
                        yield "reads"
                    elif is_it and any(alias.name == "*" for alias in names):
                        yield "reads" if self._is_mentioned() else "passes on"
                case ast.Attribute(attr=attr, value=holder, ctx=context) if attr == self.name:
                    if self._is_module(holder, unknown=self.named):
                        yield "reads" if isinstance(context, ast.Load) else "replaces"
                case ast.Constant(value=str() as text) if self._is_name(text):
                    yield "reads"
                case ast.Call():
                    yield from self._call(node)

    def _is_mentioned(self) -> bool:
        return any(isinstance(node, ast.Name) and node.id == self.name for node in self.nodes)

    def _call(self, node: ast.Call) -> Iterator[Use]:
        called = (dotted(node.func) or "").rpartition(".")[2]
        match node.args:
            case [ast.Constant(value=str() as text), *_] if called in _REPLACES and self._is_name(text):
                if text != self.name:
                    yield "replaces"
            case [holder, ast.Constant(value=str() as text), *_] if text == self.name:
                if called not in _LOOKS and self._is_module(holder, unknown=False):
                    yield "replaces"
            case [_, asked] if called in _ASKS and any(map(self._is_meant, ast.walk(asked))):
                yield "asks"

    def _is_module(self, node: ast.expr, *, unknown: bool) -> bool:
        """Whether an expression is the module; ``unknown`` for one that no import explains."""
        root, _, rest = (dotted(node) or "").partition(".")
        if root not in self.targets:
            return unknown
        return self._ends_with_module(f"{self.targets[root]}.{rest}".strip("."))

    def _ends_with_module(self, name: str) -> bool:
        return name == self.module or name.endswith(f".{self.module}")

    def _is_meant(self, node: ast.AST) -> bool:
        """Whether an expression is what the name stands for."""
        if isinstance(node, ast.Attribute):
            return node.attr == self.name and self._is_module(node.value, unknown=False)
        return isinstance(node, ast.Name) and self.targets.get(node.id, "").endswith(
            f"{self.module}.{self.name}"
        )

    def _is_name(self, text: str) -> bool:
        return text == self.name or text.endswith(
            (f"{self.module}.{self.name}", f"{self.module}:{self.name}")
        )


def _imported(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names that imports bind anywhere in a file, with what they stand for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (top, top)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module or ''}.{alias.name}"
