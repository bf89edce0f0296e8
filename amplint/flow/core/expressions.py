"""Evaluation of expressions: one function for each kind of node."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Sequence_
from functools import partial
from typing import Any

from amplint.flow.core.api import Arguments
from amplint.flow.core.bodies import given_twice
from amplint.flow.core.calls import named_in_settings
from amplint.flow.core.comparisons import compare
from amplint.flow.core.displays import comprehension, dict_display, display
from amplint.flow.core.machine import Machine
from amplint.flow.state.conditions import apply, both, leaves, negation
from amplint.flow.state.counts import told_apart
from amplint.flow.state.symbols import COMPUTED, OR, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    Choice,
    Constant,
    FunctionValue,
    Instance,
    Mapping,
    Number,
    Sequence,
    Super,
    Text,
    Unknown,
    Value,
)
from amplint.lowering import program as ir
from amplint.lowering.literals import is_too_large

_LARGEST_EXPONENT = 1024


def literal(m: Machine, node: ir.LiteralNode) -> Value:
    return Constant(node.value)


def name(m: Machine, node: ir.Name) -> Value:
    return m.lookup(node.id, node)


def attribute(m: Machine, node: ir.Attribute) -> Value:
    base = m.evaluate(node.value)
    return m.each(base, lambda value: m.attribute(value, node.name, node))


def subscript(m: Machine, node: ir.Subscript) -> Value:
    base = m.evaluate(node.value)
    keys = tuple(m.evaluate(key) for key in node.keys)

    def at(value: Value) -> Value:
        return over(
            m, without_masks(m, value, keys, node.keys), lambda found: m.subscript(value, found, node)
        )

    return m.each(base, at)


def without_masks(
    m: Machine, base: Value, keys: tuple[Value, ...], nodes: Sequence_[ir.Expression]
) -> tuple[Value, ...]:
    """The keys of ``base[keys]``. A comparison is one thing where the base is no list or dict: ``x[y > 0]`` is no
    choice between ``x[True]`` and ``x[False]``."""
    if isinstance(base, (Sequence, Mapping)):
        return keys
    return tuple(
        m.unknown(node) if isinstance(key, Choice) and set(leaves(key)) <= {TRUE, FALSE} else key
        for key, node in zip(keys, nodes, strict=True)
    )


def over(m: Machine, values: tuple[Value, ...], function: Callable[[tuple[Value, ...]], Value]) -> Value:
    """Calls a function for each combination of alternatives of several values."""
    for index, value in enumerate(values):
        if isinstance(value, Choice):
            return m.each(value, partial(_over_rest, m, values, index, function))
    return function(values)


def _over_rest(
    m: Machine,
    values: tuple[Value, ...],
    index: int,
    function: Callable[[tuple[Value, ...]], Value],
    one: Value,
) -> Value:
    return over(m, (*values[:index], one, *values[index + 1 :]), function)


def _compared(m: Machine, operator: str, node: ir.Node, two: tuple[Value, ...]) -> Value:
    return compare(m, operator, two[0], two[1], node)


def _formatted(m: Machine, node: ir.Node, plain: bool, one: Value) -> Value:
    """What is put into a text: ``f"{None}"`` is one, and ``f"{None:.2f}"`` raises."""
    if plain and one == NONE:
        return one
    return m.call_method(one, "__format__", Arguments(), node)


def _computed(m: Machine, node: ir.Binary, two: tuple[Value, ...]) -> Value:
    return arithmetic(m, node.operator, two[0], two[1], node)


def slice_key(m: Machine, node: ir.SliceKey) -> Value:
    parts = [
        m.evaluate(part) if part is not None else Constant(None)
        for part in (node.lower, node.upper, node.step)
    ]
    known = [part.value for part in parts if isinstance(part, Constant)]
    if len(known) == len(parts):
        return Constant(slice(*known))
    return Constant(slice(None, m.unknown(node).symbol))


def call(m: Machine, node: ir.Call) -> Value:
    function = node.function
    if isinstance(function, ir.Name) and function.id == "super" and not node.arguments:
        return _super(m, node)
    if isinstance(function, ir.Attribute):
        base = m.evaluate(function.value)
        m.meet(function.value, base)
        m.meet(node, base, "receiver")
        given = arguments(m, node)
        return m.each(base, lambda value: _call_method(m, value, function, given, node))
    callee = m.evaluate(function)
    given = arguments(m, node)
    return m.each(callee, lambda value: m.call(value, given, node))


def _call_method(m: Machine, base: Value, function: ir.Attribute, given: Arguments, node: ir.Call) -> Value:
    if isinstance(base, Unknown) and m.load(base.symbol, function.name) is None:
        return m.call_method(base, function.name, given, node)
    if isinstance(base, Instance) and named_in_settings(m, f".{function.name}") is not None:
        return m.call_method(base, function.name, given, node)
    callee = m.attribute(base, function.name, function)
    return m.each(callee, lambda value: m.call(value, given, node))


def _super(m: Machine, node: ir.Call) -> Value:
    function, receiver = m.frame.function, m.frame.receiver
    owner = function.outline.owner if function is not None and function.outline is not None else None
    if receiver is None or owner is None or function is None:
        return m.unknown(node)
    return Super(receiver, m.class_value(function.file, owner))


def arguments(m: Machine, node: ir.Call) -> Arguments:
    """Evaluates the arguments of a call, in order."""
    positional: list[Value] = []
    keywords: list[tuple[str, Value]] = []
    nodes: list[ir.Node] = []
    keyword_nodes: list[tuple[str, ir.Node]] = []
    starred: list[Value] = []
    unclear = False
    for argument in node.arguments:
        value = m.evaluate(argument.value)
        m.meet(argument.value, value)
        if argument is node.arguments[0]:
            m.meet(node, value, "argument")
        if argument.star == "*":
            value = m.contents(value)
            items = value.items if isinstance(value, Sequence) else ()
            known = 0
            if isinstance(value, Sequence) and not starred:
                known = len(items) if value.exact else value.prefix
            positional.extend(items[:known])
            nodes.extend([argument.value] * known)
            if known < len(items) or not (isinstance(value, Sequence) and value.exact):
                unclear = True
                starred += items[known:] or (m.unknown(argument.value),)
        elif argument.star == "**":
            value = m.contents(value)
            if isinstance(value, Mapping):
                named = [(str(key), item) for key, item in value.items]
                keywords.extend(named)
                keyword_nodes.extend((key, argument.value) for key, _ in named)
                unclear = unclear or bool(value.rest)
            else:
                unclear = True
        elif argument.keyword is not None:
            keywords.append((argument.keyword, value))
            keyword_nodes.append((argument.keyword, argument.value))
        elif starred:
            starred.append(value)  # nobody knows at which position
        else:
            positional.append(value)
            nodes.append(argument.value)
    if any(argument.star == "**" for argument in node.arguments):
        m.assume(negation(given_twice(keywords)))
    return Arguments(
        tuple(positional),
        tuple(keywords),
        tuple(nodes),
        tuple(keyword_nodes),
        unclear,
        starred=tuple(starred),
    )


def binary(m: Machine, node: ir.Binary) -> Value:
    operands: list[ir.Binary] = []
    left_node: ir.Expression = node
    while isinstance(left_node, ir.Binary):
        operands.append(left_node)
        left_node = left_node.left
    value = m.evaluate(left_node)
    for part in reversed(operands):
        m.meet(part.left, value)
        right = m.evaluate(part.right)
        m.meet(part.right, right)
        value = over(m, (value, right), partial(_computed, m, part))
    return value


_NUMERIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}


def arithmetic(m: Machine, operator: str, left: Value, right: Value, node: ir.Node) -> Value:
    """``left operator right`` for values that are no Choice."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _constants(m, operator, left.value, right.value, node)
    if isinstance(right, Constant) and (apart := told_apart(left)) is not None:
        return apply(lambda one: arithmetic(m, operator, one, right, node), apart)
    left, right = m.contents(left), m.contents(right)
    if isinstance(left, Sequence) and operator == "+":
        known = len(left.items) if left.exact else left.prefix
        if isinstance(right, Sequence):
            prefix = known + (len(right.items) if right.exact else right.prefix) if left.exact else known
            return Sequence(left.items + right.items, left.exact and right.exact, prefix)
        if isinstance(right, Unknown) and known:
            return Sequence(left.items[:known], exact=False, prefix=known)
    repeated = left if isinstance(left, Sequence) else right
    if operator == "*" and isinstance(repeated, Sequence) and _are_objects(repeated.items):
        return Sequence(repeated.items, exact=False, identity=m.fresh(node))  # ``[Block()] * depth``
    return m.operate(operator, left, right, node)


def _are_objects(items: tuple[Value, ...]) -> bool:
    return bool(items) and all(isinstance(item, Instance) for item in items)


def _constants(m: Machine, operator: str, left: Any, right: Any, node: ir.Node) -> Value:
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    text = isinstance(left, str) and isinstance(right, str) and operator == "+"
    huge = operator == "**" and numbers and (abs(left) > _LARGEST_EXPONENT or abs(right) > _LARGEST_EXPONENT)
    if operator in _NUMERIC and (numbers or text) and not huge:
        try:
            result = _NUMERIC[operator](left, right)
        except (TypeError, ArithmeticError):
            return m.unknown(node)
        if is_too_large(result):
            return m.unknown(node)
        if isinstance(result, (int, float, str)):
            return Constant(result)
    if text or (isinstance(left, str) and operator == "%"):
        return m.unknown(node)
    return m.operate(operator, Constant(left), Constant(right), node)


def unary(m: Machine, node: ir.Unary) -> Value:
    if node.operator == "not":
        return negation(m.test(node.operand))
    value = m.evaluate(node.operand)

    def negated(one: Value) -> Value:
        if isinstance(one, Constant) and type(one.value) in (int, float):
            number: Any = one.value
            return (
                Constant({"-": -number, "+": number}[node.operator])
                if node.operator != "~"
                else m.unknown(node)
            )
        return m.operate({"-": "neg", "+": "pos", "~": "invert"}[node.operator], one, None, node)

    return m.each(value, negated)


def boolean(m: Machine, node: ir.Boolean) -> Value:
    left = m.evaluate(node.left)
    if node.operator == "and":
        m.discard(left, "boolean", "", node.left)
    condition = m.truth(left)
    if node.operator == "or":
        others: list[Value] = []

        def other() -> Value:
            others.append(m.evaluate(node.right))
            return others[-1]

        found = m.selected(condition, node, lambda: left, other, flags=True)
        return apply(partial(_or_number, others[-1]), found) if others else found
    return m.selected(condition, node, lambda: m.evaluate(node.right), lambda: left, flags=True)


def _or_number(other: Value, value: Value) -> Value:
    """What is used where a number may stand for it, ``scale or width**-0.5``, is one, too: a tensor of several numbers
    is neither true nor false."""
    if not isinstance(value, Unknown) or value.kind is not None:
        return value
    if isinstance(other, Number) or (isinstance(other, Constant) and type(other.value) in (int, float)):
        return Number(value.symbol)
    if isinstance(other, Unknown) and other.symbol.parts[0] == COMPUTED and other != value:
        return Unknown(symbol(OR, value.symbol, other.symbol))
    return value


def conditional(m: Machine, node: ir.Conditional) -> Value:
    condition = m.test(node.test)
    return m.selected(condition, node, lambda: m.evaluate(node.then), lambda: m.evaluate(node.other))


def comparison(m: Machine, node: ir.Compare) -> Value:
    left = m.evaluate(node.left)
    result: Value = Constant(True)
    for operator, right_node in zip(node.operators, node.rights, strict=True):
        right = m.evaluate(right_node)
        found = over(m, (left, right), partial(_compared, m, operator, node))
        result = found if len(node.operators) == 1 else both(result, m.truth(found))
        left = right
    return result


def formatted(m: Machine, node: ir.Formatted) -> Value:
    start, known = "", True
    for part in node.parts:
        if isinstance(part, str):
            start += part if known else ""
            continue
        first, *specs = part.parts if isinstance(part, ir.Opaque) and part.parts else (part,)
        value = m.evaluate(first)
        m.each(value, partial(_formatted, m, part, first is part))
        if first is not part:  # {x:.2f}: nothing is known of the text
            value = m.unknown(part)
            for spec in specs:
                m.evaluate(spec)
        if known and isinstance(value, Constant) and isinstance(value.value, (str, int)):
            start += str(value.value)
        else:
            known = False
    if known:
        return Constant(start)
    return Text(start, m.unknown(node).symbol) if start else m.unknown(node)


def lambda_(m: Machine, node: ir.Lambda) -> Value:
    return nested(m, node.program)


def nested(m: Machine, program: ir.Program) -> FunctionValue:
    """A function that is defined here."""
    return FunctionValue(m.frame.file, None, program, m.scope(), m.frame.receiver, undecorated=True)


def walrus(m: Machine, node: ir.Walrus) -> Value:
    value = m.evaluate(node.value)
    m.assign(node.target, value)
    return value


def await_(m: Machine, node: ir.Await) -> Value:
    return m.evaluate(node.value)


def yield_(m: Machine, node: ir.Yield) -> Value:
    value: Value = m.evaluate(node.value) if node.value is not None else Constant(None)
    if node.delegates:
        value = m.each(value, lambda one: m.iterate(one, node))
    m.frame.yields.append((m.state.fork(), value))
    function = m.frame.function
    m.state.yielded = function is not None and function.manages_context
    return m.unknown(node)


def opaque(m: Machine, node: ir.Opaque) -> Value:
    for part in node.parts:
        m.evaluate(part)
    return m.unknown(node)


def starred(m: Machine, node: ir.Starred) -> Value:
    return m.evaluate(node.value)


EVALUATE: dict[type[ir.Expression], Callable[[Machine, Any], Value]] = {
    ir.LiteralNode: literal,
    ir.Name: name,
    ir.Attribute: attribute,
    ir.Subscript: subscript,
    ir.SliceKey: slice_key,
    ir.Call: call,
    ir.Binary: binary,
    ir.Unary: unary,
    ir.Boolean: boolean,
    ir.Compare: comparison,
    ir.Conditional: conditional,
    ir.Display: display,
    ir.DictDisplay: dict_display,
    ir.Formatted: formatted,
    ir.Lambda: lambda_,
    ir.Walrus: walrus,
    ir.Await: await_,
    ir.Yield: yield_,
    ir.Comprehension: comprehension,
    ir.Starred: starred,
    ir.Opaque: opaque,
}
