"""Fixing: lint, rounds of fixes, and the files that come of them. Nothing is written before ``write``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from amplint.cache import Cache, Stamp, stamp_of
from amplint.catalog import SYNTAX_ERROR
from amplint.check import CheckResult, Progress, Stdin, check_stdin, check_views
from amplint.findings import Edit, Finding
from amplint.fixes.edits import applied
from amplint.fixes.rounds import CHANGED, NotForFixing, Outcome, Rounds
from amplint.scope import View, added_to
from amplint.source.cells import cell_name, cells_of, is_notebook, shown
from amplint.source.decoding import Unreadable, display_name, read_bytes
from amplint.source.texts import text_of
from amplint.source.writing import Replacement, Unwritable, Writer, encoded, obstacle, remove_leftovers


@dataclass(frozen=True)
class Change:
    """A file that is to change. ``name`` is what reports call it."""

    name: str
    path: str
    before: bytes
    after: bytes

    @property
    def texts(self) -> tuple[str, str]:
        """The text before and after, with the line ends that are in the file."""
        return text_of(self.before, self.path), text_of(self.after, self.path)

    @property
    def parts(self) -> list[tuple[str, str, str]]:
        """What changes, as it is shown: a name, and the text before and after; of a notebook those of each cell."""
        before, after = self.texts
        if not is_notebook(self.path):
            return [(self.name, before, after)]
        return [
            (cell_name(self.name, old), *texts)
            for old, new in zip(cells_of(before), cells_of(after), strict=True)
            if len(set(texts := (shown(before, old), shown(after, new)))) == 2
        ]


@dataclass
class Fixing:
    """What fixing came to: what is left, what is fixed, and what has to be written for it."""

    result: CheckResult
    """What linting says of the changed files. A finding whose fix was not made has none, and a note that says why;
    ``skipped`` has the files that are left as they are although something in them could be fixed."""
    lint: Callable[[], CheckResult]
    """Says it anew of the files as they are on the disk."""
    changes: tuple[Change, ...] = ()
    fixed: tuple[Finding, ...] = ()
    unmade: tuple[Finding, ...] = ()
    """The findings that are left because their fixes were taken back; their notes say why."""
    together: tuple[frozenset[str], ...] = ()
    source: bytes | None = None
    """What came from standard input, as it is now."""

    @property
    def skipped(self) -> Mapping[str, str]:
        """Files that are left as they are, and why."""
        return self.result.skipped

    def write(self) -> None:
        """Writes the files, each at once, those that one fix changed together all or none. Where one cannot be
        written, ``result`` becomes what linting says of the files then."""
        failed: dict[str, str] = {}
        remove_leftovers({str(Path(change.path).resolve().parent) for change in self.changes})
        with Writer() as writer:
            for changes in _joined(self.changes, self.together):
                replacements = [Replacement(change.path, change.before, change.after) for change in changes]
                known = (self.skipped[change.name] for change in changes if change.name in self.skipped)
                reason = next(known, "") or writer.replace_all(replacements)
                if reason:
                    failed |= {change.name: reason for change in changes}
        if failed:
            skipped = {**self.skipped, **failed}
            self.result = _noted(self.lint(), {}, skipped, self.result.unsafe_fixes)

    @property
    def written(self) -> tuple[Finding, ...]:
        """The findings that are fixed in files that were not skipped."""

        def is_written(finding: Finding) -> bool:
            fix = finding.fix.chosen(self.result.unsafe_fixes) if finding.fix else None
            paths = {edit.path for edit in fix.edits} if fix else {finding.path}
            return not paths & self.skipped.keys()

        return tuple(filter(is_written, self.fixed))


def fix(
    views: Sequence[View],
    *,
    unsafe: bool,
    jobs: int = 0,
    stdin: Stdin | None = None,
    progress: Progress | None = None,
    cache: Cache | None = None,
) -> Fixing:
    """Fixes what can be fixed in the files of the views, or in the text from standard input that stands for the one
    file of the view, with the unsafe fixes if they are wanted."""
    session = _Session(views, jobs, stdin, progress, cache)
    rounds = Rounds(
        session.lint,
        session.text,
        unsafe=unsafe,
        yields=Yields(),
        unsteady=session.unsteady,
        refusal=session.refusal,
    )
    return session.fixing(rounds.run(), unsafe=unsafe)


class Yields(dict[str, tuple[str, ...]]):
    """For the name of each rule the names of those that it keeps silent for; the rules, and LibCST with them,
    are imported when somebody asks."""

    def get(self, name: str, default: Any = None) -> Any:
        """The names for one rule."""
        if not self:
            from amplint.rules import all_rules

            self.update((rule.name, rule.yields_to) for rule in all_rules())
        return super().get(name, default)


def ignore(
    views: Sequence[View],
    reason: str,
    *,
    jobs: int = 0,
    stdin: Stdin | None = None,
    progress: Progress | None = None,
    cache: Cache | None = None,
) -> Fixing:
    """Puts a comment on each finding that silences it."""
    from amplint.source.suppressions import insertions

    session = _Session(views, jobs, stdin, progress, cache)
    first = session.lint({})
    outcome = Outcome(first)
    silenced: dict[str, list[Finding]] = {}
    for finding in first.findings:
        if finding.code == SYNTAX_ERROR[0]:
            continue  # nobody reads comments there
        silenced.setdefault(finding.path, []).append(finding)
    for path, findings in silenced.items():
        try:
            text = session.text(path)
        except NotForFixing as error:
            outcome.skipped[path] = error.reason
            continue
        places = [(finding.span.line, finding.name) for finding in findings]
        edits = [Edit(path, start, end, new) for start, end, new in insertions(text, places, reason)]
        if not edits:
            continue
        try:
            session.bytes({path: applied(text, edits)})
        except Unwritable as error:
            outcome.skipped[path] = error.reason
            continue
        outcome.texts[path] = applied(text, edits)
    if outcome.texts:
        outcome.last = session.lint(outcome.texts)
    return session.fixing(outcome, silenced=first.findings)


class _Session:
    """One run over views or over standard input: lints texts, and knows the bytes they come from."""

    def __init__(
        self,
        views: Sequence[View],
        jobs: int,
        stdin: Stdin | None,
        progress: Progress | None,
        cache: Cache | None,
    ) -> None:
        self._views = views
        self._cache = cache
        self._jobs = jobs
        self._stdin = stdin
        self._progress = progress
        self._lints = 0
        self._files = {display_name(path): path for view in views for path in view.files}
        self._roots = {
            path: view.root if view.root.is_dir() else view.root.parent
            for view in views
            for path in view.files
        }
        self._before: dict[str, bytes] = {}
        self._stamps: dict[str, Stamp | None] = {}
        if stdin is None:
            self._stamps = {path: stamp_of(path) for view in views for path in view.project}
        if stdin is not None:
            name = display_name(stdin.path)
            self._files[name] = str(stdin.path.absolute())
            self._before[name] = stdin.data

    def lint(self, texts: Mapping[str, str]) -> CheckResult:
        """What linting says with these texts instead of those on the disk."""
        changed = self.bytes(texts)
        self._lints += 1
        if self._stdin is not None:
            data = next(iter(changed.values()), self._stdin.data)
            return check_stdin(self._views[0], Stdin(self._stdin.path, data))
        return check_views(
            self._views,
            jobs=self._jobs,
            progress=self._told,
            changed={self._files[name]: data for name, data in changed.items()},
            cache=self._cache,
        )

    def _told(self, phase: str, done: int, total: int) -> None:
        if self._progress is not None:
            again = f"checking fixes ({self._lints - 1}): " if self._lints > 1 else ""
            self._progress(again + phase, done, total)

    def text(self, name: str) -> str:
        """The text on the disk of the file that reports call by a name. Raises NotForFixing."""
        try:
            if name not in self._before:
                path = self._path(name)
                reason = obstacle(path, self._roots.get(path))
                if reason:
                    raise Unwritable(reason)
                self._before[name] = read_bytes(path)
            text = text_of(self._before[name], name)
            encoded(text, self._before[name], name)
        except Unreadable as error:
            raise NotForFixing(error.message) from error
        except Unwritable as error:
            raise NotForFixing(error.reason) from error
        except OSError as error:
            raise NotForFixing(error.strerror or str(error)) from error
        return text

    def refusal(self, name: str, text: str) -> str:
        """Why a file cannot have a text; empty if it can."""
        try:
            self.bytes({name: text})
        except Unwritable as error:
            return error.reason
        return ""

    def unsteady(self) -> dict[str, str]:
        """The files of the projects that are no longer what they were when this began, and what became of them."""
        found = {}
        for path, stamp in self._stamps.items():
            now = stamp_of(path)
            if now != stamp and not self._is_as_read(path):
                gone = now is None and stamp is not None
                found[display_name(path)] = "it has vanished since it was read" if gone else CHANGED
        return found

    def _is_as_read(self, path: str) -> bool:
        """Whether a file that has been read holds what it held then, whatever its times say."""
        before = self._before.get(display_name(path))
        try:
            return before is not None and read_bytes(path) == before
        except Unreadable:
            return False

    def bytes(self, texts: Mapping[str, str]) -> dict[str, bytes]:
        """The bytes of texts, each in the encoding of its file. Raises Unwritable."""
        return {name: encoded(text, self._before[name], name) for name, text in texts.items()}

    def fixing(self, outcome: Outcome, silenced: Iterable[Finding] = (), *, unsafe: bool = False) -> Fixing:
        """What the outcome means for the files."""
        result = outcome.last
        assert isinstance(result, CheckResult)
        after = self.bytes(outcome.texts)
        changes = tuple(
            Change(name, self._files[name], self._before[name], data)
            for name, data in sorted(after.items())
            if data != self._before[name]
        )
        skipped = {
            name: reason
            for name, reason in outcome.skipped.items()
            if name in self._files or reason != CHANGED  # others of the project change at their own risk
        }
        if self._stdin is None:
            for path in added_to(self._views):
                skipped[display_name(path)] = "it has appeared since the files were listed"
        result = result._replace(contents={**result.contents, **after})
        result = _noted(result, outcome.notes, skipped, unsafe)
        unmade = tuple(
            one
            for old, one in zip(outcome.last.findings, result.findings, strict=True)
            if old in outcome.notes
        )
        left = set(outcome.last.findings)
        fixed = outcome.fixed or [finding for finding in silenced if finding not in left]
        source = None
        if self._stdin is not None:
            source = next(iter(after.values()), self._stdin.data)
        return Fixing(
            result,
            lambda: self.lint({}),
            changes,
            tuple(fixed),
            unmade,
            tuple(outcome.together),
            source,
        )

    def _path(self, name: str) -> str:
        if name not in self._files:
            raise NotForFixing("it is not among the files that were given")
        return self._files[name]


def _noted(
    result: CheckResult, notes: Mapping[Finding, str], skipped: Mapping[str, str], unsafe: bool
) -> CheckResult:
    """The result with the reason for each fix that was not made instead of the fix, and with the files that were
    skipped."""

    def noted(finding: Finding) -> Finding:
        note = notes.get(finding, "")
        fix = finding.fix.chosen(unsafe) if finding.fix is not None else None
        for path, _ in fix.bases if fix is not None else ():
            if path in skipped:
                note = note or f"{path} is left as it is: {skipped[path]}"
        return replace(finding, fix=None, fix_note=note) if note else finding

    findings = tuple(map(noted, result.findings))
    return result._replace(findings=findings, skipped=dict(skipped), unsafe_fixes=unsafe)


def _joined(changes: Sequence[Change], together: Iterable[frozenset[str]]) -> list[list[Change]]:
    """The changes in groups that are written all or none."""
    groups = [{change.name} for change in changes]
    for names in together:
        touched = [group for group in groups if group & names]
        groups = [group for group in groups if not group & names]
        groups.append(set().union(*touched))
    return [[change for change in changes if change.name in group] for group in groups if group]
