"""Evaluation of expressions, and the choices that fork a path."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import libcst as cst

from amplint.events import DType, Event, Place, RegionDropped
from amplint.flow import attributes, calls, scaling, tensors
from amplint.flow.paths import MAX_PATHS, Facts, Path, bound
from amplint.flow.scopes import Scope
from amplint.flow.values import (
    NONE,
    ONE_OF_MANY,
    UNBOUND,
    UNKNOWN,
    Alternatives,
    Autocast,
    Constant,
    Context,
    DTypeValue,
    FunctionValue,
    Imported,
    Iteration,
    Library,
    Mapping,
    Number,
    Optimizer,
    ScaledGradient,
    ScaledLoss,
    Scaler,
    Sequence,
    StateDict,
    Tensor,
    Text,
    TorchVersion,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from amplint.flow.engine import Engine


class Infeasible(Exception):  # noqa: N818
    """The path contradicts itself: no run takes it."""


class Leave(Exception):  # noqa: N818
    """Control leaves the block: "return", "break", "continue" or "raise"."""

    def __init__(self, how: str, value: Value = NONE) -> None:
        super().__init__(how)
        self.how = how
        self.value = value


@dataclass(slots=True)
class Script:
    """The choices to take in one exploration of a statement, and those that were on offer."""

    given: tuple[int, ...]
    offered: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    calls: int = 0


@dataclass(slots=True)
class Exits:
    """How a call that was walked can end: one entry for each path out of it."""

    ways: list[tuple[Path, Value]]


_COMPARE: dict[type[cst.CSTNode], tuple[str, Callable[[Any, Any], Any]]] = {
    cst.Equal: ("==", operator.eq),
    cst.NotEqual: ("!=", operator.ne),
    cst.LessThan: ("<", operator.lt),
    cst.LessThanEqual: ("<=", operator.le),
    cst.GreaterThan: (">", operator.gt),
    cst.GreaterThanEqual: (">=", operator.ge),
}
_ARITHMETIC: dict[type[cst.CSTNode], str] = {
    cst.Add: "__add__",
    cst.Subtract: "__sub__",
    cst.Multiply: "__mul__",
    cst.Divide: "__truediv__",
    cst.FloorDivide: "__floordiv__",
    cst.Modulo: "__mod__",
    cst.Power: "__pow__",
    cst.MatrixMultiply: "__matmul__",
    cst.BitAnd: "__and__",
    cst.BitOr: "__or__",
    cst.BitXor: "__xor__",
    cst.LeftShift: "__lshift__",
    cst.RightShift: "__rshift__",
}
_NUMERIC: dict[str, Callable[[Any, Any], Any]] = {
    "__add__": operator.add,
    "__sub__": operator.sub,
    "__mul__": operator.mul,
    "__truediv__": operator.truediv,
    "__pow__": operator.pow,
}
_DEVICE = re.compile(r"(?:cuda|cpu|xpu|mps|npu|hpu|mlu|musa):")
_LARGEST_EXPONENT = 1024
_CONSTANTS = {"True": Constant(True), "False": Constant(False), "None": NONE}
BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


_DEEPEST = 12
"""Counters that grow in loops would otherwise make ever larger symbols."""
_VISITORS: dict[type[cst.CSTNode], Callable[[Any, Any], bool]] = {}


def _visit_children(walker: Expressions, node: cst.CSTNode) -> bool:
    return True


class Expressions(cst.CSTVisitor):
    """The half of the walker that evaluates expressions: each ``visit_`` method leaves its result in
    ``value`` and walks its children itself, in evaluation order."""

    def __init__(self, engine: Engine, scope: Scope, path: Path) -> None:
        super().__init__()
        self.engine = engine
        self.scope = scope
        self.path = path
        self.value: Value = UNKNOWN
        self.silent = False
        self.told: tuple[type[Event], ...] | None = None
        """The events that are told, None for all."""
        self.depth = 0
        self.active: list[object] = []
        self._script = Script(())
        self._exits: dict[tuple[int, ...], Exits] = {}
        self._fresh = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        """LibCST's dispatch, without looking up the names of methods again and again."""
        return (_VISITORS.get(type(node)) or self._visitor(type(node)))(self, node)

    def _visitor(self, kind: type[cst.CSTNode]) -> Callable[[Any, Any], bool]:
        method = _VISITORS[kind] = getattr(type(self), f"visit_{kind.__name__}", _visit_children)
        return method

    def on_leave(self, original_node: cst.CSTNode) -> None:
        """Nothing happens when a node is left: each visit method walks its children itself."""

    # choices ---------------------------------------------------------------------------------------------

    def explore(self, path: Path, action: Callable[[], Any]) -> list[tuple[Path, Any]]:
        """Runs an action once for each combination of the choices that it meets, each on a fork of the path."""
        outcomes: list[tuple[Path, Any]] = []
        pending: list[tuple[int, ...]] = [()]
        saved = self._script, self._exits, self.path
        self._exits = {}
        tries = 0
        while pending and len(outcomes) < MAX_PATHS and tries < 3 * MAX_PATHS:
            given = pending.pop(0)
            tries += 1
            self._script = script = Script(given)
            self.path = path.fork()
            try:
                result = action()
                outcomes.append((self.path, result))
            except Infeasible:
                pass
            except Leave as leave:
                self._left(leave)
            for position in range(len(given), len(script.offered)):
                pending.extend(
                    (*script.taken[:position], option) for option in range(1, script.offered[position])
                )
        self._script, self._exits, self.path = saved
        return outcomes

    def _left(self, leave: Leave) -> None:
        if leave.how == "return":
            self.scope.returns.append((self.path, leave.value))
        elif leave.how == "break":
            self.scope.breaks.append(self.path)
        elif leave.how == "continue":
            self.scope.continues.append(self.path)

    def choose(self, options: int) -> int:
        """Takes one of several ways; the exploration comes back for the others."""
        script = self._script
        position = len(script.taken)
        choice = script.given[position] if position < len(script.given) else 0
        if choice >= options:
            # what the earlier run left behind (a constructor's result) has settled this choice
            raise Infeasible
        script.offered.append(options)
        script.taken.append(choice)
        return choice

    def choose_exit(self, run: Callable[[], list[tuple[Path, Value]]]) -> Value:
        """Walks a call once and takes one of its ways out; the others are taken when the exploration returns."""
        # which call it is: the choices made before it, and how many calls came before it
        key = (self._script.calls, *self._script.taken)
        self._script.calls += 1
        exits = self._exits.get(key)
        if exits is None:
            script, known = self._script, self._exits
            exits = Exits(run())
            self._script, self._exits = script, known
            self._exits[key] = exits
        if not exits.ways:
            raise Infeasible
        index = self.choose(len(exits.ways)) if len(exits.ways) > 1 else 0
        path, value = exits.ways[index]
        self.path = path.fork()
        return value

    def pin(self, value: Value) -> Value:
        """One of the alternatives, with the facts that it rests on."""
        if not isinstance(value, Alternatives):
            return value
        options: dict[Value, list[Facts]] = {}
        for option, facts in value.options:
            if self.path.allows(facts):
                options.setdefault(option, []).append(facts)
        if not options:
            return UNKNOWN
        index = self.choose(len(options)) if len(options) > 1 else 0
        chosen, ways = list(options.items())[index]
        self.path.learn_one_of(ways)
        if chosen == UNBOUND:
            raise Leave("raise")
        if (chosen == NONE or (isinstance(chosen, Context) and chosen.kind == "null")) and any(
            isinstance(option, (Autocast, Scaler)) for option in options
        ):
            self.path.idle = True
        if isinstance(chosen, (DTypeValue, Scaler)):
            others = [other for other, _ in value.options]
            if isinstance(chosen, Scaler):
                return replace(chosen, optional=True) if NONE in others else chosen
            return replace(chosen, chosen=DTypeValue(DType.FLOAT16) in others)
        return chosen

    def fresh(self, node: cst.CSTNode) -> Hashable:
        """A symbol for a value that has no other."""
        self._fresh += 1
        return (id(node), self._fresh)

    # tests -----------------------------------------------------------------------------------------------

    def test(self, node: cst.BaseExpression) -> bool:
        """Takes one side of a condition, the one that is known, or both in turn."""
        if type(node) is cst.UnaryOperation and type(node.operator) is cst.Not:
            return not self.test(node.expression)
        if type(node) is cst.BooleanOperation:
            if type(node.operator) is cst.And:
                return self.test(node.left) and self.test(node.right)
            return self.test(node.left) or self.test(node.right)
        return self.truth(self.evaluate(node))

    def truth(self, value: Value) -> bool:
        """Whether a value is true; unknown ones are tried both ways."""
        known = self.known_truth(value)
        if known is not None:
            return known
        outcome = self.choose(2) == 0
        self.assume(value, outcome)
        return outcome

    def known_truth(self, value: Value) -> bool | None:
        """Whether a value is true, or None."""
        if isinstance(value, Constant):
            return bool(value.value)
        if isinstance(value, Sequence):
            return bool(value.items) if value.exact else None
        if isinstance(value, (Unknown, Number)):
            symbol = value.symbol
            if isinstance(symbol, tuple) and len(symbol) == 2 and symbol[0] == "not":
                known = self.path.knows(symbol[1])
                return None if known is None else not known
            return None if symbol is None else self.path.knows(symbol)
        if isinstance(value, Imported):
            return self.path.knows(value.symbol)
        if isinstance(value, (Tensor, Mapping, Iteration)):
            return None
        return True

    def assume(self, value: Value, truth: bool) -> None:
        """Notes that a value is true, or not."""
        if not isinstance(value, (Unknown, Number, Imported)) or value.symbol is None:
            return
        symbol = value.symbol
        if isinstance(symbol, tuple) and len(symbol) == 2 and symbol[0] == "not":
            symbol, truth = symbol[1], not truth
        if symbol == (tensors.ASKED,):
            if truth:
                self.path.learn(tensors.ASKED, True)
            return
        self.path.learn(symbol, truth)
        if isinstance(symbol, tuple) and len(symbol) == 2 and symbol[0] == "none" and truth:
            self.path.learn(symbol[1], False)
        elif truth:
            self.path.learn(("none", symbol), False)

    def exists(self, value: Value) -> None:
        """Notes that a value is not None: a method of it is called."""
        if isinstance(value, Unknown) and value.symbol is not None:
            if self.path.knows(("none", value.symbol)) or self.path.knows(value.symbol) is False:
                raise Infeasible
            self.assume(value, True)

    # names -----------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value:
        """The value of a name, pinned."""
        value = self.path.names.get(name)
        if value is not None:
            if isinstance(value, Alternatives):
                elsewhere = self.scope.is_module or name in self.scope.globals
                value = self.pin(bound(value) if elsewhere else value)
                self.path.bind(name, value)
            if isinstance(value, Unknown) and value.symbol is None:
                # paths that differ in it were joined; from here on it is one value
                value = Unknown((name, self.fresh(self.scope.slice.module)), value.kind)
                self.path.bind(name, value)
            return value
        if self._is_unbound(name):
            raise Leave("raise")
        scope = self.scope.outer
        names = self.scope.outer_names
        while scope is not None:
            if name in names:
                return self.pin(names[name])
            names, scope = scope.outer_names, scope.outer
        found = self.engine.global_value(self.scope.file, name)
        if found is not None:
            return self.pin(found)
        if name in BUILTINS:
            return Library(f"builtins.{name}")
        return Unknown((self.scope.file.display, name), self.kind(name))

    def _is_unbound(self, name: str) -> bool:
        """Whether a name is a local one that this path has not bound."""
        scope, outline = self.scope, self.scope.outline
        if outline is None or scope.is_module or scope.outer is not None or name in scope.globals:
            return False
        return name in outline.locals

    def kind(self, dotted: str) -> str | None:
        """What the text does with a name."""
        return self.engine.kind_of(self.scope.uses(dotted))

    def evaluate(self, node: cst.CSTNode) -> Value:
        """The value of an expression. Its effects happen on the current path."""
        self.value = UNKNOWN
        self.walk(node)
        return self.value

    def walk(self, node: cst.CSTNode) -> None:
        """Visits a node. LibCST comes in only where no method of ours walks the children."""
        if (_VISITORS.get(type(node)) or self._visitor(type(node)))(self, node):
            node.visit(self)

    def place(self, node: cst.CSTNode) -> Place:
        """Where a node stands, with the calls that lead there."""
        scope = self.scope
        piece = scope.slice
        return Place(
            scope.file.display,
            (scope.file.display, id(node)),
            lambda: piece.span(node),
            lambda: piece.code(node),
            scope.calls,
        )

    def emit(self, event: Event) -> None:
        """Tells the listeners."""
        if not self.silent and (self.told is None or isinstance(event, self.told)):
            self.path.machines = self.engine.listener.hear(self.path.machines, event)

    # expressions -----------------------------------------------------------------------------------------

    def visit_Name(self, node: cst.Name) -> bool:
        constant = _CONSTANTS.get(node.value)
        self.value = constant if constant is not None else self.lookup(node.value)
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        base = self.evaluate(node.value)
        self.value = attributes.read(self, base, node.attr.value, node)
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        self.value = calls.evaluate_call(self, node)
        return False

    def visit_Integer(self, node: cst.Integer) -> bool:
        self.value = _literal(node.value)
        return False

    def visit_Float(self, node: cst.Float) -> bool:
        self.value = _literal(node.value)
        return False

    def visit_Imaginary(self, node: cst.Imaginary) -> bool:
        self.value = UNKNOWN
        return False

    def visit_SimpleString(self, node: cst.SimpleString) -> bool:
        self.value = _literal(node.value)
        return False

    def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> bool:
        self.value = UNKNOWN
        return False

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                value = self.evaluate(part.expression)
                if isinstance(value, ScaledLoss):
                    scaling.read_loss(self, value, "formatted", part.expression)
        first = node.parts[0] if node.parts else None
        start = _DEVICE.match(first.value) if isinstance(first, cst.FormattedStringText) else None
        self.value = Text(start.group()) if start is not None else UNKNOWN
        return False

    def visit_Ellipsis(self, node: cst.Ellipsis) -> bool:
        self.value = UNKNOWN
        return False

    def visit_Tuple(self, node: cst.Tuple) -> bool:
        self.value = self._sequence(node.elements)
        return False

    def visit_List(self, node: cst.List) -> bool:
        self.value = self._sequence(node.elements)
        return False

    def visit_Set(self, node: cst.Set) -> bool:
        self.value = self._sequence(node.elements)
        return False

    def _sequence(self, elements: Any) -> Value:
        items: list[Value] = []
        exact = True
        for element in elements:
            value = self.evaluate(element.value)
            if isinstance(element, cst.StarredElement):
                if isinstance(value, Sequence) and value.exact:
                    items.extend(value.items)
                else:
                    exact = False
                    items.append(tensors.element_of(value))
            else:
                items.append(value)
        return Sequence(tuple(items), exact)

    def visit_Dict(self, node: cst.Dict) -> bool:
        items: list[tuple[object, Value]] = []
        rest: list[Value] = []
        for element in node.elements:
            if isinstance(element, cst.StarredDictElement):
                inner = self.evaluate(element.value)
                if isinstance(inner, Mapping):
                    items.extend(inner.items)
                    rest.extend(inner.rest)
                else:
                    rest.append(UNKNOWN)
            elif isinstance(element, cst.DictElement):
                key = self.evaluate(element.key)
                value = self.evaluate(element.value)
                if isinstance(key, Constant):
                    items.append((key.value, value))
                else:
                    rest.append(value)
        kept = any(isinstance(value, (StateDict, Optimizer)) for _, value in items)
        self.value = Mapping(tuple(items), tuple(rest), self.place(node) if kept else None)
        return False

    def visit_UnaryOperation(self, node: cst.UnaryOperation) -> bool:
        value = self.evaluate(node.expression)
        if isinstance(node.operator, cst.Not):
            known = self.known_truth(value)
            if known is not None:
                self.value = Constant(not known)
            elif isinstance(value, Unknown) and value.symbol is not None:
                symbol = value.symbol
                twice = isinstance(symbol, tuple) and len(symbol) == 2 and symbol[0] == "not"
                self.value = Unknown(symbol[1] if twice else ("not", symbol))  # type: ignore[index]
            else:
                self.value = UNKNOWN
        elif isinstance(value, Constant) and isinstance(value.value, (int, float)):
            negative = isinstance(node.operator, cst.Minus)
            self.value = Constant(-value.value) if negative else value
        elif isinstance(value, Tensor):
            self.value = tensors.apply(self, node, "neg", [value])
        else:
            self.value = value if isinstance(value, Number) else UNKNOWN
        return False

    def visit_BooleanOperation(self, node: cst.BooleanOperation) -> bool:
        left = self.evaluate(node.left)
        wants = isinstance(node.operator, cst.And)
        if isinstance(left, Autocast) and wants:
            self.emit(RegionDropped(left.place, self.path.regions, "boolean"))
        known = self.known_truth(left)
        if known is None and isinstance(left, Unknown) and left.kind is None:
            # an unknown flag joined with another: kept as one condition, not forked
            right = self._under_condition(node.right)
            if isinstance(right, (Unknown, Constant)) and left.symbol is not None:
                if isinstance(right, Constant) and isinstance(right.value, bool):
                    self.value = left if right.value is wants else right
                    return False
                if isinstance(right, Unknown) and right.symbol is not None:
                    self.value = Unknown(("and" if wants else "or", left.symbol, right.symbol))
                    return False
            self.value = right if self.truth(left) is wants else left
            return False
        truth = known if known is not None else self.truth(left)
        self.value = self._under_condition(node.right) if truth is wants else left
        return False

    def _under_condition(self, node: cst.BaseExpression) -> Value:
        scope = self.scope
        scope.branches += 1
        try:
            return self.evaluate(node)
        finally:
            scope.branches -= 1

    def visit_Comparison(self, node: cst.Comparison) -> bool:
        left = self.evaluate(node.left)
        result: Value = UNKNOWN
        for target in node.comparisons:
            right = self.evaluate(target.comparator)
            result = self._compare(node, left, target.operator, right)
            left = right
        self.value = result if len(node.comparisons) == 1 else UNKNOWN
        return False

    def _compare(self, node: cst.CSTNode, left: Value, how: cst.BaseCompOp, right: Value) -> Value:
        if type(how) in (cst.Is, cst.IsNot):
            positive = type(how) is cst.Is
            if NONE in (left, right):
                known = self._known_none(right if left == NONE else left)
                if isinstance(known, bool):
                    return Constant(known is positive)
                return Unknown(known if positive else ("not", known)) if known is not None else UNKNOWN
            how = cst.Equal() if positive else cst.NotEqual()
        if isinstance(left, TorchVersion) or isinstance(right, TorchVersion):
            return self._compare_version(left, how, right)
        if type(how) not in _COMPARE:
            if (
                isinstance(how, (cst.In, cst.NotIn))
                and isinstance(left, (Constant, DTypeValue))
                and isinstance(right, Sequence)
                and right.exact
                and all(isinstance(item, (Constant, DTypeValue)) for item in right.items)
            ):
                held = left in right.items
                if isinstance(left, DTypeValue) and left.dtype is DType.HALF:
                    self.path.learn(tensors.ASKED, True)
                    held = any(isinstance(item, DTypeValue) and item.dtype.is_half for item in right.items)
                return Constant(held is isinstance(how, cst.In))
            sides = _symbol(left), _symbol(right)
            if None in sides:
                return UNKNOWN
            inner = ("in", *sides)
            return Unknown(("not", inner) if isinstance(how, cst.NotIn) else inner)
        sign, compute = _COMPARE[type(how)]
        if isinstance(left, Constant) and isinstance(right, Constant):
            try:
                return Constant(bool(compute(left.value, right.value)))
            except TypeError:
                return UNKNOWN
        if isinstance(left, DTypeValue) and isinstance(right, DTypeValue) and sign in ("==", "!="):
            return self._compare_types(left.dtype, right.dtype, sign == "==")
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return Tensor(DType.INTEGER)
        same = scaling.scales_compared(self, left, right, node) if sign in ("==", "!=") else None
        if same is not None:
            return Unknown(same if sign == "==" else ("not", same))
        sides = _symbol(left), _symbol(right)
        if None in sides:
            return UNKNOWN
        if sign == "!=":
            return Unknown(("not", ("==", *sides)))
        return Unknown((sign, *sides))

    def _compare_types(self, left: DType, right: DType, positive: bool) -> Value:
        if left is right:
            return Constant(positive)
        if DType.HALF in (left, right) and left.is_half and right.is_half:
            return Unknown((tensors.ASKED,) if positive else ("not", (tensors.ASKED,)))
        return Constant(not positive)

    def _known_none(self, value: Value) -> bool | Hashable:
        """True or False where it is known whether a value is None, else the symbol of the question."""
        if isinstance(value, Constant):
            return value.value is None
        if isinstance(value, (Unknown, Number, Imported)):
            if value.symbol is None:
                return None
            known = self.path.knows(("none", value.symbol))
            if known is None and self.path.knows(value.symbol):
                return False
            return known if known is not None else ("none", value.symbol)
        return False

    def _compare_version(self, left: Value, how: cst.BaseCompOp, right: Value) -> Value:
        if type(how) not in _COMPARE:
            return UNKNOWN
        sign = _COMPARE[type(how)][0]
        other = right
        if isinstance(right, TorchVersion):
            other = left
            sign = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
        known = self.engine.compare_torch(sign, other)
        return Constant(known) if known is not None else Unknown(("torch", sign, _symbol(other)))

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> bool:
        left = self.evaluate(node.left)
        right = self.evaluate(node.right)
        self.value = self.arithmetic(node, _ARITHMETIC.get(type(node.operator), "__add__"), left, right)
        return False

    def arithmetic(self, node: cst.CSTNode, name: str, left: Value, right: Value) -> Value:
        """The result of a binary operator."""
        if isinstance(left, Constant) and isinstance(right, Constant):
            numbers = isinstance(left.value, (int, float)) and isinstance(right.value, (int, float))
            if name in _NUMERIC and numbers and not (name == "__pow__" and _is_huge(left.value, right.value)):
                try:
                    result = _NUMERIC[name](left.value, right.value)
                except (TypeError, ArithmeticError):
                    return UNKNOWN
                return Constant(result) if isinstance(result, (int, float)) else UNKNOWN
            return UNKNOWN
        if isinstance(left, Sequence) and name == "__add__":
            known = len(left.items) if left.exact else left.prefix
            if isinstance(right, Sequence):
                prefix = known + (len(right.items) if right.exact else right.prefix) if left.exact else known
                return Sequence(left.items + right.items, left.exact and right.exact, prefix)
            if isinstance(right, Unknown) and known:
                return Sequence(left.items[:known], exact=False, prefix=known)
        if isinstance(left, ScaledLoss) or isinstance(right, ScaledLoss):
            return scaling.combined(left, right)
        if isinstance(left, ScaledGradient):
            return scaling.scaled_gradient_method(self, left, name, (right,), node)
        if isinstance(right, ScaledGradient):
            return scaling.scaled_gradient_method(self, right, name, (left,), node)
        if name == "__matmul__" or isinstance(left, Tensor) or isinstance(right, Tensor):
            return tensors.binary(self, node, name, left, right)
        sides = _symbol(left), _symbol(right)
        if isinstance(left, (Number, Constant)) and isinstance(right, (Number, Constant)):
            told = None not in sides and _depth(sides) <= _DEEPEST
            return Number((name, *sides) if told else self.fresh(node))
        return Unknown((name, *sides)) if None not in sides else UNKNOWN

    def visit_IfExp(self, node: cst.IfExp) -> bool:
        sides = node.body, node.orelse
        side, other = sides if self.test(node.test) else sides[::-1]
        self.value = self._under_condition(side)
        if isinstance(self.value, Scaler) and isinstance(other, cst.Name) and other.value == "None":
            self.value = replace(self.value, optional=True)
        return False

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        base = self.evaluate(node.value)
        keys: list[Value] = []
        for part in node.slice:
            if isinstance(part.slice, cst.Index):
                keys.append(self.evaluate(part.slice.value))
            elif isinstance(part.slice, cst.Slice):
                for bound in (part.slice.lower, part.slice.upper, part.slice.step):
                    if bound is not None:
                        self.evaluate(bound)
                keys.append(UNKNOWN)
        sliced = any(not isinstance(part.slice, cst.Index) for part in node.slice)
        key = keys[0] if len(keys) == 1 and not sliced else None
        self.value = self.pin(attributes.subscript(self, base, key, sliced, node))
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        self.value = FunctionValue(self.scope.file, None, node, self.scope_here(), undecorated=True)
        return False

    def scope_here(self) -> Scope:
        """This scope as a function defined here sees it: with the names as they are now."""
        scope = self.scope
        return Scope(
            scope.file,
            scope.slice,
            scope.outline,
            scope,
            self.path.names,
            scope.self_value,
            scope.calls,
            scope.chain,
        )

    def visit_NamedExpr(self, node: cst.NamedExpr) -> bool:
        value = self.evaluate(node.value)
        if isinstance(node.target, cst.Name):
            self.path.bind(node.target.value, value)
        self.value = value
        return False

    def visit_Await(self, node: cst.Await) -> bool:
        self.value = self.evaluate(node.expression)
        return False

    def visit_Yield(self, node: cst.Yield) -> bool:
        value: Value = NONE
        if isinstance(node.value, cst.From):
            value = self.evaluate(node.value.item)
        elif node.value is not None:
            value = self.evaluate(node.value)
        self.scope.yields.append((self.path.fork(), value))
        self.value = UNKNOWN
        return False

    def visit_ListComp(self, node: cst.ListComp) -> bool:
        self.value = self._comprehension(node.elt, node.for_in)
        return False

    def visit_SetComp(self, node: cst.SetComp) -> bool:
        self.value = self._comprehension(node.elt, node.for_in)
        return False

    def visit_GeneratorExp(self, node: cst.GeneratorExp) -> bool:
        self.value = self._comprehension(node.elt, node.for_in)
        return False

    def visit_DictComp(self, node: cst.DictComp) -> bool:
        result = self._comprehension(node.value, node.for_in)
        self.value = Mapping((), result.items if isinstance(result, Sequence) else (UNKNOWN,))
        return False

    def _comprehension(self, element: cst.BaseExpression, loop: cst.CompFor) -> Value:
        names, chain = self.path.names, self.scope.chain
        part: cst.CompFor | None = loop
        exact_items: tuple[Value, ...] | None = None
        while part is not None:
            source = self.evaluate(part.iter)
            simple = part is loop and part.inner_for_in is None and not part.ifs
            if simple and isinstance(source, Sequence) and source.exact and len(source.items) <= 8:
                exact_items = source.items
            self.assign(part.target, tensors.element_of(source), part)
            for condition in part.ifs:
                self.evaluate(condition.test)
            part = part.inner_for_in
        if exact_items is not None:
            results = []
            for number, item in enumerate(exact_items):
                self.scope.chain = (chain, id(loop), number)
                self.assign(loop.target, item, loop)
                results.append(self.evaluate(element))
            value: Value = Sequence(tuple(results))
        else:
            self.scope.chain = (ONE_OF_MANY, chain)
            value = Sequence((self.evaluate(element),), exact=False)
        self.scope.chain = chain
        self.path.leave_scope(names)
        return value

    # provided by the statements half ------------------------------------------------------------------------

    def assign(self, target: cst.CSTNode, value: Value, node: cst.CSTNode) -> None:
        """Binds a target to a value."""
        raise NotImplementedError


@lru_cache(maxsize=4096)
def _literal(text: str) -> Value:
    try:
        return Constant(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return UNKNOWN


def _depth(symbol: Hashable) -> int:
    """How deep a symbol that was made of others is nested."""
    return 1 + max(map(_depth, symbol), default=0) if isinstance(symbol, tuple) else 0


def _is_huge(base: Any, exponent: Any) -> bool:
    return bool(abs(base) > _LARGEST_EXPONENT or abs(exponent) > _LARGEST_EXPONENT)


def _symbol(value: Value) -> Hashable:
    if isinstance(value, (Unknown, Number, Imported)):
        return value.symbol
    if isinstance(value, (Constant, DTypeValue)):
        return value
    if isinstance(value, Library):
        return value.name
    return None
