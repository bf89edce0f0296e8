"""Rounds of fixes: all that lie apart from each other are made at once, the result is linted again, and so on
until nothing changes. A fix whose result does not compile, has lost a comment or brings a new error or warning is
taken back, and its finding says why.

Builders are right or refuse: this is the net and not the method. Findings of the baseline take part in the comparison
of before and after, but are not fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from amplint.findings import Crash, Finding, Fix, digest_of
from amplint.fixes.news import Comparison, News, Yields
from amplint.fixes.proposals import Proposal, Read, Refuses, allows, disjoint, flawed
from amplint.source.decoding import split_lines

MOST_ROUNDS = 10
MOST_TRIALS = 2
"""How often the results of one round are linted: with all fixes, and without those that are to blame for what was
new then. If something is new even so, nothing of the round is made; the next one does without these as well."""

CHANGED = "it has changed on the disk since it was read"


class Linted(Protocol):
    """What linting says."""

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    @property
    def known(self) -> tuple[Finding, ...]:
        """Findings that are left as they are."""

    @property
    def crashes(self) -> tuple[Crash, ...]: ...


Lint = Callable[[Mapping[str, str]], Linted]
"""Lints everything, with these texts (by the names that reports use) instead of those on the disk."""

NOTHING: Yields = {}
Unsteady = Callable[[], Mapping[str, str]]
"""The files that are no longer what the first lint has read, and what became of them, by the names that reports use."""


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
    refused: list[tuple[Finding, str]] = field(default_factory=list)
    """The findings whose fixes were taken back, as they were then, and why."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Files that could not be edited, and why."""
    notes: dict[Finding, str] = field(default_factory=dict)
    """Why the fix of a finding that is left was taken back."""
    together: list[frozenset[str]] = field(default_factory=list)
    """Files that one fix changed together: they are written all or none."""
    rounds: int = 0


def _all(linted: Linted) -> tuple[Finding, ...]:
    return (*linted.findings, *linted.known)


class Rounds:
    """Fixes what can be fixed, in texts; nothing is written."""

    def __init__(
        self,
        lint: Lint,
        read: Read,
        *,
        unsafe: bool,
        yields: Yields = NOTHING,
        unsteady: Unsteady = dict,
        refusal: Refuses = allows,
    ) -> None:
        """``unsafe``: the unsafe fixes are wanted as well. ``yields``: for the name of a rule the names of
        those for which it keeps silent: when their findings are mended, it may speak."""
        self._lint = lint
        self._read = read
        self._unsafe = unsafe
        self._yields = yields
        self._unsteady = unsteady
        self._refusal = refusal
        self._outcome: Outcome
        self._refused: dict[Hashable, str] = {}
        self._changed: set[str] = set()
        self._known: frozenset[Finding] = frozenset()

    def run(self) -> Outcome:
        """What came of at most ``MOST_ROUNDS`` rounds, each of at most ``MOST_TRIALS`` lints."""
        self._outcome = outcome = Outcome(self._lint({}))
        self._known = frozenset(outcome.last.known)
        while outcome.rounds < MOST_ROUNDS:
            proposals = self._proposals(outcome.last.findings)
            if not proposals:
                break
            outcome.rounds += 1
            self._make(disjoint(proposals, self._text))
        outcome.skipped |= self._unsteady()
        if self._refused:
            outcome.notes = {one: note for one in outcome.last.findings if (note := self._note(one))}
        return outcome

    def _proposals(self, findings: Sequence[Finding]) -> list[Proposal]:
        """The fixes that are wanted and have not failed before."""
        mended: dict[Fix, list[Finding]] = {}
        for finding in findings:
            fix = self._wanted(finding) if finding not in self._known else None
            if fix is not None:
                mended.setdefault(fix, []).append(finding)
        proposals = [Proposal(fix, tuple(found)) for fix, found in mended.items()]
        return [proposal for proposal in proposals if self._is_possible(proposal)]

    def _wanted(self, finding: Finding) -> Fix | None:
        return finding.fix.chosen(self._unsafe) if finding.fix is not None else None

    def _is_possible(self, proposal: Proposal) -> bool:
        for path, digest in proposal.fix.bases:
            if path in self._outcome.skipped:
                return False
            try:
                text = self._text(path)
            except NotForFixing as error:
                self._outcome.skipped[path] = error.reason
                return False
            if digest_of(text) != digest:
                self._outcome.skipped[path] = CHANGED
                return False
        return self._signature(proposal.fix, proposal.findings[0]) not in self._refused

    def _text(self, path: str) -> str:
        return self._outcome.texts[path] if path in self._outcome.texts else self._read(path)

    def _signature(self, fix: Fix, finding: Finding) -> Hashable:
        """What tells a fix that was taken back even when other lines have moved."""
        lines = {edit.path: split_lines(self._text(edit.path)) for edit in fix.edits}
        claimed = tuple(
            "".join(lines[claim.path][claim.first - 1 : claim.last])
            for claim in fix.claims
            if claim.path in lines
        )
        return (finding.code, fix.title, claimed)

    def _note(self, finding: Finding) -> str:
        """Why the fix of a finding that is left was taken back; empty if it was not."""
        fix = self._wanted(finding)
        if fix is None or any(path in self._outcome.skipped for path, _ in fix.bases):
            return ""
        reason = self._refused.get(self._signature(fix, finding))
        return f'"{fix.title}" was not made: {reason}' if reason else ""

    def _make(self, proposals: list[Proposal]) -> None:
        outcome = self._outcome
        flaws = flawed(proposals, self._text, self._refusal)
        for number, reason in flaws.items():
            self._refuse(proposals[number], reason)
        made, compared, linted = self._tried([p for n, p in enumerate(proposals) if n not in flaws])
        # what is known stays so in a line that a fix has changed
        self._known = compared.kept(self._known, _all(linted))
        outcome.last = linted
        outcome.texts |= compared.texts
        outcome.fixed += [finding for proposal in made for finding in proposal.findings]
        outcome.together += [proposal.paths for proposal in made if len(proposal.paths) > 1]

    def _tried(self, proposals: list[Proposal]) -> tuple[list[Proposal], Comparison, Linted]:
        """The fixes that go well together, and what comes of them; none if that takes too many trials."""
        for _ in range(MOST_TRIALS):
            if not proposals:
                break
            compared = Comparison(proposals, self._text, self._yields)
            linted = self._lint(self._outcome.texts | compared.texts)
            news, has_changed = self._news(compared, linted)
            touched = self._outcome.skipped.keys()
            left = [proposal for proposal in proposals if touched.isdisjoint(proposal.paths)]
            if not news and len(left) == len(proposals):
                return proposals, compared, linted
            if has_changed:
                # what it may come from is no longer what was linted at first
                self._outcome.last = self._lint(self._outcome.texts)
                self._known = Comparison([], self._text, self._yields).kept(
                    self._known, _all(self._outcome.last)
                )
                proposals = left
                continue
            blamed: dict[Proposal, str] = {}
            for one in news:
                for proposal in compared.to_blame(one):
                    blamed.setdefault(proposal, one.reason)
            for proposal, reason in blamed.items():
                self._refuse(proposal, reason)
            proposals = [proposal for proposal in left if proposal not in blamed]
        return [], Comparison([], self._text, self._yields), self._outcome.last

    def _news(self, compared: Comparison, linted: Linted) -> tuple[list[News], bool]:
        """What is new in the result, and whether files have changed on the disk for the first time. What has to do
        with such a file does not count, and it is edited no more."""
        before = self._outcome.last
        news = compared.news(_all(before), _all(linted), linted.crashes, before.crashes)
        changed = self._unsteady()
        has_changed = not self._changed and bool(changed)  # once: there may be no end to it
        self._changed |= changed.keys()
        self._outcome.skipped |= changed
        steady = [
            one
            for one in news
            if one.path not in changed and not any(path in changed for path, _ in one.places)
        ]
        return steady, has_changed

    def _refuse(self, proposal: Proposal, reason: str) -> None:
        self._refused[self._signature(proposal.fix, proposal.findings[0])] = reason
        self._outcome.refused.append((proposal.findings[0], reason))
