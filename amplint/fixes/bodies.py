"""Regions opened in the body of a function: in place of a decorator, or of a region that does not reach it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted, needs_region
from amplint.fixes.names import module_bindings, names_in, roots
from amplint.fixes.openings import with_item
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import bound_in
from amplint.fixes.statements import (
    Statement,
    block,
    comment_line,
    comments_of,
    exchanged,
    preceded,
    statements_of,
)
from amplint.fixes.weight_cache import making

_NAMES = ("result", "output", "value")


@dataclass(frozen=True)
class OpenInBody(FixBuilder):
    """Opens the region that decorates a function with `with` in its body. ``kind`` is "function" and "context
    manager" for the whole body; for a "generator" or "coroutine" only what stands between its `yield` or `await`
    expressions and may need the region."""

    decorator: Place
    kind: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the body runs in another type than before."""
        file = files.parsed(self.decorator.path)
        context = file.expression(self.decorator.span)
        item = file.parent(context) if context is not None else None
        function = file.parent(item) if item is not None else None
        if (
            context is None
            or not isinstance(item, cst.Decorator)
            or not isinstance(function, cst.FunctionDef)
        ):
            return Refusal("the region is not opened by a decorator")
        if self.kind == "function" and not isinstance(context, cst.Call):
            return Refusal(
                f"`{file.code(context)}` is one context, which would be entered again all the same"
            )
        if any(line.comment is not None for line in item.leading_lines):
            return Refusal("the comment above the decorator would be lost")
        header = item.trailing_whitespace if item.trailing_whitespace.comment is not None else None
        clash = names_in(context) & bound_in(function)
        if clash:
            return Refusal(f"`{min(clash)}` is something else in `{function.name.value}`")
        decorators = [other for other in function.decorators if other is not item]
        changed = function.with_changes(decorators=decorators)
        if self.kind in ("function", "context manager"):
            changed = _opened(changed, context, header)
        else:
            statements = _Between(context, names_in(function), header).narrowed(statements_of(function.body))
            changed = changed.with_changes(body=_like(function.body, statements))
        title = f"Open the region in the body of `{function.name.value}`"
        note = {
            "function": "code after the call runs in float32 then, which autocast stayed on for so far",
        }.get(self.kind, "the body runs in half precision for the first time")
        module = exchanged(file, {function: changed})
        return make_fix(title, {file: module}, [(file, function)], unsafe=note)


@dataclass(frozen=True)
class OpenInCallee(FixBuilder):
    """Opens the region that ``region`` leads to in the function in which ``inside`` stands, too. ``started`` is where
    the thread begins that runs it."""

    region: Place
    inside: Place
    started: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the function runs in half precision then, whoever calls it."""
        file = files.parsed(self.inside.path)
        function = file.around(cst.FunctionDef, self.inside.span)
        if function is None or any(
            isinstance(node, cst.Lambda) for node in file.parents(_node(file, self.inside))
        ):
            return Refusal("what the thread runs is no function with a name")
        if self.started.path == file.path and file.around(cst.FunctionDef, self.started.span) is function:
            return Refusal("the function that the thread runs is out of sight")
        home = files.parsed(self.region.path)
        context = home.expression(self.region.span)
        if not isinstance(context, cst.Call):
            return Refusal("the region is not made where it is opened")
        where = home.around(cst.FunctionDef, self.region.span)
        same_class = where is not None and _class_of(home, where) is _class_of(file, function) is not None
        here, there = module_bindings(home, files.project.origin), module_bindings(file, files.project.origin)
        for name in names_in(context):
            local = where is not None and name in bound_in(where)
            if name == "self" and same_class:
                continue
            if local or name in bound_in(function) or here.get(name) is None or here[name] != there.get(name):
                return Refusal(f"`{name}` is not known in `{function.name.value}`")
        changed = _opened(_without(function, context), context)
        title = f"Open the region in `{function.name.value}` as well"
        note = f"`{function.name.value}` runs in half precision then, whoever calls it"
        module = exchanged(file, {function: changed})
        return make_fix(title, {file: module}, [(file, function)], unsafe=note)


@dataclass(frozen=True)
class OwnContext(FixBuilder):
    """Makes a context of its own where a stored one is entered while it is open."""

    again: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: autocast no longer stays on after the outer block."""
        file = files.parsed(self.again.path)
        node = file.expression(self.again.span)
        if node is None or dotted(node) is None:
            return Refusal("the context is not kept in a name")
        _, call, _ = making(files, self.again)
        maker = file.around(cst.FunctionDef, file.span(call))
        user = file.around(cst.FunctionDef, self.again.span)
        known = module_bindings(file)
        for root in roots(call):
            name = root.value
            local = any(part is not None and name in bound_in(part) for part in (maker, user))
            if name not in known or local:
                return Refusal(f"`{name}` is not known where the context is entered again")
        module = exchanged(file, {node: call.deep_clone()})
        note = "code after the outer block runs with autocast off then, as it was written"
        return make_fix("Make a context of its own here", {file: module}, unsafe=note)


def _node(file: ParsedFile, place: Place) -> cst.CSTNode:
    node = file.expression(place.span)
    if node is None:
        raise Refusal("the forward is not found")
    return node


def _class_of(file: ParsedFile, function: cst.FunctionDef) -> cst.CSTNode | None:
    return next((node for node in file.parents(function) if isinstance(node, cst.ClassDef)), None)


def _without(function: cst.FunctionDef, context: cst.BaseExpression) -> cst.FunctionDef:
    """A function without the `with` statements of its body that open the same region, which are to lie within it."""
    body: list[Statement] = []
    for statement in statements_of(function.body):
        suite = statement.body if isinstance(statement, cst.With) else None
        if (
            isinstance(statement, cst.With)
            and isinstance(suite, cst.IndentedBlock)
            and statement.asynchronous is None
            and len(statement.items) == 1
            and statement.items[0].asname is None
            and statement.items[0].item.deep_equals(context)
            and not comments_of(*suite.footer)
        ):
            inner = statements_of(suite)
            above = [*statement.leading_lines, *comment_line(suite.header.comment)]
            body += [preceded(inner[0], above), *inner[1:]]
        else:
            body.append(statement)
    return function.with_changes(body=_like(function.body, body))


def _opened(
    function: cst.FunctionDef, context: cst.BaseExpression, header: cst.TrailingWhitespace | None = None
) -> cst.FunctionDef:
    """A function with a region around its body, its docstring excepted."""
    statements = statements_of(function.body)
    start = 1 if function.get_docstring() is not None else 0
    if not statements[start:]:
        raise Refusal("the function does nothing")
    head, body = statements[:start], statements[start:]
    above = body[0].leading_lines
    body[0] = body[0].with_changes(leading_lines=())
    opened = with_item(context, body, header=header).with_changes(leading_lines=above)
    return function.with_changes(body=_like(function.body, [*head, opened]))


def _like(suite: cst.BaseSuite, statements: Sequence[Statement]) -> cst.IndentedBlock:
    if isinstance(suite, cst.IndentedBlock):
        return suite.with_changes(body=statements)
    return block(statements)


class _Between:
    """Opens a region around the runs of statements that may need it and hold no `yield` or `await`."""

    def __init__(
        self, context: cst.BaseExpression, used: set[str], header: cst.TrailingWhitespace | None
    ) -> None:
        self.context = context
        self.used = used
        self.header = header

    def narrowed(self, statements: Sequence[Statement]) -> list[Statement]:
        result: list[Statement] = []
        run: list[Statement] = []
        for statement in statements:
            if _suspends(statement):
                result += [*self._wrapped(run), *self._inside(statement)]
                run = []
            elif run or needs_region(statement) is not None:
                run.append(statement)
            else:
                result.append(statement)
        return result + self._wrapped(run)

    def _wrapped(self, run: list[Statement]) -> list[Statement]:
        last = next((n for n in range(len(run), 0, -1) if needs_region(run[n - 1]) is not None), 0)
        if not last:
            return run
        body, rest = run[:last], run[last:]
        above = body[0].leading_lines
        body[0] = body[0].with_changes(leading_lines=())
        return [self._with(body).with_changes(leading_lines=above), *rest]

    def _with(self, body: Sequence[Statement]) -> cst.With:
        """The region around statements; the first one takes the comment of the decorator."""
        header, self.header = self.header, None
        return with_item(self.context, body, header=header)

    def _inside(self, statement: Statement) -> list[Statement]:
        match statement:
            case cst.For() if needs_region(statement.iter) is None and statement.orelse is None:
                return [statement.with_changes(body=self._suite(statement.body))]
            case cst.While() | cst.If() if needs_region(statement.test) is None and statement.orelse is None:
                return [statement.with_changes(body=self._suite(statement.body))]
            case cst.With():
                return [statement.with_changes(body=self._suite(statement.body))]
            case cst.SimpleStatementLine(
                body=[cst.Expr(value=cst.Yield(value=cst.BaseExpression() as given))]
            ):
                if needs_region(given) is None:
                    return [statement]
                name = next((name for name in _NAMES if name not in self.used), None)
                if name is None or _suspends(given):
                    raise Refusal("there is no free name for what is yielded")
                assign = cst.Assign(targets=[cst.AssignTarget(cst.Name(name))], value=given)
                line = cst.SimpleStatementLine(body=[assign])
                opened = self._with([line]).with_changes(leading_lines=statement.leading_lines)
                return [
                    opened,
                    statement.with_changes(
                        leading_lines=(), body=[cst.Expr(cst.Yield(value=cst.Name(name)))]
                    ),
                ]
            case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Yield(value=None))]):
                return [statement]
        raise Refusal("forward and `yield` or `await` stand in one statement")

    def _suite(self, suite: cst.BaseSuite) -> cst.IndentedBlock:
        return _like(suite, self.narrowed(statements_of(suite)))


def _suspends(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef):
        return False
    if isinstance(node, cst.Yield | cst.Await):
        return True
    if isinstance(node, cst.For | cst.With | cst.CompFor) and node.asynchronous is not None:
        return True
    return any(_suspends(child) for child in node.children)
