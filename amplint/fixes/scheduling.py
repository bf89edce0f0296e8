"""Learning-rate schedulers that go on only where the scaler made the step."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted
from amplint.fixes.made import function_around, refuse_conditional
from amplint.fixes.names import names_in
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scaling import call_at, calls_of, receiver_of
from amplint.fixes.statements import Replacement, alone, exchanged, preceded, spliced

_BEFORE = "scale_before_update"


@dataclass(frozen=True)
class StepIfMade(FixBuilder):
    """Has a scheduler go on only where the scale has not become smaller in the update after ``step``."""

    step: Place
    scheduler: Place
    made: Place | None = None
    """Where the scaler is made, if that is known."""

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the schedule takes longer, and each step waits for the device."""
        file = files.parsed(self.step.path)
        if self.scheduler.path != self.step.path:
            return Refusal("the scheduler goes on in another file")
        if self.made is not None:
            home = files.parsed(self.made.path)
            refuse_conditional(home, call_at(home, self.made))  # what else it may be need not have a scale
        step, scheduler = call_at(file, self.step), call_at(file, self.scheduler)
        scaler, function = receiver_of(step), function_around(file, step)
        updates = list(calls_of(file, function, scaler, "update"))
        if len(updates) != 1 or updates[0].args:
            return Refusal(f"`{scaler}.update()` is not called once in the function")
        if _BEFORE in names_in(function):
            return Refusal(f"the name `{_BEFORE}` is taken")
        update, follower = alone(file, updates[0]), alone(file, scheduler)
        block = file.parent(update)
        if (
            not isinstance(block, cst.Module | cst.IndentedBlock)
            or file.parent(follower) is not block
            or file.parent(file.statement(step)) is not block
        ):
            return Refusal("the step, the update and the scheduler stand in different blocks")
        first, last = block.body.index(update), block.body.index(follower)
        if last not in (*range(first, len(block.body)), first - 1):
            return Refusal("the scheduler goes on before the update, and something stands between the two")
        if file.span(update) < file.span(step):
            return Refusal("the update comes before the step")
        changes = self._changes(file, scaler, update, follower)
        module = exchanged(file, changes)
        return make_fix(
            "Step the scheduler only where the scaler has made the step",
            {file: module},
            [(file, update), (file, follower)],
            unsafe="the schedule waits for skipped steps then, and `get_scale()` for the device",
        )

    def _changes(
        self,
        file: ParsedFile,
        scaler: str,
        update: cst.SimpleStatementLine,
        follower: cst.SimpleStatementLine,
    ) -> dict[cst.CSTNode, Replacement]:
        """What to exchange: the scale is kept before the update, and the scheduler asks for it."""
        keeps = cst.parse_statement(f"{_BEFORE} = {scaler}.get_scale()")
        asks = cst.parse_statement(f"if {scaler}.get_scale() >= {_BEFORE}:\n    pass\n")
        assert isinstance(keeps, cst.SimpleStatementLine) and isinstance(asks, cst.If)
        inner = follower.with_changes(leading_lines=())
        asks = asks.with_changes(leading_lines=follower.leading_lines, body=cst.IndentedBlock(body=[inner]))
        first = preceded(keeps, update.leading_lines)
        rest = update.with_changes(leading_lines=())
        if file.span(follower) < file.span(update):
            return {
                follower: cst.RemoveFromParent(),
                **spliced(file, update, [first, rest, asks], (), [follower]),
            }
        return {**spliced(file, update, [first, rest]), **spliced(file, follower, [asks])}


@dataclass(frozen=True)
class CompareSmaller(FixBuilder):
    """Takes a scale that has become smaller for a skipped step, instead of one that differs."""

    compared: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the scheduler goes on where it did not."""
        file = files.parsed(self.compared.path)
        node = file.find(cst.Comparison, self.compared.span)
        if node is None or len(node.comparisons) != 1:
            return Refusal("the comparison is written in an unusual way")
        part = node.comparisons[0]
        later = [_is_reading(side) for side in (node.left, part.comparator)]
        if later[0] is later[1]:
            return Refusal("it is not clear which of the two scales is the later one")
        if not isinstance(part.operator, cst.Equal | cst.NotEqual):
            return Refusal("the comparison is written in an unusual way")
        kinds = (cst.GreaterThanEqual, cst.LessThan) if later[0] else (cst.LessThanEqual, cst.GreaterThan)
        operator = kinds[isinstance(part.operator, cst.NotEqual)](
            whitespace_before=part.operator.whitespace_before, whitespace_after=part.operator.whitespace_after
        )
        changed = node.with_changes(comparisons=[part.with_changes(operator=operator)])
        sign = file.code(operator).strip()
        return make_fix(
            f"Compare the scales with `{sign}`",
            {file: exchanged(file, {node: changed})},
            [(file, file.statement(node))],
            unsafe="the schedule goes on where the scale has grown, too",
        )


def _is_reading(node: cst.BaseExpression) -> bool:
    """Whether an expression asks for the scale now: the other one is a name for what it was before."""
    return isinstance(node, cst.Call) and (dotted(node.func) or "").endswith(".get_scale")
