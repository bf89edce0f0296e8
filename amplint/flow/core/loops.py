"""Loops: which rounds are walked, and with what.

A short collection is walked item by item, so that a list is known which its rounds fill; of any other loop two rounds
stand for all, and there is one at least if anything happens in it: nobody trains on nothing. Several objects in no
known order are walked one by one, too: what lies between them is hidden where the order matters.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from amplint.flow.core.displays import lose_order
from amplint.flow.core.machine import Machine
from amplint.flow.state.conditions import negation
from amplint.flow.state.short import MOST_ITEMS, are_several, is_short, with_keys
from amplint.flow.state.store import State
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    NONE,
    Constant,
    Instance,
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


def for_(m: Machine, node: ir.For) -> None:
    source = m.each(m.evaluate(node.source), lambda one: with_keys(m.contents(one), one))

    def walk(value: Value) -> Value:
        held = m.contents(value)
        if isinstance(held, Sequence) and _is_unordered(held):
            _in_any_order(m, node, held)
        else:
            _loop(m, node, held)
        return NONE

    m.each(source, lambda one: m.each(m.told_apart(one), walk))


def _is_unordered(source: Sequence) -> bool:
    """Whether a collection holds several objects, all of which are known, but not their order."""
    known = all(isinstance(item, Instance) for item in source.items)
    return not source.exact and known and are_several(source.items) and is_short(source.items)


def _in_any_order(m: Machine, node: ir.For, source: Sequence) -> None:
    """``for hook in sorted(hooks, key=order)``: they are walked one by one. Where it matters in which order, what lies
    before and behind each of them is not known."""
    marks: list[tuple[int, int]] = []
    _loop(m, node, Sequence(source.items), marks)
    happened = m.frame.graph.items
    rounds = [happened[end:start] for (_, end), (start, _) in pairwise(marks)]
    if not m.registry.hooks.depend_on_order(rounds):
        for start, end in reversed(marks):
            del happened[start:end]


def _mark(m: Machine, node: ir.Node, marks: list[tuple[int, int]] | None) -> None:
    """Tells that code may have run that is not known, and where this stands among what happens."""
    if marks is not None and not m.dead():
        start = len(m.frame.graph.items)
        m.on_each(partial(m.registry.hooks.out_of_order, m, node))
        marks.append((start, len(m.frame.graph.items)))


def while_(m: Machine, node: ir.While) -> None:
    _loop(m, node, None)


def _loop(
    m: Machine, node: ir.For | ir.While, source: Value | None, marks: list[tuple[int, int]] | None = None
) -> None:
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
    passed = [m.state.fork()] if items is None and isinstance(node, ir.For) else []
    returned = len(frame.returns)
    if items is None:
        _forget_counters(m, node.body, node)
    leaving: list[State] = []
    happens = False
    for number in range(rounds):
        _mark(m, node, marks)
        frame.rounds = (*saved[3], number)
        if apart:  # what a round makes of its item is not what another one makes
            frame.context = symbol("item", context, node.number, number)
        m.on_each(partial(m.registry.hooks.iterated, m, number, node))
        if isinstance(node, ir.While):
            _stay(m, node, leaving if number else passed)
        else:
            item = items[number] if items is not None else None
            m.attempt(partial(_take, m, node, source, item))
        before = len(frame.graph.items)
        if not m.dead():
            m.run(node.body)
        happens = happens or len(frame.graph.items) > before
        m.state = m.join([m.state, *frame.continues], node)
        frame.continues = []
        if m.dead():
            break
    broken, exits = frame.breaks, leaving
    if not happens and isinstance(node, ir.While):
        exits += passed
    endless = isinstance(node, ir.While) and isinstance(node.test, ir.LiteralNode) and bool(node.test.value)
    if not endless or not (exits or broken):
        exits.append(m.state)
    frame.breaks, frame.continues, frame.branches, frame.rounds, frame.loops = saved
    frame.context = context
    m.state = m.join(exits, node)
    if node.other and not m.dead():
        m.run(node.other)  # what was left by break does not get here
    m.state = m.join([m.state, *broken], node)
    if m.dead() and passed and (len(frame.returns) == returned or isinstance(node, ir.While)):
        m.state = passed[0]  # each round raises: what comes next is for collections without items
    _mark(m, node, marks)
    counted = isinstance(source, Iteration) and source.rounds is not None and source.rounds <= ROUNDS
    if items is None and not counted and not m.dead():
        lose_order(m, source, node)
        m.on_each(partial(m.registry.hooks.ended, m, node))


def _forget_counters(m: Machine, body: ir.Block, node: ir.For | ir.While) -> bool:
    """Takes the numbers that each round of a loop counts on for unknown from its first round on: the rounds that are
    walked stand for all. What only some rounds count on tells what has happened: it is 0 before. False if a round may
    have ended by now."""
    for statement in body:
        if _goes_on(statement) or (
            isinstance(statement, ir.With) and not _forget_counters(m, statement.body, node)
        ):
            return False
        if (
            isinstance(statement, ir.AugmentedAssign)
            and isinstance(statement.target, ir.Name)
            and isinstance(statement.value, ir.LiteralNode)
        ):
            name = statement.target.id
            if is_number(m.state.names.get(name, NONE)):
                m.state.bind(name, Number(symbol("counter", m.frame.context, node.number, name)))
    return True


def _goes_on(statement: ir.Statement) -> bool:
    """Whether a statement may go on with the next round of the loop that it is in."""
    match statement:
        case ir.Continue():
            return True
        case ir.For() | ir.While():
            blocks = [statement.other]
        case ir.If():
            blocks = [statement.body, statement.other]
        case ir.Try():
            handled = [handler.body for handler in statement.handlers]
            blocks = [statement.body, *handled, statement.other, statement.last]
        case ir.Match():
            blocks = [case.body for case in statement.cases]
        case _:
            return False
    return any(_goes_on(part) for block in blocks for part in block)


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
    drawn = m.iterate(source, node.source)
    if isinstance(drawn, Unknown):
        # collections of objects seldom hold None, and code that expects it asks: that way is not walked
        m.exists(drawn)
    return drawn


def is_number(value: Value) -> bool:
    """Whether a value is a number that is known."""
    return isinstance(value, Constant) and type(value.value) in (int, float)
