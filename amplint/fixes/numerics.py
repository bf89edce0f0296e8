"""Numbers and ops that half precision cannot hold: limits of the type, casts before an op, ops that give a new
tensor."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.amp.ops import FILLS, SOURCES
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import on_lines
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.casts import as_float, odd_values, shortened
from amplint.fixes.dependence import dotted
from amplint.fixes.imports import qualified_name, torch_at
from amplint.fixes.names import module_bindings
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.scopes import bound_in
from amplint.fixes.statements import Replacement, comments_of, exchanged

_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign)
FLOAT32_RESULT = "the result is float32 then, and what follows has to take it"


@dataclass(frozen=True)
class LimitOfType(FixBuilder):
    """Writes the limit of a tensor's type where ``fill`` fills it with a number that is beyond it. ``name`` is
    the op, ``tensor`` what is filled, ``negative`` the sign of the number."""

    fill: Place
    name: str
    tensor: Place
    negative: bool

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where the number is written for this op alone, and no arithmetic follows."""
        file = files.parsed(self.fill.path)
        call = file.find(cst.Call, self.fill.span)
        if call is None:
            return Refusal("the number is not written in a call")
        position, parameter = FILLS[self.name.removesuffix("_")]
        method = isinstance(call.func, cst.Attribute) and file.span(call.func.value) == self.tensor.span
        number = _argument(call, position if method else position + 1, parameter)
        dtype = next((arg.value for arg in call.args if arg.keyword and arg.keyword.value == "dtype"), None)
        tensor = file.expression(self.tensor.span)
        if number is None:
            return Refusal("the number is not written in the call")
        if dtype is None and (tensor is None or dotted(tensor) is None):
            return Refusal(f"`{self.tensor.text}` has no name whose dtype could be asked for")
        changes: dict[cst.CSTNode, Replacement] = {}
        torch = torch_at(file, call, changes)
        of = file.code(dtype) if dtype is not None else f"{dotted(tensor)}.dtype"  # type: ignore[arg-type]
        limit = f"{torch}.finfo({of}).{'min' if self.negative else 'max'}"
        changes[number] = cst.parse_expression(limit)
        if comments_of(number):
            return Refusal("a comment stands in the number")
        doubts = [_other_values(file, number), _computed_on(file, call)]
        module = exchanged(file, changes)
        note = "; ".join(doubt for doubt in doubts if doubt)
        return make_fix(f"Write `{limit}`", {file: module}, [(file, file.statement(call))], unsafe=note)


def _argument(call: cst.Call, position: int, keyword: str) -> cst.BaseExpression | None:
    for number, arg in enumerate(call.args):
        if arg.star:
            return None
        if arg.keyword is not None:
            if arg.keyword.value == keyword:
                return arg.value
        elif number == position:
            return arg.value
    return None


def _other_values(file: ParsedFile, number: cst.BaseExpression) -> str:
    """Why the number may be another one elsewhere, or nothing."""
    name = dotted(number)
    if name is None:
        return ""
    if isinstance(number, cst.Name):
        function = file.around(cst.FunctionDef, file.span(number))
        if (function is None or name not in bound_in(function)) and name in module_bindings(file):
            return ""
        return f"`{name}` may be another number elsewhere"
    return f"`{name}` may be another number in another object"


def _computed_on(file: ParsedFile, call: cst.Call) -> str:
    """Why the limit may overflow in what follows, or nothing."""
    names: set[str] = set()
    statement = file.statement(call)
    around = file.parent(call)
    if isinstance(around, cst.BinaryOperation) and isinstance(around.operator, _ARITHMETIC):
        return f"`{shortened(file.code(around))}` computes on, and goes beyond the limit"
    if isinstance(around, cst.Assign):
        names |= {target.target.value for target in around.targets if isinstance(target.target, cst.Name)}
    if isinstance(call.func, cst.Attribute) and call.func.attr.value.endswith("_"):
        names |= {call.func.value.value} if isinstance(call.func.value, cst.Name) else set()
    span = file.span(statement)
    function = file.around(cst.FunctionDef, span)
    inside = file.span(function) if function is not None else file.span(file.module)
    operations: list[cst.BinaryOperation | cst.AugAssign] = [
        *file.inside(cst.BinaryOperation, inside),
        *file.inside(cst.AugAssign, inside),
    ]
    for operation in operations:
        sides = (
            (operation.left, operation.right)
            if isinstance(operation, cst.BinaryOperation)
            else (operation.target, operation.value)
        )
        if (
            isinstance(operation.operator, _ARITHMETIC)
            and file.span(operation).line > span.end_line
            and any(isinstance(side, cst.Name) and side.value in names for side in sides)
        ):
            return f"`{shortened(file.code(operation))}` computes on, and may go beyond the limit"
    return ""


@dataclass(frozen=True)
class CastWritten(FixBuilder):
    """Casts ``value``, which is written by index into ``target``, to the type of that. ``put`` is the subscript or the
    call, ``name`` the op; ``is_float32`` says that this is the type, whatever the target is called."""

    put: Place
    target: Place
    value: Place
    name: str
    is_float32: bool = False

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe where it is a floating tensor on all paths: without the cast it raises."""
        file = files.parsed(self.put.path)
        target = file.expression(self.target.span)
        name = dotted(target) if target is not None else None
        if name is None and not self.is_float32:
            return Refusal(f"`{self.target.text}` has no name whose dtype could be asked for")
        node = file.expression(self.put.span)
        value = _written(file, node, target, self.name) if node is not None else None
        if value is None:
            return Refusal("what is written stands elsewhere")
        if self.is_float32:
            cast = as_float(value)
            title = "Cast what is written to float32"
        else:
            cast = _call(value, "to", cst.parse_expression(f"{name}.dtype"))
            title = f"Write `.to({name}.dtype)` on what is written"
        module = exchanged(file, on_lines(file, {value: cast}, files.line_length))
        doubts = "; ".join(odd_values(files, self.value))
        return make_fix(title, {file: module}, [(file, file.statement(value))], unsafe=doubts)


def _written(
    file: ParsedFile, node: cst.BaseExpression, target: cst.BaseExpression | None, name: str
) -> cst.BaseExpression | None:
    if isinstance(node, cst.Call):
        method = isinstance(node.func, cst.Attribute) and node.func.value is target
        position = SOURCES[name.removesuffix("_")]
        for keyword in ("src", "source", "values"):
            found = _argument(node, position if method else position + 1, keyword)
            if found is not None:
                return found
        return None
    around = file.parent(node)
    assign = file.parent(around) if isinstance(around, cst.AssignTarget) else None
    if not isinstance(assign, cst.Assign) or len(assign.targets) > 1 or isinstance(assign.value, cst.Tuple):
        return None
    return assign.value


def _call(value: cst.BaseExpression, method: str, *args: cst.BaseExpression) -> cst.Call:
    """``value.method(args)``, in brackets where the operators ask for it."""
    bare = as_float(value)
    assert isinstance(bare.func, cst.Attribute)
    func = bare.func.with_changes(attr=cst.Name(method))
    return cst.Call(func=func, args=[cst.Arg(arg) for arg in args])


@dataclass(frozen=True)
class CastOperands(FixBuilder):
    """Casts operands of an op to float32 where it meets them. ``square``: the operand is the product of a value
    with itself, which has to be cast before. ``note`` says why somebody has to look at it."""

    operands: tuple[Place, ...]
    note: str
    square: bool = False

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: the result is float32, and what follows has to take it."""
        changes: dict[cst.CSTNode, Replacement] = {}
        file = files.parsed(self.operands[0].path)
        for place in self.operands:
            node = file.expression(place.span)
            if node is None:
                return Refusal("the value has no expression of its own to be cast")
            if _is_written(file, node):
                return Refusal(
                    f"`{shortened(file.code(node))}` is written in place, and cannot change its type"
                )
            if self.square:
                if not isinstance(node, cst.BinaryOperation) or not node.left.deep_equals(node.right):
                    return Refusal(
                        "the values have to be cast before they are squared, which is done elsewhere"
                    )
                changes |= {node.left: as_float(node.left), node.right: as_float(node.right)}
            else:
                changes[node] = as_float(node)
        statement = file.statement(next(iter(changes)))
        module = exchanged(file, changes)
        names = ", ".join(f"`{shortened(file.code(node))}`" for node in changes if "#" not in file.code(node))
        title = f"Cast {names or 'the values'} to float32"
        if self.square:
            title = "Cast to float32 before the square"
        return make_fix(title, {file: module}, [(file, statement)], unsafe=self.note)


def _is_written(file: ParsedFile, node: cst.BaseExpression) -> bool:
    """Whether an op writes into what an expression stands for."""
    around = file.parent(node)
    if isinstance(around, cst.AugAssign):
        return around.target is node
    if isinstance(around, cst.Attribute):
        name = around.attr.value
        return isinstance(file.parent(around), cst.Call) and name.endswith("_") and not name.endswith("__")
    return False


@dataclass(frozen=True)
class OutOfPlace(FixBuilder):
    """Takes the form of an op that gives a new tensor for the one that writes into an old one."""

    op: Place

    def offer(self, files: Files) -> Fix | Refusal:
        """Always unsafe: other names of the old tensor do not change with it any more."""
        file = files.parsed(self.op.path)
        augmented = file.find(cst.AugAssign, self.op.span)
        call = file.find(cst.Call, self.op.span)
        if augmented is not None:
            name = self._owner(file, augmented.target)
            changes: dict[cst.CSTNode, Replacement] = {augmented: _plain(augmented)}
        elif call is not None:
            name, changes = self._call(file, call)
        else:
            return Refusal("the op is written in an unusual way")
        statement = file.statement(augmented if augmented is not None else call)  # type: ignore[arg-type]
        module = exchanged(file, changes)
        old = f"other names of the old `{name}`" if name else "other names of the old tensor"
        note = f"the result is a new tensor of another dtype, and {old} do not change with it"
        return make_fix(
            "Use the op that gives a new tensor", {file: module}, [(file, statement)], unsafe=note
        )

    def _call(self, file: ParsedFile, call: cst.Call) -> tuple[str, dict[cst.CSTNode, Replacement]]:
        out = next((arg for arg in call.args if arg.keyword and arg.keyword.value == "out"), None)
        if out is not None:
            target, new = out.value, _without(call, out)
        else:
            target, new = self._renamed(file, call)
        around = file.parent(call)
        name = dotted(target) or ""
        if isinstance(around, cst.Expr):
            name = self._owner(file, target)
            return name, {
                around: cst.Assign(
                    targets=[cst.AssignTarget(cst.Name(name))], value=new, semicolon=around.semicolon
                )
            }
        if isinstance(target, cst.Name) and self._is_used_again(file, call, target):
            raise Refusal(f"`{target.value}` is used afterwards, and would not have changed")
        if not isinstance(target, cst.Name | cst.BinaryOperation):
            raise Refusal(f"`{shortened(file.code(target))}` may be part of another tensor")
        return name, {call: new}

    def _renamed(self, file: ParsedFile, call: cst.Call) -> tuple[cst.BaseExpression, cst.Call]:
        """What the call writes into, and the call of the other op."""
        if not isinstance(call.func, cst.Attribute) or not call.func.attr.value.endswith("_"):
            raise Refusal("the op is not called by its own name")
        attr = call.func.attr
        plain = call.with_changes(func=call.func.with_changes(attr=attr.with_changes(value=attr.value[:-1])))
        if (qualified_name(file, call.func) or "").startswith("torch."):
            if not call.args or call.args[0].keyword is not None or call.args[0].star:
                raise Refusal("what the op writes into is given in an unusual way")
            return call.args[0].value, plain
        return call.func.value, plain

    def _owner(self, file: ParsedFile, target: cst.BaseExpression) -> str:
        """The local name that can be bound to the result. Raises Refusal."""
        if not isinstance(target, cst.Name):
            raise Refusal(f"`{shortened(file.code(target))}` may be part of another tensor, or a parameter")
        function = file.around(cst.FunctionDef, file.span(target))
        if function is not None and target.value not in bound_in(function):
            raise Refusal(f"`{target.value}` is not a local name")
        return target.value

    def _is_used_again(self, file: ParsedFile, call: cst.Call, target: cst.Name) -> bool:
        around = file.parent(call)
        if isinstance(around, cst.Assign) and any(
            isinstance(part.target, cst.Name) and part.target.value == target.value for part in around.targets
        ):
            return False
        function = file.around(cst.FunctionDef, file.span(call))
        last = file.span(file.statement(call)).end_line
        scope = file.span(function) if function is not None else file.span(file.module)
        return any(
            name.value == target.value and file.span(name).line > last
            for name in file.inside(cst.Name, scope)
        )


def _plain(node: cst.AugAssign) -> cst.Assign:
    """``x = x ** y`` for ``x **= y``."""
    if not isinstance(node.operator, cst.PowerAssign):
        raise Refusal("the operator has no counterpart")
    value = node.value
    if not isinstance(value, cst.Name | cst.Attribute | cst.Call | cst.BaseNumber) and not value.lpar:
        value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    power = cst.BinaryOperation(left=node.target, operator=cst.Power(), right=value)
    return cst.Assign(targets=[cst.AssignTarget(node.target)], value=power, semicolon=node.semicolon)


def _without(call: cst.Call, gone: cst.Arg) -> cst.Call:
    """The call without one of its arguments. Raises Refusal where a comment would be lost."""
    if comments_of(gone):
        raise Refusal("a comment stands beside `out=`")
    args = [arg for arg in call.args if arg is not gone]
    if args and gone is call.args[-1]:
        last = gone.whitespace_after_arg
        args[-1] = args[-1].with_changes(comma=gone.comma, whitespace_after_arg=last)
    return call.with_changes(args=args)
