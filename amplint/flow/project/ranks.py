"""In which order the entry points of a project are walked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from amplint.flow.core.registry import Weight
from amplint.flow.project.effects import Effects
from amplint.flow.state.values import FunctionValue
from amplint.source.project import ProjectFile


class Ranks:
    """The order: ``sorted(roots, key=ranks.of)``."""

    def __init__(
        self,
        effects: Effects,
        files: Sequence[ProjectFile],
        in_passing: Collection[ProjectFile],
        overrides: Callable[[FunctionValue], bool],
        trains: str,
    ) -> None:
        """``in_passing`` are the tests and the like; ``overrides`` tells methods that stand for others; ``trains`` is
        the tag of what trains."""
        self._effects, self._files, self._in_passing = effects, files, in_passing
        self._overrides, self._tag = overrides, trains

    def of(self, entry: FunctionValue) -> tuple[bool, ...]:
        """Tests and the like come last. Of the others what trains comes first, then files that name a key of weight
        ENTRY themselves (a half type is none); constructors come after what is done with the objects that they make,
        and methods after what calls those that they override."""
        assert entry.outline is not None
        return (
            entry.file in self._in_passing,
            entry.outline.name == "__init__",
            self._overrides(entry),
            self._tag not in self._effects.tags(entry),
            entry.file not in self._naming,
        )

    @cached_property
    def _naming(self) -> set[ProjectFile]:
        """The files with a definition that names a key of weight ENTRY by itself."""
        return self._effects.files(self._files, lambda own: own.weight >= Weight.ENTRY)

    @cached_property
    def training(self) -> set[ProjectFile]:
        """The files with a definition that trains by itself."""
        return self._effects.files(self._files, lambda own: self._tag in own.tags)
