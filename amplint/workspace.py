"""Open files of any number of projects, with the texts that they have in an editor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from amplint.cache import Cache
from amplint.check import CheckResult, Stdin, check_stdin, check_views
from amplint.config import Settings, load_settings, with_option
from amplint.findings import Edit, Finding
from amplint.fixes.rounds import NotForFixing, Rounds
from amplint.fixing import Yields
from amplint.memory import Memory
from amplint.scope import View, root_of, stated_root, text_alone, views
from amplint.source.cells import is_notebook
from amplint.source.decoding import Unreadable, decode, display_name, read_bytes
from amplint.source.discovery import is_excluded
from amplint.source.suppressions import insertions
from amplint.source.writing import Unwritable, encoded, obstacle
from amplint.stopping import stoppable

AnyPath = str | os.PathLike[str]


def _never() -> bool:
    return False


class Workspace:
    """Files of any number of projects and the texts that they have now, as an editor holds them:

        workspace = Workspace(["/home/me/project"])
        workspace.set_text("/home/me/project/train.py", text)
        for finding in workspace.check("/home/me/project/train.py").findings: …

    Each file is read with the project around it and with the settings of that project, as on the command line. Paths
    are absolute. ``set_text`` may be called by one thread while another one checks: a check is about the texts that
    there were when it began."""

    def __init__(
        self,
        folders: Iterable[AnyPath] = (),
        options: Mapping[str, object] | None = None,
        cache: Cache | None = None,
    ) -> None:
        """``folders`` are where projects begin if neither settings nor a repository say so. ``options`` are settings by
        their names in a configuration file, and count before those in one. ``cache``: where results are kept for
        texts that are on the disk; None for nowhere. Raises ConfigError for an option."""
        self.folders = tuple(Path(folder).absolute() for folder in folders)
        self._options = dict(options or {})
        self._texts: dict[str, bytes] = {}
        self._memory = Memory(cache)
        self._with_options(Settings(root=Path.cwd()))

    def set_text(self, path: AnyPath, text: str | None) -> bool:
        """Says what a file holds, which need not exist, and tells whether it held something else before. None: what is
        on the disk."""
        name = os.path.normpath(path)
        before = self._texts.pop(name, None)
        if text is not None:
            self._texts[name] = _bytes_of(text)
        now = self._texts.get(name)
        if before is None or now is None:
            known = now if before is None else before
            return known is not None and not _is_on_disk(name, known)
        return before != now

    def project_of(self, path: AnyPath) -> Path:
        """Where the project of a file begins. Raises ConfigError."""
        folder = Path(path).parent
        return root_of(folder, self._settings_of(folder))

    def excludes(self, path: AnyPath) -> bool:
        """Whether the settings exclude a file. Where nothing says where its project begins, as in an installed
        package, the patterns hold for all directories above it. Raises ConfigError."""
        folder = Path(path).parent
        settings = self._settings_of(folder)
        root = settings.root if stated_root(folder, settings) is not None else folder.anchor
        return is_excluded(os.path.normpath(path), root, settings.excluded)

    def check(self, *paths: AnyPath, stop: Callable[[], bool] = _never) -> CheckResult:
        """The findings in some files. Raises MissingPathError, ConfigError, and Stopped soon after ``stop`` says so."""
        texts = dict(self._texts)
        with stoppable(stop):
            return self._checked(self._views(paths, texts), texts)

    def check_alone(self, path: AnyPath, text: str, *, stop: Callable[[], bool] = _never) -> CheckResult:
        """The findings in a text that is in no file, by the name of ``path``. Raises as ``check``."""
        name = Path(path)
        settings = self._settings_of(self.folders[0] if self.folders else name.parent)
        with stoppable(stop):
            return check_stdin(text_alone(name, settings), Stdin(name, _bytes_of(text)))

    def fixed(self, path: AnyPath, *, stop: Callable[[], bool] = _never) -> dict[str, tuple[str, str]]:
        """What the safe fixes of the findings in a file make of it and of others: by absolute path the text before and
        after. Raises as ``check``."""
        texts = dict(self._texts)
        with stoppable(stop):
            found = self._views([path], texts)
            files = {display_name(file): file for view in found for file in view.project}

            def read(name: str) -> str:
                path = files.get(name)
                return _text_for_fixing(path, texts.get(path or ""))

            def lint(changed: Mapping[str, str]) -> CheckResult:
                more = {files[name]: _bytes_of(text) for name, text in changed.items()}
                return self._checked(found, {**texts, **more})

            outcome = Rounds(lint, read, unsafe=False, yields=Yields()).run()
            return {files[name]: (read(name), text) for name, text in outcome.texts.items()}

    def text(self, path: AnyPath) -> str | None:
        """What a file holds now, without its byte order mark; None if it cannot be read, and for a notebook, which an
        editor has cell by cell."""
        if is_notebook(path):
            return None
        try:
            data = self._texts.get(os.path.normpath(path))
            return decode(read_bytes(path) if data is None else data)
        except Unreadable:
            return None

    def display(self, path: AnyPath) -> str:
        """What findings call a file."""
        return display_name(os.path.normpath(path))

    def _checked(self, found: Sequence[View], texts: Mapping[str, bytes]) -> CheckResult:
        changed = {path: data for path, data in texts.items() if not _is_on_disk(path, data)}
        return check_views(found, jobs=1, changed=changed, cache=self._memory)

    def _views(self, paths: Sequence[AnyPath], texts: Mapping[str, bytes]) -> list[View]:
        wanted = [os.path.normpath(path) for path in paths]
        new = [path for path in texts if not Path(path).exists() and not self.excludes(path)]
        return views(wanted, self._settings_of, {*new, *(path for path in wanted if path in texts)})

    def _settings_of(self, folder: Path) -> Settings:
        settings = self._with_options(load_settings(folder))
        if settings.source is not None:
            return settings
        root = stated_root(folder, settings)
        if root is None:
            root = next((above for above in (folder, *folder.parents) if above in self.folders), None)
            settings = replace(settings, project_root=root)
        return replace(settings, root=root or root_of(folder, settings))

    def _with_options(self, settings: Settings) -> Settings:
        for key, value in self._options.items():
            settings = with_option(settings, key, value, key)
        return settings


def silencing(text: str, finding: Finding, reason: str = "") -> tuple[Edit, ...]:
    """The edits of the text of its file that put a comment on a finding which silences it; none where no comment can
    stand."""
    places = [(finding.span.line, finding.name)]
    return tuple(Edit(finding.path, start, end, new) for start, end, new in insertions(text, places, reason))


def _bytes_of(text: str) -> bytes:
    """The bytes of a text as they would be in a file; such as cannot be decoded where its coding comment does not fit
    the text, which is then said of the file."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        return encoded(text, data)
    except (Unwritable, Unreadable):
        return b"\xef\xbb\xbf" + data


def _is_on_disk(path: str, data: bytes) -> bool:
    try:
        return read_bytes(path) == data
    except Unreadable:
        return False


def _text_for_fixing(path: str | None, data: bytes | None) -> str:
    """The text of a file that a fix is to change. Raises NotForFixing."""
    if path is None:
        raise NotForFixing("it is no file of the project")
    if is_notebook(path):
        raise NotForFixing("it is a notebook, which an editor has cell by cell")
    try:
        if data is not None:
            return decode(data)
        reason = obstacle(path)
        if reason:
            raise NotForFixing(reason)
        return decode(read_bytes(path))
    except Unreadable as error:
        raise NotForFixing(error.message) from error
    except OSError as error:
        raise NotForFixing(error.strerror or str(error)) from error
