"""Targets: what ``a.b = value``, ``a[b] = value`` and ``a, b = value`` bind."""

from __future__ import annotations

from functools import partial

from amplint.flow.core.api import Dead
from amplint.flow.core.expressions import over, without_masks
from amplint.flow.core.machine import Machine
from amplint.flow.state.values import NONE, Sequence, Value
from amplint.lowering import program as ir


def bind(m: Machine, target: ir.Expression, value: Value) -> None:
    """Binds a target to a value."""
    match target:
        case ir.Name():
            m.set_name(target, value)
        case ir.Attribute():
            base = m.evaluate(target.value)

            def into(one: Value) -> Value:
                m.set_attribute(one, target.name, value, target)
                return NONE

            m.each(base, into)
        case ir.Subscript():
            m.meet(target, value)
            base = m.evaluate(target.value)
            keys = tuple(m.evaluate(key) for key in target.keys)

            def at(two: tuple[Value, ...]) -> Value:
                m.set_item(two[0], two[1:-1], two[-1], target)
                return NONE

            def within(one: Value) -> Value:
                return over(m, (one, *without_masks(m, one, keys, target.keys), value), at)

            m.each(base, within)
        case ir.Display():
            for element, part in zip(target.elements, _parts(m, target, value), strict=True):
                bind(m, element.value if isinstance(element, ir.Starred) else element, part)


def _parts(m: Machine, target: ir.Display, value: Value) -> list[Value]:
    """The values of the elements of ``a, b = value``, each a choice where the value is one."""
    return [m.each(value, partial(_part, m, target, index)) for index in range(len(target.elements))]


def _part(m: Machine, target: ir.Display, index: int, value: Value) -> Value:
    value = m.contents(value)
    element = target.elements[index]
    starred = any(isinstance(part, ir.Starred) for part in target.elements)
    count = len(target.elements)
    if isinstance(value, Sequence) and value.exact and not starred:
        if len(value.items) == count:
            return value.items[index]
        raise Dead
    if isinstance(value, Sequence) and starred and value.exact:
        position = next(i for i, part in enumerate(target.elements) if isinstance(part, ir.Starred))
        after = count - position - 1
        if index < position:
            return value.items[index] if index < len(value.items) else m.unknown(element)
        if index > position:
            return value.items[index - count] if len(value.items) >= count - 1 else m.unknown(element)
        return Sequence(value.items[position : len(value.items) - after])
    if isinstance(value, Sequence) and index < value.prefix:
        return value.items[index]
    if isinstance(element, ir.Starred):
        return m.unknown(element)
    return m.part(value, index, count, element)
