"""The cross-check: what the static pass says, joined with what a run showed. A pure function of both.

* Confirmed: the rule spoke at this place in the run, or the exception that it names was raised there.
* Refuted: an event that would show it happened there, or, for ops, the line ran, as did the lines of its trail, and
  the rule was silent each time. Never by a record that is cut, where the simulation ended the run, or for a rule that
  listens to events which the probe does not tell of.
* Not observable: it is about spelling, about other releases of torch, or about what does not happen on this machine.
  A plain run on the CPU is evidence about nothing but ``autocast("cpu")``.
* Missed: the run saw it and the static pass did not, where the user's code itself calls torch or an exception ended.
  What libraries do is counted apart, and a rule that rests on the text as well has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from amplint.confirm.recording import (
    CPU,
    KILLED,
    RAISED,
    SIMULATED,
    TIMED_OUT,
    Raised,
    Reached,
    Recording,
    Seen,
)
from amplint.findings import Finding, Span
from amplint.rules.base import FlowRule, Rule
from amplint.rules.dispatcher import heard_by, shown_by

_OPS = frozenset({"Op", "IndexPut", "Converted"})
"""Events that are told of only where half-precision tensors are part of them."""


_CUT = "a process was killed, and what it did after its record was last written is not known"
_NOT_SIMULATED = (
    "the simulation of CUDA ended the run, and what the program would have done next is not known"
)


class Status(str, Enum):
    """What a run says of a finding."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    NOT_REACHED = "not reached"
    NOT_OBSERVABLE = "not observable here"
    INCONCLUSIVE = "inconclusive"
    MISSED = "missed"
    """The run saw it and the static pass did not."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finding and what a run says of it. ``count`` is how often it was true, or, where it is refuted, how often
    its line ran and it was false; ``reason`` explains the other ones."""

    finding: Finding
    status: Status
    count: int = 0
    evidence: tuple[str, ...] = ()
    reason: str = ""
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """All verdicts of a run."""

    recording: Recording
    findings: tuple[Verdict, ...]
    missed: tuple[Verdict, ...]
    in_libraries: tuple[Verdict, ...] = ()
    """What the run saw libraries do that the program calls. It counts for nothing unless it is asked for."""

    def with_status(self, *wanted: Status) -> list[Verdict]:
        """The verdicts of these kinds."""
        return [verdict for verdict in (*self.findings, *self.missed) if verdict.status in wanted]


def cross_check(
    findings: Sequence[Finding],
    recording: Recording,
    rules: Iterable[Rule],
    digests: Mapping[str, str | None],
    is_wanted: Callable[[Finding], bool] = lambda finding: True,
    *,
    libraries: bool = False,
    at_release: Sequence[Finding] | None = None,
) -> CrossCheck:
    """The verdict on each finding, and what the run saw besides.

    ``digests`` holds, for each path that findings name, the SHA-256 of the file as it was linted; None if that
    is not known. ``is_wanted`` says of what the run saw whether the project wants to hear of it. ``libraries``: what
    libraries do is missed, too. ``at_release`` is what the static pass says if it takes the project to ask for the
    torch that ran: what it says of other releases alone, this run cannot show. None: there is no difference.
    """
    join = _Join(findings, recording, {rule.code: rule for rule in rules}, digests, at_release)
    verdicts = tuple(map(join.verdict, findings))
    more = [
        seen
        for seen in recording.seen
        if id(seen) not in join.matched
        and not join.gave_way(seen)
        and not join.needs_text(seen)
        and not join.is_of_release(seen.finding)
        and is_wanted(seen.finding)
    ]
    told = [seen for seen in more if libraries or not seen.by_library or join.raised_by(seen.finding)]
    hidden = [seen for seen in more if not any(seen is other for other in told)]
    return CrossCheck(recording, verdicts, tuple(map(join.missed, told)), tuple(map(join.missed, hidden)))


class _Join:
    """One recording, looked at for each finding."""

    def __init__(
        self,
        findings: Sequence[Finding],
        recording: Recording,
        rules: Mapping[str, Rule],
        digests: Mapping[str, str | None],
        at_release: Sequence[Finding] | None,
    ) -> None:
        self.findings = findings
        self.at_release = None if at_release is None else frozenset(map(_name, at_release))
        self.recording = recording
        self.rules = rules
        self.digests = digests
        self.matched: set[int] = set()

    def verdict(self, finding: Finding) -> Verdict:
        rule = self.rules.get(finding.code)
        if not isinstance(rule, FlowRule):
            reason = "it is about what is written, and true of it; no run shows it"
            return Verdict(finding, Status.NOT_OBSERVABLE, reason=reason)
        path = self._path_in_run(finding.path)
        if path is None:
            if self._ended_early and finding.path not in self.recording.files:
                return Verdict(finding, Status.INCONCLUSIVE, reason=self._ended_early)
            if finding.path in self.recording.files:
                reason = "the file that ran is not the one that was linted"
                return Verdict(finding, Status.INCONCLUSIVE, reason=reason)
            if self.recording.unobserved:
                return Verdict(finding, Status.NOT_OBSERVABLE, reason=self.recording.unobserved)
            if self.recording.elsewhere:
                reason = f"it may have run in `{self.recording.elsewhere}`, which was not observed"
                return Verdict(finding, Status.INCONCLUSIVE, reason=reason)
            return Verdict(finding, Status.NOT_REACHED, reason="nothing of this file ran")
        if self.at_release is not None and _name(finding) not in self.at_release:
            reason = f"not observable on torch {self.recording.torch}: it is true of other releases"
            return Verdict(finding, Status.NOT_OBSERVABLE, reason=reason)
        confirmed = self._confirmed(finding, path)
        if confirmed is not None:
            return confirmed
        raised = self.raised_by(finding)
        if raised is not None:
            return Verdict(finding, Status.CONFIRMED, 1, (_in_words(raised),), self._device())
        if self.recording.unobserved:
            return Verdict(finding, Status.NOT_OBSERVABLE, reason=self.recording.unobserved)
        unseen = self._unseen(finding, path, rule)
        if self._ended_early and unseen.status in (Status.NOT_REACHED, Status.REFUTED):
            return Verdict(finding, Status.INCONCLUSIVE, reason=self._ended_early)
        return unseen

    @property
    def _ended_early(self) -> str:
        """Why it is not known what the program would have done next; empty if it came to an end of its own."""
        if self.recording.is_cut:
            return _CUT
        return _NOT_SIMULATED if any(raised.not_simulated for raised in self.recording.raised) else ""

    def missed(self, seen: Seen) -> Verdict:
        """That the run saw something which the static pass did not say."""
        raised = self.raised_by(seen.finding)
        evidence = (*seen.evidence, *([_in_words(raised)] if raised is not None else ()))
        return Verdict(seen.finding, Status.MISSED, seen.count, evidence, "", self.ranks(seen))

    def raised_by(self, finding: Finding) -> Raised | None:
        """The exception that ended the run, if it is the one that torch raises for such a finding, on one of its lines.
        Then it is the program's matter, whoever called torch."""
        rule = self.rules.get(finding.code)
        path = self._path_in_run(finding.path)
        if not isinstance(rule, FlowRule) or not rule.raises or path is None:
            return None
        lines = [(path, finding.span), *((step.path, step.span) for step in finding.trail)]
        for raised in self.recording.raised:
            if not raised.stack or re.search(rule.raises, raised.text) is None:
                continue
            file, line = raised.stack[-1]
            if any(file == other and span.line <= line <= span.end_line for other, span in lines):
                return raised
        return None

    def gave_way(self, seen: Seen) -> bool:
        """Whether the static pass lets another rule speak of the region that this one speaks of. A run that ends
        early may not get to what the other one needs."""
        rule = self.rules.get(seen.finding.code)
        stronger = rule.yields_to if rule is not None else ()
        return any(
            finding.name in stronger
            and any(
                (step.path, step.span.line) == (finding.path, finding.span.line)
                for step in seen.finding.trail
            )
            for finding in self.findings
        )

    def is_of_release(self, seen: Finding) -> bool:
        """Whether the static pass would say it of the torch that ran, and does not say it of those that the project
        asks for."""
        return self.at_release is not None and any(
            (code, path) == (seen.code, seen.path) and self._meet(span, seen.span)
            for code, path, span in self.at_release - set(map(_name, self.findings))
        )

    def needs_text(self, seen: Seen) -> bool:
        """Whether a run alone cannot say it."""
        rule = self.rules.get(seen.finding.code)
        return seen.told_by_text or (isinstance(rule, FlowRule) and rule.told_by_text)

    def ranks(self, seen: Seen) -> tuple[int, ...]:
        """The processes that saw it, if there were several."""
        return seen.ranks if len(self.recording.ranks) > 1 else ()

    def _path_in_run(self, path: str) -> str | None:
        """What the recording calls a file: the same content, whatever its path."""
        files = self.recording.files
        digest = self.digests.get(path)
        if digest is None:
            return path if path in files else None
        if files.get(path) == digest:
            return path
        return next((other for other, known in files.items() if known == digest), None)

    def _confirmed(self, finding: Finding, path: str) -> Verdict | None:
        same_rule = [seen for seen in self.recording.seen if seen.finding.code == finding.code]
        here = [seen for seen in same_rule if seen.finding.path == path]
        found = [seen for seen in here if seen.finding.span == finding.span]
        found = found or [seen for seen in here if self._meet(seen.finding.span, finding.span)]
        found = found or [seen for seen in same_rule if self._called_from(seen.finding, path, finding.span)]
        if not found:
            return None
        self.matched.update(map(id, found))
        evidence = tuple(dict.fromkeys(piece for seen in found for piece in seen.evidence))
        ranks = tuple(sorted({rank for seen in found for rank in self.ranks(seen)}))
        return Verdict(
            finding, Status.CONFIRMED, sum(seen.count for seen in found), evidence, self._device(), ranks
        )

    def _called_from(self, seen: Finding, path: str, span: Span) -> bool:
        return any(
            step.message == "called from here" and step.path == path and self._meet(step.span, span)
            for step in seen.trail
        )

    def _unseen(self, finding: Finding, path: str, rule: FlowRule) -> Verdict:
        if rule.unseen:
            return Verdict(finding, Status.NOT_OBSERVABLE, reason=rule.unseen)
        for hidden in self.recording.hidden:
            if (
                hidden.kind in heard_by(rule)
                and hidden.path == path
                and self._meet(hidden.span, finding.span)
            ):
                return Verdict(finding, Status.NOT_OBSERVABLE, reason=hidden.reason)
        if rule.needs and self.recording.device != "cuda":
            reason = f"it takes {rule.needs}: run this on a CUDA device"
            return Verdict(finding, Status.NOT_OBSERVABLE, reason=reason)
        near = [
            reached
            for reached in self.recording.reached
            if reached.path == path and self._meet(reached.span, finding.span)
        ]
        telling = [
            reached
            for reached in near
            if reached.kind in shown_by(rule) and self._covers(reached.span, finding.span)
        ]
        ran = self._times_run(path, finding.span)
        ended = self._ended_in(path, finding.span)
        cut_off = ended is not None
        if ended is not None and (telling or ran or near):
            reason = "its line raised an exception, and not one that the rule knows"
            return Verdict(finding, Status.INCONCLUSIVE, evidence=(_in_words(ended),), reason=reason)
        harmless = ran if shown_by(rule) <= _OPS and not cut_off else 0
        if not telling and not harmless:
            if near or ran or cut_off:
                reason = "its line ran, but not what would show it"
                return Verdict(finding, Status.INCONCLUSIVE, reason=reason)
            return Verdict(finding, Status.NOT_REACHED, reason="its line did not run")
        if self.recording.device == CPU and not self._ran_under_cpu_region(finding, path):
            reason = (
                "autocast for CUDA is off on this machine, and GradScaler with it: run on a CUDA device or with "
                "--device simulated-cuda"
            )
            return Verdict(finding, Status.NOT_OBSERVABLE, reason=reason)
        # a rule that hears one event judges it by itself; one that hears none shares what others have heard
        if len(heard_by(rule)) != 1 and not self.recording.is_whole:
            return Verdict(
                finding, Status.INCONCLUSIVE, reason=f"the run {_end(self.recording)} before its end"
            )
        idle = self._idle_step(finding)
        if idle:
            return Verdict(finding, Status.NOT_REACHED, reason=f"{idle}, of which it speaks, did not run")
        untold = sorted(heard_by(rule) - set(self.recording.told))
        if untold:
            reason = (
                f"its line ran, but a run does not tell all that the rule listens to ({', '.join(untold)})"
            )
            return Verdict(finding, Status.INCONCLUSIVE, reason=reason)
        if telling:
            return self._refuted(finding, telling)
        evidence = ("it met no half-precision tensor",)
        return Verdict(finding, Status.REFUTED, harmless, evidence, self._device())

    def _times_run(self, path: str, span: Span) -> int:
        """How often a stretch ran, by its busiest line."""
        lines = self.recording.lines.get(path, {})
        return max((lines.get(line, 0) for line in range(span.line, span.end_line + 1)), default=0)

    def _refuted(self, finding: Finding, telling: Sequence[Reached]) -> Verdict:
        count = sum(reached.count for reached in telling)
        inside = sum(reached.inside for reached in telling)
        dtypes = dict.fromkeys(dtype for reached in telling for dtype in reached.dtypes)
        evidence = ["never in an enabled region"] if not inside else [f"{inside} times in an enabled region"]
        if dtypes:
            evidence.append(f"operands were {', '.join(dtypes)}")
        return Verdict(finding, Status.REFUTED, count, tuple(evidence), self._device())

    def _ran_under_cpu_region(self, finding: Finding, path: str) -> bool:
        """Whether a region that the finding speaks of was one for the CPU."""
        places = [(path, finding.span), *((step.path, step.span) for step in finding.trail)]
        return any(
            opened.device == CPU
            and opened.enabled
            and any(opened.path == other and self._meet(opened.span, span) for other, span in places)
            for opened in self.recording.opened
        )

    def _ended_in(self, path: str, span: Span) -> Raised | None:
        """The exception that ended the run in a stretch."""
        return next(
            (
                raised
                for raised in self.recording.raised
                for file, line in raised.stack[-1:]
                if file == path and span.line <= line <= span.end_line
            ),
            None,
        )

    def _idle_step(self, finding: Finding) -> str:
        """The line of a part of the trail that did not run; empty if all of them ran, as far as lines were counted."""
        for step in finding.trail:
            path = self._path_in_run(step.path)
            if path is not None and path in self.recording.lines and not self._times_run(path, step.span):
                return f"line {step.span.line}" + (f" of {step.path}" if step.path != finding.path else "")
        return ""

    def _device(self) -> str:
        match self.recording.device:
            case device if device == SIMULATED:
                return "CUDA simulated on CPU"
            case device if device == CPU:
                return "on the CPU"
            case _:
                return "on " + (self.recording.device_name or "CUDA")

    def _meet(self, one: Span, other: Span) -> bool:
        """Whether two stretches have something in common; by lines where a place is no more than a line."""
        if not self.recording.exact or other.column == other.end_column or one.column == one.end_column:
            return one.line <= other.end_line and other.line <= one.end_line
        return (one.line, one.column) < (other.end_line, other.end_column) and (
            other.line,
            other.column,
        ) < (one.end_line, one.end_column)

    def _covers(self, outer: Span, inner: Span) -> bool:
        """Whether an event is that of the whole stretch, not of a part of it."""
        if not self.recording.exact:
            return self._meet(outer, inner)
        return (outer.line, outer.column) <= (inner.line, inner.column) and (
            inner.end_line,
            inner.end_column,
        ) <= (outer.end_line, outer.end_column)


def _name(finding: Finding) -> tuple[str, str, Span]:
    return finding.code, finding.path, finding.span


def _in_words(raised: Raised) -> str:
    return f"raised {raised.type}: {raised.text}"


def _end(recording: Recording) -> str:
    return {RAISED: "raised", TIMED_OUT: "ran out of time", KILLED: "was killed"}.get(
        recording.ended, recording.ended
    )
