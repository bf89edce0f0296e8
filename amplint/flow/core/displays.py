"""Displays of lists, tuples, sets and dicts, and comprehensions."""

from __future__ import annotations

from collections.abc import Sequence as Sequence_
from functools import partial

from amplint.flow.core.api import Arguments
from amplint.flow.core.machine import Machine
from amplint.flow.state.conditions import Condition, apply, both, leaves, select, within
from amplint.flow.state.short import MOST_ITEMS, are_several, by_path, is_short, where_there, with_keys
from amplint.flow.state.symbols import ONE_OF_MANY, symbol
from amplint.flow.state.values import (
    FALSE,
    TRUE,
    UNBOUND,
    ClassValue,
    Constant,
    Instance,
    Mapping,
    Number,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering import program as ir

MOST_OPEN = 2
"""Of so many items of a list it may be open whether they are in it: all such lists are told apart."""


_KINDS = {"list": list, "set": set, "tuple": tuple}


def display(m: Machine, node: ir.Display) -> Value:
    items: list[Value] = []
    exact = node.kind != "set"
    prefix = 0
    for element in node.elements:
        if isinstance(element, ir.Starred):
            value = m.contents(m.evaluate(element.value))
            if isinstance(value, Sequence) and value.exact:
                items.extend(value.items)
                continue
            if exact:
                items.extend(value.items[: value.prefix] if isinstance(value, Sequence) else ())
                prefix = len(items)
            exact = False
            items.append(m.each(value, partial(_item_of, m, element)))
        else:
            items.append(m.evaluate(element))
    identity = m.fresh_display(node) if node.kind == "list" else None
    return _kept(m, Sequence(tuple(items), exact, prefix, identity, kind=_KINDS.get(node.kind)))


def dict_display(m: Machine, node: ir.DictDisplay) -> Value:
    items: list[tuple[object, Value]] = []
    rest: list[Value] = []
    for key_node, value_node in node.items:
        if key_node is None:
            _spread(m, items, rest, value_node)
            continue
        key = m.evaluate(key_node)
        value = m.evaluate(value_node)
        if isinstance(key, Constant):
            items.append((key.value, value))
        else:
            rest.append(value)
    return _kept(m, Mapping(tuple(items), tuple(rest), m.fresh_display(node), m.place(node)))


def _spread(m: Machine, items: list[tuple[object, Value]], rest: list[Value], node: ir.Expression) -> None:
    """``{"loss": loss, **metrics}``. Of several dicts that it may be, all keys, each where its dict is that one."""
    inner = apply(m.contents, m.evaluate(node))
    known = [one for one in leaves(inner) if isinstance(one, Mapping)]
    if not all(isinstance(one, Mapping) for one in leaves(inner)):
        rest.append(m.unknown(node))
        return
    before = Mapping(tuple(items))
    for name in dict.fromkeys(name for one in known for name, _ in one.items):
        items.append((name, apply(partial(_under, name, before.get(name) or UNBOUND), inner)))
    rest.extend(value for one in known for value in one.rest)


def _under(name: object, before: Value, one: Value) -> Value:
    """What a dict puts under a name, or what was there before."""
    found = one.get(name) if isinstance(one, Mapping) else None
    return before if found is None else apply(partial(_or_before, before), found)


def _kept(m: Machine, value: Sequence | Mapping) -> Value:
    """A list or dict, whose contents are in the store from now on."""
    if value.identity is not None:
        m.store(value.identity, "[]", value)
    return value


def comprehension(m: Machine, node: ir.Comprehension) -> Value:
    source = m.told_apart(
        m.each(m.evaluate(node.clauses[0].source), lambda one: with_keys(m.contents(one), one))
    )
    rows = list(leaves(apply(_row_of_keys, source)))
    if 1 < len(rows) <= MOST_ITEMS and (all(map(_is_exact, rows)) or not any(map(_is_plain, rows))):
        return m.each(source, lambda one: _comprehended(m, node, _row_of_keys(m.contents(one))))
    return _comprehended(m, node, apply(_row_of_keys, m.contents(source)))


def _is_exact(row: Value) -> bool:
    return isinstance(row, Sequence) and row.exact


def _is_plain(row: Value) -> bool:
    """Whether it is a collection of Python, or nothing is known of it: no parameters of a module, for example."""
    return isinstance(row, (Sequence, Mapping, Unknown, Number))


def _row_of_keys(source: Value) -> Value:
    """A dict all of whose keys are known as these keys: ``for name in groups``."""
    if not isinstance(source, Mapping) or source.rest:
        return source
    return Sequence(tuple(Constant(key) for key in dict.fromkeys(key for key, _ in source.items)))


def _comprehended(m: Machine, node: ir.Comprehension, source: Value) -> Value:
    bound = dict(m.state.names)
    simple = len(node.clauses) == 1
    rounds, loops, context = m.frame.rounds, m.frame.loops, m.frame.context
    results: list[Value] = []
    keys: list[Value] = []
    rows = _rows(source) if simple else None
    exact = rows is not None
    sometimes = 0
    try:
        if rows is not None:
            for number, row in enumerate(rows):
                m.frame.rounds = (*rounds, number)
                m.frame.context = symbol("item", context, node.number, number)
                there = where_there(row)
                m.assign(node.clauses[0].target, within(row, there))
                wanted = _wanted(m, there, node.clauses[0].tests)
                if wanted == FALSE:
                    continue
                _element(m, node, keys, results)
                if wanted != TRUE:
                    exact = False
                    sometimes += 1
                    results[-1] = select(wanted, within(results[-1], wanted), UNBOUND)
        else:
            lose_order(m, source, node)
            m.frame.loops += 1
            m.frame.rounds = (*rounds, -1)
            m.frame.context = symbol(ONE_OF_MANY, context)
            for index, clause in enumerate(node.clauses):
                over_ = source if not index else m.contents(m.evaluate(clause.source))
                m.assign(clause.target, m.each(over_, partial(_item_of, m, clause.source)))
                for test in clause.tests:
                    m.test(test)
            _element(m, node, keys, results)
            lose_order(m, source, node)
    finally:
        m.frame.rounds, m.frame.loops, m.frame.context = rounds, loops, context
    _restore(m, bound, node)
    if node.kind == "dict":
        return _dict_of(m, keys, results, node)
    found = tuple(within(result, where_there(result)) for result in results)
    if node.kind != "list":
        return Sequence(found, exact and node.kind != "set")
    identity = m.fresh_display(node)
    made = Sequence(found, exact, identity=identity)
    if 0 < sometimes <= MOST_OPEN:
        m.store(identity, "[]", by_path(tuple(results), lambda items: Sequence(items, identity=identity)))
        return made
    return _kept(m, made)


def _rows(source: Value) -> tuple[Value, ...] | None:
    """What a comprehension goes through item by item, UNBOUND on the paths that lack it; None if nobody knows."""
    if not isinstance(source, Sequence):
        return None
    rows = source.items if source.exact else source.rows
    return rows if (source.exact or rows) and is_short(rows) else None


def lose_order(m: Machine, source: Value | None, node: ir.Node) -> None:
    """What objects do that are gone through in an order that is not known, ``for hook in sorted(hooks, key=order)``,
    is code that is not known further if more than one class of them does anything."""
    if isinstance(source, Sequence) and len({one.made_of for one in _busy(m, source)}) > 1:
        m.opaque(Arguments(), node)


def _busy(m: Machine, source: Sequence) -> list[Instance]:
    """The objects of a collection of several that have methods with effects."""
    parts = [leaf for item in source.items for leaf in leaves(item)] if are_several(source.items) else []
    return [
        part
        for part in parts
        if isinstance(part, Instance) and part.made_of is not None and _has_effects(m, part.made_of)
    ]


def _has_effects(m: Machine, value: ClassValue) -> bool:
    """Whether a method of a class has effects, apart from its constructor."""
    bases = [base for base in m.bases(value) if isinstance(base, ClassValue)]
    names = {name for base in (value, *bases) for name in base.outline.methods if name != "__init__"}
    methods = [m.find_method(value, name) for name in names]
    return any(method is not None and m.has_effects(method) for method in methods)


def _wanted(m: Machine, there: Condition, tests: Sequence_[ir.Expression]) -> Condition:
    """The condition under which an item is there and passes the tests of a comprehension."""
    outcome = there
    for test in tests:
        outcome = both(outcome, m.test(test))
        if m.known_truth(outcome) is False:
            return FALSE
    return TRUE if m.known_truth(outcome) else outcome


def _element(m: Machine, node: ir.Comprehension, keys: list[Value], results: list[Value]) -> None:
    if node.key is not None:
        keys.append(m.evaluate(node.key))
    results.append(m.evaluate(node.element))


def _restore(m: Machine, names: dict[str, Value], node: ir.Comprehension) -> None:
    """Takes the names of a comprehension's targets back; what a walrus in it has set stays."""
    targets = {part.id for clause in node.clauses for part in _names_in(clause.target)}
    for name_ in targets:
        if name_ in names:
            m.state.bind(name_, names[name_])
        else:
            m.unbind(name_)


def _names_in(target: ir.Expression) -> list[ir.Name]:
    match target:
        case ir.Name():
            return [target]
        case ir.Display():
            return [name_ for element in target.elements for name_ in _names_in(element)]
        case ir.Starred():
            return _names_in(target.value)
    return []


def _dict_of(m: Machine, keys: list[Value], values: list[Value], node: ir.Comprehension) -> Value:
    items: dict[object, Value] = {}
    rest = []
    for key, value in zip(keys, values, strict=True):
        if isinstance(key, Constant):
            before = items.get(key.value, UNBOUND)
            items[key.value] = apply(partial(_or_before, before), value)
        else:
            rest.append(within(value, where_there(value)))
    return _kept(m, Mapping(tuple(items.items()), tuple(rest), m.fresh_display(node), m.place(node)))


def _or_before(before: Value, leaf: Value) -> Value:
    return before if leaf == UNBOUND else leaf


def _item_of(m: Machine, node: ir.Node, one: Value) -> Value:
    return m.iterate(one, node)
