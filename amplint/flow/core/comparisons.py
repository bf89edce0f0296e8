"""Comparisons: what is asked of unknowns becomes an atom, so that the same question has the same answer."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from amplint.flow.core.machine import Machine
from amplint.flow.state.atoms import equals, is_instance, is_none, is_true
from amplint.flow.state.conditions import MOST_ALTERNATIVES, Condition, apply, asked, both, either, negation
from amplint.flow.state.counts import told_apart
from amplint.flow.state.short import where_there
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    AskedForNone,
    ClassValue,
    Constant,
    Exists,
    External,
    FunctionValue,
    Instance,
    Mapping,
    Number,
    Sequence,
    Text,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(m: Machine, how: str, left: Value, right: Value, node: Node) -> Value:
    """``left how right`` for values that are no Choice: a condition, or what a model makes of it."""
    if how in ("is not", "!=", "not in"):
        positive = {"is not": "is", "!=": "==", "not in": "in"}[how]
        if how == "!=":
            found = _by_model(m, how, left, right, node)
            if found is not None:
                return found
        return negation(m.truth(compare(m, positive, left, right, node)))
    if NONE in (left, right) and how in ("is", "=="):
        return _is_none(m, right if left == NONE else left)
    if how == "in":
        return _contained(m, left, m.contents(right), node)
    found = _by_model(m, how, left, right, node)
    if found is not None:
        return found
    how = "==" if how == "is" else how
    if isinstance(right, Constant) and (apart := told_apart(left)) is not None:
        return apply(lambda one: compare(m, how, one, right, node), apart)
    if isinstance(left, Constant) and (apart := told_apart(right)) is not None:
        return apply(lambda one: compare(m, how, left, one, node), apart)
    if isinstance(left, Constant) and isinstance(right, Constant):
        try:
            return Constant(bool(_COMPUTE[how](left.value, right.value)))
        except TypeError:
            return m.unknown(node)
    if how == "==":
        return _equal(m, left, right, node)
    return _ordered(m, how, left, right, node)


def _by_model(m: Machine, how: str, left: Value, right: Value, node: Node) -> Value | None:
    for side in (left, right):
        model = m.registry.operators.get(type(side))
        if model is not None:
            found = model(m, how, left, right, node)
            if found is not None:
                return found
    return None


def _is_none(m: Machine, value: Value) -> Condition:
    match value:
        case Constant():
            return Constant(value.value is None)
        case Unknown():
            m.set_note(value.symbol, AskedForNone())
            return both(negation(m.where_noted(value.symbol, Exists)), asked(is_none(value.symbol)))
    return FALSE


def _equal(m: Machine, left: Value, right: Value, node: Node) -> Value:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, (Unknown, Number)) and _is_constant(m, other):
            return FALSE if _is_no_text(m, one, other) else asked(equals(one.symbol, other))
        if isinstance(one, External) and one.chosen is not None and _is_constant(m, other):
            return asked(equals(one.chosen, other))
    if _is_constant(m, left) and _is_constant(m, right):
        return Constant(left == right)
    if _is_definition(left) and _is_definition(right):
        return Constant(left == right)
    first, second = named(left), named(right)
    if first is None or second is None:
        return m.unknown(node)
    if first is second:
        return TRUE
    first, second = sorted((first, second), key=lambda part: part.order)
    return asked(symbol("same", first, second))


def _is_definition(value: Value) -> bool:
    """Whether a value is a class, a function or something outside that is known by its name."""
    return isinstance(value, (ClassValue, FunctionValue)) or (
        isinstance(value, External) and value.chosen is None
    )


def _is_no_text(m: Machine, one: Unknown | Number, other: Value) -> bool:
    """Whether this path has asked if something is a text, ``isinstance(device, str)``, and it was none."""
    if not isinstance(other, Constant) or not isinstance(other.value, str):
        return False
    return m.known_truth(is_instance(one.symbol, External("builtins.str"))) is False


def _is_constant(m: Machine, value: Value) -> bool:
    return isinstance(value, Constant) or type(value) in m.registry.constants


def _ordered(m: Machine, how: str, left: Value, right: Value, node: Node) -> Value:
    """``a < b``; ``a >= b`` is its negation, and ``b > a`` is the same."""
    one, other = named(left), named(right)
    if one is None or other is None:
        return m.unknown(node)
    if how in (">", "<="):
        one, other = other, one
    atom: Condition = asked(symbol("less", one, other))
    return atom if how in ("<", ">") else negation(atom)


def _contained(m: Machine, left: Value, right: Value, node: Node) -> Value:
    match right:
        case Sequence() if right.exact and (
            isinstance(left, Constant) or len(right.items) <= MOST_ALTERNATIVES
        ):
            found: Condition = FALSE
            for item in right.items:
                found = either(found, m.truth(m.each(item, lambda one: compare(m, "==", left, one, node))))
            return found
        case Mapping() if isinstance(left, Constant):
            if any(key == left.value for key, _ in right.items):
                value = right.get(left.value)
                return where_there(value) if value is not None else m.unknown(node)
            if not right.rest:
                return FALSE
        case Constant(value=str() as whole) if isinstance(left, Constant) and isinstance(left.value, str):
            return Constant(left.value in whole)
        case Constant(value=tuple() | list() | set() | frozenset()):
            return m.unknown(node)
        case Instance():
            told = _by_model(m, "in", left, right, node)
            if told is not None:
                return told
    one, other = named(left), named(right)
    if one is None or other is None:
        found_ = _by_model(m, "in", left, right, node)
        return found_ if found_ is not None else m.unknown(node)
    return asked(symbol("in", one, other))


def named(value: Value) -> Symbol | None:
    """What stands for a value in the name of a question about it, or None."""
    match value:
        case Unknown() | Number():
            return value.symbol
        case Text():
            return value.symbol
        case Constant():
            return symbol("constant", value)
        case External():
            return value.symbol
        case Instance():
            return symbol("object", value.identity)
    return None


def truth(m: Machine, value: Value) -> Condition:
    """The condition under which a value is true, for values that are no Choice."""
    match value:
        case Constant():
            return TRUE if value.value else FALSE
        case Unknown():
            if value.kind is None:  # data, such as a list or a tensor, may be false although it is there
                return asked(is_true(value.symbol))
            return either(m.where_noted(value.symbol, Exists), asked(is_true(value.symbol)))
        case Number():
            apart = told_apart(value)
            if apart is not None:
                return apply(partial(truth, m), apart)
            return asked(is_true(value.symbol))
        case Text():
            return TRUE
    if isinstance(value, (Sequence, Mapping)):
        ways = m.told_apart(value)
        return apply(partial(_holds_any, m), ways) if ways is not value else _holds_any(m, m.contents(value))
    model = m.registry.truths.get(type(value))
    told = model(m, value) if model is not None else None
    return told if told is not None else TRUE


def _holds_any(m: Machine, value: Value) -> Condition:
    """The truth of a list or dict as it is now, or of what nothing is known where it was filled in too many ways."""
    if isinstance(value, Sequence):
        if value.exact or value.prefix:
            return Constant(bool(value.items))
        if value.items and all(item.is_expected for item in value.items):
            return TRUE
        return asked(is_true(symbol("filled", m.frame.context, len(value.items))))
    if not isinstance(value, Mapping):
        return truth(m, value)
    if value.items or not value.rest:
        return Constant(bool(value.items))
    return asked(is_true(symbol("filled", m.frame.context, len(value.rest))))
