"""From the paths that the user gives to the Python files and notebooks that are to be checked.

Directories are walked as git sees them: what ``.gitignore`` (at every level, and above up to the root of the
repository) or ``.git/info/exclude`` ignores is left out, and so is what the settings exclude. Links to
directories are not followed, so there are no loops and no walks through data sets; a link to a file stands
for the file, which is checked once. A path that the user names is walked or checked even if it is ignored.
"""

# a Path for each of many thousand files costs more than reading them:
# ruff: noqa: PTH100, PTH110, PTH113, PTH116, PTH118, PTH119, PTH120, PTH123

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from amplint.patterns import spec_of
from amplint.source.cells import SUFFIX

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SUFFIXES = (".py", ".pyi", SUFFIX)


class Obstacle(NamedTuple):
    """Something that could not be read on the way; ``path`` is absolute."""

    path: str
    message: str


class Discovery(NamedTuple):
    """The files to check, absolute and sorted, each real file once, and what was in the way."""

    files: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]


class MissingPathError(Exception):
    """A path that the user gave does not exist; ``path`` is spelled as it was given."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def discover(
    paths: Sequence[str | os.PathLike[str]],
    *,
    root: str | os.PathLike[str],
    excluded: Sequence[str] = (),
    force_exclude: bool = False,
) -> Discovery:
    """The Python files at and below the paths. ``excluded`` are .gitignore patterns relative to ``root``;
    they hold below the given paths, and with ``force_exclude`` for the given paths themselves as well."""
    walk = _Walk(_Exclusion.of(os.path.abspath(root), excluded))
    for given in paths:
        path = os.path.abspath(os.fspath(given))
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError) as error:
            if isinstance(error, PermissionError):
                walk.obstacles.append(Obstacle(path, f"cannot read the file: {error.strerror}"))
                continue
            raise MissingPathError(os.fspath(given)) from error
        if force_exclude and walk.exclusion.covers_with_parents(path, stat.S_ISDIR(mode)):
            continue
        if stat.S_ISDIR(mode):
            walk.directory(path)
        else:
            walk.add(path)
    walk.resolve_links()
    return Discovery(tuple(sorted(walk.found.values())), tuple(walk.obstacles))


def is_excluded(path: str, root: str | os.PathLike[str], excluded: Sequence[str]) -> bool:
    """Whether patterns exclude a file, or a directory that it lies in. ``path`` is absolute; arguments as for
    ``discover``."""
    return _Exclusion.of(os.path.abspath(root), excluded).covers_with_parents(path, False)


class _Exclusion(NamedTuple):
    """Exclude patterns. Those that are plain names, as nearly all are, need no pattern matching."""

    root: str
    names: frozenset[str]
    patterns: GitIgnoreSpec | None

    @staticmethod
    def of(root: str, excluded: Sequence[str]) -> _Exclusion:
        plain = [pattern.rstrip("/") for pattern in excluded]
        names = frozenset(name for name in plain if name and not set(name) & set("*?[]!\\/# "))
        others = [pattern for pattern in excluded if pattern.rstrip("/") not in names]
        return _Exclusion(root, names, _spec(others) if others else None)

    def covers(self, path: str, name: str, directory: bool) -> bool:
        if name in self.names:
            return True
        if self.patterns is None:
            return False
        inside = _below(self.root, path)
        return inside is not None and bool(_verdict(self.patterns, inside, directory))

    def covers_with_parents(self, path: str, directory: bool) -> bool:
        inside = _below(self.root, path)
        if inside is None:
            return self.covers(path, os.path.basename(path), directory)
        parts = inside.split("/")
        place = self.root
        for index, part in enumerate(parts):
            place = os.path.join(place, part)
            if self.covers(place, part, directory or index < len(parts) - 1):
                return True
        return False


class _Ignore(NamedTuple):
    """The patterns of one .gitignore file and the directory that they are relative to."""

    directory: str
    patterns: GitIgnoreSpec


class _Walk:
    def __init__(self, exclusion: _Exclusion) -> None:
        self.exclusion = exclusion
        self.found: dict[str, str] = {}
        """Real path -> path under which the file is reported."""
        self.obstacles: list[Obstacle] = []
        self.links: list[str] = []
        self.visited: set[str] = set()

    def add(self, path: str) -> None:
        self.found.setdefault(os.path.realpath(path), path)

    def resolve_links(self) -> None:
        """Links come last, so that a file is reported under its own name where it has been found."""
        for link in self.links:
            if os.path.isfile(link):
                self.add(link)

    def directory(self, start: str) -> None:
        pending = [(start, os.path.realpath(start), _ignores_above(start))]
        while pending:
            path, real, ignores = pending.pop()
            if real in self.visited:
                continue
            self.visited.add(real)
            try:
                with os.scandir(path) as entries:
                    listing = list(entries)
            except OSError as error:
                self.obstacles.append(Obstacle(path, f"cannot read the directory: {error.strerror or error}"))
                continue
            ignores = _with_own(path, listing, ignores)
            prefix, real_prefix = os.path.join(path, ""), os.path.join(real, "")
            for entry in listing:
                name = entry.name
                if name.endswith(SUFFIXES) and not entry.is_dir(follow_symlinks=False):
                    if self._left_out(prefix + name, name, False, ignores):
                        continue
                    if entry.is_symlink():
                        self.links.append(prefix + name)
                    elif entry.is_file(follow_symlinks=False):
                        self.found.setdefault(real_prefix + name, prefix + name)
                elif _is_directory(entry) and not self._left_out(prefix + name, name, True, ignores):
                    pending.append((prefix + name, real_prefix + name, ignores))

    def _left_out(self, path: str, name: str, directory: bool, ignores: Sequence[_Ignore]) -> bool:
        return self.exclusion.covers(path, name, directory) or (
            bool(ignores) and _ignored(path, directory, ignores)
        )


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _ignored(path: str, directory: bool, ignores: Sequence[_Ignore]) -> bool:
    """The innermost .gitignore that says something about the path decides, as in git."""
    for ignore in reversed(ignores):
        verdict = _verdict(ignore.patterns, path[len(ignore.directory) + 1 :].replace(os.sep, "/"), directory)
        if verdict is not None:
            return verdict
    return False


def _verdict(patterns: GitIgnoreSpec, path: str, directory: bool) -> bool | None:
    return patterns.check_file(path + "/" if directory else path).include


def _ignores_above(start: str) -> tuple[_Ignore, ...]:
    """The .gitignore files above a directory, outermost first. One that ignores the directory itself is left
    out, since the user has asked for it."""
    above = _parents_in_repository(start)
    ignores = []
    for directory in above:
        lines = _lines(os.path.join(directory, ".gitignore"))
        if directory == above[0]:
            lines = [*_lines(_exclude_file(directory)), *lines]
        ignore = _ignore(directory, lines)
        if ignore is not None and not _ignored_on_the_way(ignore, start):
            ignores.append(ignore)
    return tuple(ignores)


def _ignored_on_the_way(ignore: _Ignore, path: str) -> bool:
    inside = _below(ignore.directory, path)
    parts = inside.split("/") if inside else []
    return any(_verdict(ignore.patterns, "/".join(parts[: n + 1]), True) for n in range(len(parts)))


def _parents_in_repository(start: str) -> list[str]:
    """The directories above ``start`` up to the root of its git repository, outermost first; none if
    ``start`` is that root or in no repository."""
    parents: list[str] = []
    directory = start
    while not os.path.exists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return []
        parents.insert(0, parent)
        directory = parent
    return parents


def _with_own(
    path: str, listing: Iterable[os.DirEntry[str]], ignores: tuple[_Ignore, ...]
) -> tuple[_Ignore, ...]:
    names = {entry.name for entry in listing if entry.name in (".gitignore", ".git")}
    if not names:
        return ignores
    lines: list[str] = []
    if ".git" in names:
        ignores = ()  # a repository of its own, to which the outer one's rules do not apply
        lines += _lines(_exclude_file(path))
    if ".gitignore" in names:
        lines += _lines(os.path.join(path, ".gitignore"))
    own = _ignore(path, lines)
    return ignores if own is None else (*ignores, own)


def _exclude_file(repository: str) -> str:
    return os.path.join(repository, ".git", "info", "exclude")


def _ignore(directory: str, lines: Sequence[str]) -> _Ignore | None:
    wanted = [line for line in lines if line.strip() and not line.startswith("#")]
    return _Ignore(directory.rstrip(os.sep), _spec(wanted)) if wanted else None


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return spec_of(lines)
    except ValueError:
        return spec_of([line for line in lines if _valid(line)])


def _valid(line: str) -> bool:
    try:
        spec_of([line])
    except ValueError:
        return False  # git ignores such a line as well
    return True


def _lines(path: str) -> list[str]:
    try:
        if not os.path.isfile(path):
            return []
        with open(path, "rb") as file:
            return os.fsdecode(file.read().removeprefix(b"\xef\xbb\xbf")).splitlines()
    except OSError:
        return []


def _below(directory: str, path: str) -> str | None:
    """The path relative to the directory, with forward slashes; None if it is not below it."""
    prefix = os.path.join(directory, "")
    return path[len(prefix) :].replace(os.sep, "/") if path.startswith(prefix) else None
