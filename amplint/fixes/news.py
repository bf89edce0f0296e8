"""What linting says of fixed texts that it did not say before, and which of the fixes are to blame.

A fix is to blame for a new error or warning that it causes. New advice is none of its faults: a scheduler may be
wrong beside a step that goes by way of the scaler, and could not be before. Nor is what it uncovers: a rule that spoke
of the first place alone speaks of the next one once that is mended, and one that kept silent for another rule speaks
when that has nothing left to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from amplint.catalog import UNUSED_SUPPRESSION
from amplint.findings import Claim, Crash, Finding, Level, Span
from amplint.fixes.edits import Move, applied
from amplint.fixes.proposals import Proposal, Read, edits_of
from amplint.source.cells import line_name
from amplint.source.decoding import split_lines

Yields = Mapping[str, Sequence[str]]
"""For the name of a rule the names of those for which it keeps silent."""


Place = tuple[str, Span]
"""A stretch of a file, by the name that reports use."""


@dataclass(frozen=True)
class News:
    """One thing that is wrong with the result of fixes. ``places`` are those in the result that it speaks of: its own
    first, then those of its trail."""

    path: str
    reason: str
    places: tuple[Place, ...] = ()


_Key = Callable[[Finding], Hashable]


@dataclass(frozen=True)
class _Claimed:
    """The lines that a fix claims, before (``first`` to ``last``) and after it (``begin`` to ``end``); ``below`` is the
    line after them."""

    number: int
    first: int
    last: int
    begin: int
    end: int
    below: int

    @staticmethod
    def of(number: int, claim: Claim, move: Move | None) -> _Claimed:
        if move is None:
            return _Claimed(number, claim.first, claim.last, claim.first, claim.last, claim.last + 1)
        begin, below = move.line(claim.first, with_inserted=True), move.line(claim.last + 1)
        return _Claimed(number, claim.first, claim.last, begin, max(below - 1, begin), below)


class Comparison:
    """Findings before some fixes, and after them."""

    def __init__(self, proposals: Sequence[Proposal], read: Read, yields: Yields) -> None:
        self._proposals = proposals
        self._yields = yields
        edits = edits_of(proposals)
        self.old = {path: read(path) for path in edits}
        self.texts = {path: applied(self.old[path], some) for path, some in edits.items()}
        self._moves = {path: Move(self.old[path], some) for path, some in edits.items()}
        self._fixed = Counter(finding for proposal in proposals for finding in proposal.findings)
        self._claimed: dict[str, list[_Claimed]] = {}
        for number, proposal in enumerate(proposals):
            for claim in proposal.fix.claims:
                lines = _Claimed.of(number, claim, self._moves.get(claim.path))
                self._claimed.setdefault(claim.path, []).append(lines)
        self._written = {path: move.written() for path, move in self._moves.items()}
        self._mended = {
            (finding.code, finding.path, offset, self._told(finding))
            for finding in self._fixed
            for offset in self._offsets(finding)
        }

    def news(
        self,
        before: Iterable[Finding],
        after: Iterable[Finding],
        crashes: Iterable[Crash],
        known: Iterable[Crash],
    ) -> list[News]:
        """What is new and wrong. ``crashes`` are those of linting the result, ``known`` those from before."""
        expected = list((Counter(before) - self._fixed).elements())
        told = set(expected)
        names = {finding.name for finding in self._fixed}
        # a comment for what has been mended is left over, or a rule that kept silent for the mended one
        # speaks: that is told, and no fault of the fix
        found = [
            finding
            for finding in after
            if (finding.code != UNUSED_SUPPRESSION[0] or self._is_still_there(finding))
            and (finding in told or names.isdisjoint(self._yields.get(finding.name, ())))
        ]
        brought = {(path, name) for one in self._proposals for path in one.paths for name in one.fix.brings}
        news = []
        for finding in self._unexpected(found, expected):
            places = ((finding.path, finding.span), *((step.path, step.span) for step in finding.trail))
            if self._is_still_there(finding):
                what = "the finding is still there"
            elif (
                (finding.path, finding.name) in brought
                or finding.level is Level.ADVICE
                or (finding.name in names and not self._is_written(places))
            ):
                continue
            else:
                what = f"it brings a new finding: {finding.name}"
            line = line_name(finding.path, self.texts.get(finding.path, ""), finding.span.line)
            where = f"on {line} of {finding.path} after the fix"
            news.append(News(finding.path, f"{what} {where}", places))
        old = {(crash.path, crash.rule) for crash in known}
        news += [
            News(crash.path, f"amplint fails on the result: {crash.reason}")
            for crash in crashes
            if (crash.path, crash.rule) not in old
        ]
        return news

    def kept(self, before: Collection[Finding], after: Iterable[Finding]) -> frozenset[Finding]:
        """Which of the findings after the fixes are some of those before."""
        if not before:
            return frozenset()
        found = list(after)
        return frozenset(found) - frozenset(self._unexpected(found, list(before)))

    def to_blame(self, news: News) -> list[Proposal]:
        """The fixes that something new may come from: those that claim its line, else a line of its trail, else those
        that change its file, else a file of its trail, else all."""
        for places in (news.places[:1], news.places[1:]):
            numbers = self._touching(places)
            if numbers:
                return [self._proposals[number] for number in sorted(numbers)]
        for paths in ({news.path}, {path for path, _ in news.places}):
            found = [proposal for proposal in self._proposals if proposal.paths & paths]
            if found:
                return found
        return list(self._proposals)

    def _touching(self, places: Collection[Place]) -> set[int]:
        """The fixes, by number, that claim the line of one of these places."""
        return {
            claimed.number
            for path, span in places
            for claimed in self._claimed.get(path, ())
            if claimed.begin <= span.line <= claimed.end
        }

    def _is_written(self, places: Collection[Place]) -> bool:
        """Whether a fix has put something into one of these places."""
        for path, span in places:
            move = self._moves.get(path)
            if move is not None:
                start = move.offset_in_new(span.line, span.column)
                end = move.offset_in_new(span.end_line, span.end_column)
                if any(first <= end and start <= last for first, last in self._written[path]):
                    return True
        return False

    def _moved(self, finding: Finding) -> int:
        """The line on which a finding from before would be now."""
        move = self._moves.get(finding.path)
        return move.line(finding.span.line, finding.span.column) if move else finding.span.line

    def _offsets(self, finding: Finding) -> set[int]:
        """Where in the new text a finding from before would begin."""
        move = self._moves.get(finding.path)
        if move is None:
            return set()
        place = finding.span.line, finding.span.column
        return {move.offset(*place), move.offset(*place, with_inserted=True)}

    def _is_still_there(self, finding: Finding) -> bool:
        """Whether a finding of the result is one that has been fixed."""
        move = self._moves.get(finding.path)
        if move is None:
            return False
        offset = move.offset_in_new(finding.span.line, finding.span.column)
        return (finding.code, finding.path, offset, self._told(finding)) in self._mended

    @staticmethod
    def _told(finding: Finding) -> str:
        """What tells findings of a rule on one line apart: what a comment names beside a word that has been mended may
        be left over now."""
        return finding.message if finding.code == UNUSED_SUPPRESSION[0] else ""

    def _unexpected(self, found: Sequence[Finding], expected: Sequence[Finding]) -> list[Finding]:
        """The findings that are new: those for which there is no expected one of the same rule in the same file
        that was on the line before it moved, or on a line of the same text, or in lines that a fix claims."""
        after = {path: split_lines(text) for path, text in self.texts.items()}
        before = {path: split_lines(text) for path, text in self.old.items()}

        def in_claim(finding: Finding, *, new: bool) -> int | None:
            for position, claimed in enumerate(self._claimed.get(finding.path, ())):
                first, last = (claimed.begin, claimed.below) if new else (claimed.first, claimed.last)
                if first <= finding.span.line <= last:
                    return position
            return None

        passes: list[tuple[_Key, _Key]] = [
            (lambda finding: finding.span.line, self._moved),
            (lambda finding: _line(after, finding), lambda finding: _line(before, finding)),
            (lambda finding: in_claim(finding, new=True), lambda finding: in_claim(finding, new=False)),
        ]
        left, waiting = list(found), list(expected)
        for of_found, of_expected in passes:
            if not left:
                break
            pool: dict[Hashable, list[int]] = {}
            for number, finding in enumerate(waiting):
                key = of_expected(finding)
                if key is not None:
                    pool.setdefault((finding.code, finding.path, key), []).append(number)
            still: list[Finding] = []
            met: set[int] = set()
            for finding in left:
                matches = pool.get((finding.code, finding.path, of_found(finding)))
                if matches:
                    met.add(matches.pop())
                else:
                    still.append(finding)
            left = still
            waiting = [finding for number, finding in enumerate(waiting) if number not in met]
        return left


def _line(lines: Mapping[str, Sequence[str]], finding: Finding) -> str | None:
    """The text of a finding's line without its spacing, in files that change."""
    if finding.path not in lines or finding.span.line > len(lines[finding.path]):
        return None
    return " ".join(lines[finding.path][finding.span.line - 1].split())
