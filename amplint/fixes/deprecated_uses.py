"""One use of a deprecated name of AMP in the signature of the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import libcst as cst

from amplint.amp.deprecated import Replacement
from amplint.amp.regions import NAMES_OF_DEVICE
from amplint.fixes.arguments import fitted, keyword, put_first
from amplint.fixes.base import Files
from amplint.fixes.entries import dtype_may_differ
from amplint.fixes.imports import is_named_in_text, qualified_name, uses_of
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import scopes_of
from amplint.fixes.statements import Replacement as Exchange

_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}


@dataclass(frozen=True)
class Names:
    """How the new names are written at one use: ``device`` is its argument, ``written`` gives a name such as
    ``torch.amp.autocast`` as the file has it, and raises Refusal."""

    device: cst.SimpleString
    written: Callable[[str], cst.BaseExpression]


def changed_use(
    files: Files,
    file: ParsedFile,
    node: cst.Name | cst.Attribute,
    names: Names,
    new: Replacement,
    doubts: list[str],
) -> dict[cst.CSTNode, Exchange]:
    """What to exchange for one use; ``doubts`` gets why somebody has to look at it. Raises Refusal."""
    around = file.parent(node)
    kind = new.new.rpartition(".")[2]
    target = names.written(new.new)
    if isinstance(around, cst.Call) and around.func is node:
        _refuse_device(around, kind)
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


def _refuse_device(call: cst.Call, kind: str) -> None:
    """Raises Refusal where the old name, which has its device in it, is given one, which it does not take."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value in NAMES_OF_DEVICE:
            raise Refusal(f"the old `{kind}` takes no `{arg.keyword.value}`, and raises")


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
    names: Names,
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


def _dtype(names: Names, new: Replacement) -> cst.Arg:
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


def _partial(call: cst.Call, names: Names, new: Replacement, kind: str) -> cst.Call:
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
