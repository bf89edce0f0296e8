"""Calls of ``unscale_`` that come at the wrong time, taken away or moved in front of the step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from amplint.amp.scalers import CLIPS
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.casts import kept_beside, removed_statement
from amplint.fixes.dependence import dotted
from amplint.fixes.made import function_around
from amplint.fixes.names import names_in, roots
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scaling import call_at, calls_of, first_argument, receiver_of
from amplint.fixes.scopes import bound_in
from amplint.fixes.statements import Replacement, Statement, alone, exchanged, preceded, without_blanks


@dataclass(frozen=True)
class RemoveUnscale(FixBuilder):
    """Takes an ``unscale_`` away that comes after the scaler's step."""

    unscale: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: it was meant for something, and that comes too late as well."""
        file = files.parsed(self.unscale.path)
        call = call_at(file, self.unscale)
        statement = alone(file, call)
        around = file.parent(statement)
        if isinstance(around, cst.IndentedBlock | cst.Module):
            for later in around.body[around.body.index(statement) + 1 :]:
                if any(_called(part) in CLIPS for part in file.inside(cst.Call, file.span(later))):
                    return Refusal(
                        f"the clip on {file.line_name(later)} comes after the step, too, and has no effect"
                    )
        changes = removed_statement(file, statement)
        note = "what is done to the gradients after the step has no effect on it, unscaled or not"
        return make_fix(
            f"Remove `{receiver_of(call)}.unscale_` after the step",
            {file: exchanged(file, changes)},
            [(file, part) for part in (statement, *kept_beside(file, changes))],
            unsafe=note,
        )


@dataclass(frozen=True)
class MoveUnscale(FixBuilder):
    """Moves an ``unscale_`` and the clip behind it in front of the scaler's step."""

    unscale: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the gradients are clipped once for all micro-batches then."""
        file = files.parsed(self.unscale.path)
        call = call_at(file, self.unscale)
        scaler, optimizer = receiver_of(call), dotted(first_argument(call))
        if optimizer is None:
            return Refusal("the optimizer has no name")
        function = function_around(file, call)
        for other in calls_of(file, function, scaler, "unscale_"):
            if other is not call and dotted(first_argument(other)) == optimizer:
                return Refusal(f"`{scaler}.unscale_` runs on {file.line_name(other)}, too")
        steps = [
            step
            for step in calls_of(file, function, scaler, "step")
            if dotted(first_argument(step)) == optimizer
        ]
        if len(steps) != 1:
            what = "is not in this function" if not steps else "runs in several places"
            return Refusal(f"`{scaler}.step({optimizer})` {what}")
        step = file.statement(steps[0])
        if not isinstance(step, cst.SimpleStatementLine):
            return Refusal("the step is a part of a larger statement")
        group = _group(file, call)
        _check_names(file, function, group, step)
        _check_ways(file, group, step)
        first = without_blanks(group[0])
        moved = preceded(first, step.leading_lines)
        changes: dict[cst.CSTNode, Replacement] = {part: cst.RemoveFromParent() for part in group}
        changes[step] = cst.FlattenSentinel([moved, *group[1:], step.with_changes(leading_lines=())])
        module = exchanged(file, changes)
        what = " and the clip" if len(group) > 1 or group[0] is not file.statement(call) else ""
        return make_fix(
            f"Move `{scaler}.unscale_`{what} before the step",
            {file: module},
            [(file, part) for part in (*group, step, *kept_beside(file, changes))],
            unsafe="it runs once for each step then, on all gradients together, and training changes",
        )


def _group(file: ParsedFile, call: cst.Call) -> Sequence[Statement]:
    """The statement with ``unscale_``, the clips that follow it, and the condition around them if it holds
    nothing else. Raises Refusal."""
    statement: Statement = alone(file, call)
    while True:
        block = file.parent(statement)
        if not isinstance(block, cst.IndentedBlock | cst.Module):
            raise Refusal("`unscale_` stands on the line of another statement")
        at = block.body.index(statement)
        end = at + 1
        while end < len(block.body) and _is_clip(block.body[end]):
            end += 1
        group = [part for part in block.body[at:end] if isinstance(part, cst.SimpleStatementLine | cst.If)]
        if len(group) < len(block.body):
            return group
        holder = file.parent(block)
        if (
            not isinstance(holder, cst.If)
            or holder.orelse is not None
            or isinstance(file.parent(holder), cst.If)
        ):
            raise Refusal("nothing would be left where `unscale_` stands")
        statement = holder


def _is_clip(node: cst.CSTNode) -> bool:
    """Whether a statement does nothing but clip gradients, under a condition perhaps."""
    if isinstance(node, cst.If):
        return (
            node.orelse is None
            and isinstance(node.body, cst.IndentedBlock)
            and all(_is_clip(part) for part in node.body.body)
        )
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) > 1:
        return False
    part = node.body[0]
    value = part.value if isinstance(part, cst.Expr | cst.Assign) else None
    return isinstance(value, cst.Call) and _called(value) in CLIPS


def _called(call: cst.Call) -> str:
    return (dotted(call.func) or "").rpartition(".")[2]


def _check_names(
    file: ParsedFile,
    function: cst.FunctionDef | cst.Module,
    group: Sequence[Statement],
    step: cst.SimpleStatementLine,
) -> None:
    """Raises Refusal where what is moved makes something that others use, or uses what changes on the way."""
    inside = {name for part in group for name in roots(part)}
    made = {name for part in group for name in bound_in(part)}
    for name in roots(function):
        if name.value in made and name not in inside:
            raise Refusal(f"`{name.value}` is used on {file.line_name(name)} as well")
    used = names_in(*group) - made
    for part in _between(file, group, step):
        changing = sorted(used & bound_in(part))
        if changing:
            raise Refusal(f"`{changing[0]}` changes before the step")


def _check_ways(file: ParsedFile, group: Sequence[Statement], step: cst.SimpleStatementLine) -> None:
    """Raises Refusal where the step does not follow, or something on the way reads the gradients."""
    here, there = list(file.parents(group[0])), list(file.parents(step))
    for around in here:
        if around in there:
            break
        if isinstance(around, cst.BaseCompoundStatement) and not isinstance(around, cst.For | cst.While):
            raise Refusal("`unscale_` stands under another condition than the step")
    for around in there:
        if around in here:
            break
        if isinstance(around, cst.BaseCompoundStatement) and not isinstance(around, cst.If):
            raise Refusal(f"the step stands in a block of its own, on {file.line_name(around)}")
    if file.span(step) < file.span(group[0]):
        raise Refusal("the step comes before `unscale_`")
    first, last = file.span(group[-1]), file.span(step)
    for part in _between(file, group, step):
        for attribute in file.inside(cst.Attribute, file.span(part)):
            place = file.span(attribute)
            name = attribute.attr.value
            if first.end_line < place.line < last.line and (name == "grad" or "grad_norm" in name):
                raise Refusal(f"the gradients are read on {file.line_name(attribute)}, before the step")


def _between(
    file: ParsedFile, group: Sequence[Statement], step: cst.SimpleStatementLine
) -> Iterator[cst.CSTNode]:
    """The statements from those that are moved to the step: whole in the block that holds both, and what
    stands around the step or the moved ones there."""
    there = {step, *file.parents(step)}
    top: cst.CSTNode = group[0]
    block = file.parent(top)
    while block is not None and block not in there:
        top, block = block, file.parent(block)
    if not isinstance(block, cst.IndentedBlock | cst.Module):
        raise Refusal("`unscale_` and the step stand in no common block")
    last = next(number for number, part in enumerate(block.body) if part in there)
    first = block.body.index(top)
    yield from (part for part in block.body[first : last + 1] if part not in group)
