"""Judges a group of files: reading, the analysis, suppressions and fingerprints.

A group is what passed the gate in one project: it is judged as a whole, in one process.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from amplint.catalog import SYNTAX_ERROR, UNUSED_SUPPRESSION, rule_names
from amplint.config import Settings, fixable_codes
from amplint.findings import Crash, Finding, Level, Span
from amplint.identity import identified
from amplint.patterns import spec_of
from amplint.selectors import selects
from amplint.silence import Silence
from amplint.source.decoding import Unreadable, lines_of
from amplint.source.nesting import RECURSION_LIMIT
from amplint.source.project import Project
from amplint.source.texts import SourceFile, read_source, source_of, text_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that passed the gate. ``data`` are its bytes where they do not come from the disk."""

    path: str
    display: str
    data: bytes | None = None

    def read(self) -> SourceFile:
        """The decoded file; raises Unreadable."""
        if self.data is not None:
            return source_of(self.path, self.display, self.data)
        return read_source(self.path, self.display)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came out for a group."""

    findings: tuple[Finding, ...] = ()
    crashes: tuple[Crash, ...] = ()
    entries: int = 0
    """Entry points that were walked."""
    cut: int = 0
    """Those that met a budget."""


@dataclass(frozen=True, slots=True)
class Job:
    """What all groups of a run have in common."""

    settings: Settings
    project_files: tuple[Path, ...]
    changed: Mapping[str, bytes] = field(default_factory=dict)
    """Bytes by absolute path that count instead of those on the disk."""

    def project(self) -> Project:
        """The project, with no file read yet."""
        project = Project(self.project_files)
        project.changed = self.changed
        return project

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the rules to run."""
        return codes_to_run(self.settings)


def codes_to_run(settings: Settings) -> frozenset[str]:
    """The codes of the rules that settings ask for."""
    return _codes_to_run(settings.select, settings.extend_select, settings.ignore)


@lru_cache(maxsize=4)
def _codes_to_run(
    select: tuple[str, ...], extend_select: tuple[str, ...], ignore: tuple[str, ...]
) -> frozenset[str]:
    from amplint.rules import all_rules
    from amplint.selectors import enabled_codes

    default = [rule.code for rule in all_rules() if rule.default]
    enabled = enabled_codes(rule_names(), default, select, extend_select, ignore)
    if selects(ignore, *SYNTAX_ERROR):
        return enabled - {SYNTAX_ERROR[0]}
    return enabled | {SYNTAX_ERROR[0]}  # a file that cannot be read is said, whatever is selected


def judge_group(
    job: Job,
    group: Sequence[Candidate],
    project: Project | None = None,
    told: Callable[[str, int, int], None] = lambda phase, done, total: None,
) -> Verdict:
    """The findings in the files of a group, without those that are silenced or switched off. ``project`` is that of the
    job's files, if some were read already; ``told`` hears what this is at, how much is done, and of how much or 0."""
    from amplint.analysis import Analysis, Judged

    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    files, unreadable = read_group(group)
    texts = {file.display: file.text for file in files}
    wanted = Wanted(job, texts)
    judged = Judged([], [])
    if files:
        try:
            told("reading files", 0, len(files))
            analysis = Analysis(files, project or job.project(), job.settings, job.codes)
            judged = analysis.run(wanted, told)
        except Exception as error:
            judged.crashes.append(_crash(files[0], error))
    findings = [*unreadable, *judged.findings]
    kept = list(filter(wanted, findings))
    if UNUSED_SUPPRESSION[0] in job.codes:
        failed = {crash.path for crash in judged.crashes}
        failed |= {finding.path for finding in findings if finding.code == SYNTAX_ERROR[0]}
        said = [file.display for file in files if file.display not in failed]
        fixable = UNUSED_SUPPRESSION[0] in fixable_codes(job.settings)
        kept += filter(wanted, wanted.silence.unused(said, job.codes, fixable=fixable))
    kept = sorted(_once(kept), key=lambda finding: finding.order)
    lines = {finding.path: lines_of(texts[finding.path]) for finding in kept if finding.path in texts}
    return Verdict(
        tuple(identified(kept, lines)),
        tuple(judged.crashes),
        judged.entries,
        judged.cut,
    )


def _text_of(texts: dict[str, str], changed: Mapping[str, bytes], path: str) -> str | None:
    """The text of a file. A finding may lie in a file that did not pass the gate, which is read then."""
    if path not in texts:
        data = changed.get(str(Path(path).absolute()))
        try:
            texts[path] = read_source(path, path).text if data is None else text_of(data, path)
        except Unreadable:
            return None
    return texts[path]


def read_group(group: Iterable[Candidate]) -> tuple[list[SourceFile], list[Finding]]:
    """The files that can be decoded, and a finding for each that cannot, or for what of it cannot."""
    files, findings = [], []
    for candidate in group:
        try:
            files.append(candidate.read())
            flaws = [unreadable_file(candidate.display, flaw) for flaw in files[-1].flaws]
            findings += [replace(flaw, level=Level.WARNING) for flaw in flaws]  # the other cells are read
        except Unreadable as error:
            findings.append(unreadable_file(candidate.display, error))
    return files, findings


def unreadable_file(display: str, error: Unreadable) -> Finding:
    """The finding for a file that cannot be read."""
    code, name = SYNTAX_ERROR
    place = Span(error.line, error.column, error.line, error.column)
    return identified([Finding(code, name, Level.ERROR, error.message, display, place)], {})[0]


def _crash(file: SourceFile, error: Exception) -> Crash:
    frames = traceback.extract_tb(error.__traceback__)
    rules = [PurePath(frame.filename) for frame in frames if PurePath(frame.filename).parent.name == "rules"]
    rule = next((path.stem.partition("_")[2] for path in reversed(rules) if path.stem.startswith("amp")), "")
    return Crash.of(file.display, rule.replace("_", "-"), error)


class Wanted:
    """Whether a finding is to be reported: it is neither silenced nor switched off."""

    def __init__(self, job: Job, texts: dict[str, str]) -> None:
        self._job = job
        self.silence = Silence(partial(_text_of, texts, job.changed))

    def __call__(self, finding: Finding) -> bool:
        return (
            finding.code in self._job.codes
            and not self.silence.covers(finding)
            and not self._is_ignored(finding)
        )

    def _is_ignored(self, finding: Finding) -> bool:
        """Whether ``per-file-ignores`` switches its rule off, or ``errors-only`` its level."""
        if finding.level is not Level.ERROR and self._errors_only(finding.path):
            return True
        name = self._job.settings.relative(finding.path)
        return any(
            selects(rules, finding.code, finding.name) and pattern.match_file(name)
            for pattern, rules in self._ignores
        )

    @cached_property
    def _errors_only(self) -> Callable[[str | Path], bool]:
        return self._job.settings.where_errors_only()

    @cached_property
    def _ignores(self) -> list[tuple[GitIgnoreSpec, tuple[str, ...]]]:
        return [(spec_of([glob]), rules) for glob, rules in self._job.settings.per_file_ignores]


def _once(findings: Iterable[Finding]) -> Iterable[Finding]:
    """The findings without those that say of a place what another one says, too: walks reach the same code by
    different calls. The shortest way there is shown."""
    best: dict[tuple[str, str, Span, str], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.path, finding.span, finding.text)
        known = best.get(key)
        if known is None or _distance(finding) < _distance(known):
            best[key] = finding
    return best.values()


def _distance(finding: Finding) -> tuple[int, int, str]:
    return finding.level.rank, len(finding.trail), str(finding.trail)
