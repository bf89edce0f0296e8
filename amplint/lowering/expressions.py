"""Lowers expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import libcst as cst

from amplint.findings import Span
from amplint.lowering.literals import NoValue, text_between_fields, value_of
from amplint.lowering.program import (
    Argument,
    Attribute,
    Await,
    Binary,
    Boolean,
    Call,
    Clause,
    Comparator,
    Compare,
    Comprehension,
    Conditional,
    DictDisplay,
    Display,
    Expression,
    Formatted,
    Lambda,
    LiteralNode,
    Name,
    Opaque,
    Operator,
    Parameter,
    Program,
    Return,
    SliceKey,
    Starred,
    Subscript,
    Unary,
    Walrus,
    Yield,
)

_CONSTANTS = {"True": True, "False": False, "None": None}
_OPERATORS: dict[type[cst.CSTNode], Operator] = {
    cst.Add: "+",
    cst.Subtract: "-",
    cst.Multiply: "*",
    cst.Divide: "/",
    cst.FloorDivide: "//",
    cst.Modulo: "%",
    cst.Power: "**",
    cst.MatrixMultiply: "@",
    cst.BitAnd: "&",
    cst.BitOr: "|",
    cst.BitXor: "^",
    cst.LeftShift: "<<",
    cst.RightShift: ">>",
}
_COMPARATORS: dict[type[cst.CSTNode], Comparator] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
    cst.Is: "is",
    cst.IsNot: "is not",
    cst.In: "in",
    cst.NotIn: "not in",
}
_SIGNS: dict[type[cst.CSTNode], Literal["not", "-", "+", "~"]] = {
    cst.Not: "not",
    cst.Minus: "-",
    cst.Plus: "+",
    cst.BitInvert: "~",
}
_VISITORS: dict[type[cst.CSTNode], Callable[[Any, Any], bool]] = {}


class Places(Protocol):
    """Where nodes stand, by number."""

    nodes: list[cst.CSTNode]

    def locate(self, number: int) -> Span:
        """The span of a node."""

    def text_of(self, number: int) -> str:
        """Its text on one line, shortened."""

    def line_name(self, line: int) -> str:
        """What messages call a line."""


@dataclass(slots=True)
class Scope:
    """What a function, lambda, class or module does to names."""

    bound: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    is_generator: bool = False

    @property
    def locals(self) -> frozenset[str]:
        """The names that are its own."""
        return frozenset(self.bound - self.global_names - self.nonlocal_names)


class Expressions(cst.CSTVisitor):
    """The half of the visitor that lowers expressions: each ``visit_`` method leaves what it made in ``value``, and
    visits the nodes below by itself."""

    def __init__(self, path: str, root: tuple[int, int], places: Places) -> None:
        super().__init__()
        self.path = path
        self.root = root
        self.places = places
        self.scope = Scope()
        self.value: Expression = Opaque(0)
        self.number = 0
        """The number of the node that is visited."""
        self._nodes = places.nodes

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Numbers the node; LibCST's dispatch, without looking up the names of methods again and again."""
        nodes = self._nodes
        self.number = len(nodes)
        nodes.append(node)
        return (_VISITORS.get(type(node)) or self._visitor(type(node)))(self, node)

    def _visitor(self, kind: type[cst.CSTNode]) -> Callable[[Any, Any], bool]:
        method = _VISITORS[kind] = getattr(type(self), f"visit_{kind.__name__}", type(self).visit_other)
        return method

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Nothing happens when a node is left: each visit method visits the nodes below by itself."""

    def visit_other(self, node: cst.CSTNode) -> bool:
        """Syntax of which nothing is known here."""
        self.value = Opaque(self.number)
        return False

    def expression(self, node: cst.CSTNode) -> Expression:
        """What an expression becomes."""
        node.visit(self)
        return self.value

    def optional(self, node: cst.CSTNode | None) -> Expression | None:
        """The same for one that may be missing."""
        return None if node is None else self.expression(node)

    def count(self, node: cst.CSTNode) -> int:
        """A number for a node that is not visited."""
        self._nodes.append(node)
        return len(self._nodes) - 1

    # names and literals ----------------------------------------------------------------------------------

    def visit_Name(self, node: cst.Name) -> bool:
        name = node.value
        if name in _CONSTANTS:
            self.value = LiteralNode(self.number, _CONSTANTS[name])
        else:
            self.value = Name(self.number, name)
        return False

    def visit_Integer(self, node: cst.Integer | cst.Float | cst.Imaginary | cst.SimpleString) -> bool:
        try:
            self.value = LiteralNode(self.number, value_of(node.value))
        except NoValue:
            self.value = Opaque(self.number)
        return False

    visit_Float = visit_Imaginary = visit_SimpleString = visit_Integer  # noqa: N815

    def visit_Ellipsis(self, node: cst.Ellipsis) -> bool:
        self.value = LiteralNode(self.number, ...)
        return False

    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> bool:
        number = self.number
        pieces: list[cst.BaseExpression] = []
        rest: cst.BaseExpression = node
        while isinstance(rest, cst.ConcatenatedString):
            pieces.append(rest.left)
            rest = rest.right
        parts: list[object] = []
        for piece in [*pieces, rest]:
            value = self.expression(piece)
            match value:
                case LiteralNode():
                    parts.append(value.value)
                case Formatted():
                    parts += value.parts
                case _:
                    parts.append(value)
        self.value = _joined(number, parts)
        return False

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        number = self.number
        parts: list[object] = []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringText):
                try:
                    parts.append(text_between_fields(part.value, node.start))
                except NoValue:
                    parts.append(Opaque(self.count(part)))
            else:
                parts.append(self.expression(part))
        self.value = _joined(number, parts)
        return False

    def visit_FormattedStringExpression(self, node: cst.FormattedStringExpression) -> bool:
        """``{x}``; what ``{x!r}``, ``{x:.2f}`` and ``{x=}`` give is not worked out."""
        number = self.number
        value = self.expression(node.expression)
        if node.conversion is None and node.format_spec is None and node.equal is None:
            self.value = value
            return False
        if node.conversion is not None or not node.format_spec:
            value = Formatted(number, (value,))  # a text first, whatever x is
        fields = [part for part in node.format_spec or () if isinstance(part, cst.FormattedStringExpression)]
        self.value = Opaque(number, (value, *map(self.expression, fields)))
        return False

    def visit_TemplatedString(self, node: cst.TemplatedString) -> bool:
        number = self.number
        fields = [part for part in node.parts if isinstance(part, cst.TemplatedStringExpression)]
        self.value = Opaque(number, tuple(map(self.expression, fields)))
        return False

    def visit_TemplatedStringExpression(self, node: cst.TemplatedStringExpression) -> bool:
        number = self.number
        fields = [part for part in node.format_spec or () if isinstance(part, cst.TemplatedStringExpression)]
        self.value = Opaque(number, (self.expression(node.expression), *map(self.expression, fields)))
        return False

    # what takes hold of another value --------------------------------------------------------------------

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        number = self.number
        node.value.visit(self)
        self.value = Attribute(number, self.value, node.attr.value)
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        number = self.number
        function = self.expression(node.func)
        self.value = Call(number, function, self.arguments(node.args))
        return False

    def arguments(self, nodes: Sequence[cst.Arg]) -> tuple[Argument, ...]:
        """The arguments of a call or of a class statement."""
        made: list[Argument] = []
        for node in nodes:
            node.value.visit(self)
            keyword = node.keyword
            star: Any = node.star
            made.append(Argument(self.value, keyword.value if keyword is not None else None, star))
        return tuple(made)

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        number = self.number
        value = self.expression(node.value)
        first = node.slice[0]
        is_tuple = len(node.slice) == 1 and (
            isinstance(first.comma, cst.Comma)
            or (isinstance(first.slice, cst.Index) and bool(first.slice.star))
        )
        if is_tuple:  # ``x[1,]`` and ``x[*y]`` have a tuple for their only key
            own = self.count(first.slice)
            keys: tuple[Expression, ...] = (Display(own, "tuple", (self.expression(first.slice),)),)
        else:
            keys = tuple([self.expression(part.slice) for part in node.slice])
        self.value = Subscript(number, value, keys)
        return False

    def visit_Index(self, node: cst.Index) -> bool:
        number = self.number
        node.value.visit(self)
        if node.star:
            self.value = Starred(number, self.value)
        return False

    def visit_Slice(self, node: cst.Slice) -> bool:
        number = self.number
        lower, upper = self.optional(node.lower), self.optional(node.upper)
        self.value = SliceKey(number, lower, upper, self.optional(node.step))
        return False

    def visit_Await(self, node: cst.Await) -> bool:
        number = self.number
        self.value = Await(number, self.expression(node.expression))
        return False

    def visit_Yield(self, node: cst.Yield) -> bool:
        number = self.number
        self.scope.is_generator = True
        inner = node.value
        delegates = isinstance(inner, cst.From)
        value = self.optional(inner.item if isinstance(inner, cst.From) else inner)
        self.value = Yield(number, value, delegates)
        return False

    def visit_NamedExpr(self, node: cst.NamedExpr) -> bool:
        number = self.number
        target = Name(self.count(node.target), cst.ensure_type(node.target, cst.Name).value)
        self.scope.bound.add(target.id)
        self.value = Walrus(number, target, self.expression(node.value))
        return False

    # operators -------------------------------------------------------------------------------------------

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> bool:
        """``a + b + c`` has its depth on the left: no recursion there."""
        chain = [(self.number, node)]
        left = node.left
        while isinstance(left, cst.BinaryOperation):
            chain.append((self.count(left), left))
            left = left.left
        value = self.expression(left)
        for number, part in reversed(chain):
            value = Binary(number, _OPERATORS[type(part.operator)], value, self.expression(part.right))
        self.value = value
        return False

    def visit_BooleanOperation(self, node: cst.BooleanOperation) -> bool:
        chain = [(self.number, node)]
        left = node.left
        while isinstance(left, cst.BooleanOperation):
            chain.append((self.count(left), left))
            left = left.left
        value = self.expression(left)
        for number, part in reversed(chain):
            operator: Literal["and", "or"] = "and" if isinstance(part.operator, cst.And) else "or"
            value = Boolean(number, operator, value, self.expression(part.right))
        self.value = value
        return False

    def visit_UnaryOperation(self, node: cst.UnaryOperation) -> bool:
        number = self.number
        self.value = Unary(number, _SIGNS[type(node.operator)], self.expression(node.expression))
        return False

    def visit_Comparison(self, node: cst.Comparison) -> bool:
        number = self.number
        left = self.expression(node.left)
        operators = tuple([_COMPARATORS[type(part.operator)] for part in node.comparisons])
        rights = tuple([self.expression(part.comparator) for part in node.comparisons])
        self.value = Compare(number, left, operators, rights)
        return False

    def visit_IfExp(self, node: cst.IfExp) -> bool:
        number = self.number
        test, then = self.expression(node.test), self.expression(node.body)
        self.value = Conditional(number, test, then, self.expression(node.orelse))
        return False

    # displays and comprehensions -------------------------------------------------------------------------

    def visit_Tuple(self, node: cst.Tuple) -> bool:
        number = self.number
        self.value = Display(number, "tuple", tuple([self._element(part) for part in node.elements]))
        return False

    def visit_List(self, node: cst.List) -> bool:
        number = self.number
        self.value = Display(number, "list", tuple([self._element(part) for part in node.elements]))
        return False

    def visit_Set(self, node: cst.Set) -> bool:
        number = self.number
        self.value = Display(number, "set", tuple([self._element(part) for part in node.elements]))
        return False

    def _element(self, node: cst.BaseElement) -> Expression:
        return self.expression(node if isinstance(node, cst.StarredElement) else node.value)

    def visit_StarredElement(self, node: cst.StarredElement) -> bool:
        number = self.number
        self.value = Starred(number, self.expression(node.value))
        return False

    def visit_Dict(self, node: cst.Dict) -> bool:
        number = self.number
        items: list[tuple[Expression | None, Expression]] = []
        for part in node.elements:
            key = self.expression(part.key) if isinstance(part, cst.DictElement) else None
            items.append((key, self.expression(part.value)))
        self.value = DictDisplay(number, tuple(items))
        return False

    def visit_ListComp(self, node: cst.ListComp) -> bool:
        return self._comprehension("list", node, None, node.elt)

    def visit_SetComp(self, node: cst.SetComp) -> bool:
        return self._comprehension("set", node, None, node.elt)

    def visit_GeneratorExp(self, node: cst.GeneratorExp) -> bool:
        return self._comprehension("generator", node, None, node.elt)

    def visit_DictComp(self, node: cst.DictComp) -> bool:
        return self._comprehension("dict", node, node.key, node.value)

    def _comprehension(
        self,
        kind: Literal["list", "set", "generator", "dict"],
        node: cst.BaseComp,
        key: cst.BaseExpression | None,
        element: cst.BaseExpression,
    ) -> bool:
        """Its targets are its own, so no scope of ours binds them; a walrus in it binds in the scope around."""
        number = self.number
        made_key, made_element = self.optional(key), self.expression(element)
        clauses: list[Clause] = []
        clause: cst.CompFor | None = node.for_in
        while clause is not None:
            target, source = self.expression(clause.target), self.expression(clause.iter)
            clauses.append(Clause(target, source, tuple([self.expression(part.test) for part in clause.ifs])))
            clause = clause.inner_for_in
        self.value = Comprehension(number, kind, made_key, made_element, tuple(clauses))
        return False

    # functions -------------------------------------------------------------------------------------------

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        number = self.number
        parameters = self.parameters(node.params)
        around, self.scope = self.scope, Scope({parameter.name for parameter in parameters})
        body = (Return(self.count(node.body), self.expression(node.body)),)
        program = self.program(number, "<lambda>", "lambda")
        program.parameters, program.body = parameters, body
        self.scope = around
        self.value = Lambda(number, program)
        return False

    def program(
        self, number: int, name: str, kind: Literal["function", "lambda", "class", "module"]
    ) -> Program:
        """A program that does to names what the scope says."""
        scope = self.scope
        return Program(
            self.path,
            self.root,
            number,
            name,
            locals=scope.locals,
            global_names=frozenset(scope.global_names),
            nonlocal_names=frozenset(scope.nonlocal_names),
            kind=kind,
            is_generator=scope.is_generator,
            locate=self.places.locate,
            text_of=self.places.text_of,
            line_name=self.places.line_name,
        )

    def parameters(self, node: cst.Parameters) -> tuple[Parameter, ...]:
        """The parameters in the order in which they are written."""
        made = [self._parameter(part, "positional") for part in node.posonly_params]
        made += [self._parameter(part, "normal") for part in node.params]
        if isinstance(node.star_arg, cst.Param):
            made.append(self._parameter(node.star_arg, "*"))
        made += [self._parameter(part, "keyword") for part in node.kwonly_params]
        if node.star_kwarg is not None:
            made.append(self._parameter(node.star_kwarg, "**"))
        return tuple(made)

    def _parameter(
        self, node: cst.Param, kind: Literal["positional", "normal", "keyword", "*", "**"]
    ) -> Parameter:
        annotation = self.optional(node.annotation.annotation if node.annotation is not None else None)
        return Parameter(node.name.value, kind, self.optional(node.default), annotation)


def _joined(number: int, parts: list[object]) -> Expression:
    """The parts of strings that stand side by side, text with text."""
    if parts and all(isinstance(part, bytes) for part in parts):
        return LiteralNode(number, b"".join(part for part in parts if isinstance(part, bytes)))
    merged: list[str | Expression] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(last := merged[-1], str):
            merged[-1] = last + part
        elif isinstance(part, (str, Expression)) and part != "":
            merged.append(part)
    if not merged:
        return LiteralNode(number, "")
    if len(merged) == 1 and isinstance(merged[0], str):
        return LiteralNode(number, merged[0])
    return Formatted(number, tuple(merged))
