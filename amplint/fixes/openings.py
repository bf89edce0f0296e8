"""Where a region is opened in a file: the `with` item or the decorator that a place leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from amplint.amp.regions import PLAIN_CONTEXTS
from amplint.events import Place
from amplint.findings import Span
from amplint.fixes.base import Files
from amplint.fixes.imports import qualified_name
from amplint.fixes.names import names_in
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.statements import Statement, block

_PUSHES = frozenset({"enter_context", "enter_async_context", "push"})


@dataclass(frozen=True)
class Opening:
    """``holder`` is the `with` statement or the decorated function, ``context`` the expression that makes the
    region. ``wrapped`` says that the region is opened by something that the context calls. ``entered`` is the
    statement of a `with` statement's body that puts the context on its ExitStack."""

    file: ParsedFile
    holder: cst.With | cst.FunctionDef
    item: cst.WithItem | cst.Decorator
    context: cst.BaseExpression
    wrapped: bool = False
    entered: cst.SimpleStatementLine | None = None

    @property
    def suite(self) -> cst.BaseSuite:
        """What the region holds."""
        suite = self.holder.body
        if self.entered is None:
            return suite
        return suite.with_changes(body=suite.body[suite.body.index(self.entered) + 1 :])

    @property
    def others(self) -> list[cst.WithItem]:
        """The other items of the `with` statement, in which the region is opened."""
        if not isinstance(self.holder, cst.With) or self.entered is not None:
            return []
        return [item for item in self.holder.items if item is not self.item]

    @property
    def bound(self) -> str | None:
        """The name that `as` gives the context."""
        if self.entered is not None:
            return None
        if isinstance(self.item, cst.WithItem) and self.item.asname is not None:
            return self.file.code(self.item.asname.name)
        return None

    @property
    def reorders(self) -> cst.WithItem | None:
        """Another item that is entered in the region now and would be entered before it if the items were
        taken apart, unless that makes no difference."""
        if not isinstance(self.holder, cst.With):
            return None
        at = list(self.holder.items).index(self.item)  # type: ignore[arg-type]
        for item in self.holder.items[at + 1 :]:
            if not is_plain_context(self.file, item.item):
                return item
        return None

    def around(
        self, statements: Sequence[Statement], header: cst.TrailingWhitespace | None = None
    ) -> cst.With:
        """A `with` statement that opens the region around statements."""
        asname = self.item.asname if isinstance(self.item, cst.WithItem) and self.entered is None else None
        return with_item(self.context, statements, asname, header)

    def without(self, statements: Sequence[Statement]) -> cst.With:
        """The `with` statement without the region's item, around statements."""
        assert isinstance(self.holder, cst.With)
        items = self.others
        items[-1] = items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        changed = self.holder.with_changes(items=items, body=block(statements, self.suite))
        if len(items) == 1 and not _spread(items[0]):
            changed = changed.with_changes(
                lpar=cst.MaybeSentinel.DEFAULT,
                rpar=cst.MaybeSentinel.DEFAULT,
                whitespace_after_with=cst.SimpleWhitespace(" "),
                whitespace_before_colon=cst.SimpleWhitespace(""),
            )
        return changed

    def holds(self, span: Span) -> bool:
        """Whether a span lies in the region's body."""
        place = self.file.span(self.suite) if isinstance(self.suite, cst.SimpleStatementSuite) else None
        if place is None:
            statements = self.suite.body
            first, last = self.file.span(statements[0]), self.file.span(statements[-1])
            place = replace(first, end_line=last.end_line, end_column=last.end_column)
        return (place.line, place.column) <= (span.line, span.column) and (
            span.end_line,
            span.end_column,
        ) <= (
            place.end_line,
            place.end_column,
        )


def is_plain_context(file: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether a context surely is no region, and may as well be entered on the other side of one:
    ``torch.no_grad()``; ``model.no_sync()``, which torch and all frameworks name so."""
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "no_sync":
        return True
    return qualified_name(file, node.func) in PLAIN_CONTEXTS


def with_item(
    context: cst.BaseExpression,
    statements: Sequence[Statement],
    asname: cst.AsName | None = None,
    header: cst.TrailingWhitespace | None = None,
) -> cst.With:
    """A `with` statement with one item."""
    if _spread(context):
        raise Refusal("the context is written over several lines without brackets of its own")
    body = block(statements)
    if header is not None:
        body = body.with_changes(header=header)
    return cst.With(items=[cst.WithItem(item=context, asname=asname)], body=body)


def _spread(node: cst.CSTNode) -> bool:
    """Whether a piece of code needs brackets around it to reach over its lines."""
    code = cst.Module(body=()).code_for_node(node)
    if "\n" not in code and "\r" not in code:
        return False
    try:
        compile(code.strip().rstrip(","), "<context>", "eval")
    except SyntaxError:
        return True
    return False


def opening(files: Files, region: Place, inside: Place) -> Opening:
    """How the region that ``region`` leads to is opened around ``inside``: where its context is written, or
    where what opens it is called. Raises Refusal."""
    for number, place in enumerate((region, *reversed(region.calls))):
        file = files.parsed(place.path)
        found = _at(file, place.span, wrapped=number > 0)
        if found is not None and chain_in(found, inside):
            if isinstance(found.holder, cst.With) and found.holder.asynchronous is not None:
                raise Refusal("the region is opened in an `async with`")
            return found
    raise Refusal(_how(files, region))


def _how(files: Files, region: Place) -> str:
    """How a region is opened that has no block of its own."""
    node = files.parsed(region.path).expression(region.span)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        name = files.parsed(region.path).code(node.func.value)
        if node.func.attr.value in _PUSHES:
            return f"`{name}` holds the region open until it is closed: open it with `with` instead"
        if node.func.attr.value == "__enter__":
            return f"`{name}.__enter__()` opens the region by hand: open it with `with` instead"
    return "the region is opened by neither a `with` statement nor a decorator"


def _at(file: ParsedFile, span: Span, wrapped: bool) -> Opening | None:
    node = file.expression(span)
    if node is None:
        return None
    item = file.parent(node)
    if isinstance(item, cst.WithItem):
        holder = file.parent(item)
        assert isinstance(holder, cst.With)
        return Opening(file, holder, item, node, wrapped)
    if isinstance(item, cst.Decorator):
        function = file.parent(item)
        if isinstance(function, cst.FunctionDef):
            return Opening(file, function, item, node, wrapped)
    return _on_stack(file, node, wrapped)


def _on_stack(file: ParsedFile, node: cst.BaseExpression, wrapped: bool) -> Opening | None:
    """The region that ``stack.enter_context(…)`` opens up to the end of `with ExitStack() as stack`, where that
    holds for every way through the block, and nothing that follows has to do with the stack."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return None
    stack, line = node.func.value, file.statement(node)
    suite = file.parent(line)
    holder = file.parent(suite) if isinstance(suite, cst.IndentedBlock) else None
    if (
        node.func.attr.value != "enter_context"
        or not isinstance(stack, cst.Name)
        or not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) > 1
        or not isinstance(line.body[0], cst.Expr)
        or line.body[0].value is not node
        or not isinstance(holder, cst.With)
        or node.args[0].star
        or node.args[0].keyword is not None
    ):
        return None
    item = next((part for part in holder.items if _binds(file, part, stack.value)), None)
    if item is None:
        return None
    opened = Opening(file, holder, item, node.args[0].value, wrapped, line)
    return None if stack.value in names_in(opened.suite) else opened


def _binds(file: ParsedFile, item: cst.WithItem, name: str) -> bool:
    """Whether a `with` item gives a new ExitStack this name."""
    return (
        isinstance(item.item, cst.Call)
        and qualified_name(file, item.item.func) == "contextlib.ExitStack"
        and item.asname is not None
        and isinstance(item.asname.name, cst.Name)
        and item.asname.name.value == name
    )


def chain_in(opened: Opening, inside: Place) -> list[Place]:
    """The calls that lead from the region's body to a place, and the place itself, outermost first. Empty if
    they do not pass through the body."""
    chain = (*inside.calls, inside)
    for number, place in enumerate(chain):
        if place.path == opened.file.path and opened.holds(place.span):
            return list(chain[number:])
    return []
