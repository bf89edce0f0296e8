"""Lowers statements and definitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from amplint.lowering.expressions import Expressions, Places, Scope
from amplint.lowering.program import (
    Assert,
    Assign,
    AugmentedAssign,
    Block,
    Break,
    Call,
    Case,
    Continue,
    Decorator,
    Define,
    DefineClass,
    Delete,
    Display,
    Evaluate,
    Expression,
    For,
    Global,
    Handler,
    If,
    Import,
    LiteralNode,
    Match,
    Name,
    Opaque,
    Operator,
    Program,
    Raise,
    Return,
    Starred,
    Statement,
    Try,
    While,
    With,
    WithItem,
)

_AUGMENTED: dict[type[cst.CSTNode], Operator] = {
    cst.AddAssign: "+",
    cst.SubtractAssign: "-",
    cst.MultiplyAssign: "*",
    cst.DivideAssign: "/",
    cst.FloorDivideAssign: "//",
    cst.ModuloAssign: "%",
    cst.PowerAssign: "**",
    cst.MatrixMultiplyAssign: "@",
    cst.BitAndAssign: "&",
    cst.BitOrAssign: "|",
    cst.BitXorAssign: "^",
    cst.LeftShiftAssign: "<<",
    cst.RightShiftAssign: ">>",
}
_STRINGS = (cst.SimpleString, cst.ConcatenatedString)


class Lowering(Expressions):
    """The visitor that lowers a definition: each ``visit_`` method of a statement appends what it made to the block
    that is being made, or nothing."""

    def __init__(self, path: str, root: tuple[int, int], places: Places) -> None:
        super().__init__(path, root, places)
        self._made: list[Statement] = []

    # blocks ----------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[cst.CSTNode]) -> Block:
        """What statements become. Docstrings, other constants and ``pass`` are dropped."""
        around, self._made = self._made, []
        for statement in statements:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    small.visit(self)
            else:
                statement.visit(self)
        made, self._made = tuple(self._made), around
        return made

    def _else(self, node: cst.Else | cst.Finally | None) -> Block:
        return () if node is None else self.block(node.body.body)

    # simple statements -----------------------------------------------------------------------------------

    def visit_Expr(self, node: cst.Expr) -> bool:
        number = self.number
        value = self.expression(node.value)
        if not isinstance(value, LiteralNode):
            self._made.append(Evaluate(number, value))
        return False

    def visit_Assign(self, node: cst.Assign) -> bool:
        number = self.number
        targets = tuple([self._target(part.target) for part in node.targets])
        self._made.append(Assign(number, targets, self._assigned(node.value)))
        return False

    def _assigned(self, node: cst.BaseExpression) -> Expression:
        """What is assigned, which a call is told."""
        value = self.expression(node)
        return replace(value, assigned=True) if isinstance(value, Call) else value

    def _target(self, node: cst.CSTNode) -> Expression:
        """A target, whose names are bound here."""
        made = self.expression(node)
        pending = [made]
        while pending:
            match part := pending.pop():
                case Name():
                    self.scope.bound.add(part.id)
                case Display():
                    pending += part.elements
                case Starred():
                    pending.append(part.value)
        return made

    def visit_AnnAssign(self, node: cst.AnnAssign) -> bool:
        number = self.number
        if node.value is None:
            if isinstance(node.target, cst.Name):
                self.scope.bound.add(node.target.value)  # ``x: int`` binds nothing, but x is local by it
            return False
        target = self._target(node.target)
        annotation = self.expression(node.annotation.annotation)
        self._made.append(Assign(number, (target,), self._assigned(node.value), annotation))
        return False

    def visit_AugAssign(self, node: cst.AugAssign) -> bool:
        number = self.number
        target = self._target(node.target)
        operator = _AUGMENTED[type(node.operator)]
        self._made.append(AugmentedAssign(number, operator, target, self.expression(node.value)))
        return False

    def visit_Del(self, node: cst.Del) -> bool:
        number = self.number
        target = self._target(node.target)
        self._made.append(Delete(number, target.elements if isinstance(target, Display) else (target,)))
        return False

    def visit_Return(self, node: cst.Return) -> bool:
        number = self.number
        self._made.append(Return(number, self.optional(node.value)))
        return False

    def visit_Raise(self, node: cst.Raise) -> bool:
        number = self.number
        exception = self.optional(node.exc)
        cause = self.optional(node.cause.item if node.cause is not None else None)
        self._made.append(Raise(number, exception, cause))
        return False

    def visit_Assert(self, node: cst.Assert) -> bool:
        number = self.number
        test = self.expression(node.test)
        self._made.append(Assert(number, test, self.optional(node.msg)))
        return False

    def visit_Pass(self, node: cst.Pass) -> bool:
        return False

    def visit_Break(self, node: cst.Break) -> bool:
        self._made.append(Break(self.number))
        return False

    def visit_Continue(self, node: cst.Continue) -> bool:
        self._made.append(Continue(self.number))
        return False

    def visit_Global(self, node: cst.Global) -> bool:
        names = tuple([part.name.value for part in node.names])
        self.scope.global_names.update(names)
        self._made.append(Global(self.number, names))
        return False

    def visit_Nonlocal(self, node: cst.Nonlocal) -> bool:
        names = tuple([part.name.value for part in node.names])
        self.scope.nonlocal_names.update(names)
        self._made.append(Global(self.number, names, nonlocal_=True))
        return False

    def visit_TypeAlias(self, node: cst.TypeAlias) -> bool:
        """``type X = int`` binds X; what stands on the right is evaluated when somebody asks for it."""
        number = self.number
        target = self._target(node.name)
        self._made.append(Assign(number, (target,), Opaque(self.count(node.value))))
        return False

    # imports ---------------------------------------------------------------------------------------------

    def visit_Import(self, node: cst.Import) -> bool:
        bindings: list[tuple[str, str]] = []
        for alias in node.names:
            name = _dotted(alias.name)
            if alias.asname is None:
                name = name.partition(".")[0]
            bindings.append((_alias(alias) or name, name))
        return self._import(bindings, ())

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        module = "." * len(node.relative) + ("" if node.module is None else _dotted(node.module))
        if isinstance(node.names, cst.ImportStar):
            return self._import([], (module,))
        joint = "" if module.endswith(".") else "."
        names = [(alias, _dotted(alias.name)) for alias in node.names]
        return self._import([(_alias(alias) or name, f"{module}{joint}{name}") for alias, name in names], ())

    def _import(self, bindings: list[tuple[str, str]], stars: tuple[str, ...]) -> bool:
        self.scope.bound.update(name for name, _ in bindings)
        self._made.append(Import(self.number, tuple(bindings), stars))
        return False

    # compound statements ---------------------------------------------------------------------------------

    def visit_If(self, node: cst.If) -> bool:
        """Branches with ``elif`` are nested for LibCST, thousands deep in code made by programs."""
        branches: list[tuple[int, Expression, Block]] = []
        number = self.number
        branch = node
        while True:
            branches.append((number, self.expression(branch.test), self.block(branch.body.body)))
            if not isinstance(branch.orelse, cst.If):
                break
            branch = branch.orelse
            number = self.count(branch)
        other = self._else(branch.orelse)
        for number, test, body in reversed(branches):
            other = (If(number, test, body, other),)
        self._made += other
        return False

    def visit_For(self, node: cst.For) -> bool:
        number = self.number
        source, target = self.expression(node.iter), self._target(node.target)
        body = self.block(node.body.body)
        self._made.append(For(number, target, source, body, self._else(node.orelse)))
        return False

    def visit_While(self, node: cst.While) -> bool:
        number = self.number
        test, body = self.expression(node.test), self.block(node.body.body)
        self._made.append(While(number, test, body, self._else(node.orelse)))
        return False

    def visit_With(self, node: cst.With) -> bool:
        number = self.number
        items: list[WithItem] = []
        for item in node.items:
            context = self.expression(item.item)
            items.append(
                WithItem(context, self._target(item.asname.name) if item.asname is not None else None)
            )
        self._made.append(With(number, tuple(items), self.block(node.body.body)))
        return False

    def visit_Try(self, node: cst.Try | cst.TryStar) -> bool:
        number = self.number
        body = self.block(node.body.body)
        handlers = tuple([self._handler(handler) for handler in node.handlers])
        other = self._else(node.orelse)
        self._made.append(Try(number, body, handlers, other, self._else(node.finalbody)))
        return False

    visit_TryStar = visit_Try  # noqa: N815

    def _handler(self, node: cst.ExceptHandler | cst.ExceptStarHandler) -> Handler:
        kind = self.optional(node.type)
        name = None
        if node.name is not None:
            name = cst.ensure_type(node.name.name, cst.Name).value
            self.scope.bound.add(name)
        return Handler(kind, name, self.block(node.body.body))

    def visit_Match(self, node: cst.Match) -> bool:
        number = self.number
        subject = self.expression(node.subject)
        cases: list[Case] = []
        for case in node.cases:
            binds: list[str] = []
            constants, anything = self._pattern(case.pattern, binds)
            self.scope.bound.update(binds)
            guard = self.optional(case.guard)
            body = self.block(case.body.body)
            cases.append(Case(constants, tuple(binds), guard, body, anything))
        self._made.append(Match(number, subject, tuple(cases)))
        return False

    def _pattern(
        self, node: cst.MatchPattern, binds: list[str]
    ) -> tuple[tuple[Expression, ...] | None, bool]:
        """The constants of which the subject has to equal one, and whether the pattern fits anything."""
        match node:
            case cst.MatchValue() | cst.MatchSingleton():
                return (self.expression(node.value),), False
            case cst.MatchAs():
                found = (None, True) if node.pattern is None else self._pattern(node.pattern, binds)
                _note(binds, node.name)
                return found
            case cst.MatchOr():
                parts = [self._pattern(part.pattern, binds) for part in node.patterns]
                constants = [constant for some, _ in parts for constant in some or ()]
                known = all(some is not None for some, _ in parts)
                return (tuple(constants) if known else None), any(anything for _, anything in parts)
        _note_captures(node, binds)
        return None, False

    # definitions -----------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        number = self.number
        self.scope.bound.add(node.name.value)
        self._made.append(Define(number, self.function(node, number)))
        return False

    def function(self, node: cst.FunctionDef, number: int) -> Program:
        """The program of a function. Its decorators and defaults belong to the scope around it."""
        decorators = self._decorators(node.decorators)
        head = Name(self.count(node.name), node.name.value)
        parameters = self.parameters(node.params)
        returns = self.optional(node.returns.annotation if node.returns is not None else None)
        around, self.scope = self.scope, Scope({parameter.name for parameter in parameters})
        body = self.block(node.body.body)
        program = self.program(number, head.id, "function")
        self.scope = around
        program.parameters, program.body = parameters, body
        program.decorators, program.head, program.returns = decorators, head, returns
        program.is_coroutine = node.asynchronous is not None
        return program

    def _decorators(self, nodes: Sequence[cst.Decorator]) -> tuple[Decorator, ...]:
        return tuple([Decorator(self.expression(node.decorator)) for node in nodes])

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        number = self.number
        self.scope.bound.add(node.name.value)
        decorators = self._decorators(node.decorators)
        arguments = self.arguments((*node.bases, *node.keywords))
        first = self.count(node.decorators[0]) if node.decorators else number
        line = self.places.locate(first).line
        self._made.append(DefineClass(number, node.name.value, line, arguments, decorators))
        return False


def _note_captures(node: cst.CSTNode, binds: list[str]) -> None:
    for child in node.children:
        if not isinstance(child, cst.BaseExpression):
            _note_captures(child, binds)
    match node:
        case cst.MatchAs(name=name) | cst.MatchStar(name=name) | cst.MatchMapping(rest=name):
            _note(binds, name)


def _note(binds: list[str], name: cst.Name | None) -> None:
    if name is not None and name.value not in binds:
        binds.append(name.value)


def _dotted(node: cst.CSTNode) -> str:
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    parts.append(cst.ensure_type(node, cst.Name).value)
    return ".".join(reversed(parts))


def _alias(node: cst.ImportAlias) -> str | None:
    return None if node.asname is None else cst.ensure_type(node.asname.name, cst.Name).value
