"""Where a function is called: for fixes that give it a parameter and have to change all its callers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from amplint.findings import Span
from amplint.flow.project.edges import Edges
from amplint.flow.project.stack import column, scopes_in
from amplint.flow.state.values import FunctionValue
from amplint.source.bodies import Body
from amplint.source.facts import Scope, facts_of
from amplint.source.outline import FunctionOutline
from amplint.source.project import ProjectFile

Site = tuple[str, Span]
"""The file, by the name that reports call it, and where the call stands in it."""


def call_sites(edges: Edges, display: str, name: str) -> tuple[Site, ...] | None:
    """All calls of the function of that name at the top of a file, in the order of files and lines. None where one may
    be out of sight: the function is handed on, decorated or exported, or a file that may import it was not read."""
    file = edges.names.project.displayed(display)
    if file is None:
        return None
    wanted = [
        part
        for part in facts_of(file.outline).functions
        if part.name == name and part.owner is None and part.line
    ]
    outline = wanted[0] if len(wanted) == 1 else None
    if outline is None or outline.decorated or facts_of(file.outline).around(outline) is not None:
        return None
    importers = edges.names.project.importers(display, name)
    if not importers <= {other.path for other in edges.files}:
        return None
    found: list[Site] = []
    for other in edges.files:

        def is_it(
            called: str | None,
            scope: Scope,
            file: ProjectFile = other,
            renames: bool = other.path in importers,
        ) -> bool:
            """Whether a name is that of the function: ``train``, ``engine.train``, or as an import calls it."""
            if called is None or not (renames or called.rpartition(".")[2] == name):
                return False
            return _means(edges, file, called, scope, outline)

        for scope, body in _bodies(other):
            if any(is_it(one, scope) for one in body.loads):
                return None
            found += [(other.display, _span(other, c.node)) for c in body.calls if is_it(c.name, scope)]
    return tuple(sorted(found))


def _bodies(file: ProjectFile) -> Iterator[tuple[Scope, Body]]:
    """The bodies of a file, and what decorates in it."""
    facts = facts_of(file.outline)
    scopes: list[Scope] = [*scopes_in(file), *facts.classes]
    for part in scopes:
        yield part, facts.of(part).body
        heads = [decorator.node for decorator in facts.of(part).decorators]
        if heads:
            yield part, Body(heads)


def _means(edges: Edges, file: ProjectFile, name: str, scope: Scope, outline: FunctionOutline) -> bool:
    root = name.partition(".")[0]
    if isinstance(scope, FunctionOutline) and root in facts_of(file.outline).of(scope).parameters:
        return False
    return any(
        isinstance(one, FunctionValue) and one.outline is outline for one in edges.named(file, name, scope)
    )


def _span(file: ProjectFile, node: ast.Call) -> Span:
    last, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return Span(
        node.lineno,
        column(file, node.lineno, node.col_offset) + 1,
        last,
        column(file, last, end) + 1,
    )
