"""The project that paths belong to, and the view: what of it is reported.

``amplint train.py`` reads the project of train.py, judges its entry points wherever they are, and reports what lies in
train.py: the same as a run over everything would report there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from amplint.baseline import Baseline, baseline_of
from amplint.config import ConfigError, Settings, has_settings
from amplint.source.discovery import SUFFIXES, Discovery, Obstacle, discover

_REPOSITORY = (".git", ".hg", ".jj")
_PACKAGE = ("__init__.py", "__init__.pyi")

SettingsOf = Callable[[Path], Settings]
"""The settings for what lies in a directory. Raises ConfigError."""

_Key = tuple[Path, Path | None]
"""Tells projects apart: where one begins, and the configuration file of its files."""


class View(NamedTuple):
    """The given files of one project. All paths are absolute."""

    settings: Settings
    files: tuple[str, ...]
    """What is reported."""
    project: tuple[str, ...]
    """All files that are read: those, and the others of the project."""
    root: Path
    """Where the project is, and what it says of the torch that it needs."""
    obstacles: tuple[Obstacle, ...] = ()
    is_marked: bool = False
    """Whether something says that a project begins at the root."""
    baseline: Baseline | None = None
    """The findings that it is known to have."""


def alone(paths: Sequence[str | os.PathLike[str]], settings: Settings) -> View:
    """The files at and below the paths without the project around them. Raises MissingPathError."""
    found = _given(paths, settings)
    root = Path(paths[0]) if paths else settings.root
    return View(settings, found.files, found.files, root.absolute(), found.obstacles)


def text_alone(path: Path, settings: Settings) -> View:
    """The view of a text without a project around it, by the name under which it is reported."""
    file = str(path.absolute())
    return View(settings, (file,), (file,), path.absolute())


def views(
    paths: Sequence[str | os.PathLike[str]], settings_of: SettingsOf, unsaved: Collection[str] = ()
) -> list[View]:
    """The files at and below the paths, project by project: those of a directory with settings of its own are one by
    themselves. ``unsaved`` are absolute paths of files that need not be on the disk. Raises MissingPathError and
    ConfigError."""
    settings_of = lru_cache(maxsize=None)(settings_of)
    members: dict[_Key, list[str]] = {}
    asked: dict[_Key, Settings] = {}
    obstacles: dict[_Key, list[Obstacle]] = {}

    def key_of(folder: Path, settings: Settings) -> _Key:
        key = root_of(folder, settings), settings.source
        asked.setdefault(key, settings)
        members.setdefault(key, [])
        return key

    for given in paths:
        start = _folder(given)
        settings = settings_of(start)
        found = _found(given, settings, unsaved)
        key = key_of(start, settings)
        obstacles.setdefault(key, []).extend(found.obstacles)
        for folder, files in _by_folder(found.files).items():
            own = settings_of(folder) if folder != start else settings
            if own.source == settings.source:
                members[key] += files
                continue
            wanted = {*_given([own.root], own).files, *unsaved}
            members[key_of(folder, own)] += [file for file in files if file in wanted]
    _refuse_shared_baseline(asked)
    return [
        _view(key[0], asked[key], dict.fromkeys(files), tuple(obstacles.get(key, ())), settings_of, unsaved)
        for key, files in members.items()
    ]


def _refuse_shared_baseline(asked: Mapping[_Key, Settings]) -> None:
    """Raises ConfigError where somebody has named one baseline for several projects: paths in it begin at a root."""
    named: dict[Path, Path] = {}
    for (root, _), settings in asked.items():
        if settings.baseline is not None and named.setdefault(settings.baseline, root) != root:
            raise ConfigError(
                f"the baseline {settings.baseline} is for one project, and the paths are in two: "
                f"{named[settings.baseline]} and {root}"
            )


def _found(given: str | os.PathLike[str], settings: Settings, unsaved: Collection[str]) -> Discovery:
    """What is at and below a path."""
    path = os.path.abspath(given)  # noqa: PTH100
    if path in unsaved:
        return Discovery((path,), ())
    found = _given([given], settings)
    return found._replace(files=tuple(sorted({*found.files, *_below(Path(path), unsaved)})))


def root_of(start: Path, settings: Settings) -> Path:
    """Where the project of a directory begins: as configured, else the nearest directory upwards with settings, else
    the root of the repository, else the outermost package around it, else the directory itself."""
    found = stated_root(start, settings)
    if found is not None:
        return found
    start = start.absolute()
    outermost = start
    for folder in (start, *start.parents):
        if not _is_package(folder):
            break
        outermost = folder
    return outermost


def stated_root(start: Path, settings: Settings) -> Path | None:
    """Where settings or a repository say that the project of a directory begins."""
    if settings.project_root is not None:
        return settings.project_root
    start = start.absolute()
    above = (start, *start.parents)
    for folder in above:
        if has_settings(folder):
            return folder
    return next((folder for folder in above if _is_repository(folder)), None)


def _view(
    root: Path,
    settings: Settings,
    files: Mapping[str, None],
    obstacles: tuple[Obstacle, ...],
    settings_of: SettingsOf,
    unsaved: Collection[str],
) -> View:
    real = {os.path.realpath(file) for file in files}
    others = [
        file
        for folder, found in _by_folder([*files_around(root, settings), *_below(root, unsaved)]).items()
        if _is_under(folder, settings, settings_of)
        for file in found
        if file not in files and os.path.realpath(file) not in real
    ]
    given = tuple(sorted(files))
    project = tuple(sorted({*given, *others}))
    baseline, marked = baseline_of(root, settings), is_marked(root, settings)
    if settings.source is None and (marked or not root.is_relative_to(settings.root)):
        settings = replace(settings, patterns_from=root)  # wherever amplint runs, tests are tests
    return View(settings, given, project, root, obstacles, marked, baseline)


def files_around(root: Path, settings: Settings) -> Sequence[str]:
    """The files of a project. A directory that nothing marks as one, such as a home directory with a script in it, has
    its own files and packages."""
    if is_marked(root, settings):
        return _given([root], settings).files
    try:
        with os.scandir(root) as entries:
            inside = [Path(entry.path) for entry in entries]
    except OSError:
        return ()
    wanted = [path for path in inside if _is_package(path) or (path.suffix in SUFFIXES and path.is_file())]
    return _given(wanted, settings).files


def is_marked(root: Path, settings: Settings) -> bool:
    """Whether something says that a project begins at a directory: settings, a repository, a package."""
    return settings.project_root == root or has_settings(root) or _is_package(root) or _is_repository(root)


def added_to(views: Sequence[View]) -> list[str]:
    """The files that have appeared since the views were made, in directories of which they have all files."""
    found: list[str] = []
    for view in views:
        known = {*view.project, *map(os.path.realpath, view.project)}
        given = _by_folder(view.files)
        for folder, files in _by_folder(view.project).items():
            beside = {str(folder / name) for name in _names(folder) if name.endswith(SUFFIXES)}
            if len(files) == len(given.get(folder, ())) and not beside <= known:
                listed = set(_given([folder], view.settings).files)
                found += sorted(path for path in beside & listed if os.path.realpath(path) not in known)
    return found


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


def _below(root: Path, files: Iterable[str]) -> list[str]:
    return [file for file in files if Path(file).is_relative_to(root)]


def _is_under(folder: Path, settings: Settings, settings_of: SettingsOf) -> bool:
    """Whether the settings of a project are those of a directory in it."""
    try:
        return settings_of(folder).source == settings.source
    except ConfigError:
        return False


def _is_repository(folder: Path) -> bool:
    return any((folder / name).exists() for name in _REPOSITORY)


def _is_package(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _PACKAGE)


def _given(paths: Sequence[str | os.PathLike[str]], settings: Settings) -> Discovery:
    return discover(
        paths, root=settings.root, excluded=settings.excluded, force_exclude=settings.force_exclude
    )


def _folder(path: str | os.PathLike[str]) -> Path:
    absolute = Path(path).absolute()
    return absolute if absolute.is_dir() else absolute.parent


def _by_folder(files: Iterable[str]) -> dict[Path, list[str]]:
    folders: dict[str, list[str]] = {}
    for file in files:
        folders.setdefault(os.path.dirname(file), []).append(file)  # noqa: PTH120
    return {Path(folder): found for folder, found in folders.items()}
