"""Numbers that differ by path, and that nobody has told apart so far: ``count``, set to 0 on some paths, is one number
behind them, until it is compared."""

from __future__ import annotations

from amplint.flow.state.conditions import MOST_ALTERNATIVES, Condition, asked, leaves, select
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import Choice, Constant, Number, Unknown, Value

_JOINED = "joined"
_PLAIN = "plain"


def joined(first: Symbol, one: Value, other: Value) -> Symbol:
    """What stands for two plain values of which nobody asks which one it is; ``first`` names the condition under which
    it is the one."""
    return symbol(_JOINED, first, _name_of(one), _name_of(other))


def _name_of(value: Value) -> Symbol:
    if isinstance(value, (Unknown, Number)):
        return value.symbol
    return symbol(_PLAIN, type(value).__name__, value.value if isinstance(value, Constant) else None)


def told_apart(value: Value) -> Choice | None:
    """The numbers of which a value is one, each with its condition: ``0`` or ``count + 1``. None if it is not such a
    number, none of them is known, or there are many."""
    if not isinstance(value, Number) or value.symbol.parts[0] != _JOINED:
        return None
    found = _told_apart(value.symbol, [MOST_ALTERNATIVES])
    if not isinstance(found, Choice) or not any(isinstance(one, Constant) for one in leaves(found)):
        return None
    return found


def _told_apart(name: Symbol, left: list[int]) -> Value | None:
    match name.parts:
        case ("joined", Symbol() as first, Symbol() as one, Symbol() as other):
            then, otherwise = _told_apart(one, left), _told_apart(other, left)
            if then is None or otherwise is None:
                return None
            return select(_condition(first), then, otherwise)
    left[0] -= 1
    if left[0] < 0:
        return None
    match name.parts:
        case ("plain", "Constant", value):
            return Constant(value)
        case ("plain", *_):
            return None
    return Number(name)


def _condition(name: Symbol) -> Condition:
    """The condition that a name stands for."""
    match name.parts:
        case ("if", Symbol() as atom, Symbol() as then, Symbol() as other):
            return select(asked(atom), _condition(then), _condition(other))
        case (_, Constant() as known):
            return known
    raise ValueError(name)
