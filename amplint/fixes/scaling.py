"""Calls of a gradient scaler put in where they are missing, and losses that keep their own names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from amplint.amp.scalers import STATE_KEYS
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import keyword, set_argument
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.casts import as_float, kept_beside, removed_statement, shortened
from amplint.fixes.dependence import dotted, method_of
from amplint.fixes.imports import qualified_name
from amplint.fixes.made import class_around, function_around
from amplint.fixes.names import names_in, roots
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import bound_in
from amplint.fixes.statements import Exchange, Replacement, Statement, exchanged, preceded, spliced


@dataclass(frozen=True)
class AddUpdate(FixBuilder):
    """Calls ``update`` after the last step of a scaler in the block of ``step``."""

    step: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where no other update and no step in another block is in sight."""
        file = files.parsed(self.step.path)
        call = call_at(file, self.step)
        scaler, optimizer = receiver_of(call), first_argument(call)
        function = function_around(file, call)
        last = file.statement(call)
        around = file.parent(last)
        loop = next((node for node in file.parents(call) if isinstance(node, cst.For)), None)
        if loop is not None and names_in(optimizer) & bound_in(loop):
            return Refusal(
                f"`{scaler}.step` runs for several optimizers, and the update belongs after the loop"
            )
        for update in calls_of(file, function, scaler, "update"):
            line = file.line_name(update)
            return Refusal(f"`{scaler}.update()` on {line} runs on other ways: one call has to be on all")
        for step in calls_of(file, function, scaler, "step"):
            if file.parent(file.statement(step)) is not around:
                line = file.line_name(step)
                return Refusal(
                    f"`{scaler}.step` on {line} is in another block, and the update follows the last"
                )
            if file.span(step).line > file.span(last).line:
                last = file.statement(step)
        elsewhere = next(calls_of(file, file.module, scaler, "update"), None)
        doubt = ""
        if elsewhere is not None:
            doubt = f"`{scaler}.update()` on {file.line_name(elsewhere)} may run after the step, too"
        assert isinstance(last, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        changes = spliced(file, last, [last, _line(f"{scaler}.update()")])
        module = exchanged(file, changes)
        return make_fix(
            f"Call `{scaler}.update()` after the step", {file: module}, [(file, last)], unsafe=doubt
        )


@dataclass(frozen=True)
class AddUnscale(FixBuilder):
    """Divides the gradients by the scale before ``read`` looks at them, and not only in ``step``."""

    read: Place
    step: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where both stand under the same conditions."""
        file = files.parsed(self.read.path)
        if self.step.path != self.read.path:
            return Refusal("the scaler's step is in another file")
        node, step = file.expression(self.read.span), call_at(file, self.step)
        if node is None:
            return Refusal("the gradients are not read in an expression")
        scaler, optimizer = receiver_of(step), dotted(first_argument(step))
        if optimizer is None:
            return Refusal("the optimizer has no name")
        if not isinstance(step.func, cst.Attribute) or step.func.attr.value != "step":
            return Refusal(f"`{shortened(file.code(step))}` has to move in front")
        function = function_around(file, node)
        for other in calls_of(file, function, scaler, "unscale_"):
            line = file.line_name(other)
            return Refusal(f"`{scaler}.unscale_` on {line} runs under another condition or after it")
        doubts = []
        if function is function_around(file, step):
            at = before_step(file, node, step)
        else:
            at = file.statement(node)
            doubts.append("the step is in another function, and may run under another condition")
            if not _in_one_class(file, node, step, scaler, optimizer):
                return Refusal(f"`{scaler}` is not known where the gradients are read")
        if any(
            dotted(first_argument(other)) != optimizer for other in calls_of(file, function, scaler, "step")
        ):
            doubts.append(f"only the gradients of `{optimizer}` are divided")
        assert isinstance(at, cst.SimpleStatementLine | cst.BaseCompoundStatement)
        call = f"{scaler}.unscale_({optimizer})"
        new = preceded(_line(call), at.leading_lines)
        changes = spliced(file, at, [new, at.with_changes(leading_lines=())])
        module = exchanged(file, changes)
        # once for a step, however often the gradients are read before
        claimed = [(file, at), (file, file.statement(step))]
        return make_fix(f"Call `{call}` before", {file: module}, claimed, unsafe="; ".join(doubts))


@dataclass(frozen=True)
class NameScaledLoss(FixBuilder):
    """Gives a scaled loss that took the name of the loss a name of its own. ``read`` is where it was meant to be
    the loss."""

    read: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the backward pass follows in the same block."""
        file = files.parsed(self.read.path)
        node = file.expression(self.read.span)
        if node is None:
            return Refusal("the loss is not read in an expression")
        function = function_around(file, node)
        renamed = [(a, n) for a, n in _renaming(file, function) if n in names_in(node)]
        if len(renamed) != 1:
            return Refusal("the loss is not scaled under its own name in this function")
        assign, name = renamed[0]
        new = f"scaled_{name}"
        if new in names_in(function):
            return Refusal(f"the name `{new}` is taken")
        statement = file.statement(assign)
        target = assign.targets[0].target
        changes: dict[cst.CSTNode, Replacement] = {target: cst.Name(new)}
        for call in file.inside(cst.Call, file.span(function)):
            if method_of(call) not in ("backward", "manual_backward", "grad"):
                continue
            uses = [root for root in roots(call) if root.value == name]
            if not uses:
                continue
            if file.span(call) < file.span(statement) or file.parent(file.statement(call)) is not file.parent(
                statement
            ):
                return Refusal("the backward pass stands in another block than the scaling")
            changes.update({use: cst.Name(new) for use in uses})
        if len(changes) == 1:
            return Refusal(f"no backward pass starts from `{name}` here")
        nodes = [(file, file.statement(part)) for part in changes]
        module = exchanged(file, changes)
        return make_fix(f"Name the scaled loss `{new}`", {file: module}, nodes)


def _renaming(file: ParsedFile, function: cst.CSTNode) -> Iterator[tuple[cst.Assign, str]]:
    """The assignments ``loss = scaler.scale(loss)``."""
    for assign in file.inside(cst.Assign, file.span(function)):
        call, target = assign.value, assign.targets[0].target
        if (
            len(assign.targets) == 1
            and isinstance(target, cst.Name)
            and isinstance(call, cst.Call)
            and isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "scale"
            and len(call.args) == 1
            and dotted(call.args[0].value) == target.value
        ):
            yield assign, target.value


@dataclass(frozen=True)
class ScaleOnce(FixBuilder):
    """Takes a second ``scale`` away."""

    scale: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Unsafe: on another way here the loss may not be scaled yet."""
        file = files.parsed(self.scale.path)
        call = call_at(file, self.scale)
        loss = first_argument(call)
        module = exchanged(file, {call: as_float(loss).func.value})  # type: ignore[attr-defined]
        note = "the loss has to be scaled already on every way that leads here"
        return make_fix("Do not scale again", {file: module}, [(file, file.statement(call))], unsafe=note)


@dataclass(frozen=True)
class ScaleLoss(FixBuilder):
    """Scales the loss of a backward pass with the scaler that steps at ``step``. Without ``backward`` it is the
    one of the function."""

    step: Place
    backward: Place | None = None

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: other steps on these gradients would apply scaled ones."""
        file = files.parsed(self.step.path)
        step = call_at(file, self.step)
        scaler, function = receiver_of(step), function_around(file, step)
        if self.backward is None:
            inside = file.inside(cst.Call, file.span(function))
            calls = [call for call in inside if method_of(call) == "backward"]
            if any(method_of(call) == "scale" for call in inside):
                return Refusal("a loss is scaled on another path")
        else:
            if self.backward.path != self.step.path:
                return Refusal("the scaler's step is in another file")
            calls = [call_at(file, self.backward)]
        if (
            len(calls) != 1
            or method_of(calls[0]) != "backward"
            or function_around(file, calls[0]) is not function
        ):
            return Refusal("the backward pass that belongs to the step is not clear")
        func = calls[0].func
        assert isinstance(func, cst.Attribute)
        if (qualified_name(file, func) or "").startswith("torch."):
            return Refusal("the loss is no receiver of `backward`")
        new = cst.Call(func=cst.parse_expression(f"{scaler}.scale"), args=[cst.Arg(_bare(func.value))])
        module = exchanged(file, {func.value: new})
        note = f"all steps on these gradients have to go through `{scaler}`"
        statement = file.statement(calls[0])
        return make_fix(f"Scale the loss with `{scaler}`", {file: module}, [(file, statement)], unsafe=note)


@dataclass(frozen=True)
class StepThroughScaler(FixBuilder):
    """Lets the scaler that scaled the loss of ``backward`` make the step, and update after it."""

    step: Place
    backward: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the learning rate was perhaps chosen for gradients that are too large."""
        file = files.parsed(self.step.path)
        call = call_at(file, self.step)
        optimizer = receiver_of(call)
        if call.args:
            return Refusal("the step has arguments, which a scaler's step hands on in another way")
        around = file.parent(call)
        if not isinstance(around, cst.Expr):
            return Refusal("the result of the step is used")
        function = function_around(file, call)
        scales = {
            receiver_of(scale)
            for scale in file.inside(cst.Call, file.span(function))
            if method_of(scale) == "scale" and dotted(scale.func) is not None
        }
        if len(scales) != 1:
            return Refusal("the scaler that scaled the loss is not known where the step is")
        scaler = scales.pop()
        statement = file.statement(call)
        block = file.parent(statement)
        assert isinstance(statement, cst.SimpleStatementLine)
        new = statement.deep_replace(call, cst.parse_expression(f"{scaler}.step({optimizer})"))
        assert isinstance(new, cst.SimpleStatementLine)
        after = file.span(statement).line
        lines: list[Statement] = [new]
        if not any(
            file.parent(file.statement(update)) is block and file.span(update).line >= after
            for update in calls_of(file, function, scaler, "update")
        ):
            lines.append(_line(f"{scaler}.update()"))
        module = exchanged(file, spliced(file, statement, lines))
        note = (
            "infinite gradients are skipped then, and the learning rate may have been chosen for scaled ones"
        )
        title = f"Write `{scaler}.step({optimizer})`"
        return make_fix(title, {file: module}, [(file, statement)], unsafe=note)


@dataclass(frozen=True)
class TrainThroughScaler(FixBuilder):
    """Scales the loss of a backward pass with a scaler that the function has by the name ``scaler``, lets it make the
    step, and updates it."""

    backward: Place
    step: Place
    scaler: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: training changes, and on other ways the gradients may come from elsewhere."""
        file = files.parsed(self.backward.path)
        if self.step.path != self.backward.path:
            return Refusal("the step is in another file")
        backward, step = call_at(file, self.backward), call_at(file, self.step)
        function, optimizer = function_around(file, backward), receiver_of(step)
        if function_around(file, step) is not function:
            return Refusal("the step is in another function")
        if method_of(backward) != "backward" or method_of(step) != "step":
            return Refusal("the loss is no receiver of `backward`, or the optimizer none of `step`")
        if step.args or not isinstance(file.parent(step), cst.Expr):
            return Refusal(
                "the step has arguments or a result, which a scaler's step hands on in another way"
            )
        first, last = file.span(backward).end_line, file.span(step).line
        for name in file.inside(cst.Name, file.span(function)):
            if first < file.span(name).line < last and _READS_GRADIENTS.search(name.value):
                return Refusal(f"gradients are read on {file.line_name(name)}: unscale them there first")
        func, statement = backward.func, file.statement(step)
        assert isinstance(func, cst.Attribute)
        assert isinstance(statement, cst.SimpleStatementLine)
        if (qualified_name(file, func) or "").startswith("torch."):
            return Refusal("the loss is no receiver of `backward`")
        if statement is file.statement(backward):
            return Refusal("the backward pass and the step stand on one line")
        through = statement.deep_replace(step, cst.parse_expression(f"{self.scaler}.step({optimizer})"))
        assert isinstance(through, cst.SimpleStatementLine)
        changes = spliced(file, statement, [through, _line(f"{self.scaler}.update()")])
        scale = cst.parse_expression(f"{self.scaler}.scale")
        module = exchanged(
            file, {**changes, func.value: cst.Call(func=scale, args=[cst.Arg(_bare(func.value))])}
        )
        note = f"training changes, and all steps on these gradients have to go through `{self.scaler}`"
        claimed = [(file, file.statement(backward)), (file, statement)]
        return make_fix(f"Train with `{self.scaler}`", {file: module}, claimed, unsafe=note)


_READS_GRADIENTS = re.compile(r"clip_grad|^grad$|norm")


@dataclass(frozen=True)
class RemoveStep(FixBuilder):
    """Takes a second step away."""

    step: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: training was perhaps tuned with two steps."""
        file = files.parsed(self.step.path)
        statement = file.statement(call_at(file, self.step))
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
            return Refusal("the step is a part of a larger statement")
        plain = next(_plain_backwards(file, function_around(file, statement)), None)
        if plain is not None:
            return Refusal(f"`{shortened(file.code(plain))}` on {file.line_name(plain)} may need this step")
        changes = removed_statement(file, statement)
        claimed = [(file, part) for part in (statement, *kept_beside(file, changes))]
        note = "the gradients are applied once then, and training changes"
        module = exchanged(file, changes)
        return make_fix("Remove the second step", {file: module}, claimed, unsafe=note)


@dataclass(frozen=True)
class HoistScaler(FixBuilder):
    """Makes a scaler before the loops around it."""

    made: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: an outer loop may make a new model that wants a new scaler."""
        file = files.parsed(self.made.path)
        call = call_at(file, self.made)
        statement = file.statement(call)
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
            return Refusal("the scaler is made in a larger statement")
        assign = file.parent(call)
        if not isinstance(assign, cst.Assign) or not all(
            isinstance(t.target, cst.Name) for t in assign.targets
        ):
            return Refusal("the scaler gets no local name where it is made")
        loop: cst.For | cst.While | None = None
        for around in file.parents(statement):
            if isinstance(around, cst.FunctionDef | cst.ClassDef):
                break
            if isinstance(around, cst.For | cst.While):
                changing = sorted(names_in(call) & bound_in(around))
                if changing:
                    return Refusal(f"`{changing[0]}` changes in the loop")
                loop = around
            elif isinstance(around, cst.BaseCompoundStatement) and loop is None:
                return Refusal("the scaler is made under a condition")
        if loop is None:
            return Refusal("the loop is in another function, which has to hand the scaler in")
        block = file.parent(statement)
        if not isinstance(block, cst.IndentedBlock) or len(block.body) < 2:
            return Refusal("the loop holds nothing but the scaler")
        comments = [line for line in statement.leading_lines if line.comment is not None]
        first = statement.with_changes(leading_lines=(*loop.leading_lines, *comments))
        inner = loop.with_changes(leading_lines=()).visit(Exchange({statement: cst.RemoveFromParent()}))
        assert isinstance(inner, cst.For | cst.While)
        module = exchanged(file, spliced(file, loop, [first, inner]))
        note = "an outer loop that makes a new model and optimizer wants a new scaler, too"
        return make_fix("Make the scaler before the loop", {file: module}, [(file, loop)], unsafe=note)


@dataclass(frozen=True)
class SwitchScalerOff(FixBuilder):
    """Passes ``enabled=False`` to a scaler for a region in bfloat16."""

    made: Place
    region: Place
    users: tuple[str, ...] = ()
    """The files of the calls that lead to where the loss is scaled."""

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: a scaler that is off has no state to be saved or loaded."""
        file = files.parsed(self.made.path)
        call = call_at(file, self.made)
        if not (qualified_name(file, call.func) or "").endswith(".GradScaler"):
            return Refusal("the scaler is made by other code")
        if any(arg.star for arg in call.args) or len([arg for arg in call.args if arg.keyword is None]) > 1:
            return Refusal("the arguments of the scaler are given in an unusual way")
        node = files.parsed(self.region.path).expression(self.region.span)
        given = [arg for arg in node.args if arg.keyword] if isinstance(node, cst.Call) else None
        if given is None:
            return Refusal("the region is made elsewhere")
        dtype = next((arg.value for arg in given if arg.keyword and arg.keyword.value == "dtype"), None)
        if dtype is not None and not (dotted(dtype) or "").endswith("bfloat16"):
            return Refusal(
                "the type of the region is chosen elsewhere: pass `enabled=dtype == torch.float16`"
            )
        for path in sorted({self.made.path, self.region.path, *self.users}):
            user = files.parsed(path)
            read = next(_state_reads(user), None)
            if read is not None:
                where = user.line_name(read) + ("" if user is file else f" of {user.path}")
                return Refusal(f"`{shortened(user.code(read))}` on {where} is not there if the scaler is off")
        numbers = [n for n, arg in enumerate(call.args) if arg.keyword and arg.keyword.value == "enabled"]
        off = keyword("enabled", cst.Name("False"))
        if numbers:
            off = call.args[numbers[0]].with_changes(value=cst.Name("False"))
        changed = set_argument(call, numbers[0] if numbers else len(call.args), off)
        module = exchanged(file, {call: changed})
        note = "a scaler that is off has an empty state, which one that is on does not load"
        title = "Pass `enabled=False` to the scaler"
        return make_fix(title, {file: module}, [(file, file.statement(call))], unsafe=note)


def before_step(file: ParsedFile, node: cst.CSTNode, step: cst.Call) -> cst.BaseStatement:
    """The statement before which the gradients are to be divided: the one that reads them, or the outermost
    loop around it on the way to the block of the step. Raises Refusal."""
    there = file.statement(step)
    block = file.parent(there)
    at = found = file.statement(node)
    while file.parent(at) is not block:
        around = next(
            (part for part in file.parents(at) if isinstance(part, cst.BaseCompoundStatement)), None
        )
        if around is None or isinstance(around, cst.FunctionDef | cst.ClassDef):
            raise Refusal("the gradients are read under another condition than that of the step")
        if not isinstance(around, cst.If | cst.For | cst.While | cst.With):
            raise Refusal(f"the gradients are read in a `{type(around).__name__.lower()}`")
        at = around
        if isinstance(around, cst.For | cst.While):
            found = around
    assert isinstance(block, cst.IndentedBlock | cst.Module)
    statements: list[cst.CSTNode] = list(block.body)
    first, last = statements.index(at), statements.index(there)
    if first >= last:
        raise Refusal("the gradients are read after the step")
    bound = {name for statement in statements[first:last] for name in bound_in(statement)}
    if bound & names_in(step):
        raise Refusal("the scaler or the optimizer changes between the two")
    return found


def call_at(file: ParsedFile, place: Place) -> cst.Call:
    """The call at a place. Raises Refusal."""
    call = file.find(cst.Call, place.span)
    if call is None:
        raise Refusal("the call is written in an unusual way")
    return call


def receiver_of(call: cst.Call) -> str:
    """What a method is called on. Raises Refusal where that has no name."""
    name = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else None
    if name is None:
        raise Refusal("what the method is called on has no name")
    return name


def first_argument(call: cst.Call) -> cst.BaseExpression:
    """The first argument of a call of a scaler."""
    if not call.args or call.args[0].star:
        raise Refusal("the arguments of the scaler are given in an unusual way")
    return call.args[0].value


def calls_of(file: ParsedFile, inside: cst.CSTNode, scaler: str, method: str) -> Iterator[cst.Call]:
    """The calls of a method of a scaler in a piece of code."""
    for call in file.inside(cst.Call, file.span(inside)):
        if dotted(call.func) == f"{scaler}.{method}":
            yield call


def _plain_backwards(file: ParsedFile, function: cst.CSTNode) -> Iterator[cst.Call]:
    """The backward passes of a function that start from no scaled loss, as far as it shows."""
    scaled = {
        dotted(assign.targets[0].target)
        for assign in file.inside(cst.Assign, file.span(function))
        if isinstance(assign.value, cst.Call) and method_of(assign.value) == "scale"
    }
    for call in file.inside(cst.Call, file.span(function)):
        if method_of(call) == "backward" and isinstance(call.func, cst.Attribute):
            loss = call.func.value
            if not (isinstance(loss, cst.Call) and method_of(loss) == "scale") and dotted(loss) not in scaled:
                yield call


def _state_reads(file: ParsedFile) -> Iterator[cst.Subscript]:
    """Where something of a scaler's state is looked up: ``scaler.state_dict()["scale"]``."""
    for node in file.inside(cst.Subscript, file.span(file.module)):
        if not isinstance(node.value, cst.Call) or method_of(node.value) != "state_dict":
            continue
        key = node.slice[0].slice
        name = key.value if isinstance(key, cst.Index) else None
        if isinstance(name, cst.SimpleString) and name.evaluated_value in STATE_KEYS:
            yield node


def _line(code: str) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine(body=[cst.Expr(cst.parse_expression(code))])


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An expression without the brackets around it, where it stands between others."""
    code = cst.Module(body=()).code_for_node(node)
    return node.with_changes(lpar=(), rpar=()) if "\n" not in code and node.lpar else node


def _in_one_class(file: ParsedFile, one: cst.CSTNode, other: cst.CSTNode, *names: str) -> bool:
    """Whether two pieces of code are methods of a class, and the names are attributes of its objects."""
    owners = class_around(file, one), class_around(file, other)
    return owners[0] is not None and owners[0] is owners[1] and all(n.startswith("self.") for n in names)
