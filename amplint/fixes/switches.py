"""Gradient scalers and autocast regions that are switched together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from amplint.amp.regions import Entry
from amplint.amp.scalers import parameters_of
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import keyword, set_argument
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted
from amplint.fixes.imports import qualified_name, torch_at
from amplint.fixes.made import class_around, function_around
from amplint.fixes.names import names_in
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scaling import call_at
from amplint.fixes.scopes import times_bound_at_top, times_bound_in
from amplint.fixes.statements import Replacement, comments_of, exchanged
from amplint.fixes.weight_cache import making

_ENABLED = "enabled"


@dataclass(frozen=True)
class SwitchTogether(FixBuilder):
    """Gives a scaler the flag of the region whose loss it scales; none if that region is always on. Without a
    ``region`` the scaler is switched off."""

    made: Place
    region: Place | None = None

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the flag that goes may be the one that is meant."""
        file = files.parsed(self.made.path)
        call = call_at(file, self.made)
        parameters = parameters_of(qualified_name(file, call.func) or "")
        if not parameters:
            return Refusal("the scaler is made by other code")
        note = "a scaler that is off has an empty state, which one that is on does not load"
        if argument(call, parameters, _ENABLED) is not None:
            note = "the flag that switched the scaler has no effect on it any more"
        if self.region is None:
            flag: cst.BaseExpression | None = cst.Name("False")
        else:
            where, region, entry = making(files, self.region)
            given = argument(region, entry.parameters, _ENABLED)
            flag = region.args[given].value if given is not None else None
            if flag is not None and where is not file:
                return Refusal("the region is made in another file")
            if flag is not None and not means_the_same(file, flag, region, call):
                return Refusal(f"`{file.code(flag)}` is not known where the scaler is made")
        changed = switched(call, parameters, flag)
        title = (
            f"Pass `{_ENABLED}={file.code(flag)}` to the scaler"
            if flag is not None
            else "Leave the scaler on"
        )
        return make_fix(
            title, {file: exchanged(file, {call: changed})}, [(file, file.statement(call))], unsafe=note
        )


@dataclass(frozen=True)
class TrainInBfloat16(FixBuilder):
    """Runs a region in bfloat16, and switches off the scaler that its losses need no more."""

    made: Place | None
    region: Place | None

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: another type is a choice, and not every device has it."""
        if self.made is None or self.region is None:
            return Refusal("the scaler or the region of the loss is not in sight")
        file = files.parsed(self.made.path)
        call = call_at(file, self.made)
        parameters = parameters_of(qualified_name(file, call.func) or "")
        if not parameters:
            return Refusal("the scaler is made by other code")
        changes: dict[ParsedFile, dict[cst.CSTNode, Replacement]] = {
            file: {call: switched(call, parameters, cst.Name("False"))}
        }
        where, region, entry = making(files, self.region)
        for other in files.parsed(self.region.path).nodes(cst.Call):
            func = other.func
            is_step = isinstance(func, cst.Attribute) and func.attr.value == "step" and len(other.args) == 1
            if is_step and _is_scaler(file, call, func):
                return Refusal(f"the scaler steps another optimizer on {where.line_name(other)}")
        own = changes.setdefault(where, {})
        torch = torch_at(where, region, own)
        own[region] = with_dtype(region, entry, cst.parse_expression(f"{torch}.bfloat16"))
        return make_fix(
            "Train in bfloat16 with the scaler off",
            {part: exchanged(part, nodes) for part, nodes in changes.items()},
            [(file, file.statement(call))],
            unsafe="bfloat16 has fewer digits, and needs a device that has it; a scaler that is off has an empty state",
        )


def argument(call: cst.Call, parameters: Sequence[str], name: str) -> int | None:
    """The number of the argument that a parameter gets. Raises Refusal where a star may hide it."""
    if any(arg.star for arg in call.args):
        raise Refusal("a star hides which arguments are given")
    for number, arg in enumerate(call.args):
        given = parameters[number] if number < len(parameters) else ""
        if name == (given if arg.keyword is None else arg.keyword.value):
            return number
    return None


def switched(call: cst.Call, parameters: Sequence[str], flag: cst.BaseExpression | None) -> cst.Call:
    """A call with another value for ``enabled``, or without one. Raises Refusal."""
    at = argument(call, parameters, _ENABLED)
    if flag is not None:
        if at is None:
            return set_argument(call, len(call.args), keyword(_ENABLED, flag))
        return set_argument(call, at, call.args[at].with_changes(value=flag))
    if at is None:
        raise Refusal("the scaler has no flag")
    if call.args[at].keyword is None and at + 1 < len(call.args):
        return set_argument(call, at, call.args[at].with_changes(value=cst.Name("True")))
    args = list(call.args)
    gone = args.pop(at)
    if args and at == len(args):
        args[-1] = args[-1].with_changes(comma=gone.comma, whitespace_after_arg=gone.whitespace_after_arg)
    changed = call.with_changes(args=args)
    if not args:
        changed = changed.with_changes(whitespace_before_args=cst.SimpleWhitespace(""))
    lost = comments_of(call) - comments_of(changed)
    if lost:
        raise Refusal(f"the comment `{next(iter(lost))}` would be lost")
    return changed


def with_dtype(call: cst.Call, entry: Entry, dtype: cst.BaseExpression) -> cst.Call:
    """A call that makes a region, with another type. Raises Refusal."""
    at = argument(call, entry.parameters, "dtype")
    if at is None:
        return set_argument(call, len(call.args), keyword("dtype", dtype))
    return set_argument(call, at, call.args[at].with_changes(value=dtype))


def _is_scaler(file: ParsedFile, made: cst.Call, method: cst.BaseExpression) -> bool:
    """Whether a method is called on what a scaler is called where it is made."""
    receiver = dotted(method.value) if isinstance(method, cst.Attribute) else None
    assign = file.parent(made)
    targets = assign.targets if isinstance(assign, cst.Assign) else ()
    return any(dotted(target.target) == receiver for target in targets)


def means_the_same(
    file: ParsedFile, expression: cst.BaseExpression, here: cst.CSTNode, there: cst.CSTNode
) -> bool:
    """Whether an expression of names that stands at one place is the same at another one, further up."""
    if not is_plain(expression):
        return False
    home, other = function_around(file, here), function_around(file, there)
    for name in names_in(expression):
        if name == "self" and home is not other:
            if not _is_held_before(file, expression, here, there):
                return False
            continue
        local = [part for part in (home, other) if part is not file.module and times_bound_in(part)[name]]
        if local and home is not other:
            return False
        scope = home if local else file.module
        bound = times_bound_in(scope)[name] if local else times_bound_at_top(file)[name]
        if bound > 1 or (bound == 1 and not _is_bound_before(file, scope, name, there)):
            return False
    return True


def is_plain(node: cst.BaseExpression) -> bool:
    """Whether an expression does nothing but read names, attributes and items by constants, or ask for their truth."""
    match node:
        case cst.Call(func=cst.Name("bool"), args=[cst.Arg(keyword=None, star="", value=value)]):
            return is_plain(value)
        case cst.Name() | cst.SimpleString() | cst.Integer():
            return True
        case cst.Attribute():
            return is_plain(node.value)
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=value))]):
            return is_plain(node.value) and is_plain(value)
        case cst.UnaryOperation(operator=cst.Not()):
            return is_plain(node.expression)
        case cst.BooleanOperation():
            return is_plain(node.left) and is_plain(node.right)
        case cst.Comparison():
            return all(is_plain(part) for part in (node.left, *(one.comparator for one in node.comparisons)))
    return False


def _is_bound_before(
    file: ParsedFile, home: cst.FunctionDef | cst.Module, name: str, at: cst.CSTNode
) -> bool:
    """Whether a name that is bound once in a function is a parameter of it, or bound before a place is reached."""
    if isinstance(home, cst.FunctionDef) and any(
        part.name.value == name
        for part in file.inside(cst.Param, file.span(home))
        if file.parent(part) is home.params
    ):
        return True
    around = set(file.parents(at))
    for kind in (cst.Assign, cst.AnnAssign, cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef):
        for node in file.nodes(kind):
            if name in times_bound_in(node) and file.span(node) < file.span(at):
                statement = node if isinstance(node, cst.BaseCompoundStatement) else file.statement(node)
                if file.parent(statement) in around:
                    return True
    return False


def _is_held_before(
    file: ParsedFile, expression: cst.BaseExpression, here: cst.CSTNode, there: cst.CSTNode
) -> bool:
    """Whether the attributes of ``self`` in an expression are set by the constructor before a place in it, and nowhere
    else in the class."""
    owner, constructor = class_around(file, here), function_around(file, there)
    if (
        owner is None
        or owner is not class_around(file, there)
        or not isinstance(constructor, cst.FunctionDef)
        or constructor.name.value != "__init__"
    ):
        return False
    around = set(file.parents(there))
    for attribute in _own_attributes(expression):
        stores = [
            target
            for target in file.inside(cst.AssignTarget, file.span(owner))
            if dotted(target.target) == attribute
        ]
        if len(stores) != 1:
            return False
        statement = file.statement(stores[0])
        if file.parent(statement) not in around or not file.span(statement) < file.span(there):
            return False
    return True


def _own_attributes(node: cst.CSTNode) -> set[str]:
    """The attributes of ``self`` that are read in an expression."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        return {f"self.{node.attr.value}"}
    return {name for child in node.children for name in _own_attributes(child)}
