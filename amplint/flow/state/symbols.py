"""Names for what is not known: a symbol stands for one reading of one unknown, and the same reading is the same
symbol."""

from __future__ import annotations

from collections.abc import Hashable
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
            text = "|".join(
                part.order if isinstance(part, Symbol) else f"{type(part).__name__}:{part!r}"
                for part in self.parts
            )
            self._order = blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()
        return self._order

    def __repr__(self) -> str:
        return "<" + " ".join(map(str, self.parts)) + ">"

    def __reduce__(self) -> tuple[object, tuple[Hashable, ...]]:
        return symbol, self.parts


COMPUTED = "computed"
"""How symbols begin of what an operator gives: ``symbol(COMPUTED, "*", left, right)``."""
NUMBER = "number"
"""How the name of a number is marked that was computed with something unknown."""

_interned: dict[tuple[Hashable, ...], Symbol] = {}


def symbol(*parts: Hashable) -> Symbol:
    """The symbol of these parts: strings, numbers, symbols or values. Booleans are told from numbers."""
    key = tuple((type(part), part) if isinstance(part, (bool, int, float)) else part for part in parts)
    found = _interned.get(key)
    if found is None:
        found = _interned[key] = Symbol(parts, len(_interned))
    return found


def rooted(whole: Symbol, old: Symbol, new: Symbol) -> Symbol:
    """A symbol with ``new`` in place of ``old`` wherever that occurs in it."""
    if whole is old:
        return new
    parts = tuple(rooted(part, old, new) if isinstance(part, Symbol) else part for part in whole.parts)
    return whole if all(a is b for a, b in zip(parts, whole.parts, strict=True)) else symbol(*parts)


def is_part(one: Hashable, whole: Hashable) -> bool:
    """Whether the name of one unknown is made from that of another one, as that of ``model.head`` from ``model``."""
    pending = [one]
    while pending:
        part = pending.pop()
        if isinstance(part, Symbol):
            if whole in part.parts:
                return True
            pending += part.parts
    return False
