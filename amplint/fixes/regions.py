"""Regions made smaller: what belongs after a region leaves it, and a region around a loop goes into the loop."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from amplint.amp.packages import WITHOUT_TENSORS
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.base import Files, FixBuilder, Made, make_fix, offered
from amplint.fixes.custom_functions import unprotected_function
from amplint.fixes.dependence import acts_in, is_act, needs_region
from amplint.fixes.imports import function_named, qualified_name, torch_added, torch_name
from amplint.fixes.names import module_bindings, names_in, roots
from amplint.fixes.openings import Opening, chain_in, opening, with_item
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import bound_in
from amplint.fixes.statements import (
    Replacement,
    Statement,
    apart,
    block,
    comment_line,
    exchanged,
    footer_of,
    preceded,
    spliced,
    statements_of,
)
from amplint.fixes.weight_cache import SwitchCacheOff

_SPLIT = "Leave the autocast region before the backward pass and the step"
_NARROW = "Open the autocast region around forward and loss only"
_LOSS_NAMES = ("loss", "total_loss", "objective")


@dataclass(frozen=True)
class LeaveRegion(FixBuilder):
    """Lets the backward pass or the step at ``act``, and what follows it, leave the region. ``outer`` is the
    place of another enabled region around that one."""

    region: Place
    act: Place
    outer: Place | None = None

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the end of the region's body can leave as it is."""
        if self.outer is not None:
            return Refusal(
                f"another region is open around it, from {self.outer.line_name} of {self.outer.path}"
            )
        opened = opening(files, self.region, self.act)
        plan = _Plan(files, opened, self.act)
        if isinstance(opened.holder, cst.With):
            split = plan.split()
            if split is not None:
                return split
        return plan.narrow()


@dataclass(frozen=True)
class NarrowRegion(FixBuilder):
    """Opens a region that spans updates around each forward pass instead."""

    region: Place
    act: Place
    caching: tuple[Place, ...] = ()
    """The regions that keep casts of weights, outermost first."""

    def offer(self, files: Files) -> Fix | Refusal:
        """Unsafe, because other code may have relied on the wide region; the minimum is to switch the cache
        off."""
        minimum = (
            offered(SwitchCacheOff(self.caching), files) if self.caching else Refusal("no region keeps casts")
        )
        try:
            fix = _Plan(files, opening(files, self.region, self.act), self.act).narrow()
        except Refusal as refusal:
            if isinstance(minimum, Refusal):
                raise
            return replace(minimum, note=f"the region is not made smaller: {refusal.reason}")
        return replace(fix, minimum=minimum if isinstance(minimum, Fix) else None)


@dataclass
class _Plan:
    files: Files
    opened: Opening
    act: Place
    changes: dict[ParsedFile, dict[cst.CSTNode, Replacement]] = field(default_factory=dict)
    claimed: list[tuple[ParsedFile, cst.CSTNode]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chain = chain_in(self.opened, self.act)
        self.known = _Known(self.files, self.chain)

    # the end of the body leaves ----------------------------------------------------------------------------

    def split(self) -> Fix | None:
        """The fix that dedents the end of the body, or None where more than the end has to leave."""
        head, tail = self._once("parts", self._parts)
        if not any(self._holds_act(statement) for statement in tail):
            return None
        return self._once("split", lambda: self._split([*head], [*tail]))

    def _parts(self) -> tuple[list[Statement], list[Statement]]:
        """The body of the region, and the end of it that can leave."""
        statements = self._divided(statements_of(self.opened.suite))
        start = len(statements)
        while start and not self._needs(statements[start - 1]):
            start -= 1
        start = next((n for n in range(start, len(statements)) if self._acts(statements[n])), len(statements))
        return statements[:start], statements[start:]

    def _split(self, head: list[Statement], tail: list[Statement]) -> Fix:
        opened = self.opened
        file, holder = opened.file, opened.holder
        assert isinstance(holder, cst.With)
        self._doubt_custom_functions()
        if opened.wrapped:
            self.doubts.append(f"`{file.code(opened.context)}` may do more than open a region")
        if opened.bound is not None and opened.bound in names_in(*tail):
            self.doubts.append(f"`{opened.bound}` is used after the region")
        footer = footer_of(opened.suite)
        if opened.others:
            moved = opened.reorders
            if moved is not None:
                self.doubts.append(f"`{file.code(moved.item)}` is entered before autocast then")
            new = self._inside_others(head, tail, footer)
            exchange: dict[cst.CSTNode, Replacement] = {holder: new}
        else:
            exchange = self._in_place(head, tail, footer)
        if not head:
            self.doubts.append("the gradients change: the forward pass did not run in this region")
        return self._fix(_SPLIT, {file: exchange}, [(file, holder)])

    def _inside_others(
        self, head: list[Statement], tail: list[Statement], footer: Sequence[cst.EmptyLine]
    ) -> cst.With:
        body = [self.opened.around(head), *tail] if head else tail
        changed = self.opened.without(body)
        suite = changed.body.with_changes(footer=footer)
        if isinstance(self.opened.suite, cst.IndentedBlock):
            suite = suite.with_changes(header=self.opened.suite.header)
        return changed.with_changes(body=suite)

    def _in_place(
        self, head: list[Statement], tail: list[Statement], footer: Sequence[cst.EmptyLine]
    ) -> dict[cst.CSTNode, Replacement]:
        file, holder = self.opened.file, self.opened.holder
        if self.opened.entered is not None:
            return self._off_stack(self.opened.entered, head, tail)
        if head:
            first = holder.with_changes(body=_suite(head, self.opened.suite).with_changes(footer=()))
            return spliced(file, holder, [first, *tail], footer)
        above = [*holder.leading_lines, *comment_line(_header_comment(self.opened.suite))]
        tail[0] = preceded(tail[0], above)
        return spliced(file, holder, tail, footer)

    def _off_stack(
        self, entered: cst.SimpleStatementLine, head: list[Statement], tail: list[Statement]
    ) -> dict[cst.CSTNode, Replacement]:
        """A `with` statement instead of the one that puts the context on a stack."""
        suite = self.opened.holder.body
        before = list(suite.body[: suite.body.index(entered)])
        comment = entered.trailing_whitespace.comment
        if head:
            header = entered.trailing_whitespace if comment is not None else None
            region = self.opened.around(head, header).with_changes(leading_lines=entered.leading_lines)
            return {suite: suite.with_changes(body=[*before, region, *tail])}
        tail[0] = preceded(tail[0], [*entered.leading_lines, *comment_line(comment)])
        return {suite: suite.with_changes(body=[*before, *tail])}

    # the region goes into the body -------------------------------------------------------------------------

    def narrow(self) -> Fix:
        """The fix that opens the region around what needs it, everywhere else leaves it."""
        return self._once("narrow", self._narrow)

    def _narrow(self) -> Fix:
        opened = self.opened
        file, holder = opened.file, opened.holder
        if opened.entered is not None:
            raise Refusal("an ExitStack holds the region open around more than forward and loss")
        self.doubts.append("code between the forward passes leaves the region, and training changes")
        self._doubt_custom_functions()
        if opened.bound is not None and opened.bound in names_in(opened.suite):
            raise Refusal(f"the body uses `{opened.bound}`")
        beside = _trailing(opened)
        narrower = _Narrower(self, file, opened.context, beside)
        statements = narrower.narrowed(self._divided(statements_of(opened.suite)))
        footer = footer_of(opened.suite)
        self._doubt_comments(narrower)
        if isinstance(holder, cst.FunctionDef):
            self._exchange(file, {holder: self._undecorated(holder, statements, narrower)})
        elif opened.others:
            changed = opened.without(statements)
            header = (
                opened.suite.header
                if isinstance(opened.suite, cst.IndentedBlock)
                else cst.TrailingWhitespace()
            )
            if narrower.header is None and header.comment is not None:
                header = cst.TrailingWhitespace()
            suite = changed.body.with_changes(footer=footer, header=header)
            self._exchange(file, {holder: changed.with_changes(body=suite)})
        else:
            above = [*holder.leading_lines, *narrower.unused_header()]
            statements[0] = preceded(statements[0], above)
            elsewhere = [beside] if beside is not None and narrower.header is None else []
            self._exchange(file, spliced(file, holder, statements, footer, elsewhere))
        self.claimed.append((file, holder))
        return self._fix(_NARROW, self.changes, self.claimed)

    def _undecorated(
        self, holder: cst.FunctionDef, statements: list[Statement], narrower: _Narrower
    ) -> cst.FunctionDef:
        item = self.opened.item
        assert isinstance(item, cst.Decorator)
        decorators = list(holder.decorators)
        at = decorators.index(item)
        del decorators[at]
        comments = [*item.leading_lines, *narrower.unused_header()]
        body = (
            holder.body.with_changes(body=statements)
            if isinstance(holder.body, cst.IndentedBlock)
            else block(statements)
        )
        changed = holder.with_changes(decorators=decorators, body=body)
        if not comments:
            return changed
        if at < len(decorators):
            lines = (*comments, *decorators[at].leading_lines)
            decorators[at] = decorators[at].with_changes(leading_lines=lines)
            return changed.with_changes(decorators=decorators)
        if decorators:
            return changed.with_changes(lines_after_decorators=(*comments, *holder.lines_after_decorators))
        return changed.with_changes(
            leading_lines=(*holder.leading_lines, *comments, *holder.lines_after_decorators),
            lines_after_decorators=(),
        )

    def _doubt_comments(self, caller: _Narrower) -> None:
        """Says which comments of a region stay where it was, though it is opened elsewhere."""
        if caller.is_opened:
            return
        holder = self.opened.holder
        if caller.header is not None and caller.header.comment is not None:
            self.doubts.append(f"`{_shortened(caller.header.comment.value)}` stays where the region was")
        elif isinstance(holder, cst.With) and any(line.comment for line in holder.leading_lines):
            self.doubts.append("the comment above the region stays where it was")

    def into_callee(self, call: cst.Call, caller: _Narrower) -> bool:
        """Opens the region in the function that a call on the way to the act leads to. False if nothing in
        there needs it. The comment beside the region goes along within the file."""
        at = self.known.number_of(call)
        if at is None or at + 1 >= len(self.chain):
            return False
        callee = self.known.function(at + 1)
        if callee is None:
            raise Refusal("the function that is called in the region is out of sight")
        file, function = callee
        if not self.known.needed_from(at + 1):
            return False
        before = map(self.known.function, range(at + 1))
        if any(one is not None and one[1] is function for one in before):
            raise Refusal(f"`{function.name.value}` calls itself in the region")
        context = self._carried(call, file, function)
        same = file is caller.file
        narrower = _Narrower(self, file, context, caller.header if same else None)
        statements = narrower.narrowed(self._divided(statements_of(function.body)))
        if same:
            caller.header = narrower.header
        if not isinstance(function.body, cst.IndentedBlock):
            raise Refusal("the function is written on one line")
        body = function.body.with_changes(body=statements)
        self._exchange(file, {function: function.with_changes(body=body)})
        self.claimed.append((file, function))
        return True

    def _carried(self, call: cst.Call, other: ParsedFile, function: cst.FunctionDef) -> cst.BaseExpression:
        """The context as it has to be written in the function that a call leads to. Raises Refusal where a
        name in it means nothing there."""
        file = self.opened.file
        given = _given(call, function)
        origin = self.files.project.origin
        here, there = module_bindings(file, origin), module_bindings(other, origin)
        caller = file.around(cst.FunctionDef, file.span(call))
        local = bound_in(caller) if caller is not None else set()
        renamed: dict[cst.CSTNode, Replacement] = {}
        for name in roots(self.opened.context):
            text = name.value
            if text in given:
                renamed[name] = cst.Name(given[text])
            elif text == "self" or text in local or (text not in here and not hasattr(builtins, text)):
                raise Refusal(f"`{text}` is not known in `{function.name.value}`")
            elif (
                here.get(text) == text == "torch" != there.get(text)
                and torch_name(other, function.body) is None
            ):
                self._exchange(other, torch_added(other, function.body))
            elif here.get(text) != there.get(text) or text in bound_in(function):
                raise Refusal(f"`{text}` is something else in `{function.name.value}`")
        changed = self.opened.context.visit(_Renamer(renamed))
        assert isinstance(changed, cst.BaseExpression)
        return changed

    # both --------------------------------------------------------------------------------------------------

    def _once(self, what: str, make: Callable[[], Made]) -> Made:
        """What is made for the region; for all of its acts at once where these are known by what they are, and not by
        the way that leads to them."""
        if len(self.chain) != 1 or not is_act(self.opened.file, self.known.nodes[0]):
            return make()
        opened = self.opened
        return self.files.once((what, opened.holder, opened.item, opened.entered), make)

    def _divided(self, statements: Iterable[Statement]) -> list[Statement]:
        """The statements, with lines taken apart that hold both what needs the region and what leaves it."""
        result: list[Statement] = []
        for statement in statements:
            mixed = (
                isinstance(statement, cst.SimpleStatementLine)
                and len(statement.body) > 1
                and self._needs(statement)
                and self._acts(statement)
            )
            result += apart(statement) if mixed else [statement]  # type: ignore[arg-type]
        return result

    def _needs(self, node: cst.CSTNode) -> bool:
        return self.known.needs(node)

    def _acts(self, node: cst.CSTNode) -> bool:
        return acts_in(node, self.known.calls)

    def _holds_act(self, node: cst.CSTNode) -> bool:
        return self.known.holds(node)

    def _exchange(self, file: ParsedFile, nodes: dict[cst.CSTNode, Replacement]) -> None:
        self.changes.setdefault(file, {}).update(nodes)

    def _doubt_custom_functions(self) -> None:
        name = unprotected_function(
            self.files, {self.opened.file.path, self.act.path, *(p.path for p in self.chain)}
        )
        if name is not None:
            self.doubts.append(
                f"`{name}` is an autograd.Function without custom_bwd, and its backward may raise outside the region"
            )

    def _fix(
        self,
        title: str,
        changes: dict[ParsedFile, dict[cst.CSTNode, Replacement]],
        statements: Iterable[tuple[ParsedFile, cst.CSTNode]],
    ) -> Fix:
        modules = {file: exchanged(file, nodes) for file, nodes in changes.items()}
        return make_fix(title, modules, statements, unsafe="; ".join(dict.fromkeys(self.doubts)))


class _Known:
    """The calls on the way from the region's body to the act, and the functions that they lead through."""

    def __init__(self, files: Files, chain: Sequence[Place]) -> None:
        self.files = files
        self.chain = chain
        self.nodes: list[cst.CSTNode | None] = []
        for place in chain:
            self.nodes.append(files.parsed(place.path).find(cst.Call, place.span))
        self.calls = frozenset(node for node in self.nodes if node is not None)
        self._needed: dict[int, bool] = {}
        self._unconcerned: set[cst.CSTNode] = set()
        self._judging: list[cst.FunctionDef] = []
        self._first_in: set[cst.CSTNode] = set()

    def number_of(self, call: cst.CSTNode) -> int | None:
        """Which of the calls this is."""
        return next((number for number, node in enumerate(self.nodes) if node is call), None)

    def function(self, number: int) -> tuple[ParsedFile, cst.FunctionDef] | None:
        """The function in which the call with this number stands."""
        place = self.chain[number]
        file = self.files.parsed(place.path)
        node = file.around(cst.FunctionDef, place.span)
        return (file, node) if node is not None else None

    def needed_from(self, number: int) -> bool:
        """Whether the function in which the call with this number stands needs the region, as a whole or in
        what it calls on the way."""
        if number not in self._needed:
            self._needed[number] = True
            found = self.function(number)
            self._needed[number] = found is None or self.needs(found[1].body)
        return self._needed[number]

    def needs(self, node: cst.CSTNode) -> bool:
        """Whether something in a node needs the region, in the functions on the way to the act as well."""
        harmless = {
            call
            for number, call in enumerate(self.nodes)
            if call is not None and (number + 1 >= len(self.chain) or not self.needed_from(number + 1))
        }
        while (found := needs_region(node, harmless | self._unconcerned)) is not None:
            if not self._calls_unconcerned(found):
                return True
            self._unconcerned.add(found)
        return False

    def _calls_unconcerned(self, node: cst.CSTNode) -> bool:
        """Whether a node calls what knows no tensors, such as a progress bar; or, by its name alone, a function of the
        same file in which nothing needs the region, such as one that sums up numbers for a log."""
        file = next((file for file in self._files() if file.parent(node) is not None), None)
        if not isinstance(node, cst.Call) or file is None:
            return False
        outside = qualified_name(file, node.func)
        if outside is not None and outside.partition(".")[0] in WITHOUT_TENSORS:
            return True
        function = function_named(file, node.func.value) if isinstance(node.func, cst.Name) else None
        if function is None or function in self._judging:
            return False
        self._judging.append(function)
        try:
            return not self.needs(function.body)
        finally:
            self._judging.pop()

    def _files(self) -> list[ParsedFile]:
        return [self.files.parsed(path) for path in dict.fromkeys(place.path for place in self.chain)]

    def holds(self, node: cst.CSTNode) -> bool:
        """Whether the first call on the way, or the act itself, is in a node."""
        first = self.nodes[0]
        if first is None:
            return False
        file = self.files.parsed(self.chain[0].path)
        if file.parent(node) is not None:
            return node is first or node in self._around_first(file, first)
        return _contains(node, first)

    def _around_first(self, file: ParsedFile, first: cst.CSTNode) -> set[cst.CSTNode]:
        if not self._first_in:
            self._first_in = set(file.parents(first))
        return self._first_in


class _Narrower:
    """Opens a region in one function. ``header`` is what stands after the colon, for the first that is opened there
    or in what it calls."""

    def __init__(
        self,
        plan: _Plan,
        file: ParsedFile,
        context: cst.BaseExpression,
        header: cst.TrailingWhitespace | None,
    ) -> None:
        self.plan = plan
        self.file = file
        self.context = context
        self.header = header
        self.is_opened = False

    def unused_header(self) -> list[cst.EmptyLine]:
        """The comment beside the old region as a line, if no new one took it."""
        comment = self.header.comment if self.header is not None else None
        return comment_line(comment)

    def narrowed(self, statements: Sequence[Statement]) -> list[Statement]:
        """The statements, with the region around those runs of them that need it and hold no act."""
        result: list[Statement] = []
        run: list[Statement] = []
        slack: list[Statement] = []
        for statement in statements:
            needs, acts = self._needs(statement), self.plan._acts(statement)
            if needs and not acts:
                run += [*slack, statement]
                slack = []
            elif not acts:
                (slack if run else result).append(statement)
            else:
                forward, rest = self._taken_apart(statement) if needs else ([], [statement])
                if forward:
                    run += [*slack, *forward]
                    slack = []
                result += [*self._wrapped(run), *slack, *rest]
                run, slack = [], []
        return result + self._wrapped(run) + slack

    def _needs(self, statement: Statement) -> bool:
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) or self._opens_its_own(statement):
            return False
        return self.plan._needs(statement)

    def _opens_its_own(self, statement: Statement) -> bool:
        return isinstance(statement, cst.With) and any(
            "autocast" in self.file.code(item.item) and "enabled=False" not in self.file.code(item.item)
            for item in statement.items
        )

    def _wrapped(self, run: list[Statement]) -> list[Statement]:
        if not run:
            return []
        above = run[0].leading_lines
        run[0] = run[0].with_changes(leading_lines=())
        header, self.header = self.header, None
        self.is_opened = True
        return [with_item(self.context, run, header=header).with_changes(leading_lines=above)]

    def _taken_apart(self, statement: Statement) -> tuple[list[Statement], list[Statement]]:
        """What needs the region and comes first in a statement that holds an act, and the rest with the region inside;
        so that what comes before it has one region with the first part."""
        if isinstance(statement, cst.SimpleStatementLine):
            return self._line(statement)
        return [], self._inside(statement)

    def _inside(self, statement: Statement) -> list[Statement]:
        match statement:
            case cst.For():
                return [self._loop(statement)]
            case cst.While():
                self._condition(statement.test)
                return [self._loop(statement)]
            case cst.If():
                return [self._if(statement)]
            case cst.Try():
                handlers = [part.with_changes(body=self._suite(part.body)) for part in statement.handlers]
                return [
                    statement.with_changes(
                        body=self._suite(statement.body),
                        handlers=handlers,
                        orelse=self._part(statement.orelse),
                        finalbody=self._part(statement.finalbody),
                    )
                ]
            case cst.With():
                return [statement.with_changes(body=self._suite(statement.body))]
        raise Refusal(f"the region cannot go into this: `{_shortened(self.file.code(statement))}`")

    def _loop(self, statement: cst.For | cst.While) -> cst.For | cst.While:
        return statement.with_changes(body=self._suite(statement.body), orelse=self._part(statement.orelse))

    def _part(self, part: cst.Else | cst.Finally | None) -> cst.Else | cst.Finally | None:
        return part.with_changes(body=self._suite(part.body)) if part is not None else None

    def _if(self, statement: cst.If) -> cst.If:
        self._condition(statement.test)
        other = statement.orelse
        orelse = self._if(other) if isinstance(other, cst.If) else self._part(other)
        return statement.with_changes(body=self._suite(statement.body), orelse=orelse)

    def _condition(self, test: cst.BaseExpression) -> None:
        if self.plan._needs(test):
            raise Refusal(f"the condition `{_shortened(self.file.code(test))}` may need the region")

    def _suite(self, suite: cst.BaseSuite) -> cst.BaseSuite:
        if not self.plan._needs(suite):
            return suite
        statements = self.narrowed(self.plan._divided(statements_of(suite)))
        return _suite(statements, suite)

    def _line(self, line: cst.SimpleStatementLine) -> tuple[list[Statement], list[Statement]]:
        """A statement that both runs a forward pass and goes on from it: the one, and the other."""
        if len(line.body) != 1:
            raise Refusal(f"`{_shortened(self.file.code(line))}` would have to be taken apart")
        value = getattr(line.body[0], "value", None)
        call = value if isinstance(value, cst.Call) else None
        if call is not None and self.plan.into_callee(call, self):
            return [], [line]
        forward = self._forward_in(call) if call is not None else None
        if forward is None:
            raise Refusal(f"`{_shortened(self.file.code(line))}` would have to be taken apart")
        name = cst.Name(self._new_name(forward))
        assign = cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(name)], value=forward)],
            leading_lines=line.leading_lines,
        )
        rest = line.with_changes(leading_lines=()).deep_replace(forward, name)
        assert isinstance(rest, cst.SimpleStatementLine)
        return [assign], [rest]

    def _forward_in(self, call: cst.Call) -> cst.BaseExpression | None:
        """The one part of a call that needs the region, down through the calls that do not."""
        if self.plan._needs(call.func) or not isinstance(call.func, cst.Attribute):
            receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
        else:
            receiver = None
        parts = [receiver] if receiver is not None and self.plan._needs(receiver) else []
        parts += [arg.value for arg in call.args if self.plan._needs(arg.value)]
        if len(parts) != 1:
            return None
        part = parts[0]
        if isinstance(part, cst.Call) and self.plan._acts(part):
            return self._forward_in(part)
        if (
            isinstance(part, cst.Call)
            and isinstance(part.func, cst.Attribute)
            and part.func.attr.value == "scale"
        ):
            return self._forward_in(part)
        return None if self.plan._acts(part) else part

    def _new_name(self, forward: cst.BaseExpression) -> str:
        # a statement on the line of a colon has been made anew, and has no place
        function = self.file.around(cst.FunctionDef, self.file.span(forward))
        used = names_in(function if function is not None else self.file.module)
        for name in _LOSS_NAMES:
            if name not in used:
                return name
        raise Refusal("there is no free name for the loss")


class _Renamer(cst.CSTTransformer):
    def __init__(self, names: dict[cst.CSTNode, Replacement]) -> None:
        super().__init__()
        self.names = names

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Replacement:  # type: ignore[override]
        return self.names.get(original_node, updated_node)


def _given(call: cst.Call, function: cst.FunctionDef) -> dict[str, str]:
    """Which parameter of a function gets what a name stands for in a call."""
    parameters = [parameter.name.value for parameter in function.params.params]
    found: dict[str, str] = {}
    method = bool(parameters) and parameters[0] == "self"
    if method and isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name):
        found[call.func.value.value] = "self"
    positional = parameters[1:] if method else parameters
    for number, arg in enumerate(call.args):
        if not isinstance(arg.value, cst.Name) or arg.star:
            if arg.star:
                break
            continue
        if arg.keyword is not None:
            found[arg.value.value] = arg.keyword.value
        elif number < len(positional):
            found[arg.value.value] = positional[number]
    return found


def _contains(node: cst.CSTNode, part: cst.CSTNode) -> bool:
    return node is part or any(_contains(child, part) for child in node.children)


def _suite(statements: Sequence[Statement], like: cst.BaseSuite) -> cst.IndentedBlock:
    """A block of statements with the header, the indentation and the footer of another."""
    if isinstance(like, cst.IndentedBlock):
        return like.with_changes(body=statements)
    return block(statements)


def _header_comment(suite: cst.BaseSuite) -> cst.Comment | None:
    return suite.header.comment if isinstance(suite, cst.IndentedBlock) else None


def _trailing(opened: Opening) -> cst.TrailingWhitespace | None:
    """The comment beside the opening of a region, to stand beside the new one."""
    if isinstance(opened.item, cst.Decorator):
        found = opened.item.trailing_whitespace
    elif isinstance(opened.suite, cst.IndentedBlock):
        found = opened.suite.header
    else:
        return None
    return found if found.comment is not None else None


def _shortened(code: str) -> str:
    text = " ".join(code.split())
    return text if len(text) <= 60 else text[:57] + "..."
