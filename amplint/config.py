"""Settings: what the command line and the project's configuration file ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from amplint.bounds import TORCH_DEFAULT, TorchBounds
from amplint.patterns import spec_of
from amplint.selectors import codes_of, suggestion

DEVICES = ("cuda", "cpu", "xpu", "mps")
LEVELS = ("error", "warning", "advice")
"""From the worst on, as ``findings.Level`` has them: not to import it keeps a run without findings quick."""
OUTPUT_FORMATS = (
    "full",
    "concise",
    "json",
    "json-lines",
    "github",
    "sarif",
    "gitlab",
    "junit",
    "rdjson",
    "pylint",
)

DEFAULT_EXCLUDE = (
    ".amplint_cache", ".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox",
    ".pants.d", ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode", "__pycache__",
    "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip
"""Directories that hold no source of the project. ``exclude`` replaces them, ``extend-exclude`` adds to
them."""

DEFAULT_ERRORS_ONLY = (
    "bench/", "benchmark/", "benchmarks/", "profiling/", "test/", "tests/", "bench_*.py", "benchmark*.py",
    "conftest.py", "profile_*.py", "test_*.py", "*_benchmark.py", "*_test.py",
)  # fmt: skip
"""Tests, benchmarks and profiling code, as pytest, asv and most projects name them: nobody trains with them, so that
only what is wrong whatever they are for is worth a reader's time."""

CONFIG_FILES = (".amplint.toml", "amplint.toml", "pyproject.toml")


class ConfigError(Exception):
    """A setting is wrong. The message names the place, says what is wrong and suggests what is right."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to check and how. Patterns are those of .gitignore, relative to ``root``."""

    root: Path
    patterns_from: Path | None = None
    """Where paths begin as patterns for the files of a project see them, if that is not ``root``."""
    source: Path | None = None
    """The configuration file, if there is one."""
    origins: tuple[tuple[str, Path], ...] = field(default=(), compare=False)
    """For each key that is set in files, the one that has the say: ``source``, or what it extends."""
    select: tuple[str, ...] = ()
    """Selectors of the rules to run; none means the rules that are on by default."""
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fixable: tuple[str, ...] = ()
    """Selectors of the rules whose findings may be fixed; none means all."""
    unfixable: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    errors_only: tuple[str, ...] = DEFAULT_ERRORS_ONLY
    """Files in which warnings and advice are not reported."""
    level: str = "advice"
    """The mildest level that is reported."""
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    project_root: Path | None = None
    """Where the project of the linted files begins, if that is not to be found out."""
    torch: TorchBounds = TORCH_DEFAULT
    """Lowest and highest torch (major, minor) that the code is to run with; None: no upper bound."""
    torch_from: str = ""
    """Where the bounds come from; empty while nobody has said or looked (see ``with_project_torch``)."""
    device: str = "cuda"
    autocast_contexts: tuple[str, ...] = ()
    backward_functions: tuple[str, ...] = ()
    output_format: str = "full"
    baseline: Path | None = None
    """The file of findings that are not to be reported, where somebody names one."""
    with_baseline: bool = True
    """Whether a baseline counts, named or found at the root of the project."""
    line_length: int = 0
    """How long the lines may be that fixes write; 0 while nobody has looked (see ``with_line_length``)."""

    @property
    def of_a_run(self) -> Settings:
        """The settings for what somebody runs: if it is a test, that is what is asked about, and what the run sees is
        compared with all that is found, in a baseline or not."""
        return replace(self, errors_only=(), level="advice", baseline=None, with_baseline=False)

    def where_errors_only(self) -> Callable[[str | Path], bool]:
        """Which files are those in which only errors are reported."""
        spec = spec_of(self.errors_only)
        return lambda path: spec.match_file(self.relative(path))

    def relative(self, path: str | Path) -> str:
        """A path as patterns see it: relative to ``patterns_from``, and the name alone outside of it."""
        path, base = Path(path).absolute(), self.patterns_from or self.root
        return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.name

    @property
    def has_own_wrappers(self) -> bool:
        """Whether the project names wrappers of its own."""
        return bool(self.autocast_contexts or self.backward_functions)

    @property
    def excluded(self) -> tuple[str, ...]:
        """All exclude patterns together."""
        return (*self.exclude, *self.extend_exclude)


def load_settings(start: Path, config: Path | None = None, *, isolated: bool = False) -> Settings:
    """The settings for files at or below ``start``: from ``config``, else from the nearest configuration file
    upwards. ``isolated`` ignores configuration files. Raises ConfigError."""
    if isolated:
        return Settings(root=Path.cwd(), with_baseline=False)
    if config is not None:
        table = _table_of(config, required=True)
        return _settings(config, table or {})
    start = start.resolve()
    for directory in (start, *start.parents):
        for name in CONFIG_FILES:
            candidate = directory / name
            table = _table_of(candidate, required=False)
            if table is not None:
                return _settings(candidate, table)
    return Settings(root=Path.cwd())


def has_settings(directory: Path) -> bool:
    """Whether a directory has a configuration file with settings, valid or not."""
    for name in CONFIG_FILES:
        try:
            if _table_of(directory / name, required=False) is not None:
                return True
        except ConfigError:
            return True
    return False


def fixable_codes(settings: Settings) -> frozenset[str]:
    """The codes of the rules whose findings may be fixed."""
    from amplint.catalog import rule_names
    from amplint.selectors import enabled_codes

    names = rule_names()
    return enabled_codes(names, names, settings.fixable, (), settings.unfixable)


def with_option(settings: Settings, key: str, value: object, option: str) -> Settings:
    """The settings with one key replaced by what the command line says; the value is checked like one in a
    file. ``option`` is its spelling there, for messages."""
    return _apply(settings, key, value, option)


def with_project_torch(settings: Settings, root: Path, files: Sequence[str] = ()) -> Settings:
    """The settings with torch bounds: as configured, else from the dependencies of the project that begins at
    ``root``; else from those of the folder that has all of its ``files``; else from a folder with some of them that
    asks for a torch without the newer names; else from instructions that install such a one; else TORCH_DEFAULT."""
    if settings.torch_from:
        return settings
    from amplint.requirements import instructed_torch, oldest_torch, project_torch

    found = (
        project_torch(root)
        or _shared_torch(files)
        or oldest_torch(root, files)
        or instructed_torch(root, files)
    )
    if found is not None:
        return replace(settings, torch=found[0], torch_from=str(found[1]))
    return replace(settings, torch_from="the default")


def _shared_torch(files: Sequence[str]) -> tuple[TorchBounds, Path] | None:
    """What the innermost folder with all of the files asks for, as the only source tree in a folder does."""
    from amplint.requirements import project_torch

    folders = {os.path.dirname(file) for file in files}  # noqa: PTH120 (thousands of them)
    return project_torch(Path(os.path.commonpath(folders))) if folders else None


def with_line_length(settings: Settings, root: Path) -> Settings:
    """The settings with the line length of the project that begins at a directory."""
    from amplint.line_length import line_length_of

    return settings if settings.line_length else replace(settings, line_length=line_length_of(root))


def _table_of(path: Path, *, required: bool) -> Mapping[str, Any] | None:
    """The amplint table of a configuration file; None if the file has none."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        if required:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(f"cannot read the configuration file {path}: {reason}") from error
        return None
    shared = path.name == "pyproject.toml"
    if shared and not required and b"amplint" not in data:
        return None  # spares most runs the import of a TOML parser
    document = _parse(path, data)
    if not shared and "tool" not in document:
        return document
    tool = document.get("tool", {})
    if not isinstance(tool, dict) or "amplint" not in tool:
        return {} if required else None
    table = tool["amplint"]
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: [tool.amplint] has to be a table")
    return table


def _parse(path: Path, data: bytes) -> dict[str, Any]:
    from amplint.toml import loads

    try:
        return loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _settings(source: Path, table: Mapping[str, Any], below: tuple[Path, ...] = ()) -> Settings:
    """The settings of a file over those of the file that it extends; ``below`` are those that extend it."""
    source = source.resolve()
    settings = Settings(root=source.parent)
    if "extend" in table:
        settings = _extended(source, table["extend"], (*below, source))
    # What is relative to a file, such as project-root, is so to the one that says it.
    settings = replace(settings, root=source.parent, source=source)
    origins = dict(settings.origins)
    for key, value in table.items():
        if key == "extend":
            continue
        inherited = settings
        settings = _apply(settings, key, value, f"{source}: {_plain(key)}")
        if key in _ADDED:
            settings = _added(inherited, settings, key.replace("-", "_"))
        origins[key] = source
    return replace(settings, origins=tuple(origins.items()))


def _added(inherited: Settings, settings: Settings, name: str) -> Settings:
    """The settings with what both list under a key."""
    both: dict[str, Any] = {name: tuple(dict.fromkeys((*getattr(inherited, name), *getattr(settings, name))))}
    return replace(settings, **both)


def _extended(source: Path, value: object, below: tuple[Path, ...]) -> Settings:
    """The settings of the file that another extends."""
    place = f"{source}: extend"
    text = _text(value, place)
    path = Path(os.path.abspath(source.parent / os.path.expanduser(text)))  # noqa: PTH100, PTH111 - never raises
    try:
        table = _table_of(path, required=True)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error
    if path.resolve() in below:
        raise ConfigError(f"{place}: {path} extends {source}, and so itself")
    return _settings(path, table or {}, below)


def _apply(settings: Settings, key: str, value: object, place: str) -> Settings:
    if key not in KEYS:
        raise ConfigError(f'{place}: unknown key "{_plain(key)}"{suggestion(key, ("extend", *KEYS))}')
    if key == "torch-version":
        from amplint.requirements import bounds_of_setting

        bounds = bounds_of_setting(_text(value, place))
        if bounds is None:
            raise ConfigError(
                f'{place}: "{_plain(str(value))}" is no torch version; '
                'write one such as "2.4" or bounds such as ">=2.3,<2.9"'
            )
        return replace(settings, torch=bounds, torch_from=place)
    checked = KEYS[key](value, place)
    if key == "project-root":
        checked = _directory(checked, settings, place)
    if key == "baseline":
        checked = _absolute(checked, settings, place)
        settings = replace(settings, with_baseline=True)
    return replace(settings, **{key.replace("-", "_"): checked})


def _plain(text: str) -> str:
    """A text of the user in one line of a message: not more than 200 characters of it, with escapes for what does not
    print."""
    short = text if len(text) <= 200 else f"{text[:200]}…"
    return short if short.isprintable() else ascii(short)[1:-1]


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{place}: expected a string, not {_shown(value)}")
    return value


def _texts(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{place}: expected a list of strings, not {_shown(value)}")
    return tuple(value)


def _boolean(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{place}: expected true or false, not {_shown(value)}")
    return value


def _choice(*choices: str) -> Callable[[object, str], str]:
    def check(value: object, place: str) -> str:
        text = _text(value, place)
        if text not in choices:
            raise ConfigError(f'{place}: "{text}" is none of {", ".join(choices)}{suggestion(text, choices)}')
        return text

    return check


def _directory(text: str, settings: Settings, place: str) -> Path:
    """A directory that there is."""
    path = _absolute(text, settings, place)
    if not path.is_dir():
        raise ConfigError(f"{place}: there is no directory {path}")
    return path


def _absolute(text: str, settings: Settings, place: str) -> Path:
    """A path, relative to the configuration file or, on the command line, to the working directory."""
    base = Path.cwd() if place.startswith("--") else settings.root
    return Path(os.path.abspath(base / text))  # noqa: PTH100


def _selectors(value: object, place: str) -> tuple[str, ...]:
    from amplint.catalog import rule_names

    names = rule_names()
    selectors = _texts(value, place)
    for selector in selectors:
        if not codes_of(selector, names):
            known = (*names, *names.values(), "ALL")
            raise ConfigError(f'{place}: unknown rule "{selector}"{suggestion(selector, known)}')
    return selectors


def _selectors_by_pattern(value: object, place: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected a table of pattern = [rules], not {_shown(value)}")
    return tuple((pattern, _selectors(rules, f'{place}."{pattern}"')) for pattern, rules in value.items())


def _patterns(value: object, place: str) -> tuple[str, ...]:
    patterns = _texts(value, place)
    for pattern in patterns:
        _refuse_bad_pattern(pattern, place)
    return patterns


def _refuse_bad_pattern(pattern: str, place: str) -> None:
    if not set(pattern) & set("*?[]!\\"):
        return
    try:
        spec_of([pattern])
    except ValueError as error:
        raise ConfigError(f'{place}: "{_plain(pattern)}" is no valid pattern: {error}') from error


def _dotted_names(value: object, place: str) -> tuple[str, ...]:
    names = _texts(value, place)
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ConfigError(
                f'{place}: "{name}" is no dotted name; write one such as "my_project.amp.autocast"'
            )
    return names


def _shown(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'the string "{value}"'
        case dict():
            return "a table"
        case list():
            return "this list"
        case _:
            return str(value)


_ADDED = ("extend-select", "extend-exclude")
"""Keys whose values add to those of the file that is extended; those of any other key replace them."""

KEYS: dict[str, Callable[[object, str], Any]] = {
    "select": _selectors,
    "extend-select": _selectors,
    "ignore": _selectors,
    "fixable": _selectors,
    "unfixable": _selectors,
    "per-file-ignores": _selectors_by_pattern,
    "errors-only": _patterns,
    "level": _choice(*LEVELS),
    "exclude": _patterns,
    "extend-exclude": _patterns,
    "force-exclude": _boolean,
    "project-root": _text,
    "torch-version": _text,
    "device": _choice(*DEVICES),
    "autocast-contexts": _dotted_names,
    "backward-functions": _dotted_names,
    "baseline": _text,
    "output-format": _choice(*OUTPUT_FORMATS),
}
