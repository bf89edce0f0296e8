"""Uses of torch.cuda.amp and torch.cpu.amp written in the names and signatures of torch.amp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import dropwhile

import libcst as cst

from amplint.amp.deprecated import DEPRECATED, Replacement
from amplint.events import Place
from amplint.findings import Claim, Fix
from amplint.fixes.arguments import fitted, keyword, put_first
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted
from amplint.fixes.imports import (
    Binding,
    binding_of,
    is_exported,
    rebound,
    removed,
    root_name,
    torch_added,
    uses_of,
    written_name,
)
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.quotes import quoted
from amplint.fixes.statements import Replacement as Exchange
from amplint.fixes.statements import exchanged, replaced

_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}
_REGIONS = ("autocast", "amp", "precision")


@dataclass(frozen=True)
class ReplaceDeprecated(FixBuilder):
    """Replaces one use of a deprecated name, and its import once nothing else uses that. ``doubt`` says why
    the new name may not be there."""

    use: Place
    old: str
    doubt: str = ""

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the new call does what the old one did."""
        file = files.parsed(self.use.path)
        new = DEPRECATED[self.old]
        node = file.find(cst.Name, self.use.span) or file.find(cst.Attribute, self.use.span)
        if node is None:
            return Refusal("the name is not found again")
        doubts = [doubt for doubt in (self.doubt, self._doubt_class(file, node)) if doubt]
        root = root_name(node)
        binding = binding_of(file, root)
        names = _Names(file, binding.at_top(file), files.line_length)
        use = _use(file, node, new, names, doubts)
        changes = names.added | use
        statements: list[tuple[ParsedFile, cst.CSTNode]] = []
        claims: list[Claim] = []
        if binding.target != "torch":
            uses = uses_of(file, root)
            if len(uses) == 1:
                if not files.is_imported(file.path, root):
                    self._without_import(file, binding, changes)
            elif _lies_in(uses[-1], node):
                # the last use goes when the others are gone, and takes the import along
                claims = [file.claim(file.statement(use)) for use in uses]
                claims.append(file.claim(binding.line))
        module = exchanged(file, changes)
        title = f'Write `{new.new}` for the device type "{new.device}"'
        fix = make_fix(title, {file: module}, statements, unsafe="; ".join(doubts))
        return Fix(fix.applicability, fix.title, fix.edits, (*fix.claims, *claims), fix.note)

    def _doubt_class(self, file: ParsedFile, node: cst.CSTNode) -> str:
        """Why an object of the new class may not do: the file asks for the old one, which is a subclass."""
        if not self.old.endswith(".GradScaler"):
            return ""
        text = file.code(node)
        for use in uses_of(file, root_name(node)):
            whole: cst.CSTNode = use
            around = file.parent(whole)
            while isinstance(around, cst.Attribute):
                whole, around = around, file.parent(around)
            is_made = isinstance(around, cst.Call) and around.func is whole
            if whole is not node and not is_made and file.code(whole) == text:
                line = file.span(whole).line
                return f"line {line} names the old class, and the new one is no subclass of it"
        return ""

    def _without_import(
        self, file: ParsedFile, binding: Binding, changes: dict[cst.CSTNode, Exchange]
    ) -> None:
        """Takes the import away that nothing uses any more."""
        if is_exported(file, binding):
            return
        rest = removed(file, binding)
        if rest is None:
            return
        if binding.line in changes:
            added = changes[binding.line]
            assert isinstance(added, cst.FlattenSentinel)
            first = next(iter(added))
            if isinstance(rest, cst.RemovalSentinel):
                changes[binding.line] = first.with_changes(
                    leading_lines=first.leading_lines or binding.line.leading_lines
                )
            else:
                lines = list(added)[-1].leading_lines
                changes[binding.line] = cst.FlattenSentinel([first, rest.with_changes(leading_lines=lines)])
            return
        if isinstance(rest, cst.RemovalSentinel):
            around = file.parent(binding.line)
            if not isinstance(around, cst.Module | cst.IndentedBlock) or len(around.body) == 1:
                return
            self._hand_on_lines(file, around, binding.line, changes)
        changes[binding.line] = rest

    def _hand_on_lines(
        self,
        file: ParsedFile,
        around: cst.Module | cst.IndentedBlock,
        line: cst.SimpleStatementLine,
        changes: dict[cst.CSTNode, Exchange],
    ) -> None:
        """Gives the blank lines above a line that goes to the import below it, if that has none; a file or
        block does not begin with those that were below its first line."""
        at = list(around.body).index(line)
        following = around.body[at + 1] if at + 1 < len(around.body) else None
        if not isinstance(following, cst.SimpleStatementLine | cst.BaseCompoundStatement):
            return
        lines: Sequence[cst.EmptyLine] = following.leading_lines
        if at == 0 and not (around is file.module and file.module.header):
            lines = list(dropwhile(lambda empty: empty.comment is None, lines))
        elif isinstance(following, cst.SimpleStatementLine) and not lines:
            lines = line.leading_lines
        if following in changes or len(lines) == len(following.leading_lines):
            return
        inside = {node: new for node, new in changes.items() if following in file.parents(node)}
        for node in inside:
            del changes[node]
        changes[following] = replaced(following, inside).with_changes(leading_lines=lines)


@dataclass
class _Names:
    """How new names are written in a file; ``added`` is what to exchange for it to import torch, where it has to.
    ``at_top`` says whether it imports the old name whenever it is imported."""

    file: ParsedFile
    at_top: bool
    line_length: int
    added: dict[cst.CSTNode, Exchange] = field(default_factory=dict)

    def written(self, qualified: str) -> cst.BaseExpression:
        """``torch.amp.autocast``, or what is short for it in the file. Raises Refusal."""
        name = written_name(self.file, qualified)
        if name is None:
            if not self.at_top:
                raise Refusal("the file does not import torch at its top")
            self.added = torch_added(self.file)
        return cst.parse_expression(name or qualified)


def _use(
    file: ParsedFile, node: cst.Name | cst.Attribute, new: Replacement, names: _Names, doubts: list[str]
) -> dict[cst.CSTNode, Exchange]:
    """What to exchange for one use."""
    around = file.parent(node)
    kind = new.new.rpartition(".")[2]
    target = names.written(new.new)
    device = quoted(file, node, new.device)
    if isinstance(around, cst.Call) and around.func is node:
        if kind == "autocast":
            call = _autocast(file, around, target, new, names)
            call = put_first(call, cst.Arg(value=device))
        elif kind == "GradScaler":
            call = put_first(around.with_changes(func=target), cst.Arg(value=device))
        else:
            call = _custom(around, target, device)
        return {around: fitted(file, around, call, names.line_length)}
    if isinstance(around, cst.Decorator) and kind.startswith("custom"):
        return {node: cst.Call(func=target, args=[keyword("device_type", device)])}
    if isinstance(around, cst.Arg):
        outer = file.parent(around)
        if isinstance(outer, cst.Call) and outer.args[0] is around and _is_partial(file, outer):
            return {outer: _partial(outer, target, new, device, doubts)}
    if isinstance(around, cst.Decorator):
        raise Refusal(f"`{kind}` decorates without being called")
    raise Refusal("the name is handed on without a call, and what calls it later gives no device")


def _named(args: list[cst.Arg], parameters: tuple[str, ...]) -> list[cst.Arg]:
    """Arguments with the positional ones given by keyword. Raises Refusal where a star hides which they are."""
    result = []
    for number, arg in enumerate(args):
        if arg.star == "*":
            raise Refusal("`*` hides which arguments are given")
        if arg.keyword is None and not arg.star:
            if number >= len(parameters):
                raise Refusal("there are more arguments than the old signature has")
            named = keyword(parameters[number], arg.value)
            arg = arg.with_changes(keyword=named.keyword, equal=named.equal)
        result.append(arg)
    return result


def _autocast(
    file: ParsedFile, call: cst.Call, target: cst.BaseExpression, new: Replacement, names: _Names
) -> cst.Call:
    """The call of autocast, but for its device."""
    original, args = call, _named(list(call.args), new.old_parameters)
    given = {arg.keyword.value for arg in args if arg.keyword is not None}
    dtype_known = "dtype" in given or any(arg.star for arg in args) or _is_off(args)
    call = call.with_changes(func=target, args=args)
    if not dtype_known and _may_be_inside(file, original):
        call = put_first(call, keyword("dtype", names.written(f"torch.{_DTYPES[new.device]}")))
    return call


def _is_off(args: list[cst.Arg]) -> bool:
    return any(
        arg.keyword is not None
        and arg.keyword.value == "enabled"
        and isinstance(arg.value, cst.Name)
        and arg.value.value == "False"
        for arg in args
    )


def _may_be_inside(file: ParsedFile, call: cst.Call) -> bool:
    """Whether another region may be open where a context is made: one that is written around it, or, in a
    file that is there to be imported, the caller's."""
    function = None
    for node in file.parents(call):
        if isinstance(node, cst.With) and any(
            _is_region(file, item.item) and not _lies_in(call, item) for item in node.items
        ):
            return True
        if isinstance(node, cst.FunctionDef):
            function = function or node
            if any(_is_region(file, part.decorator) and not _lies_in(call, part) for part in node.decorators):
                return True
    if function is None:
        return False
    return function.name.value == "forward" or not _is_program(file)


def _is_region(file: ParsedFile, node: cst.CSTNode) -> bool:
    return "autocast" in file.code(node)


def _is_program(file: ParsedFile) -> bool:
    """Whether a file is run rather than imported: it calls something for its effect at its top."""
    for statement in file.module.body:
        if isinstance(statement, cst.If) and "__main__" in file.code(statement.test):
            return True
        if isinstance(statement, cst.For | cst.While | cst.With):
            return True
        if isinstance(statement, cst.SimpleStatementLine) and any(
            isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) for part in statement.body
        ):
            return True
    return False


def _custom(call: cst.Call, target: cst.BaseExpression, device: cst.BaseExpression) -> cst.Call:
    """custom_fwd or custom_bwd: the function stays in front, the device goes after it."""
    positional = [arg for arg in call.args if arg.keyword is None]
    if any(arg.star for arg in positional):
        raise Refusal("`*` hides which arguments are given")
    arg = keyword("device_type", device)
    if not positional:
        return put_first(call.with_changes(func=target), arg)
    rest = list(call.args[len(positional) :])
    last = positional[-1]
    if rest:
        arg = arg.with_changes(comma=last.comma)
    else:
        arg = arg.with_changes(comma=last.comma)
        positional[-1] = last.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call.with_changes(func=target, args=[*positional, arg, *rest])


def _is_partial(file: ParsedFile, call: cst.Call) -> bool:
    name = dotted(call.func)
    if name is None:
        return False
    root, _, rest = name.partition(".")
    if root in rebound(file):
        return False
    target = binding_of(file, root).target
    return f"{target}.{rest}".strip(".") == "functools.partial"


def _partial(
    call: cst.Call,
    target: cst.BaseExpression,
    new: Replacement,
    device_type: cst.BaseExpression,
    doubts: list[str],
) -> cst.Call:
    kind = new.new.rpartition(".")[2]
    first, rest = call.args[0], list(call.args[1:])
    if kind == "autocast":
        rest = _named(rest, new.old_parameters)
        doubts.append("where the partial is called with positional arguments, they mean something else then")
    is_named = kind.startswith("custom")
    device = keyword("device_type", device_type) if is_named else cst.Arg(value=device_type)
    space = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    comma = first.comma if isinstance(first.comma, cst.Comma) and rest else space
    device = device.with_changes(comma=comma if rest else first.comma)
    return call.with_changes(args=[first.with_changes(value=target, comma=comma), device, *rest])


def _lies_in(part: cst.CSTNode, node: cst.CSTNode) -> bool:
    return part is node or any(_lies_in(part, child) for child in node.children)
