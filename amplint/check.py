"""The one pass over a project: discovery, gate, analysis in groups, findings. Serial or parallel, the same
code."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amplint.bounds import TorchBounds
from amplint.catalog import UNUSED_SUPPRESSION
from amplint.config import Settings, with_project_torch
from amplint.gating import gate_of, gated
from amplint.source.decoding import Unreadable, decode, display_name, read_bytes
from amplint.source.discovery import Discovery, discover
from amplint.source.gate import passes

if TYPE_CHECKING:
    from amplint.findings import Crash, Finding, Span
    from amplint.groups import Candidate, Job, Verdict
    from amplint.parallel import Crew
    from amplint.reached import Reached
    from amplint.silence import Word

Progress = Callable[[int, int], None]
"""Called with the number of files done and of all files that are analysed."""

_WORTH_WORKERS = 12
"""Files that have to pass the gate before worker processes pay for their start."""

_MANY_FILES = 400
"""Files from which on worker processes are started before the gate, which they share."""

_MOST_DEFINERS = 48
"""Files in which calls out of sight are followed. A name that more of them define says too little."""

_GROUPS_EACH = 6
"""Groups for each worker: with fewer, the last one is waited for; with more, files are read by several."""

_MOST_WORKERS = 8
"""More processes gain little and cost memory: each holds LibCST and the files that it has read."""


class Stdin(NamedTuple):
    """Source text that comes from standard input and the name under which it is reported."""

    path: Path
    data: bytes


class CheckResult(NamedTuple):
    """What a run found. ``sources`` says where the text of the files that findings name is to be had."""

    findings: tuple[Finding, ...]
    checked: int
    """Files that were looked at, those that did not pass the gate included."""
    crashes: tuple[Crash, ...] = ()
    sources: Mapping[str, str] = {}
    """Displayed name -> path on the disk."""
    texts: Mapping[str, str] = {}
    """Displayed name -> text, for what came from standard input and what was fixed."""
    unsafe_fixes: bool = False
    """Whether unsafe fixes are to be shown as fixes that will be made."""
    done: str = ""
    """A line about what was fixed or silenced."""
    torch: TorchBounds | None = None
    """The torch releases that the findings hold for; None where no file was analysed."""


def files_to_check(paths: Sequence[str | os.PathLike[str]], settings: Settings) -> Discovery:
    """The files that a run over these paths looks at. Raises MissingPathError."""
    return discover(
        paths, root=settings.root, excluded=settings.excluded, force_exclude=settings.force_exclude
    )


def check(
    paths: Sequence[str | os.PathLike[str]],
    settings: Settings,
    *,
    jobs: int = 0,
    stdin: Stdin | None = None,
    progress: Progress | None = None,
    changed: Mapping[str, bytes] = {},
) -> CheckResult:
    """Check the files at and below the paths, or the text from standard input instead of them.

    ``jobs`` is the number of worker processes, 0 for as many as the machine has processors; ``changed`` holds
    bytes by absolute path, to be read instead of those on the disk. Raises MissingPathError."""
    if stdin is not None:
        return _check_stdin(stdin, settings)
    discovery = files_to_check(paths, settings)
    workers = _workers(jobs)
    if workers > 1 and len(discovery.files) > _MANY_FILES:
        from amplint.parallel import Crew

        job = _job(paths, settings, discovery.files, changed)
        with Crew(job, workers) as crew:
            passed, others = _gated_by(crew, workers, discovery.files, settings)
            return _judge(job, passed, others, discovery, crew, workers, progress)
    passed, others = gated(
        discovery.files, gate_of(settings), refined=not settings.has_own_wrappers, changed=changed
    )
    if not passed and not discovery.obstacles:
        return CheckResult((), len(discovery.files))
    job = _job(paths, settings, discovery.files, changed)
    return _judge(job, passed, others, discovery, None, workers, progress)


def _gated_by(
    crew: Crew, workers: int, files: Sequence[str], settings: Settings
) -> tuple[list[tuple[str, int]], list[str]]:
    """The gate of a large tree, passed in several processes at once."""
    parts = _in_parts(files, 4 * workers)
    passed: list[tuple[str, int]] = []
    others: list[str] = []
    for found, rest in crew.gate(parts, gate_of(settings), refined=not settings.has_own_wrappers):
        passed += found
        others += rest
    return passed, others


def _in_parts(files: Sequence[str], count: int) -> list[Sequence[str]]:
    size = len(files) // count + 1
    return [files[start : start + size] for start in range(0, len(files), size)]


def _check_stdin(stdin: Stdin, settings: Settings) -> CheckResult:
    if not passes(stdin.data, gate_of(settings)):
        return CheckResult((), 1)
    from amplint.groups import Candidate, judge_group, unreadable_file

    display = display_name(stdin.path)
    try:
        text = decode(stdin.data)
    except Unreadable as error:
        return CheckResult((unreadable_file(display, error),), 1)
    from amplint.analysis import forget

    forget()  # the text may be another one than in an earlier run in this process
    candidate = Candidate(str(stdin.path.absolute()), display, len(stdin.data), text)
    job = _job([stdin.path], settings, ())
    verdict: Verdict = judge_group(job, [candidate])
    findings = tuple(sorted(verdict.findings, key=lambda finding: finding.order))
    return CheckResult(findings, 1, verdict.crashes, {}, {display: text}, torch=job.settings.torch)


def _judge(
    job: Job,
    passed: Sequence[tuple[str, int]],
    others: Sequence[str],
    discovery: Discovery,
    crew: Crew | None,
    workers: int,
    progress: Progress | None,
) -> CheckResult:
    from amplint.findings import Crash
    from amplint.groups import Candidate, unreadable_file

    everything = [*passed, *_second_round(job, passed, others, crew, workers)]
    candidates = [
        Candidate(path, display_name(path), size, decode(job.changed[path]) if path in job.changed else None)
        for path, size in everything
    ]
    sources = {candidate.display: candidate.path for candidate in candidates}
    findings: dict[Finding, None] = {}
    crashes: list[Crash] = []
    silencing: set[Word] = set()
    for obstacle in discovery.obstacles:
        finding = unreadable_file(display_name(obstacle.path), Unreadable(obstacle.message))
        if finding.code in job.codes:
            findings[finding] = None
    done = 0
    places: set[tuple[str, str, Span]] = set()
    for group, verdict in _each_group(job, candidates, crew, workers):
        if verdict is None:
            crashes.append(Crash(group[0].display, "", "the worker process died"))
        else:
            known = places if group[0].reached else ()
            findings.update(
                (finding, None)
                for finding in verdict.findings
                if (finding.code, finding.path, finding.span) not in known
            )
            places.update((finding.code, finding.path, finding.span) for finding in verdict.findings)
            crashes += verdict.crashes
            silencing |= verdict.silencing
        if group[0].reached:
            sources.update((candidate.display, candidate.path) for candidate in group)
            continue
        done += len(group)
        if progress is not None:
            progress(done, len(candidates))
    # a comment that silences nothing in its own group may have silenced what another one found in its file
    kept = [
        finding
        for finding in findings
        if finding.code != UNUSED_SUPPRESSION[0] or (finding.path, finding.span) not in silencing
    ]
    ordered = sorted(_once(kept), key=lambda finding: finding.order)
    torch = job.settings.torch
    return CheckResult(tuple(ordered), len(discovery.files), tuple(crashes), sources, torch=torch)


def _once(findings: Iterable[Finding]) -> Iterable[Finding]:
    """The findings without those that say of a place what another one says, too: groups reach the same code by
    different calls. The shortest way there is shown."""
    best: dict[tuple[str, str, Span, str], Finding] = {}
    for finding in findings:
        key = (finding.code, finding.path, finding.span, finding.message)
        known = best.get(key)
        if known is None or _distance(finding) < _distance(known):
            best[key] = finding
    return best.values()


def _distance(finding: Finding) -> tuple[int, int, str]:
    return finding.level.rank, len(finding.trail), str(finding.trail)


def _job(
    paths: Sequence[str | os.PathLike[str]],
    settings: Settings,
    files: Sequence[str],
    changed: Mapping[str, bytes] = {},
) -> Job:
    from amplint.groups import Job

    settings = with_project_torch(settings, [Path(path) for path in paths])
    return Job(settings, tuple(map(Path, files)), changed)


def _second_round(
    job: Job, passed: Sequence[tuple[str, int]], others: Sequence[str], crew: Crew | None, workers: int
) -> list[tuple[str, int]]:
    """Files without a token of their own that use what the first ones define, such as a script that hands its
    model to the function which opens the region."""
    from amplint.amp.survey import second_gate

    def with_bytes() -> Iterator[tuple[tuple[str, ...], bytes]]:
        for path, _ in passed:
            try:
                data = job.changed[path] if path in job.changed else read_bytes(path)
                yield (Path(path).stem, Path(path).parent.name), data
            except Unreadable:
                continue

    gate = second_gate(with_bytes(), len(others)) if others else ()
    if not gate:
        return []
    if crew is None:
        return gated(others, gate, changed=job.changed)[0]
    found = crew.gate(_in_parts(others, 2 * workers), gate, refined=False)
    return [file for part, _ in found for file in part]


def _each_group(
    job: Job, candidates: Sequence[Candidate], crew: Crew | None, workers: int
) -> Iterator[tuple[Sequence[Candidate], Verdict | None]]:
    """Each group of files with its verdict, and then those of the methods that calls out of sight may reach."""
    if crew is None and (workers == 1 or len(candidates) <= _WORTH_WORKERS):
        from amplint.analysis import forget
        from amplint.groups import judge_group

        forget()  # a file may have changed since an earlier run in this process
        groups = _grouped(candidates, len(candidates) // 64 + 1)
        yield from _with_reached(
            job, lambda some: ((group, judge_group(job, group)) for group in some), groups
        )
        return
    from amplint.parallel import Crew

    groups = _grouped(candidates, _GROUPS_EACH * workers)
    if crew is not None:
        yield from _with_reached(job, crew.judge, groups)
        return
    with Crew(job, min(workers, len(groups))) as late:
        yield from _with_reached(job, late.judge, groups)


def _with_reached(
    job: Job,
    judge: Callable[[list[list[Candidate]]], Iterable[tuple[Sequence[Candidate], Verdict | None]]],
    groups: list[list[Candidate]],
) -> Iterator[tuple[Sequence[Candidate], Verdict | None]]:
    reached: dict[tuple[object, ...], Reached] = {}
    for group, verdict in judge(groups):
        for one in verdict.reached if verdict is not None else ():
            key = (*one[:3], one.kinds)
            reached[key] = min(reached.get(key, one), one, key=lambda it: it.call[:2])
        yield group, verdict
    definers = _definers(
        job, sorted(reached.values(), key=lambda one: (one.positional is None, one.call[:2]))
    )
    if definers:
        yield from judge(_grouped(definers, len(definers) // 8 + 1))


def _definers(job: Job, reached: Sequence[Reached]) -> list[Candidate]:
    """The files that define methods which calls out of sight may reach, if half precision may do harm in them."""
    from amplint.amp.survey import defines, may_raise, may_suffer
    from amplint.groups import Candidate
    from amplint.reached import CALLED

    found: list[tuple[str, int, list[str]]] = []
    definitions: Counter[str] = Counter()
    wanted = sorted({one.name for one in reached})
    for path in map(str, job.project_files) if wanted else ():
        try:
            data = job.changed[path] if path in job.changed else read_bytes(path)
        except Unreadable:
            continue
        names = defines(data, wanted)
        definitions.update(names)
        if CALLED in names and not may_raise(data):
            names.remove(CALLED)
        if names and may_suffer(data):
            found.append((path, len(data), names))
    if len(found) > _MOST_DEFINERS:
        found = [(path, size, [CALLED]) for path, size, names in found if CALLED in names][:_MOST_DEFINERS]
    return [
        Candidate(
            path,
            display_name(path),
            size,
            decode(job.changed[path]) if path in job.changed else None,
            tuple(one._replace(alone=definitions[one.name] == 1) for one in reached if one.name in names),
        )
        for path, size, names in found
    ]


def _workers(jobs: int) -> int:
    if jobs > 0:
        return jobs
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, _MOST_WORKERS)


def _grouped(candidates: Sequence[Candidate], count: int) -> list[list[Candidate]]:
    """About ``count`` groups of like size in bytes, of files that lie near each other; the largest first."""
    ordered = sorted(candidates, key=lambda candidate: candidate.path)
    share = sum(candidate.size for candidate in ordered) / count
    groups: list[list[Candidate]] = [[]]
    filled = 0
    for candidate in ordered:
        if groups[-1] and filled + candidate.size / 2 > share:
            groups.append([])
            filled = 0
        groups[-1].append(candidate)
        filled += candidate.size
    return sorted(groups, key=lambda group: -sum(candidate.size for candidate in group))
