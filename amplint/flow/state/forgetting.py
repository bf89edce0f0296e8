"""Conditions that grow too large.

They forget answers, but never what tells the two sides of a branch apart, nor what is behind a point from what is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice

from amplint.flow.state.conditions import WORKED_OUT, Condition, asked, atoms, both, either, negation, without
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import FALSE, TRUE, Choice

MOST_ASKED = 128
"""A condition under which something happens is made of so many atoms."""
MOST_NODES = 2048
"""A condition under which something happens has so many nodes."""
_ARBITRARY = frozenset({"apart", "raised", "handler", "item", "fits", "set by"})
"""Atoms that nobody asks for a second time."""
_REACHED = "reached"
"""How atoms begin that stand for a whole condition, since some of it was forgotten: ``symbol(_REACHED, 1, digest)``.
The number is 2 where such an atom is a part of the condition, and so on."""

_forgotten = 0
_bounded_kept: dict[tuple[Condition, int], Condition] = {}
_small: dict[int, bool] = {}
_digests: dict[int, str] = {}
_left_of: dict[Symbol, Condition] = {}
"""For an atom that stands for a whole condition: what is left of the condition beside it."""
WORKED_OUT += [_bounded_kept, _small, _digests, _left_of]


def forgotten() -> int:
    """How often something was left out of a condition so far, which holds more often since."""
    return _forgotten


def bounded(condition: Condition, most: int = MOST_ASKED) -> Condition:
    """A condition with at most so many atoms, and with few nodes, that holds where this one does. One of the atoms
    stands for all of it: a path that is not here comes to nothing behind it, though nobody knows any more why not."""
    global _forgotten
    if not isinstance(condition, Choice) or _asks_few(condition, most):
        return condition
    _forgotten += 1
    found = _bounded_kept.get((condition, most))
    if found is None:
        ranked = _ranked(condition.atoms, most // 2)
        kept = max(min(most, len(ranked)) - 1, 0)
        found = without(condition, frozenset(ranked[kept:]))
        while not _is_small(found):
            fewer = max(kept - 4, 0)
            found = without(found, frozenset(ranked[fewer:kept]))
            kept = fewer
        if most:
            depth = 1 + max(map(_depth, condition.atoms))
            whole = symbol(_REACHED, depth, _digest(condition))
            _left_of[whole] = found
            found = both(found, asked(whole))
        _bounded_kept[condition, most] = found
    return found


def otherwise(condition: Condition) -> Condition:
    """Where a condition does not hold. An atom that stands for a whole condition holds only where what is left of that
    does."""
    found = negation(condition)
    for whole in _reached(atoms(condition)):
        narrower = both(found, either(negation(asked(whole)), _left_of.get(whole, TRUE)))
        found = narrower if _is_small(narrower) else found
    return found


def _digest(condition: Condition) -> str:
    """A text that is the same of equal conditions in every run, and holds none of their nodes in memory."""
    if not isinstance(condition, Choice):
        return repr(condition)
    found = _digests.get(condition.number)
    if found is None:
        parts = (condition.atom.order, _digest(condition.then), _digest(condition.other))
        found = blake2b("|".join(parts).encode(), digest_size=12).hexdigest()
        _digests[condition.number] = found
    return found


def _depth(atom: Symbol) -> int:
    """How many conditions one in another an atom stands for: 0 for a question."""
    return atom.parts[1] if atom.parts[0] == _REACHED and isinstance(atom.parts[1], int) else 0


def _reached(atoms: Iterable[Symbol]) -> list[Symbol]:
    """Those that stand for conditions, the latest ones first."""
    return sorted(filter(_depth, atoms), key=lambda atom: (-_depth(atom), atom.order))


def _ranked(atoms: Iterable[Symbol], most: int) -> list[Symbol]:
    """Atoms in the order in which they are worth keeping: first those that stand for conditions, at most so many."""
    reached = _reached(atoms)
    asked_for = (atom for atom in atoms if not _depth(atom))
    others = sorted(asked_for, key=lambda atom: (atom.parts[0] in _ARBITRARY, atom.order))
    return [*reached[:most], *others, *reached[most:]]


def settled(condition: Condition, most: int) -> Condition:
    """A condition that holds only where this one does, with at most so many questions that may come out either way: of
    the others one outcome is taken, that they hold if that is possible."""
    ranked = sorted(atoms(condition), key=lambda atom: (atom.parts[0] in _ARBITRARY, atom.order))
    for atom in ranked[most:]:
        taken = both(condition, asked(atom))
        condition = taken if taken != FALSE else condition
    return condition


def narrowing(before: Condition, condition: Condition) -> Condition:
    """``before and condition``. Where that is too large, something of ``before`` is given up: the two sides of a branch
    exclude each other, whatever else is forgotten."""
    global _forgotten
    found, room = both(before, condition), MOST_ASKED
    while not _asks_few(found, MOST_ASKED):
        _forgotten += 1
        room -= 4
        if room <= 0:
            return bounded(condition)
        found = both(bounded(before, room), condition)
    return found


def _asks_few(condition: Condition, most: int) -> bool:
    """Whether a condition has no more than so many atoms, and few nodes."""
    if type(condition) is not Choice or condition.size <= min(most, MOST_NODES):
        return True
    return len(condition.atoms) <= most and _is_small(condition)


def _is_small(condition: Condition) -> bool:
    """Whether a condition has no more than MOST_NODES nodes."""
    if type(condition) is not Choice or condition.size <= MOST_NODES:
        return True
    found = _small.get(condition.number)
    if found is None:
        found = _small[condition.number] = (
            sum(1 for _ in islice(_nodes_of(condition), MOST_NODES + 1)) <= MOST_NODES
        )
    return found


def _nodes_of(condition: Condition) -> Iterator[Choice]:
    seen: set[int] = set()
    pending = [condition]
    while pending:
        part = pending.pop()
        if isinstance(part, Choice) and part.number not in seen:
            seen.add(part.number)
            pending += (part.then, part.other)
            yield part
