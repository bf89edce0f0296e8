"""What a name that a setting computes may be in a module: ``getattr(models, args.arch)``, ``models.__dict__[name]``.

``choices.of(file, 4)`` are the first names of the functions and classes that the module offers and does not use
itself: what a helper is to it, no setting names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from amplint.flow.project.meanings import Assigned
from amplint.flow.project.names import Names
from amplint.flow.state.values import ClassValue, FunctionValue
from amplint.source.facts import facts_of
from amplint.source.project import ProjectFile

_DEEPEST = 3
"""So many star imports are followed in a row."""


class Choices:
    """The names that settings may choose among, by module."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[tuple[ProjectFile, int], list[str]] = {}
        self._used: dict[ProjectFile, frozenset[str]] = {}

    def of(self, file: ProjectFile, most: int) -> list[str]:
        """The first of the names, in the order of the text, each definition once: no file of a package that hands on
        hundreds of modules is read for the others."""
        known = self._known.get((file, most))
        if known is None:
            known = self._known[(file, most)] = list(islice(self._offered(file), most))
        return known

    def _offered(self, file: ProjectFile) -> Iterator[str]:
        seen: set[FunctionValue | ClassValue] = set()
        for name in self._bound(file, _DEEPEST):
            meaning = self._meaning(file, name)
            if meaning is not None and meaning not in seen and name not in self._used_in(meaning.file):
                seen.add(meaning)
                yield name

    def _bound(self, file: ProjectFile, depth: int) -> Iterator[str]:
        bindings = facts_of(file.outline).bindings
        yield from (name for name in bindings.names() if not name.startswith("_"))
        for star in bindings.stars if depth else ():
            inner = self._names.starred(file, star)
            if inner is not None:
                yield from self._bound(inner, depth - 1)

    def _meaning(self, file: ProjectFile, name: str) -> FunctionValue | ClassValue | None:
        meanings = self._names.global_meanings(file, name)
        meaning = meanings[0] if len(meanings) == 1 else None
        if isinstance(meaning, Assigned):
            meaning = self._names.followed(meaning)
        return meaning if isinstance(meaning, (FunctionValue, ClassValue)) else None

    def _used_in(self, file: ProjectFile) -> frozenset[str]:
        known = self._used.get(file)
        if known is None:
            tree = file.outline.tree
            others = {part.value for part in tree.body if isinstance(part, ast.Assign)}  # ``base = resnet50``
            names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in others)
            known = frozenset(node.id for node in names if isinstance(node.ctx, ast.Load))
            self._used[file] = known
        return known
