"""Uses of torch.cuda.amp and torch.cpu.amp written in the names and signatures of torch.amp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

import libcst as cst

from amplint.amp.deprecated import DEPRECATED, Replacement
from amplint.events import Place
from amplint.findings import Claim, Fix
from amplint.fixes.arguments import fitted, keyword, put_first
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.entries import dtype_may_differ
from amplint.fixes.imports import (
    binding_of,
    is_exported,
    is_named_in_text,
    qualified_name,
    removed,
    root_of,
    torch_added,
    uses_of,
    written_name,
)
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.quotes import quoted
from amplint.fixes.scopes import Binding, scopes_of
from amplint.fixes.statements import Replacement as Exchange
from amplint.fixes.statements import Statement, exchanged, preceded, replaced
from amplint.source.project import module_of

_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}


@dataclass(frozen=True)
class ReplaceDeprecated(FixBuilder):
    """Replaces one use of a deprecated name, and its import once nothing else uses that. The arms of a conditional
    expression are replaced together."""

    use: Place
    old: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the new call does what the old one did."""
        file = files.parsed(self.use.path)
        node = file.find(cst.Name, self.use.span) or file.find(cst.Attribute, self.use.span)
        if node is None:
            return Refusal("the name is not found again")
        change = _Change(files, file)
        for use in _together(file, node, DEPRECATED[self.old].new):
            change.use(use)
        new = DEPRECATED[self.old]
        title = f'Write `{new.new}` for the device type "{new.device}"'
        fix = make_fix(
            title, {file: exchanged(file, change.changes)}, unsafe="; ".join(dict.fromkeys(change.doubts))
        )
        return replace(fix, claims=(*fix.claims, *change.claims))


def _together(file: ParsedFile, node: cst.Name | cst.Attribute, new: str) -> list[cst.Name | cst.Attribute]:
    """The uses of old names for the same new one in the conditional expression around one of them, that one included:
    with one arm in the new spelling, the other one looks as if it was there for older releases."""
    outermost = next((part for part in reversed([*file.parents(node)]) if isinstance(part, cst.IfExp)), None)
    if outermost is None:
        return [node]
    parts: list[cst.Name | cst.Attribute] = [
        *file.inside(cst.Name, file.span(outermost)),
        *file.inside(cst.Attribute, file.span(outermost)),
    ]
    found = []
    for part in parts:
        around = file.parent(part)
        old = DEPRECATED.get(qualified_name(file, part) or "")
        if old is not None and old.new == new and isinstance(around, cst.Call) and around.func is part:
            found.append(part)
    return found if node in found else [node]


class _Change:
    """What has to be exchanged in a file for some uses, why somebody has to look at it, and what else is claimed."""

    def __init__(self, files: Files, file: ParsedFile) -> None:
        self.files = files
        self.file = file
        self.doubts: list[str] = []
        self.changes: dict[cst.CSTNode, Exchange] = {}
        self.claims: list[Claim] = []
        self._done: set[cst.Name] = set()

    def use(self, node: cst.Name | cst.Attribute) -> None:
        """Takes in one use. Raises Refusal."""
        file, root = self.file, root_of(node)
        old = qualified_name(file, node)
        binding = binding_of(file, root)
        if old not in DEPRECATED:
            raise Refusal("the name stands for something else here")
        if binding.target != "torch" and file.statement(node) is binding.line:
            raise Refusal("the name is used on the line that imports it")
        self._doubt_others(node, old, binding)
        new = DEPRECATED[old]
        names = _Names(self, node, binding, quoted(file, node, new.device))
        self.changes.update(_use(self.files, file, node, names, new, self.doubts))
        self._done.add(root)
        if binding.target != "torch":
            self._leave_import(root, binding)

    def _leave_import(self, root: cst.Name, binding: Binding) -> None:
        """Takes the import along with its last use. The last one of several goes when the others are gone."""
        file = self.file
        scope = scopes_of(file).found(root.value, root)
        uses = uses_of(file, root.value, scope)
        if self._done.issuperset(uses):
            local = scope is not scopes_of(file).module
            if local or not self.files.project.is_used(file.path, root.value):
                self._without_import(binding)
        elif uses[-1] in self._done:
            self.claims += [file.claim(file.statement(use)) for use in uses]
            self.claims.append(file.claim(binding.line))

    def _doubt_others(self, node: cst.Name | cst.Attribute, old: str, binding: Binding) -> None:
        """Doubts that the new name will do where code puts something else in the place of the old one, or asks for its
        class."""
        module, _, name = old.rpartition(".")
        others = set(self.files.project.uses(module.partition(".")[2], name))
        if (
            binding.target != "torch"
            and scopes_of(self.file).found(binding.name, node) is scopes_of(self.file).module
        ):
            others |= self.files.project.uses(module_of(self.file.path), binding.name, self.file.path)
        if "replaces" in others:
            self.doubts.append(f"some file puts something else in the place of `{name}`")
        if name == "GradScaler" and not self._doubt_class(node) and "asks" in others:
            self.doubts.append("another file asks for the old class, and the new one is no subclass of it")

    def _doubt_class(self, node: cst.Name | cst.Attribute) -> bool:
        """Doubts that an object of the new class will do where the file asks for the old one, which is a subclass."""
        file, root = self.file, root_of(node)
        text = file.code(node)
        for use in uses_of(file, root.value, scopes_of(file).found(root.value, root)):
            whole: cst.CSTNode = use
            around = file.parent(whole)
            while isinstance(around, cst.Attribute):
                whole, around = around, file.parent(around)
            is_made = isinstance(around, cst.Call) and around.func is whole
            if whole is not node and not is_made and file.code(whole) == text:
                line = file.line_name(whole)
                self.doubts.append(f"{line} names the old class, and the new one is no subclass of it")
                return True
        return False

    def written(self, qualified: str, node: cst.Name | cst.Attribute, binding: Binding) -> cst.BaseExpression:
        """How the file writes a name of torch at one use; torch is imported if need be. Raises Refusal."""
        file, changes = self.file, self.changes
        name = written_name(file, qualified, node, None if binding.target == "torch" else binding)
        if name is not None:
            return cst.parse_expression(name)
        if binding.at_top(file):
            below = file.span(binding.statement).line > file.span(node).line
            added = torch_added(file, binding.statement if below else node)
        else:
            added = _added_beside(file, binding)
        if not added.keys() & changes.keys():
            changes.update(added)
        return cst.parse_expression(qualified)

    def _without_import(self, binding: Binding) -> None:
        """Takes the import away that nothing uses any more."""
        file, changes, line = self.file, self.changes, binding.line
        if is_exported(file, binding):
            return
        rest = removed(file, binding)
        if rest is None:
            return
        if line in changes:
            added = changes[line]
            assert isinstance(added, cst.FlattenSentinel)
            changes[line] = cst.FlattenSentinel(_with_rest(line, list(added), rest))
            return
        if isinstance(rest, cst.RemovalSentinel):
            around = file.parent(line)
            if not isinstance(around, cst.Module | cst.IndentedBlock) or len(around.body) == 1:
                return
            self._hand_on_lines(around, line)
        changes[line] = rest

    def _hand_on_lines(
        self,
        around: cst.Module | cst.IndentedBlock,
        line: cst.SimpleStatementLine,
    ) -> None:
        """Gives the blank lines above a line that goes to the import below it, if that has none; a file or
        block does not begin with those that were below its first line."""
        file, changes = self.file, self.changes
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


@dataclass(frozen=True)
class _Names:
    """How the new names are written at one use; ``device`` is its argument."""

    change: _Change
    node: cst.Name | cst.Attribute
    binding: Binding
    device: cst.SimpleString

    def written(self, qualified: str) -> cst.BaseExpression:
        """``torch.amp.autocast``, or what is short for it in the file. Raises Refusal."""
        return self.change.written(qualified, self.node, self.binding)


def _with_rest(
    line: cst.SimpleStatementLine, parts: list[Statement], rest: Statement | cst.RemovalSentinel
) -> list[Statement]:
    """Lines one of which is an import that gives way to what is left of it, if anything."""
    at = next(number for number, part in enumerate(parts) if part.body is line.body)
    old = parts.pop(at)
    if not isinstance(rest, cst.RemovalSentinel):
        parts.insert(at, rest.with_changes(leading_lines=old.leading_lines))
    elif not parts[0].leading_lines:
        parts[0] = parts[0].with_changes(leading_lines=line.leading_lines)
    return parts


def _added_beside(file: ParsedFile, binding: Binding) -> dict[cst.CSTNode, Exchange]:
    """What to exchange for `import torch` to stand above an import inside a function. Raises Refusal."""
    scope = scopes_of(file).around(binding.statement)
    if any(scopes_of(file).around(use) is scope for use in uses_of(file, "torch")):
        raise Refusal("`torch` is used in the same function, and not imported at the top of the file")
    line = cst.SimpleStatementLine(body=[cst.Import(names=[cst.ImportAlias(name=cst.Name("torch"))])])
    first = preceded(line, binding.line.leading_lines)
    return {binding.line: cst.FlattenSentinel([first, binding.line.with_changes(leading_lines=())])}


def _use(
    files: Files,
    file: ParsedFile,
    node: cst.Name | cst.Attribute,
    names: _Names,
    new: Replacement,
    doubts: list[str],
) -> dict[cst.CSTNode, Exchange]:
    """What to exchange for one use."""
    around = file.parent(node)
    kind = new.new.rpartition(".")[2]
    target = names.written(new.new)
    if isinstance(around, cst.Call) and around.func is node:
        if kind == "autocast":
            call = _autocast(files, file, around, names, new, doubts)
        elif kind.startswith("custom"):
            call = _custom(around, target, names.device)
        else:
            call = put_first(around.with_changes(func=target), cst.Arg(value=names.device))
        return {around: fitted(file, around, call, files.line_length)}
    if isinstance(around, cst.Decorator) and kind.startswith("custom"):
        return {node: cst.Call(func=target, args=[keyword("device_type", names.device)])}
    if isinstance(around, cst.Arg):
        outer = file.parent(around)
        if (
            isinstance(outer, cst.Call)
            and outer.args[0] is around
            and qualified_name(file, outer.func) == "functools.partial"
        ):
            if kind == "autocast" and not _by_keyword(files, file, outer):
                doubts.append(
                    "where the partial is called with positional arguments, they mean something else then"
                )
            return {outer: _partial(outer, names, new, kind)}
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
            named = keyword(parameters[number], _in_brackets(arg.value))
            arg = arg.with_changes(keyword=named.keyword, equal=named.equal, value=named.value)
        result.append(arg)
    return result


def _in_brackets(value: cst.BaseExpression) -> cst.BaseExpression:
    """A value as it may stand behind ``=``."""
    if value.lpar or not isinstance(value, cst.NamedExpr | cst.GeneratorExp):
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _autocast(
    files: Files,
    file: ParsedFile,
    call: cst.Call,
    names: _Names,
    new: Replacement,
    doubts: list[str],
) -> cst.Call:
    args = _named(list(call.args), new.old_parameters)
    changed = call.with_changes(func=names.written(new.new), args=args)
    if not _gives_dtype(args) and not _is_off(args) and dtype_may_differ(files, file, call):
        if any(arg.star for arg in args):
            doubts.append("`**` hides whether the dtype is given, which the old name sets in any case")
        else:
            changed = put_first(changed, _dtype(names, new))
    return put_first(changed, cst.Arg(value=names.device))


def _gives_dtype(args: Iterable[cst.Arg]) -> bool:
    return any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in args)


def _dtype(names: _Names, new: Replacement) -> cst.Arg:
    """The dtype that the old name has by default."""
    return keyword("dtype", names.written(f"torch.{_DTYPES[new.device]}"))


def _is_off(args: list[cst.Arg]) -> bool:
    return any(
        arg.keyword is not None
        and arg.keyword.value == "enabled"
        and isinstance(arg.value, cst.Name)
        and arg.value.value == "False"
        for arg in args
    )


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


def _by_keyword(files: Files, file: ParsedFile, partial: cst.Call) -> bool:
    """Whether a partial has a name under which it is only ever called, and with no positional arguments."""
    assign = file.parent(partial)
    match assign:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name) as target)]):
            scope = scopes_of(file).found(name, target)
        case _:
            return False
    if (
        scope is None
        or isinstance(scope.node, cst.ClassDef)
        or name in scope.imports
        or len(scope.others[name]) > 1
        or (scope is scopes_of(file).module and files.project.is_used(file.path, name))
        or is_named_in_text(file, name)
    ):
        return False
    calls = [file.parent(use) for use in uses_of(file, name, scope)]
    return all(
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Name)
        and call.func.value == name
        and all(arg.keyword is not None or arg.star == "**" for arg in call.args)
        for call in calls
    )


def _partial(call: cst.Call, names: _Names, new: Replacement, kind: str) -> cst.Call:
    target = names.written(new.new)
    first, rest = call.args[0], list(call.args[1:])
    named = kind.startswith("custom")
    added = [keyword("device_type", names.device) if named else cst.Arg(value=names.device)]
    if kind == "autocast":
        rest = _named(rest, new.old_parameters)
        if not _gives_dtype(rest):  # a later call may give it, and runs who knows where
            added.append(_dtype(names, new))
    space = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    between = first.comma if isinstance(first.comma, cst.Comma) and rest else space
    added = [arg.with_changes(comma=between) for arg in added]
    if not rest:
        added[-1] = added[-1].with_changes(comma=first.comma)
    return call.with_changes(args=[first.with_changes(value=target, comma=between), *added, *rest])
