"""Names for what is not known: a symbol stands for one reading of one unknown, and the same reading is the same
symbol."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b

QUESTIONS = frozenset({"is true", "is None", "equals"})
"""What symbols begin with that ask something about another one."""


class Symbol:
    """An interned tuple, such as ``symbol("attribute", args, "amp")`` for ``args.amp``. Two symbols of the same
    parts are the same object, so that hashing costs nothing however deep the parts go."""

    __slots__ = ("_order", "about", "index", "parts", "rank")

    def __init__(self, parts: tuple[Hashable, ...], index: int) -> None:
        self.parts = parts
        self.index = index
        """Counts symbols in the order in which they came about."""
        about = parts[1] if len(parts) > 1 and parts[0] in QUESTIONS else None
        self.about: Symbol | None = about if isinstance(about, Symbol) else None
        """What a question is about: the answers to several about the same unknown follow from each other."""
        self.rank = ((self.about or self).index << 32) | index
        """By which questions are put in order: those about the same unknown side by side."""
        self._order: str | None = None

    @property
    def order(self) -> str:
        """A text by which symbols are sorted: the same in every run."""
        if self._order is None:
            self._order = _digest(map(_order_of, self.parts))
        return self._order

    def __repr__(self) -> str:
        return "<" + " ".join(map(str, self.parts)) + ">"

    def __reduce__(self) -> tuple[object, tuple[Hashable, ...]]:
        return symbol, self.parts


_STABLE = ("identity", "display", "number", "name", "line", "column")
"""The attributes that tell files, definitions and scopes apart in every run."""
_TREE = ("atom", "then", "other")

_orders: dict[Hashable, str] = {}
_place_of: Callable[[str], str] = str


def name_files(place_of: Callable[[str], str]) -> None:
    """From now on files are called by ``place_of`` what they are called by whoever reports findings: the same wherever
    the project lies, so that the order of symbols is the same there, too."""
    global _place_of
    _place_of = place_of


def _order_of(part: object) -> str:
    """The same of equal parts in every run: no address in memory, and each node of a tree once however often it is
    shared."""
    if isinstance(part, Symbol):
        return part.order
    kind = type(part).__name__
    if isinstance(part, str):
        return f"{kind}:{_place_of(part)!r}"
    if isinstance(part, tuple):
        return _digest((kind, *map(_order_of, part)))
    if isinstance(part, frozenset):
        return _digest((kind, *sorted(map(_order_of, part))))
    if isinstance(part, Enum) or type(part).__module__ == "builtins" or part.__hash__ is None:
        return f"{kind}:{part!r}"
    found = _orders.get(part)
    if found is None:
        if is_dataclass(part) and type(part).__eq__ is not object.__eq__:
            names: tuple[str, ...] = tuple(field.name for field in fields(part) if field.compare)
        else:
            names = _TREE if hasattr(part, "atom") else _STABLE
        found = _digest((kind, *(_order_of(getattr(part, name, None)) for name in names)))
        _orders[part] = found
    return found


def _digest(texts: Iterable[str]) -> str:
    return blake2b("|".join(texts).encode(errors="replace"), digest_size=12).hexdigest()


COMPUTED = "computed"
"""How symbols begin of what an operator gives: ``symbol(COMPUTED, "*", left, right)``."""
OR = "or"
"""How symbols begin of what is used unless it is false, with what is used then: ``symbol(OR, left, right)``."""
NUMBER = "number"
"""How the name of a number is marked that was computed with something unknown."""
DATA = "data"
"""How symbols begin of what files of settings hold: ``symbol(DATA, at)``."""
AT = "at"
"""How symbols begin of what comes about at a node: ``symbol(AT, context, node, *rounds)``, with the numbers of the
rounds of the loops around it."""
LOST = "one of"
"""How symbols begin of one of several values that were too many to be told apart, some of them more than data."""
LOST_OBJECT = "one of objects"
"""The same where those are objects, or of the kinds that follow: ``symbol(LOST_OBJECT, over, "module")``."""
ONE_OF_MANY = "one of many"
"""Marks the symbol of what a loop takes out of a collection that is not known: another one in each round."""

_interned: dict[tuple[Hashable, ...], Symbol] = {}


def symbol(*parts: Hashable) -> Symbol:
    """The symbol of these parts: strings, numbers, symbols or values. Booleans are told from numbers."""
    key = parts
    for part in parts:
        if type(part) in _EQUAL_TO_INTEGERS:
            key = tuple((type(part), part) if type(part) in _EQUAL_TO_INTEGERS else part for part in parts)
            break
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = Symbol(parts, len(_interned))
    return found


_EQUAL_TO_INTEGERS = frozenset({bool, float})


@lru_cache(maxsize=4096)
def is_one_of_many(name: Symbol) -> bool:
    """Whether a symbol stands for another object in each round of a loop."""
    return any(ONE_OF_MANY in one.parts for one in (name, *made_from(name)))


@lru_cache(maxsize=4096)
def is_of_a_round(name: Symbol) -> bool:
    """Whether a symbol stands for something else in each round of a loop: one of many, or what came about there."""
    parts = (name, *made_from(name))
    return is_one_of_many(name) or any(one.parts[0] == AT and len(one.parts) > 3 for one in parts)


def made_from(whole: Hashable) -> set[Symbol]:
    """The symbols that the name of an unknown is made from, as that of ``model.head`` from ``model``."""
    found: set[Symbol] = set()
    pending = [whole]
    while pending:
        part = pending.pop()
        inner = part.parts if isinstance(part, Symbol) else ()
        new = {one for one in inner if isinstance(one, Symbol)} - found
        found |= new
        pending += new
    return found


def is_made_from_lost(name: Symbol, beside: frozenset[str] = frozenset()) -> bool:
    """Whether a value is, or was computed from, one of several that could not be told apart; objects, and what is of
    the kinds ``beside``, do not count."""
    for one in (name, *made_from(name)):
        if one.parts[0] == LOST or (one.parts[0] == LOST_OBJECT and not beside.issuperset(one.parts[2:])):
            return True
    return False
