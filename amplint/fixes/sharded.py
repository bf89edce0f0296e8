"""The scaler for parameters that are split among processes."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.amp.scalers import PLAIN, SHARDED, parameters_of
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import keyword
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.imports import (
    binding_of,
    imports_in,
    is_exported,
    qualified_name,
    removed,
    uses_of,
)
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scaling import call_at
from amplint.fixes.scopes import bindings, rebound, scopes_of
from amplint.fixes.statements import Replacement, comments_of, exchanged

_MODULE, _, _NAME = SHARDED.rpartition(".")


@dataclass(frozen=True)
class ShardScaler(FixBuilder):
    """Makes a plain scaler the one that asks all processes for infs."""

    made: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: another process group may be meant."""
        file = files.parsed(self.made.path)
        call = call_at(file, self.made)
        made = qualified_name(file, call.func) or ""
        if made not in PLAIN:
            return Refusal("the scaler is made by other code")
        if any(arg.star for arg in call.args):
            return Refusal("a star hides which arguments are given")
        changes: dict[cst.CSTNode, Replacement] = {}
        name = _imported(files, file, call, changes)
        new = call.with_changes(func=cst.Name(name), args=_by_name(call, parameters_of(made)))
        if not new.args:
            new = new.with_changes(whitespace_before_args=cst.SimpleWhitespace(""))
        lost = comments_of(call) - comments_of(new)
        if lost:
            return Refusal(f"the comment `{next(iter(lost))}` would be lost")
        changes[call] = new
        return make_fix(
            f"Use `{_NAME}`",
            {file: exchanged(file, changes)},
            [(file, file.statement(call))],
            unsafe="it wants `process_group` where the module is not split over all processes",
        )


def _by_name(call: cst.Call, parameters: tuple[str, ...]) -> list[cst.Arg]:
    """The arguments by keyword, since ShardedGradScaler has them in another order, and without a device that is the
    default, which releases before 2.3 do not take."""
    args = []
    for number, arg in enumerate(call.args):
        if arg.keyword is None:
            named = keyword(parameters[number], arg.value)
            arg = arg.with_changes(keyword=named.keyword, equal=named.equal)
        assert arg.keyword is not None
        is_default = isinstance(arg.value, cst.SimpleString) and arg.value.evaluated_value == "cuda"
        if arg.keyword.value != "device" or not is_default:
            args.append(arg)
    if args and args[-1].value is not call.args[-1].value:
        last = call.args[-1]
        args[-1] = args[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return args


def _imported(files: Files, file: ParsedFile, call: cst.Call, changes: dict[cst.CSTNode, Replacement]) -> str:
    """The name of the class in the file, which is imported if need be; an import that nothing else uses goes.
    Raises Refusal."""
    name = next(
        (known.name for known in bindings(file) if known.target == SHARDED and known.at_top(file)),
        "",
    )
    if not name:
        if _NAME in rebound(file) or any(known.name == _NAME for known in bindings(file)):
            raise Refusal(f"`{_NAME}` is the name of something else here")
        name = _NAME
    elif name in rebound(file):
        raise Refusal(f"`{name}` is bound to something else as well")
    else:
        _remove_old(files, file, call, changes)
        return name
    line = cst.parse_statement(f"from {_MODULE} import {_NAME}")
    assert isinstance(line, cst.SimpleStatementLine)
    after = _line_above(file)
    _remove_old(files, file, call, changes)
    old = changes.get(after, after)
    if isinstance(old, cst.SimpleStatementLine):
        changes[after] = cst.FlattenSentinel([old, line])
    else:
        changes[after] = line.with_changes(leading_lines=after.leading_lines)
    return name


def _remove_old(
    files: Files, file: ParsedFile, call: cst.Call, changes: dict[cst.CSTNode, Replacement]
) -> None:
    """Takes the import of the plain class away if it was for this call alone."""
    root = call.func
    if not isinstance(root, cst.Name):
        return
    binding = binding_of(file, root)
    if len(uses_of(file, root.value, scopes_of(file).found(root.value, root))) > 1:
        return
    if files.project.is_used(file.path, root.value):
        return
    if not is_exported(file, binding):
        rest = removed(file, binding)
        if rest is not None:
            changes[binding.line] = rest


def _line_above(file: ParsedFile) -> cst.SimpleStatementLine:
    """The import below which that of the class belongs: the last of torch's in the order of the alphabet, `import`
    before `from`. Raises Refusal."""
    found: list[tuple[bool, cst.SimpleStatementLine]] = []
    for statement in file.module.body:
        for part, names in imports_in(statement):
            if any(name.partition(".")[0] == "torch" for name in names):
                assert isinstance(statement, cst.SimpleStatementLine)
                found.append((isinstance(part, cst.Import) or names[0] <= _MODULE, statement))
    if not found:
        raise Refusal("the file imports nothing of torch at its top")
    before = [statement for is_before, statement in found if is_before]
    return before[-1] if before else found[-1][1]
