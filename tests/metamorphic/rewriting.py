"""Programs written otherwise: their definitions in another order, their text in another layout, with words in comments
and strings that mean nothing there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import libcst as cst

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.Pass)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


# definitions in another order ------------------------------------------------------------------------------------


def shuffled(tree: ast.Module) -> None:
    """Moves functions and classes that need nothing when they are defined to the front, the last one first, and
    methods of a class likewise. In place."""
    free = {statement for statement in tree.body if isinstance(statement, Definition) and _is_free(statement)}
    free = {one for one in free if _bindings(tree.body, one.name) == 1}
    head = [statement for statement in tree.body if _is_head(statement)]
    rest = [statement for statement in tree.body if statement not in free and statement not in head]
    tree.body = [*head, *reversed([one for one in tree.body if one in free]), *rest]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            _shuffle_methods(node)


def _is_head(statement: ast.stmt) -> bool:
    """Whether a statement has to stand at the top: the docstring, imports from the future."""
    if isinstance(statement, ast.Expr):
        return (
            isinstance(statement.value, ast.Constant) and statement.col_offset == 0 and statement.lineno == 1
        )
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_free(node: Definition) -> bool:
    if node.decorator_list:
        return False
    if not isinstance(node, ast.ClassDef):
        return not _needs_anything(node)
    return (
        not node.bases
        and not node.keywords
        and all(
            (
                isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))
                and not part.decorator_list
                and not _needs_anything(part)
            )
            or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
            for part in node.body
        )
    )


def _needs_anything(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether defaults or annotations are computed when the function is defined."""
    arguments = node.args
    every = (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    )
    computed = [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]
    computed += [one.annotation for one in every if one is not None and one.annotation is not None]
    if node.returns is not None:
        computed.append(node.returns)
    return not all(isinstance(one, ast.Constant) for one in computed)


def _bindings(body: Iterable[ast.stmt], name: str) -> int:
    """How often the statements of a module bind a name."""
    count = 0
    for node in (part for statement in body for part in ast.walk(statement)):
        if isinstance(node, Definition):
            count += node.name == name
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            count += node.id == name
        elif isinstance(node, ast.alias):
            count += (node.asname or node.name) == name
        elif isinstance(node, ast.Global):
            count += name in node.names
    return count


def _shuffle_methods(node: ast.ClassDef) -> None:
    methods = [part for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if len({method.name for method in methods}) < len(methods) or any(
        method.decorator_list for method in methods
    ):
        return
    used = {
        part.id
        for other in node.body
        if other not in methods
        for part in ast.walk(other)
        if isinstance(part, ast.Name)
    }
    if used.isdisjoint(method.name for method in methods):
        backwards = iter(reversed(methods))
        node.body = [next(backwards) if part in methods else part for part in node.body]


# another layout --------------------------------------------------------------------------------------------------


def laid_out(tree: ast.Module) -> str:
    """The program as ast writes it, with parentheses around what is assigned, returned, entered, called and decorated
    with, over several lines."""
    return cst.parse_module(ast.unparse(tree)).visit(_Parenthesised()).code


def _open() -> cst.LeftParen:
    return cst.LeftParen(whitespace_after=_newline())


def _close() -> cst.RightParen:
    return cst.RightParen(whitespace_before=_newline())


def _newline() -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("  "))


def _around(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, (cst.Yield, cst.StarredElement)) or not hasattr(node, "lpar"):
        return node
    return node.with_changes(lpar=[_open(), *node.lpar], rpar=[*node.rpar, _close()])


class _Parenthesised(cst.CSTTransformer):
    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        return updated.with_changes(value=_around(updated.value))

    def leave_Return(self, original: cst.Return, updated: cst.Return) -> cst.Return:
        return updated if updated.value is None else updated.with_changes(value=_around(updated.value))

    def leave_Expr(self, original: cst.Expr, updated: cst.Expr) -> cst.Expr:
        return (
            updated.with_changes(value=_around(updated.value))
            if isinstance(updated.value, cst.Call)
            else updated
        )

    def leave_WithItem(self, original: cst.WithItem, updated: cst.WithItem) -> cst.WithItem:
        return updated.with_changes(item=_around(updated.item))

    def leave_Decorator(self, original: cst.Decorator, updated: cst.Decorator) -> cst.Decorator:
        return updated.with_changes(decorator=_around(updated.decorator))

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated if updated.star else updated.with_changes(value=_around(updated.value))

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        return updated.with_changes(test=_around(updated.test))


# words that mean nothing -----------------------------------------------------------------------------------------


def with_words(text: str, words: Iterable[str]) -> str:
    """The text with comments in which all the words stand, and a string at its end that nobody uses."""
    every = " ".join(words)
    few = every[:200]
    lines = text.splitlines()
    for line, column in sorted(_statements(text), reverse=True):
        lines.insert(line - 1, f"{' ' * column}# {few}")
    return "\n".join([f"# {every}", *lines, repr(every), ""])


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Where the statements in blocks begin, decorators counted in."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.With, ast.For, ast.If)):
            for part in node.body:
                first = min([part.lineno, *(one.lineno for one in getattr(part, "decorator_list", ()))])
                yield first, part.col_offset


# lines -----------------------------------------------------------------------------------------------------------


class Lines:
    """Which lines of a program those of its rewritten text come from."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        self._starts: dict[tuple[int, int], set[int]] = {}
        self._lines: dict[int, set[int]] = {}
        self._text = text.splitlines()
        self._pair(tree, ast.parse(text))

    def _pair(self, old: ast.AST, new: ast.AST) -> None:
        pending = [(old, new)]
        while pending:
            before, after = pending.pop()
            if type(before) is not type(after):
                continue
            line, first = getattr(after, "lineno", None), getattr(before, "lineno", None)
            if line is not None and first is not None:
                start = len(self._text[line - 1].encode()[: after.col_offset].decode(errors="replace"))  # type: ignore[attr-defined]
                self._starts.setdefault((line, start + 1), set()).add(first)
                self._lines.setdefault(line, set()).add(first)
            pending += zip(ast.iter_child_nodes(before), ast.iter_child_nodes(after), strict=False)

    def of(self, line: int, column: int) -> set[int]:
        """The lines on which what begins at a place of the text began before."""
        return self._starts.get((line, column)) or self._lines.get(line, set())
