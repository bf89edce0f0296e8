"""The device of autocast written as the string that it takes."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.amp.regions import GENERIC_ENTRIES
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import fitted, on_lines, put_first
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.imports import qualified_name, torch_at
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.quotes import quoted
from amplint.fixes.scopes import rebound, scopes_of
from amplint.fixes.statements import Replacement, exchanged

_BINDS_TIGHTLY = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


@dataclass(frozen=True)
class WriteDeviceType(FixBuilder):
    """Gives autocast the type of a device instead of a torch.device or a string with an index. ``right`` is what
    to write instead of a string that names no device."""

    argument: Place
    right: str = ""

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe: nothing else can have been meant."""
        file = files.parsed(self.argument.path)
        node = file.expression(self.argument.span)
        if node is None or not isinstance(file.parent(node), cst.Arg):
            return Refusal("the device is not written where autocast is called")
        changes: dict[cst.CSTNode, Replacement] = {}
        if self.right:
            if not isinstance(node, cst.SimpleString):
                return Refusal("the string is made elsewhere")
            new: cst.BaseExpression = _string(node, self.right)
        else:
            new = device_type(file, node, changes)
        changes[node] = new
        text = file.code(new)
        title = "Write the type of the device" if "\n" in text else f"Write `{text}`"
        broken = on_lines(file, {node: new}, files.line_length)
        changes = {**{other: changes[other] for other in changes if other is not node}, **broken}
        return make_fix(title, {file: exchanged(file, changes)})


@dataclass(frozen=True)
class CompareType(FixBuilder):
    """Compares the type of a torch.device with a text: ``device.type == "cuda"``."""

    comparison: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: what depends on it happens for the first time."""
        file = files.parsed(self.comparison.path)
        node = file.find(cst.Comparison, self.comparison.span)
        if node is None or len(node.comparisons) != 1:
            return Refusal("the comparison is not found")
        sides = (node.left, node.comparisons[0].comparator)
        devices = [side for side in sides if isinstance(side, _BINDS_TIGHTLY)]
        if len(devices) != 1:
            return Refusal("which side is the device is not clear")
        changes: dict[cst.CSTNode, Replacement] = {
            devices[0]: cst.Attribute(value=devices[0], attr=cst.Name("type"))
        }
        note = "what depends on the comparison, such as mixed precision, happens for the first time"
        title = f"Write `{file.code(devices[0])}.type`"
        return make_fix(title, {file: exchanged(file, changes)}, unsafe=note)


@dataclass(frozen=True)
class GiveDevice(FixBuilder):
    """Puts a device in front of the arguments of a call of autocast that has none."""

    call: Place
    device: str

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: another device may be meant."""
        file = files.parsed(self.call.path)
        call = file.find(cst.Call, self.call.span)
        if call is None or qualified_name(file, call.func) not in GENERIC_ENTRIES:
            return Refusal("the call of torch.autocast is not found")
        new = put_first(call, cst.Arg(value=quoted(file, call, self.device)))
        new = fitted(file, call, new, files.line_length)
        note = (
            f'the device is taken to be "{self.device}", for which the region takes effect for the first time'
        )
        return make_fix(
            f'Give the device: `"{self.device}"`', {file: exchanged(file, {call: new})}, unsafe=note
        )


def device_type(
    file: ParsedFile, node: cst.BaseExpression, changes: dict[cst.CSTNode, Replacement]
) -> cst.BaseExpression:
    """The type of the device that an expression stands for: ``device.type`` where it surely is a torch.device,
    else ``torch.device(name).type``, which is right for strings as well. Adds what to exchange for torch to be
    imported."""
    if isinstance(node, cst.SimpleString):
        return _string(node, str(node.evaluated_value).partition(":")[0])
    if isinstance(node, cst.Call) and _is_str(file, node):
        node = node.args[0].value
    if not _is_device(file, node, 3):
        torch = torch_at(file, node, changes)
        func = cst.Attribute(value=cst.Name(torch), attr=cst.Name("device"))
        if node.lpar:
            node = node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[1:])
        node = cst.Call(func=func, args=[cst.Arg(value=node)])
    elif not isinstance(node, _BINDS_TIGHTLY) and not node.lpar:
        node = node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Attribute(value=node, attr=cst.Name("type"))


def _string(node: cst.SimpleString, text: str) -> cst.SimpleString:
    return node.with_changes(value=f"{node.prefix}{node.quote}{text}{node.quote}")


def _is_str(file: ParsedFile, call: cst.Call) -> bool:
    return (
        isinstance(call.func, cst.Name)
        and call.func.value == "str"
        and "str" not in rebound(file)
        and len(call.args) == 1
        and not call.args[0].star
    )


def _is_device(file: ParsedFile, node: cst.BaseExpression, depth: int) -> bool:
    """Whether an expression is a torch.device whoever calls the code that it stands in."""
    match node:
        case cst.IfExp():
            return _is_device(file, node.body, depth) and _is_device(file, node.orelse, depth)
        case cst.Call():
            return qualified_name(file, node.func) == "torch.device"
        case cst.Attribute(attr=cst.Name(value="device"), value=cst.Call() as owner):
            return _is_parameter(file, owner)
        case cst.Name() if depth:
            values = _values(file, node)
            return bool(values) and all(_is_device(file, value, depth - 1) for value in values)
    return False


def _is_parameter(file: ParsedFile, call: cst.Call) -> bool:
    """Whether a call is ``next(module.parameters())``."""
    if not isinstance(call.func, cst.Name) or call.func.value != "next" or len(call.args) != 1:
        return False
    inner = call.args[0].value
    return (
        isinstance(inner, cst.Call)
        and isinstance(inner.func, cst.Attribute)
        and inner.func.attr.value in ("parameters", "buffers")
    )


def _values(file: ParsedFile, node: cst.Name) -> list[cst.BaseExpression]:
    """What is assigned to a name in the scope that it belongs to. Empty where it is bound by other means as well."""
    scope = scopes_of(file).found(node.value, node)
    if scope is None or node.value in scope.imports:
        return []
    values: list[cst.BaseExpression] = []
    for place in scope.others[node.value]:
        target = file.parent(place)
        assign = file.parent(target) if isinstance(target, cst.AssignTarget) else None
        if not isinstance(assign, cst.Assign):
            return []
        values.append(assign.value)
    return values
