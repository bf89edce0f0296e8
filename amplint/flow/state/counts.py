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
    found = _Names().number(value.symbol)
    if not isinstance(found, Choice) or not any(isinstance(one, Constant) for one in leaves(found)):
        return None
    return found


class _Names:
    """What names stand for. They share parts: each is worked out once."""

    def __init__(self) -> None:
        self._left = MOST_ALTERNATIVES
        self._numbers: dict[Symbol, Value | None] = {}
        self._conditions: dict[Symbol, Condition] = {}

    def number(self, name: Symbol) -> Value | None:
        """The numbers that a name stands for, each with its condition; None if one is no number, or there are many."""
        if name not in self._numbers:
            self._numbers[name] = self._number(name)
        return self._numbers[name]

    def _number(self, name: Symbol) -> Value | None:
        match name.parts:
            case ("joined", Symbol() as first, Symbol() as one, Symbol() as other):
                then = self.number(one)
                otherwise = self.number(other) if then is not None else None
                if then is None or otherwise is None:
                    return None
                return select(self._condition(first), then, otherwise)
        self._left -= 1
        if self._left < 0:
            return None
        match name.parts:
            case ("plain", "Constant", value):
                return Constant(value)
            case ("plain", *_):
                return None
        return Number(name)

    def _condition(self, name: Symbol) -> Condition:
        """The condition that a name stands for."""
        found = self._conditions.get(name)
        if found is None:
            match name.parts:
                case ("if", Symbol() as atom, Symbol() as then, Symbol() as other):
                    found = select(asked(atom), self._condition(then), self._condition(other))
                case (_, Constant() as known):
                    found = known
                case _:
                    raise ValueError(name)
            self._conditions[name] = found
        return found
