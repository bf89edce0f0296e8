"""Where a name is looked up: the function that is being walked, those around it, the file."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from amplint.events import Place, Rounds

if TYPE_CHECKING:
    from amplint.flow.paths import Path
    from amplint.flow.values import FunctionValue, Value
    from amplint.source.outline import FunctionOutline
    from amplint.source.project import ProjectFile
    from amplint.source.slices import Slice


@dataclass(eq=False)
class Scope:
    """One call of a function: what is being walked, and where its text comes from."""

    file: ProjectFile
    slice: Slice
    outline: FunctionOutline | None
    outer: Scope | None = None
    outer_names: dict[str, Value] = field(default_factory=dict)
    """Names of the enclosing function, as they were when this function was defined."""
    self_value: Value | None = None
    calls: tuple[Place, ...] = ()
    chain: Hashable = ()
    """Tells apart objects made at one place by different calls."""
    returns: list[tuple[Path, Value]] = field(default_factory=list)
    yields: list[tuple[Path, Value]] = field(default_factory=list)
    breaks: list[Path] = field(default_factory=list)
    continues: list[Path] = field(default_factory=list)
    loops: int = 0
    branches: int = 0
    """How many conditions and handlers are around what is being walked, in the outermost loop or, if there is none,
    in the function."""
    counters: tuple[str, ...] = ()
    """The names that the innermost loop gives another value in each round, and those of comparisons with them."""
    counted: int = 0
    """How many conditions on such names what is being walked depends on; those that the first round fulfils count once,
    others twice."""
    globals: set[str] = field(default_factory=set)
    defined: dict[cst.CSTNode, FunctionValue] = field(default_factory=dict)
    """Functions defined inside that were not called yet."""
    is_context_manager: bool = False
    reached_from: Scope | None = None
    """The scope of the call."""

    def runs_each_round(self) -> bool:
        """Whether what is being walked runs in each round of the innermost loop around it, that of a caller included,
        or each time if there is none. No condition that code runs under, or that leaves its function before, is taken
        to come out alike again."""
        scope: Scope | None = self
        while scope is not None:
            if scope.branches or (scope.returns and not scope.loops):
                return False
            if scope.loops:
                return True
            scope = scope.reached_from
        return True

    def rounds(self) -> Rounds:
        """In which rounds of the innermost loop, that of a caller included, the code runs that is being walked, as
        far as conditions on what the loop counts decide that."""
        scope: Scope | None = self
        while scope is not None:
            if scope.loops or scope.counted:
                return Rounds(min(scope.counted, 2))
            scope = scope.reached_from
        return Rounds.ANY

    @property
    def is_module(self) -> bool:
        """Whether it is the top level of a file."""
        return self.outline is not None and self.outline.name == "<module>"

    def text_around(self, pattern: str) -> str | None:
        """All the text that can use a local name; None for a name of the file that definitions mention."""
        if not self.is_module:
            return self.slice.text
        definitions = self.file.outline.definitions()
        if any(re.search(pattern, self.file.text_of(part)) for part in definitions):
            return None
        return self.file.text

    def uses(self, dotted: str) -> set[str]:
        """The methods that the text calls on a name, here and in the functions around."""
        found: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            if scope.outline is not None:
                found |= scope.outline.uses.get(dotted, set())
                if scope.outline.owner is not None and dotted.startswith("self."):
                    found |= scope.outline.owner.uses.get(dotted, set())
            scope = scope.outer
        return found
