"""custom_fwd and custom_bwd put on the methods of autograd Functions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from amplint.amp.regions import CUSTOM_BWD, CUSTOM_FWD
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import keyword
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.imports import (
    binding_of,
    qualified_name,
    written_at,
)
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.quotes import quoted
from amplint.fixes.scopes import Binding, bindings, rebound
from amplint.fixes.statements import Replacement, comments_of, exchanged

_TWINS = {"custom_fwd": "custom_bwd", "custom_bwd": "custom_fwd"}
_NAMES = {"custom_fwd": CUSTOM_FWD, "custom_bwd": CUSTOM_BWD}


@dataclass(frozen=True)
class AddTwin(FixBuilder):
    """Decorates ``method`` with the counterpart of ``decorator``, which ``other`` has."""

    method: Place
    other: Place
    decorator: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe: the counterpart has no other purpose."""
        file, function = _definition(files, self.method)
        twin_file, twin = _definition(files, self.other)
        if twin_file is not file or file.parent(function) is not file.parent(twin):
            return Refusal("forward and backward stand in different classes")
        shape = _found(file, twin, self.decorator).decorator
        wanted = _TWINS[self.decorator]
        changes: dict[cst.CSTNode, Replacement] = {}
        if isinstance(shape, cst.Call):
            args = [
                arg for arg in shape.args if arg.keyword is not None and arg.keyword.value == "device_type"
            ]
            if any(arg.star for arg in shape.args):
                return Refusal("a star hides which arguments are given")
            args = [cst.Arg(keyword=arg.keyword, equal=arg.equal, value=arg.value) for arg in args]
            named = _renamed(file, shape.func, wanted, changes)
            new: cst.BaseExpression = cst.Call(func=named, args=args) if args else named
        else:
            new = _renamed(file, shape, wanted, changes)
        changes[function] = _decorated(function, new)
        title = f"Decorate `{function.name.value}` with `{file.code(new)}`"
        fix = make_fix(title, {file: exchanged(file, changes)})
        return replace(fix, brings=frozenset({"deprecated-amp-api"}))  # the old name beside an old one


@dataclass(frozen=True)
class SameDevice(FixBuilder):
    """Gives ``custom_bwd`` the device of ``custom_fwd``."""

    backward: Place
    device: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the other device may be the right one."""
        file, function = _definition(files, self.backward)
        shape = _found(file, function, "custom_bwd").decorator
        given = [
            arg.value
            for arg in (shape.args if isinstance(shape, cst.Call) else ())
            if arg.keyword is not None and arg.keyword.value == "device_type"
        ]
        if not given or not isinstance(given[0], cst.SimpleString):
            return Refusal("the device of `custom_bwd` is not written where it decorates")
        old = given[0]
        new = old.with_changes(value=f"{old.quote}{self.device}{old.quote}")
        note = f'the device that is meant may be "{old.raw_value}" rather than "{self.device}"'
        title = f'Give `custom_bwd` the device "{self.device}" as well'
        return make_fix(title, {file: exchanged(file, {old: new})}, unsafe=note)


@dataclass(frozen=True)
class DecorateBoth(FixBuilder):
    """Decorates forward and backward of a Function with custom_fwd and custom_bwd for a device."""

    forward: Place
    backward: Place
    device: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: both methods may run in another type then."""
        file, forward = _definition(files, self.forward)
        other, backward = _definition(files, self.backward)
        if other is not file or file.parent(forward) is not file.parent(backward):
            return Refusal("forward and backward stand in different classes")
        changes: dict[cst.CSTNode, Replacement] = {}
        for name, function in (("custom_fwd", forward), ("custom_bwd", backward)):
            func = cst.parse_expression(written_at(file, f"torch.amp.{name}", forward, changes))
            call = cst.Call(func=func, args=[keyword("device_type", quoted(file, function, self.device))])
            changes[function] = _decorated(function, call)
        note = (
            f'both methods run in the type of a region on "{self.device}" then, and in no other device\'s; only the '
            "author knows which types they stand"
        )
        title = "Decorate forward and backward with `custom_fwd` and `custom_bwd`"
        return make_fix(title, {file: exchanged(file, changes)}, unsafe=note)


def _definition(files: Files, name: Place) -> tuple[ParsedFile, cst.FunctionDef]:
    """The function whose name stands at a place."""
    file = files.parsed(name.path)
    node = file.find(cst.Name, name.span)
    function = file.parent(node) if node is not None else None
    if not isinstance(function, cst.FunctionDef):
        raise Refusal("the method is not found")
    return file, function


def _found(file: ParsedFile, function: cst.FunctionDef, name: str) -> cst.Decorator:
    for decorator in function.decorators:
        shape = decorator.decorator
        func = shape.func if isinstance(shape, cst.Call) else shape
        if qualified_name(file, func) in _NAMES[name]:
            return decorator
    raise Refusal(f"`{name}` goes by another name here")


def _decorated(function: cst.FunctionDef, decorator: cst.BaseExpression) -> cst.FunctionDef:
    """The function with one more decorator, next to it. Comments between the others and the function stay there."""
    return function.with_changes(decorators=[*function.decorators, cst.Decorator(decorator=decorator)])


def _renamed(
    file: ParsedFile, node: cst.BaseExpression, wanted: str, changes: dict[cst.CSTNode, Replacement]
) -> cst.BaseExpression:
    """The counterpart of a decorator under the name that it has or gets in the file."""
    if isinstance(node, cst.Attribute):
        return node.with_changes(attr=cst.Name(wanted))
    assert isinstance(node, cst.Name)
    binding = binding_of(file, node)
    target = f"{binding.target.rpartition('.')[0]}.{wanted}"
    known = [other for other in bindings(file) if other.target == target and other.at_top(file)]
    if known and known[0].name not in rebound(file):
        return cst.Name(known[0].name)
    if wanted in rebound(file) or any(other.name == wanted for other in bindings(file)):
        raise Refusal(f"`{wanted}` is the name of something else here")
    changes[binding.statement] = _with_name(binding, wanted)
    return cst.Name(wanted)


def _with_name(binding: Binding, name: str) -> cst.ImportFrom:
    """The `from` statement of a binding with one more name beside it, in the order of the alphabet."""
    statement = binding.statement
    if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        raise Refusal(f"`{name}` cannot be imported beside `{binding.name}`")
    names = list(statement.names)
    at = names.index(binding.alias)
    new = cst.ImportAlias(name=cst.Name(name))
    between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    for comma in (names[at - 1].comma if at else None, names[at].comma if at + 1 < len(names) else None):
        if isinstance(comma, cst.Comma) and not comments_of(comma):
            between = comma
            break
    own = binding.alias.comma
    if isinstance(own, cst.Comma) and comments_of(own) and at + 1 < len(names):
        names.insert(at + 1, new.with_changes(comma=between))  # the comment belongs to the one that is there
    elif name < binding.alias.evaluated_name:
        names.insert(at, new.with_changes(comma=between))
    else:
        names[at : at + 1] = [
            binding.alias.with_changes(comma=between),
            new.with_changes(comma=binding.alias.comma),
        ]
    return statement.with_changes(names=names)
