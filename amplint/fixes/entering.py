"""Autocast contexts that are made and entered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst

from amplint.amp.regions import ENTRIES, GENERIC_ENTRIES
from amplint.events import Place
from amplint.findings import Claim, Fix
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import acts_in, dotted, needs_region
from amplint.fixes.imports import qualified_name
from amplint.fixes.made import function_around
from amplint.fixes.names import names_in
from amplint.fixes.openings import with_item
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import bound_in
from amplint.fixes.statements import Replacement, Statement, exchanged, indented, preceded, without_blanks

_NOTE = "the code runs in half precision for the first time, and float16 needs a gradient scaler"


@dataclass(frozen=True)
class EnterBoth(FixBuilder):
    """Enters both contexts that ``and`` joins."""

    context: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the region takes effect for the first time."""
        file = files.parsed(self.context.path)
        node = file.expression(self.context.span)
        joined = file.parent(node) if node is not None else None
        item = file.parent(joined) if joined is not None else None
        if (
            not isinstance(joined, cst.BooleanOperation)
            or not isinstance(joined.operator, cst.And)
            or not isinstance(item, cst.WithItem)
        ):
            return Refusal("it is not clear which of the contexts are meant")
        holder = file.parent(item)
        assert isinstance(holder, cst.With)
        left, right = (part.with_changes(lpar=(), rpar=()) for part in (joined.left, joined.right))
        if joined.lpar or any("\n" in file.code(part) for part in (left, right, joined.operator)):
            return Refusal("the contexts are written over several lines or in brackets")
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        at = list(holder.items).index(item)
        items = [*holder.items[:at], cst.WithItem(left, comma=comma), item.with_changes(item=right)]
        changed = holder.with_changes(items=[*items, *holder.items[at + 1 :]])
        return make_fix("Enter both contexts", {file: exchanged(file, {holder: changed})}, unsafe=_NOTE)


@dataclass(frozen=True)
class CallContext(FixBuilder):
    """Calls autocast where `with` gets the class."""

    entry: Place
    device: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the code raised so far, and another device may be meant."""
        file = files.parsed(self.entry.path)
        node = file.expression(self.entry.span)
        name = qualified_name(file, node) if node is not None else None
        if node is None or name not in ENTRIES or not isinstance(file.parent(node), cst.WithItem):
            return Refusal("the class is not named where it is entered")
        args = [cst.Arg(cst.SimpleString(f'"{self.device}"'))] if name in GENERIC_ENTRIES else []
        call = cst.Call(func=node, args=args)
        return make_fix(f"Write `{file.code(call)}`", {file: exchanged(file, {node: call})}, unsafe=_NOTE)


@dataclass(frozen=True)
class EnterContext(FixBuilder):
    """Opens a region around the statements that follow where its context is made: up to the last that needs it and
    comes before the backward pass. ``name`` is what the context was called, if anything."""

    context: Place
    name: str = ""

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the context alone does not say which statements it was meant for."""
        file = files.parsed(self.context.path)
        node = file.expression(self.context.span)
        if node is None:
            return Refusal("the context is not found")
        statement = file.statement(node)
        around = file.parent(statement)
        if (
            not isinstance(statement, cst.SimpleStatementLine)
            or len(statement.body) > 1
            or not isinstance(around, cst.IndentedBlock | cst.Module)
            or not _is_whole(statement.body[0], node)
        ):
            return Refusal("the context is made in a larger statement")
        if self.name and self.name in names_in(function_around(file, node)) - bound_in(statement):
            return Refusal(f"`{self.name}` is read elsewhere")
        following = list(around.body[around.body.index(statement) + 1 :])
        body = _meant(file, following)
        if names_in(node) & {name for part in body for name in bound_in(part)} - {self.name}:
            return Refusal("what follows binds a name that the context is made with")
        header = statement.trailing_whitespace
        if not _may_run(file, node, following):
            return Refusal(
                "the region runs in float16, and nothing scales the loss of the backward pass below"
            )
        first, *rest = map(indented, body)
        opened = with_item(node, [without_blanks(first), *rest], header=header if header.comment else None)
        changes: dict[cst.CSTNode, Replacement] = {statement: preceded(opened, statement.leading_lines)}
        changes.update({part: cst.RemoveFromParent() for part in body})
        fix = make_fix(
            "Enter the context around what follows",
            {file: exchanged(file, changes)},
            [(file, part) for part in (statement, *body)],
            unsafe=_NOTE,
        )
        # the blank lines between them are part of it
        whole = Claim(file.path, file.claim(statement).first, file.claim(body[-1]).last)
        return replace(fix, claims=(*fix.claims, whole))


def _may_run(file: ParsedFile, context: cst.BaseExpression, following: Sequence[cst.CSTNode]) -> bool:
    """Whether a backward pass that follows is of a scaled loss, or the region is in bfloat16, if there is one."""
    calls = [call for part in following for call in file.inside(cst.Call, file.span(part))]
    methods = {call.func.attr.value for call in calls if isinstance(call.func, cst.Attribute)}
    if not methods & {"backward", "manual_backward"} or "scale" in methods:
        return True
    given = context.args if isinstance(context, cst.Call) else ()
    return any((dotted(arg.value) or "").endswith("bfloat16") for arg in given)


def _is_whole(part: cst.BaseSmallStatement, node: cst.BaseExpression) -> bool:
    """Whether a statement does nothing but make a context, and name it."""
    if isinstance(part, cst.Expr | cst.AnnAssign):
        return part.value is node
    return isinstance(part, cst.Assign) and part.value is node and len(part.targets) == 1


def _meant(file: ParsedFile, following: Sequence[cst.CSTNode]) -> list[Statement]:
    """The statements that the region was meant for. Raises Refusal."""
    body: list[Statement] = []
    for part in following:
        if acts_in(part) or not isinstance(part, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            break
        body.append(part)
    while body and needs_region(body[-1]) is None:
        body.pop()
    if not body:
        raise Refusal("nothing that follows in the block needs the region")
    for part in body:
        for kind in (cst.Yield, cst.Await):
            if file.inside(kind, file.span(part)):
                raise Refusal("what follows is suspended in between, and the region would reach other code")
        if isinstance(part, cst.FunctionDef | cst.ClassDef):
            raise Refusal(f"`{part.name.value}` is defined in between, and runs elsewhere")
    return body
