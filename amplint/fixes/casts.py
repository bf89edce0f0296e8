"""Casts added, taken away, and given the float32 region that they were written for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import libcst as cst

from amplint.amp.regions import QUESTIONS
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import on_lines
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted, needs_region
from amplint.fixes.imports import function_named, qualified_name, torch_at, uses_of
from amplint.fixes.openings import with_item
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.statements import Replacement, Statement, comment_line, exchanged, preceded, spliced

_BINDS_TIGHTLY = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Tuple, cst.Dict, cst.Set)
_HALF_TYPES = frozenset({"half", "float16", "bfloat16"})
_QUESTIONS = QUESTIONS | {"torch.cuda.is_available"}


@dataclass(frozen=True)
class AddFloat(FixBuilder):
    """Casts the value of an expression to float32 where it is used. ``doubt`` says why it may be no floating
    tensor. ``softmax``: the place is that of an op whose operand is to be cast. ``region`` is where autocast is
    off, if only what runs in there is to be cast; ``also`` are operands of the same op to be cast with it.
    ``told_once`` is the rule that tells of the value at the first place alone, so that the next one comes up then."""

    value: Place
    doubt: str = ""
    softmax: bool = False
    region: Place | None = None
    also: tuple[Place, ...] = ()
    told_once: str = ""

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the value surely is a floating tensor, and nobody else runs the code."""
        file = files.parsed(self.value.path)
        doubts = [self.doubt, self._doubt_callers(files, file)]
        node = file.expression(self.value.span)
        role = ""
        if node is not None and self.softmax:
            op, node = node, _operand(node)
            role = (
                "receiver" if isinstance(op, cst.Call) and file.parent(node or op) is op.func else "argument"
            )
        doubts += odd_values(files, self.value, role)
        half = _other_cast(file) if self.told_once and self.region is None else None
        if half is not None:
            doubts.append(
                f"`{shortened(file.code(half))}` on {file.line_name(half)} makes something half, which may want "
                "the result in half"
            )
        if node is None:
            return Refusal("the value has no expression of its own to be cast")
        around = file.parent(node)
        if isinstance(around, cst.AugAssign) and around.target is node:
            node = around.value
        if isinstance(around, cst.Arg) and around.star:
            return Refusal(f"the values in `{file.code(node)}` would have to be cast one by one")
        if isinstance(around, cst.AssignTarget):
            # written by index: what is written is on the other side
            assign = file.parent(around)
            assert isinstance(assign, cst.Assign)
            node, around = assign.value, assign
            if len(assign.targets) > 1 or isinstance(node, cst.Tuple):
                return Refusal("several values are assigned at once")
        if isinstance(around, cst.AnnAssign | cst.For | cst.NamedExpr) and _is_target(around, node):
            return Refusal("the value is made in the statement itself")
        changes: dict[cst.CSTNode, Replacement] = {node: as_float(node)}
        for place in self.also:
            other = file.expression(place.span) if place.path == file.path else None
            if other is None or not isinstance(file.parent(other), cst.Arg):
                return Refusal("the values are not all written where the op is called")
            changes[other] = as_float(other)
            doubts += odd_values(files, place)
        module = exchanged(file, on_lines(file, changes, files.line_length))
        statement = file.statement(node)
        texts = [file.code(cast) for cast in changes.values() if isinstance(cast, cst.CSTNode)]
        written = " and ".join(f"`{shortened(text)}`" for text in texts)
        title = "Cast the value to float32" if "#" in "".join(texts) else f"Write {written}"
        fix = make_fix(title, {file: module}, [(file, statement)], unsafe="; ".join(filter(None, doubts)))
        return replace(fix, brings=frozenset({self.told_once} - {""}))

    def _doubt_callers(self, files: Files, file: ParsedFile) -> str:
        """Why code that runs outside of the region as well is not to be changed unseen."""
        function = file.around(cst.FunctionDef, self.value.span)
        if self.region is None or function is None:
            return ""
        if self.region.path == file.path:
            opener = file.around(cst.FunctionDef, self.region.span)
            parts = [part for decorator in function.decorators for part in _below(decorator)]
            if opener in (function, *file.parents(function)) or file.expression(self.region.span) in parts:
                return ""
        name = function.name.value
        uses = [use for use in uses_of(file, name) if use is not function.name]
        alone = function_named(file, name) is function and len(uses) == 1
        if alone and not files.project.is_used(file.path, name):
            return ""
        return f"every caller of `{name}` gets the value in float32 then, outside the region too"


def odd_values(files: Files, place: Place, role: str = "") -> list[str]:
    """Why a cast to float32 is not for all that a place meets."""
    odd = files.odd(place, role)
    return [f"on another path the value is {' or '.join(odd)}"] if odd else []


def _is_target(around: cst.CSTNode, node: cst.CSTNode) -> bool:
    return getattr(around, "target", None) is node


def as_float(node: cst.BaseExpression) -> cst.Call:
    """``node.float()``, in brackets where the operators ask for it."""
    if not isinstance(node, _BINDS_TIGHTLY) and not node.lpar:
        node = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Call(func=cst.Attribute(value=node, attr=cst.Name("float")))


def float_of(text: str) -> str:
    """The source of an expression with its cast: ``(a * b).float()`` for ``a * b``."""
    try:
        node = cst.parse_expression(f"({text})")
    except cst.ParserSyntaxError:
        return f"({text}).float()"
    lpar, rpar = list(node.lpar)[1:], list(node.rpar)[:-1]
    return cst.Module([]).code_for_node(as_float(node.with_changes(lpar=lpar, rpar=rpar)))


def _operand(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """What an op that is written as a function or as a method works on."""
    if not isinstance(node, cst.Call):
        return None
    if node.args and node.args[0].keyword is None and not node.args[0].star:
        first = node.args[0].value
        if not isinstance(first, cst.Integer | cst.UnaryOperation):
            return first
    return node.func.value if isinstance(node.func, cst.Attribute) else None


@dataclass(frozen=True)
class RemoveCast(FixBuilder):
    """Takes a cast to half precision away: that of a module, or that of a ``tensor``."""

    cast: Place
    tensor: bool = False

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: what was cast takes twice the memory, and other code may count on its type."""
        file = files.parsed(self.cast.path)
        node = file.find(cst.Call, self.cast.span)
        if node is None:
            return Refusal("the cast is not a call")
        bare = _uncast(node)
        other = _other_cast(file, node) if not self.tensor else None
        if other is not None:
            return Refusal(
                f"`{shortened(file.code(other))}` on {file.line_name(other)} makes another value half as well, "
                "which float32 weights may not accept"
            )
        statement = file.statement(node)
        changes = self._without_statement(file, statement, node, bare)
        if changes is None:
            changes = _without_cast(file, node, bare)
        module = exchanged(file, changes)
        note = "the weights take twice the memory, and inputs that were cast to half for them have to stay float32"
        if self.tensor:
            note = "the value takes twice the memory, and other code that uses it may want it in half"
        text = file.code(node)
        title = (
            "Leave out the cast to half precision"
            if "#" in text
            else f"Leave out the cast in `{shortened(text)}`"
        )
        claimed = [statement, *kept_beside(file, changes)]
        return make_fix(title, {file: module}, [(file, part) for part in claimed], unsafe=note)

    def _without_statement(
        self, file: ParsedFile, statement: cst.BaseStatement, call: cst.Call, bare: cst.BaseExpression
    ) -> dict[cst.CSTNode, Replacement] | None:
        """What to exchange where the statement does nothing without the cast, else None."""
        if not isinstance(statement, cst.SimpleStatementLine):
            return None
        part = next((part for part in statement.body if getattr(part, "value", None) is call), None)
        name = dotted(bare)
        idle = (isinstance(part, cst.Expr) and name is not None) or (
            isinstance(part, cst.Assign)
            and len(part.targets) == 1
            and name is not None
            and dotted(part.targets[0].target) == name
        )
        if not idle:
            return None
        if len(statement.body) > 1:
            rest = [other for other in statement.body if other is not part]
            rest[-1] = rest[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            return {statement: statement.with_changes(body=rest)}
        return removed_statement(file, statement)


def _without_cast(
    file: ParsedFile, call: cst.Call, bare: cst.BaseExpression
) -> dict[cst.CSTNode, Replacement]:
    """What to exchange for a cast to be gone: ``list(xs)`` for ``[x.half() for x in xs]``."""
    around = file.parent(call)
    if isinstance(around, cst.ListComp) and around.elt is call:
        loop = around.for_in
        alone = not loop.ifs and loop.inner_for_in is None and loop.asynchronous is None
        if alone and dotted(bare) is not None and dotted(loop.target) == dotted(bare):
            items = cst.Call(cst.Name("list"), [cst.Arg(loop.iter)], lpar=around.lpar, rpar=around.rpar)
            return {around: items}
    return {call: bare}


def removed_statement(file: ParsedFile, statement: Statement) -> dict[cst.CSTNode, Replacement]:
    """What to exchange for a statement to be gone, with its comments where it stood."""
    around = file.parent(statement)
    comment = (
        statement.trailing_whitespace.comment if isinstance(statement, cst.SimpleStatementLine) else None
    )
    lines = [*statement.leading_lines, *comment_line(comment)]
    if isinstance(around, cst.SimpleStatementSuite):
        raise Refusal("the statement stands on the line of another one")
    if isinstance(around, cst.IndentedBlock) and len(around.body) == 1:
        holder = file.parent(around)
        if (
            isinstance(holder, cst.If)
            and holder.orelse is None
            and isinstance(file.parent(holder), cst.Module | cst.IndentedBlock)
            and len(file.parent(holder).body) > 1  # type: ignore[union-attr]
            and _only_asks(file, holder.test)
            and not lines
            and around.header.comment is None
            and not around.footer
        ):
            return removed_statement(file, holder)
        return {statement: cst.SimpleStatementLine(body=[cst.Pass()], leading_lines=lines)}
    assert isinstance(around, cst.Module | cst.IndentedBlock)
    body: list[cst.BaseStatement] = list(around.body)
    at = body.index(statement)
    has_comments = any(line.comment is not None for line in lines)
    following = body[at + 1] if at + 1 < len(body) else None
    if isinstance(following, cst.SimpleStatementLine | cst.BaseCompoundStatement):
        above = lines if has_comments or not following.leading_lines else []
        return {statement: cst.RemoveFromParent(), following: preceded(following, above)}
    if not has_comments:
        return {statement: cst.RemoveFromParent()}
    return {around: around.with_changes(body=body[:at], footer=(*lines, *around.footer))}


def _only_asks(file: ParsedFile, test: cst.BaseExpression) -> bool:
    """Whether a condition does nothing but look at names and at the state of torch."""
    match test:
        case cst.Name() | cst.SimpleString() | cst.Integer():
            return True
        case cst.Attribute():
            return dotted(test) is not None
        case cst.Call():
            asks = qualified_name(file, test.func) in _QUESTIONS
            return asks and all(_only_asks(file, arg.value) for arg in test.args)
        case cst.BooleanOperation():
            return _only_asks(file, test.left) and _only_asks(file, test.right)
        case cst.Comparison():
            parts = (test.left, *(part.comparator for part in test.comparisons))
            return all(_only_asks(file, part) for part in parts)
        case cst.UnaryOperation(operator=cst.Not()):
            return _only_asks(file, test.expression)
    return False


def kept_beside(file: ParsedFile, changes: Mapping[cst.CSTNode, Replacement]) -> list[cst.CSTNode]:
    """A statement beside each one that goes. A fix claims these as well, so that no other takes them away at the
    same time, which would leave an empty block."""
    gone = [node for node, new in changes.items() if new is cst.RemovalSentinel.REMOVE]
    found: list[cst.CSTNode] = []
    for node in gone:
        around = file.parent(node)
        if isinstance(around, cst.IndentedBlock):
            at = around.body.index(node)
            rest = [
                part for part in (*around.body[at + 1 :], *reversed(around.body[:at])) if part not in gone
            ]
            found += rest[:1]
    return found


def _uncast(call: cst.Call) -> cst.BaseExpression:
    """What is left of a call without its cast to half precision. Raises Refusal."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    args = [arg for arg in call.args if not _is_half(arg.value)]
    if any(arg.star for arg in call.args):
        raise Refusal("a star hides what the cast is to")
    if method in ("half", "bfloat16") and not call.args:
        args = []
    elif len(args) == len(call.args):
        raise Refusal("the type is not written in the cast")
    assert isinstance(call.func, cst.Attribute) or args
    if method in ("half", "bfloat16", "to", "type") and not args and isinstance(call.func, cst.Attribute):
        return call.func.value
    if method in ("to", "type") and all(
        arg.keyword is not None and arg.keyword.value in ("non_blocking", "copy") for arg in args
    ):
        raise Refusal("nothing but the options of the cast would be left")
    if args and args[-1] is not call.args[-1]:
        last = call.args[-1]
        args[-1] = args[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return call.with_changes(args=args)


def _other_cast(file: ParsedFile, cast: cst.Call | None = None) -> cst.Call | None:
    """Another call in the file that gives something a half-precision type; regions and scalers are none."""
    inside = set(_below(cast)) if cast is not None else set()
    return next((call for call in file.once(_casts_in) if call not in inside), None)


def _casts_in(file: ParsedFile) -> list[cst.Call]:
    found = []
    for call in file.nodes(cst.Call):
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func) or ""
        is_cast = name in ("half", "bfloat16") and not call.args
        if not is_cast and not any(_is_half(arg.value) for arg in call.args):
            continue
        if "autocast" not in file.code(call.func) and name != "partial":
            found.append(call)
    return found


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _below(child)


def _is_half(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value in _HALF_TYPES
    return (dotted(node) or "").rpartition(".")[2] in _HALF_TYPES


@dataclass(frozen=True)
class DisabledAround(FixBuilder):
    """Runs the op at a place in a nested region with autocast off, so that the cast before it counts.
    ``halves`` says that operands without a cast may be half precision."""

    op: Place
    cast: Place
    halves: bool = False

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the op and what uses its result run in float32 then."""
        if self.halves:
            return Refusal("the other operands of the op would have to be cast as well")
        file = files.parsed(self.op.path)
        node = file.expression(self.op.span)
        call = file.find(cst.Call, self.cast.span) if self.cast.path == self.op.path else None
        if node is None or call is None or not isinstance(call.func, cst.Attribute):
            return Refusal("the cast and the op stand in different files")
        tensor = dotted(call.func.value)
        if tensor is None:
            return Refusal(
                f"`{shortened(file.code(call.func.value))}` has no name whose device could be asked for"
            )
        statement = file.statement(node)
        if not isinstance(statement, cst.SimpleStatementLine):
            return Refusal("the op stands in the head of a statement with a block")
        other = needs_region(statement.deep_replace(node, cst.Name("op")), powers=False)
        if other is not None:
            return Refusal(f"`{shortened(file.code(other))}` in the same statement would run in float32, too")
        changes: dict[cst.CSTNode, Replacement] = {}
        torch = torch_at(file, node, changes)
        context = cst.parse_expression(f"{torch}.autocast({tensor}.device.type, enabled=False)")
        inner = statement.with_changes(leading_lines=())
        changed = with_item(context, [inner]).with_changes(leading_lines=statement.leading_lines)
        changes.update(spliced(file, statement, [changed]))
        module = exchanged(file, changes)
        note = "the op and what uses its result take more time and memory, and the result is float32"
        text = file.code(node)
        title = (
            "Run the op with autocast off" if "#" in text else f"Run `{shortened(text)}` with autocast off"
        )
        return make_fix(title, {file: module}, [(file, statement)], unsafe=note)


def shortened(code: str) -> str:
    """Code on one line, cut to be quoted."""
    text = " ".join(code.split())
    return text if len(text) <= 40 else text[:37] + "..."
