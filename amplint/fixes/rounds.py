"""Rounds of fixes: all that lie apart from each other are made at once, the result is linted again, and so on
until nothing changes. A fix whose result does not compile, has lost a comment or brings a new finding is taken
back and reported as a bug of amplint.
"""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

from amplint.catalog import UNUSED_SUPPRESSION
from amplint.findings import Crash, Edit, Finding, Fix, digest_of
from amplint.fixes.edits import Move, applied, comments_of
from amplint.source.decoding import split_lines

MOST_ROUNDS = 10


class Linted(Protocol):
    """What linting says."""

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    @property
    def crashes(self) -> tuple[Crash, ...]: ...


Lint = Callable[[Mapping[str, str]], Linted]
"""Lints everything, with these texts (by the names that reports use) instead of those on the disk."""

Read = Callable[[str], str]
"""The text of a file on the disk, by the name that reports use. Raises NotForFixing."""


class NotForFixing(Exception):  # noqa: N818
    """A file cannot be edited, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Outcome:
    """What came of the rounds."""

    last: Linted
    """What linting says of the final texts."""
    texts: dict[str, str] = field(default_factory=dict)
    """The final texts of the files that changed."""
    fixed: list[Finding] = field(default_factory=list)
    failures: list[Crash] = field(default_factory=list)
    """Fixes that were taken back."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Files that could not be edited, and why."""
    together: list[frozenset[str]] = field(default_factory=list)
    """Files that one fix changed together: they are written all or none."""
    rounds: int = 0


@dataclass(frozen=True)
class _Proposal:
    """One fix and the findings that it fixes."""

    fix: Fix
    findings: tuple[Finding, ...]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(edit.path for edit in self.fix.edits)


class Rounds:
    """Fixes what can be fixed, in texts; nothing is written."""

    def __init__(
        self, lint: Lint, read: Read, *, unsafe: bool, yields: Mapping[str, Sequence[str]] = {}
    ) -> None:
        """``unsafe``: the unsafe fixes are wanted as well. ``yields``: for the name of a rule the names of
        those for which it keeps silent: when their findings are mended, it may speak."""
        self._lint = lint
        self._read = read
        self._unsafe = unsafe
        self._yields = yields
        self._outcome: Outcome
        self._refused: set[Hashable] = set()

    def run(self) -> Outcome:
        """What came of at most ``MOST_ROUNDS`` rounds."""
        self._outcome = outcome = Outcome(self._lint({}))
        while outcome.rounds < MOST_ROUNDS:
            proposals = self._proposals(outcome.last.findings)
            if not proposals:
                break
            outcome.rounds += 1
            self._make(disjoint(proposals, self._text))
        return outcome

    def _proposals(self, findings: Sequence[Finding]) -> list[_Proposal]:
        """The fixes that are wanted and have not failed before."""
        mended: dict[Fix, list[Finding]] = {}
        for finding in findings:
            fix = finding.fix.chosen(self._unsafe) if finding.fix is not None else None
            if fix is not None:
                mended.setdefault(fix, []).append(finding)
        proposals = [_Proposal(fix, tuple(found)) for fix, found in mended.items()]
        return [proposal for proposal in proposals if self._is_possible(proposal)]

    def _is_possible(self, proposal: _Proposal) -> bool:
        for path, digest in proposal.fix.bases:
            if path in self._outcome.skipped:
                return False
            try:
                text = self._text(path)
            except NotForFixing as error:
                self._outcome.skipped[path] = error.reason
                return False
            if digest_of(text) != digest:
                self._outcome.skipped[path] = "it has changed on the disk since it was read"
                return False
        return self._signature(proposal) not in self._refused

    def _text(self, path: str) -> str:
        return self._outcome.texts[path] if path in self._outcome.texts else self._read(path)

    def _signature(self, proposal: _Proposal) -> Hashable:
        """What tells a fix that was taken back even when other lines have moved."""
        lines = {path: split_lines(self._text(path)) for path in proposal.paths}
        claimed = tuple(
            "".join(lines[claim.path][claim.first - 1 : claim.last])
            for claim in proposal.fix.claims
            if claim.path in lines
        )
        return (proposal.findings[0].code, proposal.fix.title, claimed)

    def _make(self, proposals: list[_Proposal]) -> None:
        outcome = self._outcome
        accepted: list[_Proposal] = []
        for proposal in proposals:
            reason = self._flaw(proposal)
            if reason:
                self._refuse(proposal, reason)
            else:
                accepted.append(proposal)
        trial = self._settle(_Trial([], {}, outcome.last), accepted)
        outcome.last = trial.linted
        outcome.texts |= trial.texts
        outcome.fixed += [finding for proposal in trial.proposals for finding in proposal.findings]
        outcome.together += [proposal.paths for proposal in trial.proposals if len(proposal.paths) > 1]

    def _flaw(self, proposal: _Proposal) -> str:
        """What is wrong with the result of one fix alone, as far as that can be told without linting."""
        for path, text in self._applied([proposal]).items():
            before = self._text(path)
            if _compiles(before) and not _compiles(text):
                return "the result does not compile"
            kept = comments_of(before)
            for reworded in proposal.fix.comments:
                if reworded.path == path:
                    kept[reworded.before] -= 1
                    kept[reworded.after] += bool(reworded.after)
            lost = kept - comments_of(text)
            if lost:
                return f"the result has lost the comment {min(lost)!r}"
        return ""

    def _applied(self, proposals: Sequence[_Proposal]) -> dict[str, str]:
        """The texts of the files that these fixes change."""
        edits: dict[str, set[Edit]] = {}
        for proposal in proposals:
            for edit in proposal.fix.edits:
                edits.setdefault(edit.path, set()).add(edit)
        return {path: applied(self._text(path), some) for path, some in edits.items()}

    def _settle(self, trial: _Trial, proposals: list[_Proposal]) -> _Trial:
        """The trial with as many more of these fixes as go well; the others are reported."""
        if not proposals:
            return trial
        together = [*trial.proposals, *proposals]
        texts = self._applied(together)
        linted = self._lint(self._outcome.texts | texts)
        news = self._news(together, texts, linted)
        if not news:
            return _Trial(together, texts, linted)
        if len(proposals) == 1:
            self._refuse(proposals[0], min(news.values()))
            return trial
        suspects = [proposal for proposal in proposals if proposal.paths & news.keys()]
        if 0 < len(suspects) < len(proposals):
            halves = [[proposal for proposal in proposals if proposal not in suspects], suspects]
        else:
            ordered = sorted(proposals, key=lambda proposal: proposal.fix.claims)
            halves = [ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]]
        for half in halves:
            trial = self._settle(trial, half)
        return trial

    def _news(self, proposals: list[_Proposal], texts: Mapping[str, str], linted: Linted) -> dict[str, str]:
        """What linting says of the result that it did not say before, by path; empty if all is well."""
        before = self._outcome.last
        fixed = Counter(finding for proposal in proposals for finding in proposal.findings)
        expected = list((Counter(before.findings) - fixed).elements())
        old = {path: self._text(path) for path in texts}
        edits = {
            path: [edit for p in proposals for edit in p.fix.edits if edit.path == path] for path in texts
        }
        claims = [claim for proposal in proposals for claim in proposal.fix.claims]
        moves = {path: Move(old[path], set(edits[path])) for path in texts}
        claimed = {
            path: [(claim.first, claim.last) for claim in claims if claim.path == path] for path in texts
        }
        news: dict[str, str] = {}
        mended = {finding.name for finding in fixed}

        def still_there(finding: Finding) -> bool:
            return any(
                (finding.code, finding.path) == (other.code, other.path)
                and finding.path in moves
                and finding.span.line == moves[finding.path].line(other.span.line, other.span.column)
                # what a comment names beside the mended word may be left over now
                and (finding.code != UNUSED_SUPPRESSION[0] or finding.message == other.message)
                for other in fixed
            )

        # a comment for what has been mended is left over, or a rule that kept silent for the mended one
        # speaks: that is told, and no fault of the fix
        found = [
            finding
            for finding in linted.findings
            if (finding.code != UNUSED_SUPPRESSION[0] or still_there(finding))
            and (finding in expected or not mended & set(self._yields.get(finding.name, ())))
        ]
        brought = {(path, name) for p in proposals for path in p.paths for name in p.fix.brings}
        for finding in unexpected(found, expected, moves, claimed, texts, old):
            again = still_there(finding)
            if (finding.path, finding.name) in brought and not again:
                continue
            what = "the finding is still there" if again else f"it brings a new finding: {finding.name}"
            news.setdefault(
                finding.path, f"{what} on line {finding.span.line} of {finding.path} after the fix"
            )
        known = {(crash.path, crash.rule) for crash in before.crashes}
        for crash in linted.crashes:
            if (crash.path, crash.rule) not in known:
                news.setdefault(crash.path, f"amplint fails on the result: {crash.reason}")
        return news

    def _refuse(self, proposal: _Proposal, reason: str) -> None:
        self._refused.add(self._signature(proposal))
        finding = proposal.findings[0]
        text = f"the fix of line {finding.span.line} was taken back: {reason}"
        self._outcome.failures.append(Crash(finding.path, finding.name, text))


@dataclass(frozen=True)
class _Trial:
    """Fixes that go well together, and what comes of them."""

    proposals: list[_Proposal]
    texts: dict[str, str]
    linted: Linted


def disjoint(proposals: Sequence[_Proposal], read: Read) -> list[_Proposal]:
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

    chosen: list[_Proposal] = []
    taken: dict[str, list[_Proposal]] = {}
    for proposal in proposals:
        paths = {claim.path for claim in proposal.fix.claims}
        if not any(conflict(proposal.fix, other.fix) for path in paths for other in taken.get(path, ())):
            chosen.append(proposal)
            for path in paths:
                taken.setdefault(path, []).append(proposal)
    return chosen


def unexpected(
    found: Sequence[Finding],
    expected: Sequence[Finding],
    moves: Mapping[str, Move],
    claimed: Mapping[str, Sequence[tuple[int, int]]],
    texts: Mapping[str, str],
    old_texts: Mapping[str, str],
) -> list[Finding]:
    """The findings that are new: those for which there is no expected one of the same rule in the same file
    that was on the line before it moved, or on a line of the same text, or in lines that a fix claims."""
    left = list(found)
    waiting = list(expected)
    after = {path: split_lines(text) for path, text in texts.items()}
    before = {path: split_lines(text) for path, text in old_texts.items()}

    def moved(finding: Finding) -> Hashable:
        move = moves.get(finding.path)
        return move.line(finding.span.line, finding.span.column) if move else finding.span.line

    def in_claim(finding: Finding, *, new: bool) -> Hashable:
        for number, (first, last) in enumerate(claimed.get(finding.path, ())):
            move = moves[finding.path]
            begin, end = (move.line(first), move.line(last + 1)) if new else (first, last)
            if begin <= finding.span.line <= end:
                return number
        return None

    passes: list[tuple[Callable[[Finding], Hashable], Callable[[Finding], Hashable]]] = [
        (lambda finding: finding.span.line, moved),
        (lambda finding: _line(after, finding), lambda finding: _line(before, finding)),
        (lambda finding: in_claim(finding, new=True), lambda finding: in_claim(finding, new=False)),
    ]
    for of_found, of_expected in passes:
        pool: dict[Hashable, list[Finding]] = {}
        for finding in waiting:
            key = of_expected(finding)
            if key is not None:
                pool.setdefault((finding.code, finding.path, key), []).append(finding)
        still = []
        for finding in left:
            matches = pool.get((finding.code, finding.path, of_found(finding)))
            if matches:
                waiting.remove(matches.pop())
            else:
                still.append(finding)
        left = still
    return left


def _line(lines: Mapping[str, Sequence[str]], finding: Finding) -> str | None:
    """The text of a finding's line without its spacing, in files that change."""
    if finding.path not in lines or finding.span.line > len(lines[finding.path]):
        return None
    return " ".join(lines[finding.path][finding.span.line - 1].split())


@lru_cache(maxsize=64)
def _compiles(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(ast.parse(text), "<fixed>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return False
    return True
