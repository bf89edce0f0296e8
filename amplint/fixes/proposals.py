"""Fixes that are wanted: which of them can be made at once, and what is wrong with their texts before anybody lints
them."""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from amplint.findings import Edit, Finding, Fix
from amplint.fixes.edits import applied, comments_of, crosses_cells
from amplint.source.cells import is_notebook, parts_of
from amplint.source.decoding import split_lines

Read = Callable[[str], str]
"""The text of a file, by the name that reports use. Raises NotForFixing."""

Refuses = Callable[[str, str], str]
"""Why a text cannot be that of a file, by its name, as where its encoding lacks a character; empty if it can."""


def allows(path: str, text: str) -> str:
    """Refuses no text."""
    return ""


@dataclass(frozen=True)
class Proposal:
    """One fix and the findings that it fixes."""

    fix: Fix
    findings: tuple[Finding, ...]

    @property
    def paths(self) -> frozenset[str]:
        """The files that it changes."""
        return frozenset(edit.path for edit in self.fix.edits)


def edits_of(proposals: Iterable[Proposal]) -> dict[str, set[Edit]]:
    """The edits of fixes by file, each once."""
    edits: dict[str, set[Edit]] = {}
    for proposal in proposals:
        for edit in proposal.fix.edits:
            edits.setdefault(edit.path, set()).add(edit)
    return edits


def disjoint(proposals: Sequence[Proposal], read: Read) -> list[Proposal]:
    """The fixes that can be made at once, the first ones first. Two that claim the same lines wait for each
    other, unless they want the very same edits there, such as one import that both need."""
    starts: dict[str, list[int]] = {}

    def edits_in(fix: Fix, path: str, first: int, last: int) -> frozenset[Edit]:
        if path not in starts:
            starts[path] = [0, *accumulate(map(len, split_lines(read(path))))]
        return frozenset(
            edit
            for edit in fix.edits
            if edit.path == path and first <= bisect_right(starts[path], edit.start) <= last
        )

    def conflict(one: Fix, other: Fix) -> bool:
        for mine in one.claims:
            for theirs in other.claims:
                first, last = max(mine.first, theirs.first), min(mine.last, theirs.last)
                if mine.path == theirs.path and first <= last:
                    edits = edits_in(one, mine.path, first, last)
                    if not edits or edits != edits_in(other, mine.path, first, last):
                        return True
        return False

    chosen: list[Proposal] = []
    taken: dict[str, list[Proposal]] = {}
    for proposal in proposals:
        paths = {claim.path for claim in proposal.fix.claims}
        if not any(conflict(proposal.fix, other.fix) for path in paths for other in taken.get(path, ())):
            chosen.append(proposal)
            for path in paths:
                taken.setdefault(path, []).append(proposal)
    return chosen


def flawed(proposals: Sequence[Proposal], read: Read, refusal: Refuses = allows) -> dict[int, str]:
    """The fixes whose results cannot stand, by their number, and why, as far as that can be told without linting. All
    are looked at together, and then the halves of those among which one is flawed."""
    found: dict[int, str] = {}
    before: dict[str, _Before] = {}

    def search(numbers: Sequence[int]) -> None:
        reason = _flaw([proposals[number] for number in numbers], read, before, refusal)
        if not reason:
            return
        if len(numbers) == 1:
            found[numbers[0]] = reason
            return
        half = len(numbers) // 2
        search(numbers[:half])
        search(numbers[half:])

    if proposals:
        search(range(len(proposals)))
    return found


@dataclass(frozen=True)
class _Before:
    """What is known of a text before fixes."""

    text: str
    compiles: bool
    comments: Counter[str]


def _flaw(proposals: Sequence[Proposal], read: Read, before: dict[str, _Before], refusal: Refuses) -> str:
    """What is wrong with the result of some fixes together."""
    for path, edits in edits_of(proposals).items():
        if path not in before:
            text = read(path)
            before[path] = _Before(text, _compiles(path, text), comments_of(text))
        old = before[path]
        if crosses_cells(path, old.text, edits):
            return "it would reach from one cell into another"
        new = applied(old.text, edits)
        if old.compiles and not _compiles(path, new):
            return "the result does not compile"
        lost = _kept(old.comments, path, proposals) - comments_of(new)
        if lost:
            return f"the result has lost the comment {min(lost)!r}"
        reason = refusal(path, new)
        if reason:
            return reason
    return ""


def _kept(comments: Mapping[str, int], path: str, proposals: Sequence[Proposal]) -> Counter[str]:
    """The comments of a file that the fixes are not about."""
    kept = Counter(comments)
    for reworded in {one for proposal in proposals for one in proposal.fix.comments}:
        if reworded.path == path:
            kept[reworded.before] -= 1
            kept[reworded.after] += bool(reworded.after)
    return kept


def _compiles(path: str, text: str) -> bool:
    """Whether Python compiles a text, each cell of a notebook by itself, as IPython does it: there ``await`` may stand
    outside of functions."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if is_notebook(path) else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for part in parts_of(path, text):
                compile(ast.parse(part), "<fixed>", "exec", flags, dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return False
    return True
