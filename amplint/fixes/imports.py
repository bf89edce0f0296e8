"""Import statements at the top of a file: found for a name, added, and taken away when nothing uses them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amplint.fixes.dependence import dotted
from amplint.fixes.names import imported_from
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.statements import Replacement, Statement, comments_of, preceded

_TORCH = "torch"


@dataclass(frozen=True)
class Binding:
    """The import that binds a name: its statement, the line on which that stands, and its part of it."""

    name: str
    statement: cst.Import | cst.ImportFrom
    line: cst.SimpleStatementLine
    alias: cst.ImportAlias
    target: str

    def at_top(self, file: ParsedFile) -> bool:
        """Whether it is imported whenever the file is."""
        return file.parent(self.line) is file.module


def bindings(file: ParsedFile) -> Iterator[Binding]:
    """All that the import statements of a file bind, wherever they stand."""
    for statement in file.nodes(cst.Import):
        for alias in statement.names:
            name = alias.evaluated_name
            local = alias.evaluated_alias
            target = name if local is not None else name.partition(".")[0]
            yield Binding(local or target, statement, _line(file, statement), alias, target)
    for source in file.nodes(cst.ImportFrom):
        if not isinstance(source.names, cst.ImportStar):
            for alias in source.names:
                name = alias.evaluated_name
                target = f"{imported_from(source)}.{name}"
                yield Binding(alias.evaluated_alias or name, source, _line(file, source), alias, target)


def _line(file: ParsedFile, statement: cst.CSTNode) -> cst.SimpleStatementLine:
    line = file.parent(statement)
    if not isinstance(line, cst.SimpleStatementLine):
        raise Refusal("an import stands on the line of something else")
    return line


def binding_of(file: ParsedFile, name: str) -> Binding:
    """The one import that binds a name. Raises Refusal where there are several, where it is not always
    executed, or where the name is bound by other means as well."""
    found = [binding for binding in bindings(file) if binding.name == name]
    if name in rebound(file):
        raise Refusal(f"`{name}` is bound to something else as well")
    if not found:
        raise Refusal(f"the import of `{name}` is not in this file")
    if len({id(binding.statement) for binding in found}) > 1 and not (
        isinstance(found[0].statement, cst.Import) and len({binding.target for binding in found}) == 1
    ):
        raise Refusal(f"`{name}` is imported in several places")
    top = [binding for binding in found if binding.at_top(file)]
    binding = (top or found)[0]
    if any(isinstance(node, cst.Try | cst.TryStar | cst.If) for node in file.parents(binding.line)):
        raise Refusal(f"`{name}` is imported under a condition")
    return binding


def bound_in(node: cst.CSTNode) -> set[str]:
    """The names that a piece of code binds by other means than an import."""
    return set(times_bound_in(node))


def times_bound_in(node: cst.CSTNode) -> Counter[str]:
    """These names, with how often each is bound."""
    visitor = _Bound()
    node.visit(visitor)
    return visitor.names


def times_bound_at_top(file: ParsedFile) -> Counter[str]:
    """The names of the module itself that a file binds by other means than an import, with how often each is bound;
    functions count that declare one of them as `global`."""
    visitor = _BoundAtTop()
    file.module.visit(visitor)
    for node in file.nodes(cst.NameItem):
        if isinstance(file.parent(node), cst.Global):
            visitor.names[node.name.value] += 1
    return visitor.names


def rebound(file: ParsedFile) -> Counter[str]:
    """The names that a file binds anywhere by other means than an import, and how often."""
    known = _REBOUND.get(file)
    if known is None:
        _REBOUND.clear()
        visitor = _Bound()
        for kind in _BINDING:
            for node in file.nodes(kind):
                if not isinstance(file.parent(node), cst.ImportAlias):
                    visitor.on_visit(node)
        known = _REBOUND[file] = visitor.names
    return known


def function_named(file: ParsedFile, name: str) -> cst.FunctionDef | None:
    """The plain function at the top of a file that a name stands for everywhere in it, or None."""
    try:
        imported = any(binding.name == name for binding in bindings(file))
    except Refusal:
        return None
    if imported or rebound(file)[name] != 1:
        return None
    return next(
        (
            statement
            for statement in file.module.body
            if isinstance(statement, cst.FunctionDef)
            and statement.name.value == name
            and not statement.decorators
            and statement.asynchronous is None
        ),
        None,
    )


_REBOUND: dict[ParsedFile, Counter[str]] = {}
_BINDING = (
    cst.AssignTarget,
    cst.AnnAssign,
    cst.AugAssign,
    cst.For,
    cst.CompFor,
    cst.NamedExpr,
    cst.AsName,
    cst.Param,
    cst.FunctionDef,
    cst.ClassDef,
)


class _Bound(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def _add(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            self.names[target.value] += 1
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._add(element.value)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._add(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._add(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._add(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._add(node.target)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._add(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._add(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._add(node.name)

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Param(self, node: cst.Param) -> None:
        self._add(node.name)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self.names[node.name.value] += 1
        return True

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self.names[node.name.value] += 1
        return True


class _BoundAtTop(_Bound):
    """Leaves out what functions and classes bind in themselves."""

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        super().visit_FunctionDef(node)
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        super().visit_ClassDef(node)
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False


def uses_of(file: ParsedFile, name: str) -> list[cst.Name]:
    """The places that look a name up, in the order of the text, imports excepted."""
    return [node for node in file.nodes(cst.Name) if node.value == name and _is_looked_up(file, node)]


def _is_looked_up(file: ParsedFile, node: cst.Name) -> bool:
    around = file.parent(node)
    if isinstance(around, cst.Attribute) and around.attr is node:
        return False
    if isinstance(around, cst.Arg) and around.keyword is node:
        return False
    return not any(isinstance(outer, cst.Import | cst.ImportFrom) for outer in file.parents(node))


def torch_name(file: ParsedFile) -> str | None:
    """The name under which `import torch` binds torch at the top of a file, or None. Raises Refusal where
    another thing has the name."""
    for binding in bindings(file):
        if isinstance(binding.statement, cst.Import) and binding.target == _TORCH and binding.at_top(file):
            if binding.name in rebound(file):
                raise Refusal(f"`{binding.name}` is bound to something else as well")
            return binding.name
    if _TORCH in rebound(file) or any(
        binding.name == _TORCH and binding.target != _TORCH for binding in bindings(file)
    ):
        raise Refusal("`torch` is the name of something else here")
    return None


def torch_added(file: ParsedFile) -> dict[cst.CSTNode, Replacement]:
    """What to exchange for `import torch` to stand before the first import of something in torch, or after the
    docstring and what has to come first."""
    body = file.module.body
    line = cst.SimpleStatementLine(body=[cst.Import(names=[cst.ImportAlias(name=cst.Name(_TORCH))])])
    before = next((part for part in body if _imports(part, _TORCH)), None)
    if before is None:
        before = next(
            (part for part in body if _imports(part, "") and not _imports(part, "__future__")), None
        )
    if before is None:
        return _added_first(file, line)
    assert isinstance(before, cst.SimpleStatementLine)
    if any(empty.comment is not None for empty in before.leading_lines):
        return {before: cst.FlattenSentinel([line, before])}
    first = preceded(line, before.leading_lines)
    return {before: cst.FlattenSentinel([first, before.with_changes(leading_lines=())])}


def _added_first(file: ParsedFile, line: cst.SimpleStatementLine) -> dict[cst.CSTNode, Replacement]:
    """What to exchange for an import to stand in a file that has none, after its docstring."""
    first = next(iter(file.module.body), None)
    if first is None or file.module.get_docstring(clean=False) is None:
        raise Refusal("the file imports nothing at its top")
    line = line.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return {first: cst.FlattenSentinel([first, line])}


def _imports(statement: cst.CSTNode, root: str) -> bool:
    """Whether a statement imports something from a package; any, if the name is empty."""
    return any(
        not root or any(name.partition(".")[0] == root for name in names)
        for _, names in imports_in(statement)
    )


def imports_in(statement: cst.CSTNode) -> Iterator[tuple[cst.Import | cst.ImportFrom, list[str]]]:
    """The imports on a line, each with the modules that it takes something from."""
    if isinstance(statement, cst.SimpleStatementLine):
        for part in statement.body:
            if isinstance(part, cst.Import):
                yield part, [alias.evaluated_name for alias in part.names]
            elif isinstance(part, cst.ImportFrom):
                yield part, [imported_from(part)]


def is_exported(file: ParsedFile, binding: Binding) -> bool:
    """Whether others may import a name from this file: `__init__.py`, `__all__`, a type in quotes, an import
    that is marked as meant."""
    if file.path.rpartition("/")[2].startswith("__init__.") or "noqa" in "".join(comments_of(binding.line)):
        return True
    word = re.compile(rf"\b{re.escape(binding.name)}\b")
    strings: Sequence[cst.SimpleString] = file.nodes(cst.SimpleString)
    return any(len(text.value) < 200 and word.search(text.value) for text in strings)


def removed(file: ParsedFile, binding: Binding) -> Statement | cst.RemovalSentinel | None:
    """What takes the place of the line with an import when it does without one name. None where a comment
    would be lost."""
    line, statement = binding.line, binding.statement
    assert not isinstance(statement.names, cst.ImportStar)
    rest = [alias for alias in statement.names if alias is not binding.alias]
    if rest:
        rest[-1] = rest[-1].with_changes(
            comma=rest[-1].comma if _multiline(statement) else cst.MaybeSentinel.DEFAULT
        )
        if comments_of(binding.alias):
            return None
        changed = statement.with_changes(names=rest)
        return line.with_changes(body=[changed if part is statement else part for part in line.body])
    if len(line.body) > 1:
        others = [part for part in line.body if part is not statement]
        others[-1] = others[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return line.with_changes(body=others)
    if comments_of(line):
        return None
    return cst.RemoveFromParent()


def _multiline(statement: cst.Import | cst.ImportFrom) -> bool:
    return isinstance(statement, cst.ImportFrom) and "\n" in cst.Module(body=()).code_for_node(statement)


def root_name(node: cst.CSTNode) -> str:
    """The first name of ``a.b.c``."""
    return (dotted(node) or "").partition(".")[0]


def qualified_name(file: ParsedFile, node: cst.CSTNode) -> str | None:
    """The dotted name that a name or attribute stands for by the imports of its file, or None."""
    text = dotted(node)
    if text is None:
        return None
    root, _, rest = text.partition(".")
    targets = {binding.target for binding in bindings(file) if binding.name == root}
    if len(targets) != 1 or root in rebound(file):
        return None
    return f"{targets.pop()}.{rest}".rstrip(".")
