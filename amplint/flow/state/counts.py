"""Numbers that differ by path, and that nobody has told apart so far: ``count``, set to 0 on some paths, is one number
behind them, until it is compared."""

from __future__ import annotations

from amplint.flow.state.conditions import MOST_ALTERNATIVES, Condition, asked, leaves, select
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import Choice, Constant, Number, Unknown, Value

JOINED = "joined"
"""How symbols begin of two values of which nobody asks which one it is: ``symbol(JOINED, first, one, other)``."""
PLAIN = "plain"
"""How the names of constants and the like begin there: ``symbol(PLAIN, "Constant", 0.5)``."""


def joined(first: Symbol, one: Value, other: Value) -> Symbol:
    """What stands for two plain values of which nobody asks which one it is; ``first`` names the condition under which
    it is the one."""
    return symbol(JOINED, first, _name_of(one), _name_of(other))


def _name_of(value: Value) -> Symbol:
    if isinstance(value, (Unknown, Number)):
        return value.symbol
    return symbol(PLAIN, type(value).__name__, value.value if isinstance(value, Constant) else None)


def told_apart(value: Value) -> Choice | None:
    """The numbers of which a value is one, each with its condition: ``0`` or ``count + 1``. None if it is not such a
    number, none of them is known, or there are many."""
    if not isinstance(value, Number) or value.symbol.parts[0] != JOINED:
        return None
    if _number_of_leaves(value.symbol, {}) > MOST_ALTERNATIVES:
        return None
    found = _told_apart(value.symbol, {})
    if not isinstance(found, Choice) or not any(isinstance(one, Constant) for one in leaves(found)):
        return None
    return found


def _number_of_leaves(name: Symbol, known: dict[Symbol, int]) -> int:
    """How many numbers the tree has for which a name stands: its parts are shared, and it may be far too large to be
    gone through."""
    if name not in known:
        match name.parts:
            case ("joined", Symbol(), Symbol() as one, Symbol() as other):
                known[name] = _number_of_leaves(one, known) + _number_of_leaves(other, known)
            case _:
                known[name] = 1
    return known[name]


def _told_apart(name: Symbol, conditions: dict[Symbol, Condition]) -> Value | None:
    match name.parts:
        case ("joined", Symbol() as first, Symbol() as one, Symbol() as other):
            then, otherwise = _told_apart(one, conditions), _told_apart(other, conditions)
            if then is None or otherwise is None:
                return None
            return select(_condition(first, conditions), then, otherwise)
        case ("plain", "Constant", value):
            return Constant(value)
        case ("plain", *_):
            return None
    return Number(name)


def _condition(name: Symbol, known: dict[Symbol, Condition]) -> Condition:
    """The condition that a name stands for. Names share parts: each is worked out once."""
    found = known.get(name)
    if found is None:
        match name.parts:
            case ("if", Symbol() as atom, Symbol() as then, Symbol() as other):
                found = select(asked(atom), _condition(then, known), _condition(other, known))
            case (_, Constant() as constant):
                found = constant
            case _:
                raise ValueError(name)
        known[name] = found
    return found
