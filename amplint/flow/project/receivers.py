"""On objects of which classes a method is walked that nobody in sight calls.

``receivers.of(fit, Trainer, reached)``: ``Trainer`` itself, or the classes that fill it in if it is abstract; then
those that inherit ``fit`` and give it a method of their own, ``def clip(self)``, which does something and which no walk
has reached. ``receivers.overrides(clip)``: whether it is such a method; ``receivers.around(clip)``: the inherited
methods that lead to it, ``fit``, with the class of the object on which they do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path

from amplint.flow.core.registry import Weight
from amplint.flow.project.edges import Definition
from amplint.flow.project.stack import Stacks
from amplint.flow.project.view import View
from amplint.flow.state.values import ClassValue, FunctionValue

MOST_CLASSES = 3
"""A method is walked on objects of so many classes that fill in an abstract one, and of so many others below."""


class Receivers:
    """The classes of the objects on which the entry points of a project are walked."""

    def __init__(self, view: View, in_passing: Callable[[Path], bool]) -> None:
        """``in_passing`` tells the files of tests and the like."""
        self._view = view
        self._in_passing = in_passing
        self._started: Counter[tuple[FunctionValue, ...]] = Counter()
        self._stacks = Stacks(view.edges)
        self._led_to: dict[FunctionValue, frozenset[Definition]] = {}

    def of(self, entry: FunctionValue, owner: ClassValue, reached: Collection[int]) -> Iterator[ClassValue]:
        """The classes, one after the other: ``reached``, the ``id`` of each outline that a walk has reached, is asked
        anew for each."""
        concrete = self._view.concrete(owner)
        first = concrete if len(concrete) <= MOST_CLASSES else [owner]
        yield from first
        below = (
            one
            for one in self._view.edges.hierarchy.below.get(owner, ())
            if one not in first and not self._in_passing(one.file.path) and self._adds(entry, one, reached)
        )
        yield from islice(below, MOST_CLASSES)

    def overrides(self, entry: FunctionValue) -> bool:
        """Whether a method stands for another one of a class that its own inherits from."""
        outline = entry.outline
        if outline is None or outline.owner is None or outline.name == "__init__":
            return False
        bases = self._view.bases(ClassValue(entry.file, outline.owner))[1:]
        return any(
            isinstance(base, ClassValue) and outline.name in self._view.classes.methods(base)
            for base in bases
        )

    def around(self, entry: FunctionValue) -> list[tuple[FunctionValue, ClassValue]]:
        """The methods that the class of one inherits, and that lead to it, but for those to which another one leads."""
        assert entry.outline is not None and entry.outline.owner is not None
        owner = ClassValue(entry.file, entry.outline.owner)
        inherited = {
            method: None
            for base in self._view.bases(owner)[1:]
            if isinstance(base, ClassValue)
            for name, method in self._view.classes.methods(base).items()
            if name != "__init__" and self._view.classes.find_method(owner, name) == method
        }
        leading = [method for method in inherited if entry in self._all_from(method)]
        outer = [
            method
            for method in leading
            if not any(method in self._all_from(other) for other in leading if other != method)
        ]
        chosen = outer[: MOST_CLASSES - self._started[tuple(outer)]]
        self._started[tuple(outer)] += len(chosen)
        return [(method, owner) for method in chosen]

    def _adds(self, entry: FunctionValue, below: ClassValue, reached: Collection[int]) -> bool:
        """Whether an object of a class does something in an entry point that no walk has met."""
        assert entry.outline is not None
        classes = self._view.classes
        if classes.find_method(below, entry.outline.name) != entry:
            return False
        led_to = self._all_from(entry)
        return any(
            method in led_to
            and id(method.outline) not in reached
            and self._view.effects.weight(method) >= Weight.EFFECT
            for method in classes.methods(below).values()
        )

    def _all_from(self, entry: FunctionValue) -> frozenset[Definition]:
        known = self._led_to.get(entry)
        if known is None:
            known = self._led_to[entry] = frozenset(self._stacks.reached((entry,)))
        return known
