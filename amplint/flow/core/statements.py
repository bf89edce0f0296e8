"""Statements: order, branches, loops, ``with``, ``try`` and assignments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from amplint.flow.core.api import Arguments
from amplint.flow.core.comparisons import compare
from amplint.flow.core.displays import in_any_order, lose_order
from amplint.flow.core.expressions import arithmetic, nested, over
from amplint.flow.core.machine import Machine
from amplint.flow.state.conditions import asked, both, either, negation
from amplint.flow.state.short import MOST_ITEMS, is_short
from amplint.flow.state.store import Ambient, State
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    Constant,
    External,
    Iteration,
    Mapping,
    Number,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering import program as ir

ROUNDS = 2
"""So many rounds of a loop are walked whose number is not known: the second sees what the first has left."""


def evaluate(m: Machine, node: ir.Evaluate) -> None:
    value = m.evaluate(node.value)
    m.discard(value, "statement", "", node.value)


def assign(m: Machine, node: ir.Assign) -> None:
    value = m.evaluate(node.value)
    for target in node.targets:
        m.assign(target, value)


def augmented(m: Machine, node: ir.AugmentedAssign) -> None:
    before = m.evaluate(node.target)
    value = m.evaluate(node.value)
    m.meet(node.value, value)
    bitwise = {"&", "|"}

    def combine(two: tuple[Value, ...]) -> Value:
        left, right = two
        if node.operator in bitwise and _is_condition(left) and _is_condition(right):
            return m.both_truths(node.operator, left, right)
        changed = _changed(m, node, left, right)
        return changed if changed is not None else _augmented(m, node, left, right)

    m.assign(node.target, over(m, (before, value), combine))


def _is_condition(value: Value) -> bool:
    return isinstance(value, Unknown) or (isinstance(value, Constant) and isinstance(value.value, bool))


def _changed(m: Machine, node: ir.AugmentedAssign, left: Value, right: Value) -> Value | None:
    """``items += more``: the same list as before, which all who have it see."""
    if not isinstance(left, Sequence) or left.identity is None or node.operator != "+":
        return None
    m.call_method(left, "extend", Arguments((right,), (), (node.value,)), node)
    return left


def _is_number(value: Value) -> bool:
    return isinstance(value, Constant) and type(value.value) in (int, float)


def _augmented(m: Machine, node: ir.AugmentedAssign, left: Value, right: Value) -> Value:
    if m.in_loop and _is_number(left) and _is_number(right):
        return m.number(
            node
        )  # a counter, of whose values the rounds that are walked show the first ones alone
    for side in (left, right):
        model = m.registry.operators.get(type(side))
        if model is not None:
            found = model(m, node.operator + "=", left, right, node)
            if found is not None:
                return found
    return arithmetic(m, node.operator, left, right, node)


def delete(m: Machine, node: ir.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ir.Name):
            m.unbind(target.id)


def return_(m: Machine, node: ir.Return) -> None:
    value = m.evaluate(node.value) if node.value is not None else NONE
    m.frame.returns.append((m.state, value))
    m.end()


def raise_(m: Machine, node: ir.Raise) -> None:
    if node.exception is not None:
        m.evaluate(node.exception)
    m.end()


def violate(m: Machine, node: ir.Break) -> None:
    m.frame.breaks.append(m.state)
    m.end()


def continue_(m: Machine, node: ir.Continue) -> None:
    m.frame.continues.append(m.state)
    m.end()


def assert_(m: Machine, node: ir.Assert) -> None:
    m.assume(m.test(node.test))
    _narrow(m, node.test)


def _narrow(m: Machine, test: ir.Expression) -> None:
    """After ``assert isinstance(name, Class)`` a name that nothing is known of is an object of the class."""
    if isinstance(test, ir.Boolean) and test.operator == "and":
        _narrow(m, test.left)
        _narrow(m, test.right)
    if not isinstance(test, ir.Call) or len(test.arguments) != 2:
        return
    target = test.arguments[0].value
    if m.evaluate(test.function) != External("builtins.isinstance") or not isinstance(target, ir.Name):
        return
    value = m.state.names.get(target.id)
    if isinstance(value, Unknown):
        made = m.of_class(m.evaluate(test.arguments[1].value), value.symbol)
        if made is not None:
            m.state.bind(target.id, made)


def if_(m: Machine, node: ir.If) -> None:
    condition = m.test(node.test)
    m.frame.branches += 1
    try:
        m.branch(condition, node, lambda: m.run(node.body), lambda: m.run(node.other))
    finally:
        m.frame.branches -= 1


# loops -----------------------------------------------------------------------------------------------------------


def for_(m: Machine, node: ir.For) -> None:
    source = m.evaluate(node.source)

    def walk(value: Value) -> Value:
        _loop(m, node, in_any_order(m, m.contents(value)))
        return NONE

    m.each(source, lambda one: m.each(m.told_apart(one), walk))


def while_(m: Machine, node: ir.While) -> None:
    _loop(m, node, None)


def _loop(m: Machine, node: ir.For | ir.While, source: Value | None) -> None:
    frame = m.frame
    saved = frame.breaks, frame.continues, frame.branches, frame.rounds, frame.loops
    context = frame.context
    frame.breaks, frame.continues, frame.branches = [], [], 0
    items = _short(source)
    rounds = len(items) if items is not None else ROUNDS
    if isinstance(source, Iteration) and source.rounds is not None:
        rounds = min(source.rounds, ROUNDS)
    apart = items is not None and _are_different(items)
    frame.loops += not apart
    if items is None:
        _forget_counters(m, node)
    leaving: list[State] = []
    for number in range(rounds):
        frame.rounds = (*saved[3], number)
        if apart:  # what a round makes of its item is not what another one makes
            frame.context = symbol("item", context, node.number, number)
        m.on_each(partial(m.registry.hooks.iterated, m, number, node))
        if isinstance(node, ir.While):
            _stay(m, node, leaving)
        else:
            item = items[number] if items is not None else None
            m.attempt(partial(_take, m, node, source, item))
        if not m.dead():
            m.run(node.body)
        m.state = m.join([m.state, *frame.continues], node)
        frame.continues = []
        if m.dead():
            break
    broken, exits = frame.breaks, leaving
    endless = isinstance(node, ir.While) and isinstance(node.test, ir.LiteralNode) and bool(node.test.value)
    if not endless or not (exits or broken):
        exits.append(m.state)
    frame.breaks, frame.continues, frame.branches, frame.rounds, frame.loops = saved
    frame.context = context
    m.state = m.join(exits, node)
    if node.other and not m.dead():
        m.run(node.other)  # what was left by break does not get here
    m.state = m.join([m.state, *broken], node)
    counted = isinstance(source, Iteration) and source.rounds is not None and source.rounds <= ROUNDS
    if items is None and not counted and not m.dead():
        lose_order(m, source, node)
        m.on_each(partial(m.registry.hooks.ended, m, node))


def _forget_counters(m: Machine, node: ir.For | ir.While) -> None:
    """Takes numbers that a loop counts on for unknown from its first round on: the rounds that are walked stand
    for all."""
    pending: list[ir.Statement] = list(node.body)
    while pending:
        statement = pending.pop()
        if (
            isinstance(statement, ir.AugmentedAssign)
            and isinstance(statement.target, ir.Name)
            and isinstance(statement.value, ir.LiteralNode)
        ):
            name = statement.target.id
            if _is_number(m.state.names.get(name, NONE)):
                m.state.bind(name, Number(symbol("counter", m.frame.context, node.number, name)))
        for part in ("body", "other", "last"):
            pending += getattr(statement, part, ())


def _short(source: Value | None) -> tuple[Value, ...] | None:
    """The items of a collection that is walked item by item."""
    if isinstance(source, Sequence) and source.exact and is_short(source.items):
        return source.items
    if isinstance(source, Mapping) and not source.rest and len(source.items) <= MOST_ITEMS:
        return tuple(Constant(key) for key in dict.fromkeys(key for key, _ in source.items))
    return None


def _are_different(items: tuple[Value, ...]) -> bool:
    """Whether each round of a loop has a thing of its own, rather than that rounds are counted, or repeat."""
    counted = all(isinstance(item, Constant) and type(item.value) is int for item in items)
    return len(items) > 1 and not counted and len(set(items)) == len(items)


def _stay(m: Machine, node: ir.While, leaving: list[State]) -> None:
    """Takes the way into a round of a while loop; the other one leaves."""

    def enter() -> None:
        condition = m.test(node.test)
        away = negation(condition)
        if m.can(away):
            leaving.append(m.state.fork(m.narrowed(away)))
        m.assume(condition)

    m.attempt(enter)


def _take(m: Machine, node: ir.For, source: Value | None, item: Value | None) -> None:
    m.assign(node.target, _next(m, node, source, item))


def _next(m: Machine, node: ir.For, source: Value | None, item: Value | None) -> Value:
    if item is not None:
        return item
    assert source is not None
    lose_order(m, source, node)
    return m.iterate(source, node.source)


# with ------------------------------------------------------------------------------------------------------------


def with_(m: Machine, node: ir.With) -> None:
    opened: list[tuple[Value, ir.Node]] = []
    before = m.state.ambient
    for item in node.items:
        value = m.evaluate(item.context)
        bound = m.each(value, partial(_enter, m, item.context))
        opened.append((value, item.context))
        if item.target is not None:
            m.assign(item.target, bound)

    def walk() -> None:
        marks = _marks(m)
        m.run(node.body)
        _close(m, opened, before)
        _on_exits(m, marks, lambda: _close(m, opened, before))

    # once for each of the regions that a flag chooses from: that one is left, whatever is forgotten of the flag
    m.on_each(walk)


def _close(m: Machine, opened: list[tuple[Value, ir.Node]], before: dict[type[Ambient], Value]) -> None:
    for context, node in reversed(opened):
        if m.dead():
            return
        m.attempt(partial(m.leave, context, node))
    if m.cut_off:  # an exit may not have been walked: it is taken to undo what the entry did
        m.state.ambient = before


def _enter(m: Machine, node: ir.Node, context: Value) -> Value:
    return m.enter(context, node)


def _marks(m: Machine) -> tuple[int, int, int]:
    frame = m.frame
    return len(frame.returns), len(frame.breaks), len(frame.continues)


def _on_exits(m: Machine, marks: tuple[int, int, int], action: Callable[[], None]) -> None:
    """Does something on each path that has left a block early."""
    frame, present = m.frame, m.state
    for index in range(marks[0], len(frame.returns)):
        state, value = frame.returns[index]
        m.state = state
        action()
        frame.returns[index] = (m.state, value)
    for states, mark in ((frame.breaks, marks[1]), (frame.continues, marks[2])):
        for index in range(mark, len(states)):
            m.state = states[index]
            action()
            states[index] = m.state
    m.state = present


# try and match ---------------------------------------------------------------------------------------------------


def try_(m: Machine, node: ir.Try) -> None:
    marks = _marks(m)
    if not node.handlers or m.never_raises(node.body):
        m.run(node.body)
        m.run(node.other)
    else:
        before = m.state.fork()
        raised = asked(symbol("raised", m.frame.context, node.number, *m.frame.rounds))
        m.frame.branches += 1
        m.branch(negation(raised), node, lambda: _tried(m, node), lambda: _handled(m, node, before, 0))
        m.frame.branches -= 1
        after = m.state
        m.state = before.fork(both(before.condition, raised))
        m.registry.hooks.handled(m, node)
        m.state = after
    if node.last:
        if not m.dead():
            m.run(node.last)
        _on_exits(m, marks, lambda: m.run(node.last))


def _tried(m: Machine, node: ir.Try) -> None:
    m.run(node.body)
    if not m.dead():
        m.run(node.other)


def _handled(m: Machine, node: ir.Try, before: State, index: int) -> None:
    """The handlers, one of which runs."""
    handler = node.handlers[index]

    def run() -> None:
        if handler.name is not None:
            m.state.bind(handler.name, m.unknown(node))
        m.run(handler.body)

    if index + 1 == len(node.handlers):
        run()
        return
    this = asked(symbol("handler", m.frame.context, node.number, index, *m.frame.rounds))
    m.branch(this, node, run, lambda: _handled(m, node, before, index + 1))


def match_(m: Machine, node: ir.Match) -> None:
    subject = m.evaluate(node.subject)
    m.frame.branches += 1
    try:
        _case(m, node, subject, 0)
    finally:
        m.frame.branches -= 1


def _case(m: Machine, node: ir.Match, subject: Value, first: int) -> None:
    """Walks the cases: each where it fits, the following ones where it does not."""
    pending: list[State] = []
    for index in range(first, len(node.cases)):
        case = node.cases[index]
        for name in case.binds:
            m.state.bind(name, subject if case.anything else m.unknown(node))
        condition = _fits(m, node, case, index, subject)
        if case.guard is not None and m.can(condition):
            condition = m.selected(condition, node, partial(m.test, case.guard), lambda: FALSE)
        taken = m.narrowed(condition)
        left = m.narrowed(negation(condition))
        present = m.state
        if taken != FALSE:
            m.state = present.fork(taken)
            m.run(case.body)
            pending.append(m.state)
        m.state = present.fork(left)
        if left == FALSE:
            break
    m.state = m.join([*pending, m.state], node)


def _fits(m: Machine, node: ir.Match, case: ir.Case, index: int, subject: Value) -> Value:
    if case.anything:
        return TRUE
    if case.constants is None:
        return asked(symbol("fits", m.frame.context, node.number, index, *m.frame.rounds))
    found: Value = FALSE
    for part in case.constants:
        constant = m.evaluate(part)
        same = over(m, (subject, constant), lambda two: compare(m, "==", two[0], two[1], node))
        found = either(found, m.truth(same))
    return found


# definitions -----------------------------------------------------------------------------------------------------


def define(m: Machine, node: ir.Define) -> None:
    made = nested(m, node.program)
    key = symbol("defined", m.frame.context, node.number)
    m.frame.defined[key] = made
    m.state.bind(node.program.name, m.decorate(made, node) if node.program.decorators else made)


def define_class(m: Machine, node: ir.DefineClass) -> None:
    m.state.bind(node.name, m.class_here(node))


def import_(m: Machine, node: ir.Import) -> None:
    for name, target in node.bindings:
        m.state.bind(name, m.imported(target))


def global_(m: Machine, node: ir.Global) -> None:
    (m.frame.nonlocals if node.nonlocal_ else m.frame.globals).update(node.names)


RUN: dict[type[ir.Statement], Callable[[Machine, Any], None]] = {
    ir.Evaluate: evaluate,
    ir.Assign: assign,
    ir.AugmentedAssign: augmented,
    ir.Delete: delete,
    ir.Return: return_,
    ir.Raise: raise_,
    ir.Break: violate,
    ir.Continue: continue_,
    ir.Assert: assert_,
    ir.If: if_,
    ir.For: for_,
    ir.While: while_,
    ir.With: with_,
    ir.Try: try_,
    ir.Match: match_,
    ir.Define: define,
    ir.DefineClass: define_class,
    ir.Import: import_,
    ir.Global: global_,
}
