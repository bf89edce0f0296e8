"""Code that trains with apex.amp under a flag, as if the flag were set: torch.amp has an `enabled` for that."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from amplint.fixes.apex_calls import AMP, uses_in
from amplint.fixes.arguments import keyword, set_argument
from amplint.fixes.imports import qualified_name
from amplint.fixes.made import is_main
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.statements import (
    Exchange,
    Replacement,
    Statement,
    comment_line,
    exchanged,
    preceded,
    statements_of,
)
from amplint.fixes.switches import is_plain


def unconditional(file: ParsedFile) -> ParsedFile:
    """The file with the bodies of `if use_apex:` in the places of these statements, and ``enabled=use_apex`` in the
    call of ``amp.initialize``. The file itself where nothing stands under a flag. Raises Refusal where without apex
    something else is done than without its casts and scales."""
    uses = list(uses_in(file))
    calls = [
        call
        for use in uses
        if _named(file, use, "initialize") and isinstance(call := file.parent(use), cst.Call)
    ]
    condition = _condition(file, calls[0]) if len(calls) == 1 else None
    if condition is None:
        return file
    if not is_plain(condition.test):
        raise Refusal("`amp.initialize` is called under a condition that is computed")
    flag = file.code(condition.test)
    guards = {condition: None, **{guard: None for use in uses for guard in _guards(file, use, flag)}}
    changes: dict[cst.CSTNode, Replacement] = {}
    inner: dict[cst.CSTNode, cst.CSTNode] = {
        calls[0]: set_argument(calls[0], len(calls[0].args), keyword("enabled", condition.test))
    }
    for guard in guards:
        if not isinstance(file.parent(guard), cst.Module | cst.IndentedBlock):
            raise Refusal("without apex the code goes another way")
        if guard.orelse is not None and not _is_same(file, guard):
            raise Refusal("without apex the code does something else: decide what holds then")
        changes[guard] = cst.FlattenSentinel(_body(guard, inner))
    return ParsedFile(file.path, exchanged(file, changes).code)


def _condition(file: ParsedFile, call: cst.Call) -> cst.If | None:
    """The condition under which a call stands, the nearest one."""
    for around in file.parents(call):
        if isinstance(around, cst.FunctionDef):
            return None
        if isinstance(around, cst.If) and not is_main(around):
            return around
    return None


def _guards(file: ParsedFile, use: cst.CSTNode, flag: str) -> list[cst.If]:
    """The statements `if flag:` in whose bodies a node stands."""
    inside: list[cst.CSTNode] = [use]
    found = []
    for around in file.parents(use):
        if isinstance(around, cst.If) and around.body in inside and file.code(around.test) == flag:
            found.append(around)
        inside.append(around)
    return found


def _body(guard: cst.If, inner: dict[cst.CSTNode, cst.CSTNode]) -> Sequence[Statement]:
    body = guard.body.visit(Exchange(inner))
    assert isinstance(body, cst.BaseSuite)
    first, *rest = statements_of(body)
    header = guard.body.header.comment if isinstance(guard.body, cst.IndentedBlock) else None
    above = [*guard.leading_lines, *comment_line(header)]
    first = first.with_changes(leading_lines=[one for one in first.leading_lines if one.comment])
    return [preceded(first, above), *rest]


def _is_same(file: ParsedFile, guard: cst.If) -> bool:
    """Whether the other branch does what the first one does with a scale of one: the backward pass of the loss itself,
    a clip of parameters that need no masters."""
    other = guard.orelse
    if not isinstance(other, cst.Else):
        return False
    return _plainly(file, guard.body, guard) == _plainly(file, other.body, guard)


def _plainly(file: ParsedFile, suite: cst.BaseSuite, guard: cst.If) -> list[str]:
    """The code of a block without what apex makes of it."""
    names: dict[str, str] = {}
    found: list[str] = []

    class Plain(cst.CSTTransformer):
        def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
            func = original_node.func
            is_masters = _named(file, func, "master_params")
            is_parameters = isinstance(func, cst.Attribute) and func.attr.value == "parameters"
            return cst.Name("_") if is_masters or is_parameters else updated_node

        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
            return cst.parse_expression(names.get(original_node.value, original_node.value))

    for statement in statements_of(suite):
        parts: Sequence[Statement] = [statement]
        if isinstance(statement, cst.With) and len(statement.items) == 1:
            item = statement.items[0]
            call = item.item
            if isinstance(call, cst.Call) and _named(file, call.func, "scale_loss") and call.args:
                if item.asname is not None and isinstance(item.asname.name, cst.Name):
                    names[item.asname.name.value] = file.code(call.args[0].value)
                parts = statements_of(statement.body)
        for part in parts:
            plain = part.with_changes(leading_lines=()).visit(Plain())
            assert isinstance(plain, cst.SimpleStatementLine | cst.BaseCompoundStatement)
            if isinstance(plain, cst.SimpleStatementLine):
                plain = plain.with_changes(trailing_whitespace=cst.TrailingWhitespace())
            found.append("".join(cst.Module(body=[plain]).code.split()))
    return found


def _named(file: ParsedFile, node: cst.CSTNode, name: str) -> bool:
    return qualified_name(file, node) == f"{AMP}{name}"
