"""The map of a file: imports, and definitions with their lines.

It is drawn with ``ast``, which is ten times faster than LibCST, and decides nothing about AMP.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field


class FunctionOutline:
    """A function or method: its lines (decorators included), its parameters and its statements."""

    __slots__ = (
        "_body",
        "_size",
        "arguments",
        "column",
        "decorated",
        "end_line",
        "line",
        "name",
        "node",
        "owner",
        "parameters",
        "qualified",
    )

    def __init__(
        self,
        name: str,
        qualified: str,
        lines: tuple[int, int],
        column: int,
        owner: ClassOutline | None,
        parameters: tuple[str, ...],
        body: list[ast.stmt],
        *,
        decorated: bool = False,
        arguments: ast.arguments | None = None,
        node: ast.FunctionDef | ast.AsyncFunctionDef | None = None,
    ) -> None:
        self.name = name
        self.qualified = qualified
        self.line, self.end_line = lines
        self.column = column
        self.owner = owner
        self.parameters = parameters
        self.arguments = arguments
        self.node = node
        self.decorated = decorated
        self._body = body
        self._size: int | None = None

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements."""
        return self._body

    @property
    def size(self) -> int:
        """Its statements that do something, those in blocks included, but not in handlers and inner definitions."""
        if self._size is None:
            self._size = 0
            pending = list(self._body)
            while pending:
                part = pending.pop()
                self._size += not _does_nothing(part)
                if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    for name in ("body", "orelse", "finalbody"):
                        pending += getattr(part, name, ())
        return self._size

    @property
    def abstract(self) -> bool:
        """Whether it does nothing but raise NotImplementedError, or is decorated and does nothing at all: what
        it stands for is elsewhere."""
        rest = [part for part in self._body if not isinstance(part, (ast.Expr, ast.Pass))]
        if not rest:
            return self.decorated and all(
                isinstance(part, ast.Pass) or isinstance(getattr(part, "value", None), ast.Constant)
                for part in self._body
            )
        if len(rest) > 1 or not isinstance(rest[0], ast.Raise) or rest[0].exc is None:
            return False
        error = rest[0].exc.func if isinstance(rest[0].exc, ast.Call) else rest[0].exc
        return dotted(error) == "NotImplementedError"

    @property
    def placeholder(self) -> bool:
        """Whether it is a method that does nothing: who uses what it gives expects another one in a subclass."""
        special = self.name.startswith("__")
        return self.owner is not None and not special and all(map(_gives_nothing, self._body))


class ClassOutline:
    """A class: its bases as written, its methods and fields."""

    __slots__ = (
        "bases",
        "chunks",
        "end_line",
        "fields",
        "line",
        "methods",
        "name",
        "node",
        "qualified",
    )

    def __init__(
        self,
        name: str,
        lines: tuple[int, int],
        bases: tuple[str, ...],
        qualified: str = "",
        node: ast.ClassDef | None = None,
    ) -> None:
        self.name = name
        self.node = node
        self.qualified = qualified or name
        self.line, self.end_line = lines
        self.bases = bases
        self.methods: dict[str, FunctionOutline] = {}
        self.chunks: list[tuple[int, int]] = []
        """Line ranges of the statements in the class body that are no definitions."""
        self.fields: tuple[str, ...] = ()
        """The annotated names in its body, in order: the fields of a dataclass."""


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
    import_lines: list[tuple[int, int]] = field(default_factory=list)
    """Line ranges of module-level imports."""
    module: FunctionOutline | None = None
    """The module body seen as a function."""
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    """The parsed file."""
    facts: object = None
    """What somebody keeps here who has worked it out from the outline; see facts.facts_of."""

    def definitions(self) -> Iterable[FunctionOutline]:
        """All functions and methods, in no particular order."""
        yield from self.functions.values()
        for owner in self.classes.values():
            yield from owner.methods.values()


def draw(tree: ast.Module) -> Outline:
    """The outline of a parsed file."""
    outline = Outline(tree=tree)
    loose: list[ast.stmt] = []
    _collect(tree.body, outline, loose, top=True)
    outline.module = FunctionOutline("<module>", "<module>", (1, 0), 0, None, (), loose)
    return outline


def _collect(body: list[ast.stmt], outline: Outline, loose: list[ast.stmt], *, top: bool) -> None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outline.functions.setdefault(node.name, outline_function(node, None))
            if top:
                continue
        elif isinstance(node, ast.ClassDef):
            outline.classes.setdefault(node.name, outline_class(node))
            if top:
                continue
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            collect_import(node, outline.imports, outline.stars)
            if top:
                _extend(outline.import_lines, node)
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


def _does_nothing(node: ast.stmt) -> bool:
    """Whether a statement is ``pass``, a docstring or another constant, or an annotation without a value."""
    if isinstance(node, ast.Expr):
        parts = node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value]
        return all(isinstance(part, ast.Constant) for part in parts)
    return isinstance(node, ast.Pass) or (isinstance(node, ast.AnnAssign) and node.value is None)


def _gives_nothing(node: ast.stmt) -> bool:
    """Whether a statement does nothing, or is ``return`` or ``return None``."""
    if not isinstance(node, ast.Return):
        return _does_nothing(node)
    return node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)


_PLAIN_FIELDS = frozenset({"ctx", "op", "ops", "id", "attr", "arg", "names", "kind", "type_comment"})
"""Fields in which there is no code: names, operators, contexts."""
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes below a node that hold code; many times faster than ast.iter_child_nodes."""
    fields = _FIELDS.get(type(node))
    if fields is None:
        fields = tuple(name for name in node._fields if name not in _PLAIN_FIELDS)
        _FIELDS[type(node)] = fields
    found: list[ast.AST] = []
    for name in fields:
        value = getattr(node, name, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
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


def outline_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ClassOutline | None
) -> FunctionOutline:
    """The outline of a function."""
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    qualified = f"{owner.qualified}.{node.name}" if owner else node.name
    lines = (_first_line(node), node.end_lineno or node.lineno)
    return FunctionOutline(
        node.name,
        qualified,
        lines,
        node.col_offset,
        owner,
        tuple(names),
        node.body,
        decorated=bool(node.decorator_list),
        arguments=arguments,
        node=node,
    )


def outline_class(node: ast.ClassDef, qualified: str = "") -> ClassOutline:
    """The outline of a class."""
    bases = tuple(name for name in (dotted(base) for base in node.bases) if name is not None)
    made = ClassOutline(
        node.name, (_first_line(node), node.end_lineno or node.lineno), bases, qualified, node
    )
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            method = outline_function(statement, made)
            known = made.methods.get(statement.name)
            # a property's setter must not hide its getter
            if known is None or not known.decorated:
                made.methods[statement.name] = method
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            _extend(made.chunks, statement)
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                made.fields = (*made.fields, statement.target.id)
    return made
