"""The call stack at an event: the functions that are being run when it happens, found by its place and the calls that
led there, and what they may run in turn. For ``loss.backward()`` in ``train_step``, which ``fit`` calls, that is
``train_step`` and ``fit``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from amplint.events import Place
from amplint.flow.project.edges import Definition, Edges
from amplint.flow.state.values import ClassValue, External, FunctionValue
from amplint.source.facts import Scope, facts_of
from amplint.source.outline import FunctionOutline
from amplint.source.project import ProjectFile


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A function that is being run, and the place in it. For a nested one ``outer`` are the functions around it,
    innermost first."""

    file: ProjectFile
    function: FunctionOutline
    place: Place
    outer: tuple[FunctionOutline, ...] = ()

    @property
    def functions(self) -> tuple[FunctionOutline, ...]:
        """The function and those around it."""
        return (self.function, *self.outer)


class Stacks:
    """Finds the call stacks at places of one project."""

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.classes = edges.classes
        self.names = edges.names
        self._reached: dict[tuple[Definition, ...], tuple[Definition, ...]] = {}

    def at(self, place: Place) -> tuple[StackFrame, ...]:
        """The functions that are being run at a place, innermost first."""
        frames = (self.frame(one) for one in (place, *reversed(place.calls)))
        return tuple(frame for frame in frames if frame is not None)

    def frame(self, place: Place) -> StackFrame | None:
        """The function in which a place stands."""
        file = self.names.project.displayed(place.path)
        if file is None:
            return None
        facts, line = facts_of(file.outline), place.line
        around = [part for part in facts.functions if part.line <= line <= part.end_line]
        around.sort(key=lambda part: (part.line, -part.end_line))
        module = file.outline.module
        if not around:
            return StackFrame(file, module, place) if module is not None else None
        return StackFrame(file, around[-1], place, tuple(reversed(around[:-1])))

    def definitions(self, stack: Iterable[StackFrame]) -> tuple[FunctionValue, ...]:
        """The functions of a stack as definitions of the call graph."""
        found = [self.names.function(frame.file, part) for frame in stack for part in frame.functions]
        return tuple(dict.fromkeys(found))

    def owners(self, stack: Iterable[StackFrame]) -> tuple[ClassValue, ...]:
        """The classes whose methods are run."""
        found = (
            ClassValue(frame.file, part.owner)
            for frame in stack
            for part in frame.functions
            if part.owner is not None
        )
        return tuple(dict.fromkeys(found))

    def with_objects(self, stack: Iterable[StackFrame]) -> tuple[Definition, ...]:
        """The functions of a stack, and all methods of the objects whose methods are run."""
        stack = tuple(stack)
        found: dict[Definition, None] = dict.fromkeys(self.definitions(stack))
        for owner in self.owners(stack):
            found.update(dict.fromkeys(self.classes.all_methods(owner)))
        return tuple(found)

    def outside_bases(self, stack: Iterable[StackFrame]) -> tuple[str, ...]:
        """The qualified names of the classes outside from which these objects inherit."""
        found = (
            base.name
            for owner in self.owners(stack)
            for base in self.classes.bases(owner)
            if isinstance(base, External)
        )
        return tuple(dict.fromkeys(found))

    def reached(self, start: tuple[Definition, ...]) -> tuple[Definition, ...]:
        """All that some definitions may lead to, themselves included."""
        known = self._reached.get(start)
        if known is None:
            seen: dict[Definition, None] = dict.fromkeys(start)
            pending = list(start)
            while pending:
                steps = self.edges.of(pending.pop())
                for after in (*steps.sure, *steps.possible):
                    if after not in seen:
                        seen[after] = None
                        pending.append(after)
            known = self._reached[start] = tuple(seen)
        return known

    def files(self, stack: Iterable[StackFrame]) -> tuple[ProjectFile, ...]:
        """The files of a stack."""
        return tuple(dict.fromkeys(frame.file for frame in stack))


def scopes_in(file: ProjectFile) -> Iterator[FunctionOutline]:
    """The functions of a file, the body of the module first."""
    if file.outline.module is not None:
        yield file.outline.module
    yield from facts_of(file.outline).functions


def node_at(file: ProjectFile, scope: Scope, place: Place) -> tuple[ast.AST, ...]:
    """The syntax tree around a place in a function, outermost first; the last is the expression or statement that
    stands there. Empty if nothing does."""
    span = place.span
    start, end = (span.line, span.column - 1), (span.end_line, span.end_column - 1)
    root: ast.AST = scope.node if scope.node is not None else file.outline.tree
    found: list[ast.AST] = []
    node: ast.AST | None = root
    while node is not None:
        found.append(node)
        node = next((part for part in ast.iter_child_nodes(node) if _holds(part, file, start, end)), None)
    return tuple(found[1:])


def _holds(node: ast.AST, file: ProjectFile, start: tuple[int, int], end: tuple[int, int]) -> bool:
    """Whether a node begins no later and ends no earlier."""
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if first is None or last is None:
        return any(_holds(part, file, start, end) for part in ast.iter_child_nodes(node))
    if first > start[0] or last < end[0]:
        return False
    begin = (first, column(file, first, getattr(node, "col_offset", 0)))
    finish = (last, column(file, last, getattr(node, "end_col_offset", 0)))
    return begin <= start and end <= finish


def column(file: ProjectFile, line: int, offset: int) -> int:
    """The column in code points for an offset in bytes."""
    text = file.lines[line - 1]
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="replace"))
