"""Where code begins to run: whether anything that leads to it, from the start of a program, may open a region."""

from __future__ import annotations

import libcst as cst

from amplint.amp.regions import GRAD_OFF, GRAD_ON, SET_DTYPE
from amplint.fixes.base import Files
from amplint.fixes.imports import qualified_name, uses_of
from amplint.fixes.made import is_main
from amplint.fixes.openings import is_plain_context
from amplint.fixes.parsed import ParsedFile
from amplint.fixes.scopes import scopes_of

_SETTERS = frozenset(name.removeprefix("torch.") for name in SET_DTYPE)
_BY_HAND = frozenset({"enter_context", "enter_async_context", "push", "__enter__"})


def dtype_may_differ(files: Files, file: ParsedFile, node: cst.CSTNode) -> bool:
    """Whether autocast may have another dtype than its default where an expression is evaluated: a region is open
    around it, or may be in a caller out of sight, or code sets the dtype."""
    if any(files.project.mentions(word) for word in _SETTERS):
        return True
    if any(part.attr.value in _BY_HAND for part in file.nodes(cst.Attribute)):
        return True
    return not _Start(files, file).reaches(node)


class _Start:
    """Whether a file is run as a program, and what that reaches with no context around."""

    def __init__(self, files: Files, file: ParsedFile) -> None:
        self.files = files
        self.file = file
        self.asked: set[cst.CSTNode] = set()

    def reaches(self, node: cst.CSTNode) -> bool:
        """Whether all that runs an expression is the start of a program, or called from there, with no context open
        that may be a region."""
        child = node
        for outer in self.file.parents(node):
            match outer:
                case cst.With():
                    if not all(self._is_plain(item.item) for item in _entered_before(outer, child)):
                        return False
                case cst.FunctionDef() if child is outer.body:
                    return self._calls(outer)
                case cst.Lambda() | cst.GeneratorExp():
                    return False
                case cst.If() if child is outer.body and is_main(outer):
                    return True
            child = outer
        return not self.files.project.may_be_imported(self.file.path)

    def _calls(self, function: cst.FunctionDef) -> bool:
        """Whether all that calls a function is in sight, and reached itself."""
        if function in self.asked:
            return True  # a function that calls itself begins where the others call it
        self.asked.add(function)
        name = function.name.value
        scope = scopes_of(self.file).around(function)
        if (
            isinstance(scope.node, cst.ClassDef)
            or len(scope.others.get(name, ())) > 1
            or name in scope.imports
            or function.asynchronous is not None
            or not all(self._is_plain_decorator(one.decorator) for one in function.decorators)
            or _yields(function)
            or self.files.project.is_used(self.file.path, name)
        ):
            return False
        uses = uses_of(self.file, name, scope)
        return bool(uses) and all(_is_called(self.file, use) and self.reaches(use) for use in uses)

    def _is_plain(self, context: cst.BaseExpression) -> bool:
        """Whether a context is surely no region."""
        return is_plain_context(self.file, context) or (
            isinstance(context, cst.Call) and self._is_builtin(context.func, "open")
        )

    def _is_plain_decorator(self, decorator: cst.BaseExpression) -> bool:
        """Whether a decorator surely opens no region: ``@torch.no_grad()``, ``@staticmethod``."""
        called = decorator.func if isinstance(decorator, cst.Call) else decorator
        return qualified_name(self.file, called) in GRAD_OFF | GRAD_ON or self._is_builtin(
            decorator, "staticmethod"
        )

    def _is_builtin(self, node: cst.BaseExpression, name: str) -> bool:
        return (
            isinstance(node, cst.Name)
            and node.value == name
            and scopes_of(self.file).found(name, node) is None
        )


def _entered_before(block: cst.With, part: cst.CSTNode) -> list[cst.WithItem]:
    """The items of a `with` statement that are entered when a part of it is evaluated."""
    items = list(block.items)
    return items[: items.index(part)] if isinstance(part, cst.WithItem) else items


def _is_called(file: ParsedFile, use: cst.Name) -> bool:
    around = file.parent(use)
    return isinstance(around, cst.Call) and around.func is use


def _yields(function: cst.FunctionDef) -> bool:
    """Whether a function is a generator, whose body runs where somebody asks for its values."""
    found = False

    class Yields(cst.CSTVisitor):
        def visit_Yield(self, node: cst.Yield) -> None:
            nonlocal found
            found = True

        def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
            return node is function

        def visit_Lambda(self, node: cst.Lambda) -> bool:
            return False

    function.visit(Yields())
    return found
