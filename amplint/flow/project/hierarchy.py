"""Which classes of the files inherit from which, and the methods that they have by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from amplint.flow.project.classes import Classes
from amplint.flow.state.values import ClassValue, FunctionValue
from amplint.source.facts import facts_of
from amplint.source.project import ProjectFile

_WITHOUT_METHODS = frozenset(
    {"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol"}
)
"""Bases outside that bring no method of a name that somebody would choose."""


class Hierarchy:
    """The classes of some files, in the order of the files and their lines."""

    def __init__(self, classes: Classes, files: Sequence[ProjectFile]) -> None:
        self.classes = classes
        self._files = files
        self._overriding: dict[ClassValue, dict[str, list[FunctionValue]]] = {}

    @cached_property
    def _every_class(self) -> list[ClassValue]:
        return [ClassValue(file, part) for file in self._files for part in facts_of(file.outline).classes]

    @cached_property
    def methods_named(self) -> dict[str, list[FunctionValue]]:
        """The methods of the files by name."""
        found: dict[str, list[FunctionValue]] = {}
        for value in self._every_class:
            for name, method in self.classes.methods(value).items():
                found.setdefault(name, []).append(method)
        return found

    @cached_property
    def below(self) -> dict[ClassValue, list[ClassValue]]:
        """For each class those of the files that inherit from it."""
        found: dict[ClassValue, list[ClassValue]] = {}
        for value in self._every_class:
            for base in self.classes.bases(value)[1:]:
                if isinstance(base, ClassValue):
                    found.setdefault(base, []).append(value)
        return found

    def overriding(self, value: ClassValue, name: str) -> list[FunctionValue]:
        """The methods of a name in classes of the files that inherit from a class."""
        known = self._overriding.get(value)
        if known is None:
            known = self._overriding[value] = {}
            for part in self.below.get(value, ()):
                for one, method in self.classes.methods(part).items():
                    known.setdefault(one, []).append(method)
        return known.get(name, [])


class Concrete:
    """What an object may be that is said to be one of a class, those of tests and the like left out: of
    ``class Trainer(ABC)`` with one ``class GANTrainer(Trainer)`` in sight, one of the latter. A class is abstract, too,
    if it calls a method of its object that only classes below have."""

    def __init__(self, hierarchy: Hierarchy, in_passing: Callable[[Path], bool]) -> None:
        """``in_passing`` tells the files of tests and the like."""
        self._hierarchy = hierarchy
        self._classes = hierarchy.classes
        self._in_passing = in_passing
        self._known: dict[ClassValue, list[ClassValue]] = {}

    def of(self, value: ClassValue) -> Sequence[ClassValue]:
        """The classes that inherit from an abstract class and leave nothing abstract, or the last in sight; otherwise
        the class itself."""
        known = self._known.get(value)
        if known is None:
            below = self._below(value) if self._is_abstract(value) else []
            full = [one for one in below if not self._is_abstract(one)]
            known = full or [one for one in below if not self._below(one)] or [value]
            self._known[value] = known
        return known

    def _below(self, value: ClassValue) -> list[ClassValue]:
        return [one for one in self._hierarchy.below.get(value, ()) if not self._in_passing(one.file.path)]

    def _is_abstract(self, value: ClassValue) -> bool:
        names = {
            name
            for base in self._classes.bases(value)
            if isinstance(base, ClassValue)
            for name, method in self._classes.methods(base).items()
            if self._classes.is_abstract(method)
        }
        found = (self._classes.find_method(value, name) for name in names)
        if any(method is not None and self._classes.is_abstract(method) for method in found):
            return True
        return self._is_whole(value) and any(
            self._hierarchy.overriding(value, name)
            and self._classes.find_method(value, name) is None
            and self._classes.attribute(value, name) is None
            for name in sorted(self._called_on_self(value))
        )

    def _is_whole(self, value: ClassValue) -> bool:
        """Whether others inherit from a class, and it has no methods but those in sight."""
        return (
            value in self._hierarchy.below
            and self._classes.find_method(value, "__getattr__") is None
            and all(
                isinstance(base, ClassValue) or base.name in _WITHOUT_METHODS
                for base in self._classes.bases(value)
            )
        )

    def _called_on_self(self, value: ClassValue) -> set[str]:
        """What methods call on their object, ``self.loss(y)``, and neither set nor ask for."""
        called: set[str] = set()
        known: set[str] = set()
        for method in self._classes.all_methods(value):
            if method.outline is None or self._classes.kind(method) == "staticmethod":
                continue
            body = facts_of(method.file.outline).of(method.outline).body
            own = f"{method.outline.parameters[0]}." if method.outline.parameters else "."
            called |= {
                call.name for call in body.calls if call.name is not None and call.name.startswith(own)
            }
            known |= body.loads | body.stores.keys()
        return {name.partition(".")[2] for name in called - known if name.count(".") == 1}
