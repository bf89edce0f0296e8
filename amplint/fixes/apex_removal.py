"""A file that trains with apex.amp, without it: a region around each forward, and a scaler that nobody uses yet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from amplint.amp.apex import SCALE_LOSS
from amplint.fixes.apex_calls import STATES, ApexCalls, guard, is_used_besides
from amplint.fixes.base import Files
from amplint.fixes.dependence import acts_in, dotted, needs_region
from amplint.fixes.imports import removed, torch_name
from amplint.fixes.made import is_main
from amplint.fixes.openings import with_item
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.statements import (
    Exchange,
    Replacement,
    Statement,
    comment_line,
    comments_of,
    exchanged,
    indented,
    preceded,
    statements_of,
)
from amplint.fixes.switches import argument


class WithoutApex:
    """Derives the file."""

    def __init__(self, calls: ApexCalls, files: Files) -> None:
        self.calls = calls
        self.files = files
        self.file = calls.file
        self._changes: dict[cst.CSTNode, Replacement] = {
            old: cst.RemoveFromParent() for old in calls.decorators
        }
        self._torch = torch_name(self.file, calls.initialize) or "torch"

    def _initialized(self) -> None:
        """Makes a scaler instead. Raises Refusal."""
        file, call = self.file, self.calls.initialize
        statement, assign = file.statement(call), file.parent(call)
        for around in file.parents(statement):
            if isinstance(around, cst.FunctionDef):
                break
            if isinstance(around, cst.If | cst.Try) and not is_main(around):
                raise Refusal("`amp.initialize` is called under a condition: decide what holds without it")
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
            raise Refusal("`amp.initialize` is called in a larger statement")
        models, optimizers = self.calls.given("models"), self.calls.given("optimizers")
        targets = (
            assign.targets[0].target if isinstance(assign, cst.Assign) and len(assign.targets) == 1 else None
        )
        given = [part for part in (models, optimizers) if part is not None]
        bound = [part.value for part in targets.elements] if isinstance(targets, cst.Tuple) else []
        if [_bare(file, part) for part in bound] != [_bare(file, part) for part in given]:
            raise Refusal("what `amp.initialize` gives has other names than what it is given")
        line = cst.parse_statement(
            f"{self.calls.scaler} = {self._torch}.amp.GradScaler({self.calls.flags[0]})"
        )
        assert isinstance(line, cst.SimpleStatementLine)
        self._changes[statement] = line.with_changes(
            leading_lines=statement.leading_lines, trailing_whitespace=statement.trailing_whitespace
        )

    def _unscaled(self, holder: cst.With) -> list[Statement]:
        """The body of a `with` statement that scales, with the loss itself. Raises Refusal."""
        call, asname = holder.items[0].item, holder.items[0].asname
        assert isinstance(call, cst.Call)
        at = argument(call, SCALE_LOSS, "loss")
        loss = call.args[at].value if at is not None else None
        if loss is None or asname is None or not isinstance(asname.name, cst.Name):
            raise Refusal("`amp.scale_loss` is entered in an unusual way")
        name = asname.name.value
        uses = [n for n in self.file.inside(cst.Name, self.file.span(holder.body)) if n.value == name]
        if not uses or not all(_is_backward(self.file, node) for node in uses):
            raise Refusal(f"`{name}` is more or less than the start of the backward pass")
        if name in self._read_elsewhere:
            raise Refusal(f"`{name}` is used outside of `amp.scale_loss`")
        if not isinstance(loss, cst.Name | cst.Attribute | cst.Subscript | cst.Call) and not loss.lpar:
            loss = loss.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        changes: dict[cst.CSTNode, Replacement] = {use: loss.deep_clone() for use in uses}
        body = holder.body.visit(Exchange(changes))
        assert isinstance(body, cst.BaseSuite)
        statements = statements_of(body)
        comment = holder.body.header.comment if isinstance(holder.body, cst.IndentedBlock) else None
        above = [*holder.leading_lines, *comment_line(comment)]
        first = statements[0].with_changes(
            leading_lines=[line for line in statements[0].leading_lines if line.comment]
        )
        return [preceded(first, above), *statements[1:]]

    @cached_property
    def _read_elsewhere(self) -> set[str]:
        """The names that are looked up outside of the `with` statements that scale."""
        holders = [holder for _, holder in self.calls.scaled]
        return {
            node.value
            for node in self.file.nodes(cst.Name)
            if not any(part in holders for part in self.file.parents(node))
        }

    def module(self) -> cst.Module:
        """The file with a region around each forward, and a scaler that nobody uses. Raises Refusal."""
        file = self.file
        if torch_name(file, self.calls.initialize) is None:
            raise Refusal("`import torch` is missing")
        self._initialized()
        blocks: dict[cst.CSTNode, list[cst.With]] = {}
        for _, holder in self.calls.scaled:
            around = file.parent(holder)
            assert around is not None
            known = blocks.setdefault(around, [])
            if holder not in known:
                known.append(holder)
        if not blocks:
            raise Refusal("`amp.scale_loss` is not used in this file")
        for block, holders in blocks.items():
            self._open(block, holders)
        for call in self.calls.calls["master_params"]:
            value = file.code(call.args[0].value) if len(call.args) == 1 else ""
            if not value:
                raise Refusal("`amp.master_params` is given something unusual")
            code = f'(p for group in {value}.param_groups for p in group["params"])'
            self._changes[call] = cst.parse_expression(code)
        for name, marker in STATES.items():
            for call in self.calls.calls[name]:
                self._changes[call.func] = cst.Name(marker)
        self._remove_imports()
        return exchanged(file, self._changes)

    def _open(self, block: cst.CSTNode, holders: Sequence[cst.With]) -> None:
        """Opens a region around the statements of a block that lead to each loss, and takes ``scale_loss`` away."""
        assert isinstance(block, cst.IndentedBlock | cst.Module)
        body = list(block.body)
        start = self._start(block)
        for holder in sorted(holders, key=self.file.span):
            end = body.index(holder)
            leading = _after_acts(body[start:end])
            first = next((n for n, part in enumerate(leading) if _is_forward(part)), None)
            if first is not None:
                self._wrap(leading[first:])
            elif not self._is_opened(body[:end]) and not self._beside(block):
                raise Refusal("the forward does not stand beside the backward pass")
            lines = self._unscaled(holder)
            self._changes[holder] = cst.FlattenSentinel(lines)
            start = end + 1

    def _is_opened(self, before: Sequence[cst.CSTNode]) -> bool:
        """Whether a region was opened for statements before, and no optimizer has stepped since."""
        opened = [
            number for number, part in enumerate(before) if isinstance(self._changes.get(part), cst.With)
        ]
        names = {name for name, _ in self.calls.scaled}
        return bool(opened) and not any(
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "step"
            and dotted(call.func.value) in names
            for part in before[opened[-1] :]
            for call in self.file.inside(cst.Call, self.file.span(part))
        )

    def _beside(self, block: cst.CSTNode) -> bool:
        """Opens the region in the block around a condition that only holds ``scale_loss``."""
        outer = self.file.parent(block)
        if isinstance(outer, cst.Else):
            outer = self.file.parent(outer)
        around = self.file.parent(outer) if isinstance(outer, cst.If) else None
        if outer is None or not isinstance(around, cst.IndentedBlock | cst.Module):
            return False
        leading = _after_acts(around.body[self._start(around) : around.body.index(outer)])
        if any(part in self._changes for part in leading):
            return True  # opened for the other branch
        first = next((n for n, part in enumerate(leading) if _is_forward(part)), None)
        if first is not None:
            self._wrap(leading[first:])
        return first is not None

    def _start(self, block: cst.IndentedBlock | cst.Module) -> int:
        """Where in a block training may begin: after ``initialize``."""
        made = self.file.statement(self.calls.initialize)
        return block.body.index(made) + 1 if made in block.body else 0

    def _wrap(self, statements: Sequence[cst.CSTNode]) -> None:
        """Opens a region around statements, up to the last that needs one."""
        run = [
            part
            for part in statements
            if isinstance(part, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        ]
        while run and needs_region(run[-1]) is None:
            run.pop()
        flag = f", enabled={self.calls.scaler}.is_enabled()" if self.calls.flags[1] else ""
        code = f'{self._torch}.autocast("cuda", dtype={self._torch}.float16{flag})'
        above = run[0].leading_lines
        inner = [run[0].with_changes(leading_lines=()), *(indented(part) for part in run[1:])]
        opened = with_item(cst.parse_expression(code), inner).with_changes(leading_lines=above)
        self._changes[run[0]] = opened
        self._changes.update({part: cst.RemoveFromParent() for part in run[1:]})

    def _remove_imports(self) -> None:
        """Takes the imports away, and what raises where apex is missing; comments stay. Raises Refusal."""
        gone: list[Statement] = []
        for binding in self.calls.bindings:
            if self.files.project.is_used(self.file.path, binding.name):
                raise Refusal(f"`{binding.name}` may be imported from here")
            if binding.target == "apex" and is_used_besides(self.file, binding):
                continue
            if len(binding.statement.names) > 1 or len(binding.line.body) > 1:  # type: ignore[arg-type]
                rest = removed(self.file, binding)
                if rest is None or binding.line in self._changes:
                    raise Refusal("several names are imported from apex on one line")
                self._changes[binding.line] = rest
                continue
            holder = guard(self.file, binding)
            alone = holder is not None and len(holder.body.body) == 1
            gone.append(holder if holder is not None and alone else binding.line)
        for statement in dict.fromkeys(gone):
            self._remove(statement, gone)

    def _remove(self, statement: Statement, gone: Sequence[Statement]) -> None:
        """Takes a statement away, and puts its comments above the next one that stays. Raises Refusal."""
        around = self.file.parent(statement)
        if not isinstance(around, cst.Module | cst.IndentedBlock):
            raise Refusal("an import stands on the line of something else")
        later = [part for part in around.body[around.body.index(statement) + 1 :] if part not in gone]
        if not later:
            raise Refusal("nothing follows an import")
        inner = statement.with_changes(leading_lines=())
        lines = [
            *statement.leading_lines,
            *(cst.EmptyLine(comment=cst.Comment(text)) for text in comments_of(inner).elements()),
        ]
        following = self._changes.get(later[0], later[0])
        has_comments = any(line.comment is not None for line in lines)
        self._changes[statement] = cst.RemoveFromParent()
        if isinstance(following, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            if has_comments or not following.leading_lines:
                self._changes[later[0]] = preceded(following, lines)
        elif has_comments:
            raise Refusal("a comment at the import would be lost")


def _after_acts(statements: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """The statements after the last step or backward pass."""
    acts = [number for number, part in enumerate(statements) if acts_in(part)]
    return list(statements[acts[-1] + 1 :] if acts else statements)


def _is_forward(part: cst.CSTNode) -> bool:
    """Whether a statement may compute what a region makes half."""
    if isinstance(part, cst.FunctionDef | cst.ClassDef) or acts_in(part):
        return False
    return needs_region(part) is not None


def _is_backward(file: ParsedFile, node: cst.Name) -> bool:
    around = file.parent(node)
    call = file.parent(around) if around is not None else None
    return (
        isinstance(around, cst.Attribute)
        and around.value is node
        and around.attr.value == "backward"
        and isinstance(call, cst.Call)
    )


def _bare(file: ParsedFile, node: cst.BaseExpression) -> str:
    return "".join(file.code(node).split()).strip("()")
