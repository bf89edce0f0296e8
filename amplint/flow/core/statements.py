"""Statements: order, branches, ``with``, ``try`` and assignments.

Whether what a ``try`` guards raises is a question that nothing answers. A handler is judged as before the guarded code
and, if that does something in a loop, as after it, too; what follows is judged as after the guarded code, if that does
anything for the rule: an exception that may never come makes no claim.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from amplint.flow.core.api import Arguments
from amplint.flow.core.comparisons import compare
from amplint.flow.core.expressions import arithmetic, nested, over
from amplint.flow.core.loops import for_, is_number, while_
from amplint.flow.core.machine import Defined, Machine
from amplint.flow.state.atoms import is_about_data
from amplint.flow.state.conditions import Condition, asked, atoms, both, either, narrowing, negation
from amplint.flow.state.graph import repeats
from amplint.flow.state.store import Ambient, State
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    Constant,
    Decorated,
    External,
    FunctionValue,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering import program as ir

Marks = tuple[int, int, int]
"""How many returns, breaks and continues there were."""


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


def _augmented(m: Machine, node: ir.AugmentedAssign, left: Value, right: Value) -> Value:
    if m.in_loop and is_number(left) and is_number(right):
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
    condition = m.test(node.test)
    if condition == FALSE or not all(map(is_about_data, atoms(condition))):  # data is as the code expects it
        m.assume(condition)
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


def _marks(m: Machine) -> Marks:
    frame = m.frame
    return len(frame.returns), len(frame.breaks), len(frame.continues)


def _on_exits(m: Machine, marks: Marks, action: Callable[[], None]) -> None:
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
        raised = asked(symbol("raised", m.frame.context, node.number, *m.frame.rounds_around))
        m.frame.branches += 1
        m.branch(negation(raised), node, lambda: _tried(m, node), lambda: _handled(m, node, 0))
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
    marks, done = _marks(m), len(m.frame.graph.items)
    known = m.frame.tried
    m.frame.tried = known or any(
        handler.kind is not None and _catches_wrong_calls(handler.kind, _BY_NAME) for handler in node.handlers
    )
    try:
        m.run(node.body)
    finally:
        m.frame.tried = known
    if repeats(m.frame.graph.items[done:]):
        _interrupt(m, node, marks)
    if not m.dead():
        m.run(node.other)


def _interrupt(m: Machine, node: ir.Try, marks: Marks) -> None:
    """Walks the handlers from the end of what was tried, too: an exception ends a loop in a late round as well as in
    the first one. What follows is not done on that way."""
    frame = m.frame
    late = asked(symbol("raised", frame.context, node.number, "late", *frame.rounds_around))
    ends = [*(state for state, _ in frame.returns[marks[0] :]), m.state]
    frame.returns[marks[0] :] = [
        (_where(state, negation(late)), value) for state, value in frame.returns[marks[0] :]
    ]
    passed = _where(m.state, negation(late))
    exits = _marks(m)
    m.state = m.join([_where(state, late) for state in ends], node)
    if not m.dead():
        m.attempt(lambda: _handled(m, node, 0))
    del frame.returns[exits[0] :], frame.breaks[exits[1] :], frame.continues[exits[2] :]
    m.state = passed


def _where(state: State, condition: Condition) -> State:
    """A state on those of its paths on which a condition holds."""
    return state.fork(narrowing(state.condition, condition))


def _handled(m: Machine, node: ir.Try, index: int) -> None:
    """The handlers, one of which runs."""
    handler = node.handlers[index]

    def run() -> None:
        if handler.name is not None:
            m.state.bind(handler.name, m.unknown(node))
        known = m.frame.fallback
        m.frame.fallback = known or _catches_wrong_calls(handler.kind)
        try:
            m.run(handler.body)
        finally:
            m.frame.fallback = known

    if index + 1 == len(node.handlers):
        run()
        return
    this = asked(symbol("handler", m.frame.context, node.number, index, *m.frame.rounds_around))
    m.branch(this, node, run, lambda: _handled(m, node, index + 1))


_BY_NAME = frozenset({"TypeError"})
_WRONG_CALLS = _BY_NAME | {"Exception", "BaseException"}


def _catches_wrong_calls(kind: ir.Expression | None, names: frozenset[str] = _WRONG_CALLS) -> bool:
    """Whether a handler, of one of these exceptions, runs where a call has been given arguments that its function does
    not take."""
    match kind:
        case None:
            return True
        case ir.Name(id=name):
            return name in names
        case ir.Display(elements=elements):
            return any(_catches_wrong_calls(element, names) for element in elements)
    return False


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
        return asked(symbol("fits", m.frame.context, node.number, index, *m.frame.rounds_around))
    found: Value = FALSE
    for part in case.constants:
        constant = m.evaluate(part)
        same = over(m, (subject, constant), lambda two: compare(m, "==", two[0], two[1], node))
        found = either(found, m.truth(same))
    return found


# definitions -----------------------------------------------------------------------------------------------------


def define(m: Machine, node: ir.Define) -> None:
    made = nested(m, node.program)
    value = m.decorate(made, node) if node.program.decorators else made
    called = value if isinstance(value, (FunctionValue, Decorated)) else made
    key = symbol("defined", m.frame.context, node.number)
    m.frame.defined[key] = Defined(node.program, made.file, called)
    m.state.bind(node.program.name, value)


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
