"""The map of a file: imports, definitions with their lines, who is called and which attributes are set.

It is drawn with ``ast``, which is ten times faster than LibCST, and decides nothing about AMP.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class FunctionOutline:
    """A function or method: its lines (decorators included), what it calls and what is done to its names."""

    name: str
    qualified: str
    line: int
    end_line: int
    column: int
    owner: ClassOutline | None
    parameters: tuple[str, ...]
    called: frozenset[str]
    """Names called: ``f`` for ``f()``, ``self.f`` for ``self.f()``, ``a.b`` for ``a.b()``."""
    uses: dict[str, set[str]]
    """For each dotted name, the methods called on it: ``model`` -> {"eval", "parameters"}."""
    decorated: bool = False


@dataclass(slots=True, eq=False)
class ClassOutline:
    """A class: its bases as written, its methods, and where its instances get their attributes."""

    name: str
    qualified: str
    line: int
    end_line: int
    bases: tuple[str, ...]
    methods: dict[str, FunctionOutline] = field(default_factory=dict)
    attributes: dict[str, list[str]] = field(default_factory=dict)
    """Attribute set as ``self.x = …`` -> names of the methods that do it."""
    assignments: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Attribute -> lines of the simple statements ``self.x = …`` outside the constructor."""
    chunks: list[tuple[int, int]] = field(default_factory=list)
    """Line ranges of the statements in the class body that are no definitions."""
    uses: dict[str, set[str]] = field(default_factory=dict)
    """As FunctionOutline.uses, for ``self.x``, over all methods."""


@dataclass(slots=True, eq=False)
class Outline:
    """What one file defines and imports. Imports are as written: relative ones begin with dots."""

    imports: dict[str, str] = field(default_factory=dict)
    """Local name -> dotted target: ``{"F": "torch.nn.functional", "engine": ".engine"}``."""
    stars: list[str] = field(default_factory=list)
    assigned: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Name -> lines of the module-level statements that bind it."""
    functions: dict[str, FunctionOutline] = field(default_factory=dict)
    classes: dict[str, ClassOutline] = field(default_factory=dict)
    chunks: list[tuple[int, int]] = field(default_factory=list)
    """Line ranges of module-level statements that are neither definitions nor imports."""
    module: FunctionOutline | None = None
    """The module body seen as a function."""

    def definitions(self) -> Iterable[FunctionOutline]:
        """All functions and methods, in no particular order."""
        yield from self.functions.values()
        for owner in self.classes.values():
            yield from owner.methods.values()


def draw(tree: ast.Module) -> Outline:
    """The outline of a parsed file."""
    outline = Outline()
    loose: list[ast.stmt] = []
    _collect(tree.body, outline, loose, top=True)
    outline.module = _function_of(
        "<module>", "<module>", 1, 0, 0, None, (), loose
    )
    return outline


def _collect(body: list[ast.stmt], outline: Outline, loose: list[ast.stmt], *, top: bool) -> None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outline.functions.setdefault(node.name, _function(node, None))
            if top:
                continue
        elif isinstance(node, ast.ClassDef):
            outline.classes.setdefault(node.name, _class(node))
            if top:
                continue
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            collect_import(node, outline.imports, outline.stars)
            if top:
                continue
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for block in _blocks(node):
                _collect(block, outline, loose, top=False)
        if top:
            loose.append(node)
            _extend(outline.chunks, node)
            lines = (node.lineno, node.end_lineno or node.lineno)
            for name in _bound_names(node):
                outline.assigned.setdefault(name, []).append(lines)


def _bound_names(node: ast.stmt) -> set[str]:
    """Names that a statement binds, not counting what functions inside it do."""
    names: set[str] = set()
    pending: list[ast.AST] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(part.name)
            continue
        if isinstance(part, ast.Lambda):
            continue
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.split(".")[0] for alias in part.names)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        pending.extend(children(part))
    return names


def _blocks(node: ast.If | ast.Try | ast.With) -> list[list[ast.stmt]]:
    if isinstance(node, ast.If):
        return [node.body, node.orelse]
    if isinstance(node, ast.Try):
        return [node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody]
    return [node.body]


def _extend(chunks: list[tuple[int, int]], node: ast.stmt) -> None:
    start, end = node.lineno, node.end_lineno or node.lineno
    if chunks and chunks[-1][1] >= start - 1:
        chunks[-1] = (chunks[-1][0], max(end, chunks[-1][1]))
    else:
        chunks.append((start, end))


def collect_import(node: ast.Import | ast.ImportFrom, into: dict[str, str], stars: list[str]) -> None:
    """Adds what an import statement binds. The first binding of a name wins, so that a fallback in an
    ``except ImportError`` does not hide what is imported where it is there."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                into.setdefault(alias.asname, alias.name)
            else:
                root = alias.name.split(".")[0]
                into.setdefault(root, root)
        return
    source = "." * node.level + (node.module or "")
    for alias in node.names:
        if alias.name == "*":
            stars.append(source)
        else:
            joint = "" if source.endswith(".") else "."
            into.setdefault(alias.asname or alias.name, f"{source}{joint}{alias.name}")


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes below a node; several times faster than ast.iter_child_nodes."""
    found: list[ast.AST] = []
    for value in node.__dict__.values():
        if type(value) is list:
            found.extend(item for item in value if isinstance(item, ast.AST))
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` for an attribute chain that starts with a name, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ClassOutline | None) -> FunctionOutline:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    qualified = f"{owner.qualified}.{node.name}" if owner else node.name
    made = _function_of(
        node.name, qualified, _first_line(node), node.end_lineno or node.lineno, node.col_offset, owner,
        tuple(names), node.body,
    )
    made.decorated = bool(node.decorator_list)
    return made


def _function_of(
    name: str, qualified: str, line: int, end_line: int, column: int, owner: ClassOutline | None,
    parameters: tuple[str, ...], body: list[ast.stmt],
) -> FunctionOutline:
    called: set[str] = set()
    uses: dict[str, set[str]] = {}
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            target = dotted(node.func)
            if target is not None:
                called.add(target)
                base, dot, method = target.rpartition(".")
                if dot:
                    uses.setdefault(base, set()).add(method)
                else:
                    uses.setdefault(method, set()).add("__call__")
                if base == "self":
                    uses.setdefault(target, set()).add("__call__")
                if method in ("step", "unscale_") and node.args:
                    stepped = dotted(node.args[0])
                    if stepped is not None:
                        uses.setdefault(stepped, set()).add("<stepped>")
        elif isinstance(node, ast.Attribute) and node.attr == "param_groups":
            target = dotted(node.value)
            if target is not None:
                uses.setdefault(target, set()).add("param_groups")
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            if owner is not None and name != "__init__":
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    text = dotted(target)
                    if text is not None and text.startswith("self.") and text.count(".") == 1:
                        lines = (node.lineno, node.end_lineno or node.lineno)
                        owner.assignments.setdefault(text[5:], []).append(lines)
        elif (
            owner is not None
            and isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            setters = owner.attributes.setdefault(node.attr, [])
            if name not in setters:
                setters.append(name)
        pending.extend(children(node))
    return FunctionOutline(
        name, qualified, line, end_line, column, owner, parameters, frozenset(called), uses
    )


def _class(node: ast.ClassDef) -> ClassOutline:
    bases = tuple(name for name in (dotted(base) for base in node.bases) if name is not None)
    made = ClassOutline(node.name, node.name, _first_line(node), node.end_lineno or node.lineno, bases)
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            method = _function(statement, made)
            known = made.methods.get(statement.name)
            # a property's setter must not hide its getter
            if known is None or not known.decorated:
                made.methods[statement.name] = method
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            _extend(made.chunks, statement)
    for method in made.methods.values():
        for name, methods in method.uses.items():
            if name.startswith("self."):
                made.uses.setdefault(name, set()).update(methods)
    return made
