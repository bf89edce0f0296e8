"""The one pass over a project: cache, gate, analysis, findings. In a large tree worker processes share the gate."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amplint.bounds import TorchBounds
from amplint.cache import Cache, Entry
from amplint.config import LEVELS, Settings, with_line_length, with_project_torch
from amplint.gating import gate_of, gated
from amplint.kept import Kept
from amplint.laps import Laps
from amplint.scope import View, alone, text_alone
from amplint.source.decoding import Unreadable, display_name
from amplint.source.gate import passes
from amplint.source.texts import text_of
from amplint.source.words import Asked

if TYPE_CHECKING:
    from amplint.baseline import Baseline, Compared
    from amplint.findings import Crash, Finding
    from amplint.groups import Job
    from amplint.parallel import Crew
    from amplint.source.project import Project

Progress = Callable[[str, int, int], None]
"""Called with what the run is at, such as "reading files", how much of it is done and how much there is, 0 where
nobody knows."""

_GATE = "looking for AMP in files"

_MANY_FILES = 400
"""Files from which on worker processes are started before the gate, which they share."""

_MOST_WORKERS = 8
"""More processes gain little and cost memory: each holds LibCST and the files that it has read."""


class Stdin(NamedTuple):
    """Source text that comes from standard input and the name under which it is reported."""

    path: Path
    data: bytes


@dataclass(frozen=True)
class Account:
    """How one project was checked, for those who want to know. The same result is the same however it was come by."""

    root: Path
    settings: Path | None
    """The file of settings, if there is one."""
    torch: str
    """Where the torch releases come from that findings are about."""
    files: int
    """Files of the project: those that are reported on, and those around them."""
    read: tuple[str, ...]
    """The displayed names of those that were read whole: they passed the gate, or use what those define that did."""
    cache: str = field(compare=False)
    """What was done with results of earlier runs."""
    seconds: Mapping[str, float] = field(compare=False)
    """By phase."""


class CheckResult(NamedTuple):
    """What a run found. ``sources`` says where the text of the files that findings name is to be had."""

    findings: tuple[Finding, ...]
    checked: int
    """Files that were looked at, those that did not pass the gate included."""
    crashes: tuple[Crash, ...] = ()
    sources: Mapping[str, str] = {}
    """Displayed name -> path on the disk."""
    contents: Mapping[str, bytes] = {}
    """Displayed name -> bytes, for what came from standard input and what was fixed."""
    unsafe_fixes: bool = False
    """Whether unsafe fixes are to be shown as fixes that will be made."""
    done: str = ""
    """A line about what was fixed or silenced."""
    torch: TorchBounds | None = None
    """The torch releases that the findings hold for; None where no file was analysed."""
    entries: int = 0
    """Entry points that were walked."""
    cut: int = 0
    """Those of them that have more statements or paths than are walked: findings may be missing there."""
    skipped: Mapping[str, str] = {}
    """Displayed name -> why a file that was to be fixed is left as it is."""
    accounts: tuple[Account, ...] = ()
    """One for each project."""
    compared: tuple[Compared, ...] = ()
    """What the comparison with each baseline gave; without one, none."""

    @property
    def known(self) -> tuple[Finding, ...]:
        """The findings that are in a baseline, and not among ``findings``."""
        return tuple(finding for one in self.compared for finding in one.known)

    @property
    def stale(self) -> int:
        """The number of entries of baselines that are found no more."""
        return sum(len(one.stale) for one in self.compared)


def check(
    paths: Sequence[str | os.PathLike[str]],
    settings: Settings,
    *,
    jobs: int = 0,
    stdin: Stdin | None = None,
    progress: Progress | None = None,
    changed: Mapping[str, bytes] = {},
) -> CheckResult:
    """Check the files at and below the paths, or the text from standard input instead of them; they are all of the
    project.

    ``jobs`` is the number of worker processes, 0 for as many as the machine has processors; ``changed`` holds
    bytes by absolute path, to be read instead of those on the disk. Raises MissingPathError."""
    if stdin is not None:
        return check_stdin(text_alone(stdin.path, settings), stdin)
    return check_views([alone(paths, settings)], jobs=jobs, progress=progress, changed=changed)


def check_views(
    views: Sequence[View],
    *,
    jobs: int = 0,
    progress: Progress | None = None,
    changed: Mapping[str, bytes] = {},
    cache: Cache | None = None,
) -> CheckResult:
    """Check the projects of some views, and report what lies in the views. Arguments as for ``check``; results are
    taken from the cache, and kept there; what is ``changed`` only in one that is a Memory."""
    return _merged([_check_view(view, jobs, progress, changed, cache) for view in views])


def check_stdin(view: View, stdin: Stdin) -> CheckResult:
    """Check the text from standard input in the project of the file that it is named after."""
    display = display_name(stdin.path)
    try:
        text_of(stdin.data, stdin.path)
    except Unreadable as error:
        if not passes(stdin.data, gate_of(view.settings)):
            return CheckResult((), 1)
        from amplint.groups import unreadable_file

        return _result(view, Kept((unreadable_file(display, error),)))
    result = _check_view(view, 1, None, {str(stdin.path.absolute()): stdin.data})
    return result._replace(contents={display: stdin.data})


def _check_view(
    view: View,
    jobs: int,
    progress: Progress | None,
    changed: Mapping[str, bytes],
    cache: Cache | None = None,
) -> CheckResult:
    laps = Laps()
    files = view.project
    settings = with_line_length(with_project_torch(view.settings, view.root, files), view.root)
    view = view._replace(settings=settings)
    told = progress if progress is not None else lambda phase, done, total: None
    told("looking at files", 0, len(files))
    entry = cache.of(view, changed) if cache is not None else None
    kept = entry.get() if entry is not None else None
    laps.end("cache")
    if kept is not None:
        return _with_account(_result(view, kept), view, "used", laps)
    workers = _workers(jobs)
    if workers > 1 and len(files) > _MANY_FILES:
        from amplint.parallel import Crew

        with Crew(_job(view, changed), workers) as crew:
            passed, others = _gated_by(crew, workers, files, settings, told)
    else:
        gate, refined = gate_of(settings), not settings.has_own_wrappers
        passed, others = gated(files, gate, refined=refined, changed=changed, told=partial(told, _GATE))
    laps.end("gate")
    if passed:
        result = _judge(_job(view, changed), view, passed, others, told, entry)
    else:
        if entry is not None:
            entry.put(Kept(()), Asked(), ())
        result = _result(view, Kept(()))
    laps.end("analysis")
    return _with_account(result, view, "off" if entry is None else "nothing to use", laps)


def _with_account(result: CheckResult, view: View, cache: str, laps: Laps) -> CheckResult:
    settings = view.settings
    account = Account(
        view.root,
        settings.source,
        settings.torch_from,
        len(view.project),
        tuple(sorted(result.sources)),
        cache,
        laps.seconds,
    )
    return result._replace(accounts=(account,))


def _merged(results: Sequence[CheckResult]) -> CheckResult:
    """What several projects gave, as one result."""
    if len(results) == 1:
        return results[0]
    return CheckResult(
        tuple(
            sorted((one for result in results for one in result.findings), key=lambda finding: finding.order)
        ),
        sum(result.checked for result in results),
        tuple(crash for result in results for crash in result.crashes),
        {display: path for result in results for display, path in result.sources.items()},
        torch=next((result.torch for result in results if result.torch is not None), None),
        entries=sum(result.entries for result in results),
        cut=sum(result.cut for result in results),
        compared=tuple(one for result in results for one in result.compared),
        accounts=tuple(account for result in results for account in result.accounts),
    )


def _gated_by(
    crew: Crew, workers: int, files: Sequence[str], settings: Settings, told: Progress
) -> tuple[list[str], list[str]]:
    """The gate of a large tree, passed in several processes at once."""
    parts = _in_parts(files, 4 * workers)
    passed: list[str] = []
    others: list[str] = []
    for found, rest in crew.gate(parts, gate_of(settings), refined=not settings.has_own_wrappers):
        passed += found
        others += rest
        told(_GATE, len(passed) + len(others), len(files))
    return passed, others


def _in_parts(files: Sequence[str], count: int) -> list[Sequence[str]]:
    size = len(files) // count + 1
    return [files[start : start + size] for start in range(0, len(files), size)]


def _judge(
    job: Job,
    view: View,
    passed: Sequence[str],
    others: Sequence[str],
    told: Progress,
    entry: Entry | None,
) -> CheckResult:
    from amplint.groups import Candidate, judge_group

    project = job.project()
    candidates = [
        Candidate(path, display_name(path), job.changed.get(path))
        for path in (*passed, *_users(job, project, passed, others))
    ]
    verdict = judge_group(job, candidates, project, told)
    sources = {candidate.display: candidate.path for candidate in candidates}
    kept = Kept(verdict.findings, sources, verdict.entries, verdict.cut)
    if entry is not None and not verdict.crashes:
        unread = [
            candidate.path for candidate in candidates if Path(candidate.path) not in project.asked.read
        ]
        entry.put(kept, project.asked, unread)
    return _result(view, kept, verdict.crashes)


def _result(view: View, found: Kept, crashes: tuple[Crash, ...] = ()) -> CheckResult:
    """What of the findings in a project lies in the view, with what could not be looked at."""
    obstacles: list[Finding] = []
    if view.obstacles:
        from amplint.groups import codes_to_run, unreadable_file

        obstacles = [
            unreadable_file(display_name(obstacle.path), Unreadable(obstacle.message))
            for obstacle in view.obstacles
        ]
        obstacles = [finding for finding in obstacles if finding.code in codes_to_run(view.settings)]
    shown = {display_name(path): path for path in (*view.files, *(one.path for one in view.obstacles))}
    present = [finding for finding in (*obstacles, *found.findings) if finding.path in shown]
    mildest = LEVELS.index(view.settings.level)
    told = [finding for finding in present if finding.level.rank <= mildest]
    compared: tuple[Compared, ...] = ()
    if view.baseline is not None:
        one = _compared(
            view, view.baseline, [(finding, shown[finding.path]) for finding in present], not crashes
        )
        known = set(one.known)
        told = [finding for finding in told if finding not in known]
        compared = (one,)
    return CheckResult(
        tuple(sorted(told, key=lambda finding: finding.order)),
        len(view.files),
        crashes,
        found.sources,
        torch=view.settings.torch if found.sources or view.obstacles else None,
        entries=found.entries,
        cut=found.cut,
        compared=compared,
    )


def _compared(
    view: View, baseline: Baseline, present: Sequence[tuple[Finding, str]], is_whole: bool
) -> Compared:
    """What was found in the view, held against its baseline. After a crash nobody knows what is found no more."""
    from amplint.baseline import compare, is_baselined

    unread = {path for finding, path in present if not is_baselined(finding)}
    files = {*view.files} - unread
    hidden = [obstacle.path for obstacle in view.obstacles]
    mildest = LEVELS.index(view.settings.level)

    def is_judged(path: str) -> bool:
        if path in files:
            return is_whole
        return not os.path.lexists(path) and not any(Path(path).is_relative_to(folder) for folder in hidden)

    def ran() -> frozenset[str]:
        from amplint.groups import codes_to_run

        return codes_to_run(view.settings)

    return compare(baseline, present, lambda finding: finding.level.rank <= mildest, is_judged, ran)


def _job(view: View, changed: Mapping[str, bytes]) -> Job:
    from amplint.groups import Job

    return Job(view.settings, tuple(map(Path, view.project)), changed)


def _users(job: Job, project: Project, passed: Sequence[str], others: Sequence[str]) -> list[str]:
    """Files without a token of their own that use what the first ones define, such as a script that hands its
    model to the function which opens the region."""
    from amplint.flow.driver import known
    from amplint.flow.project.gate import users

    models = known(job.settings.autocast_contexts, job.settings.backward_functions)
    in_passing = job.settings.where_errors_only()
    return [str(path) for path in users(project, models, map(Path, passed), map(Path, others), in_passing)]


def _workers(jobs: int) -> int:
    if jobs > 0:
        return jobs
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, _MOST_WORKERS)
