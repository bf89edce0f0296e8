"""The baseline: findings that a project has and puts up with, so that a run reports only what is new.

The file is JSON with an entry on each line, sorted, without line numbers, so that changes of it are small. An entry
stands for the finding that has its key (``identity.py``), with the path from the root of the project. It is stale if a
run that looks at its file, or sees that it is gone, with its rule does not find it.

After a crash nothing is stale but what is gone, nor is anything in a file that cannot be read: nobody knows what is
no longer in there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from amplint import __version__
from amplint.catalog import SYNTAX_ERROR, rule_names
from amplint.config import ConfigError, Settings
from amplint.identity import Key, code_of_line, key_of
from amplint.source.decoding import Unreadable, read_bytes

if TYPE_CHECKING:
    from amplint.findings import Finding

FILE = "amplint-baseline.json"
"""Its name at the root of a project."""
VERSION = 1
_CONFLICT = ("<<<<<<< ", ">>>>>>> ")
_FIELDS: Mapping[str, type] = {"path": str, "rule": str, "line": str, "occurrence": int}


class Entry(NamedTuple):
    """One finding of the baseline. ``rule`` is its code, ``path`` leads from the root of the project, with forward
    slashes."""

    path: str
    rule: str
    line: str
    number: int

    @property
    def key(self) -> Key:
        """What tells it from the others."""
        return key_of(self.rule, self.path, self.line, self.number)

    @property
    def name(self) -> str:
        """The name of its rule; of a rule that is no more, what the file says."""
        return rule_names().get(self.rule, self.rule)


@dataclass(frozen=True)
class Baseline:
    """The baseline of the project that begins at ``root``."""

    file: Path
    root: Path
    entries: tuple[Entry, ...] = ()

    @cached_property
    def keys(self) -> frozenset[Key]:
        """What tells its findings from others."""
        return frozenset(entry.key for entry in self.entries)

    def entry_of(self, finding: Finding, path: str) -> Entry:
        """The entry for a finding in the file with this absolute path, whether it is in the baseline or not."""
        return Entry(self.name_of(path), finding.code, finding.line, finding.number)

    def has_like(self, finding: Finding, path: str, lines: Sequence[str]) -> bool:
        """Whether it has a finding of this rule on a line like that of the finding. ``lines`` are those of the file."""
        number = finding.span.line
        line = code_of_line(lines[number - 1]) if 0 < number <= len(lines) else ""
        like = key_of(finding.code, self.name_of(path), line, 0)[:3]
        return any(key[:3] == like for key in self.keys)

    def name_of(self, path: str) -> str:
        """What entries call a file."""
        try:
            name = os.path.relpath(path, self.root)
        except ValueError:  # on another drive
            name = path
        return name.replace(os.sep, "/")


@dataclass(frozen=True)
class Compared:
    """What a run found, held against a baseline."""

    baseline: Baseline
    known: tuple[Finding, ...]
    """The findings that are in it and would be reported without it."""
    stale: tuple[Entry, ...]
    """Its entries that are found no more."""
    found: tuple[Entry, ...]
    """An entry for all that was found and may be in a baseline."""

    @property
    def left(self) -> tuple[Entry, ...]:
        """Its entries without those that are stale."""
        stale = set(self.stale)
        return tuple(entry for entry in self.baseline.entries if entry not in stale)


def is_baselined(finding: Finding) -> bool:
    """Whether a finding may be in a baseline: a file that cannot be read may not, since nobody knows what is in it."""
    return finding.code != SYNTAX_ERROR[0]


def place_of(root: Path, settings: Settings) -> Path:
    """Where the baseline of a project is: as configured, else at its root."""
    return settings.baseline if settings.baseline is not None else root / FILE


def baseline_of(root: Path, settings: Settings) -> Baseline | None:
    """The baseline that counts for a project; None if there is none, or it is not wanted. Raises ConfigError if one
    that somebody has named is missing, or one cannot be read."""
    if not settings.with_baseline:
        return None
    file = place_of(root, settings)
    if settings.baseline is None and not os.path.lexists(file):
        return None
    return read(file, root)


def read(file: Path, root: Path) -> Baseline:
    """Reads the baseline of the project that begins at ``root``. Raises ConfigError."""
    if not os.path.lexists(file):
        raise ConfigError(f"there is no baseline {file}; `amplint baseline` writes one")
    try:
        text = read_bytes(file).decode("utf-8-sig")
    except Unreadable as error:
        raise ConfigError(f"the baseline {file}: {error.message}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the baseline {file} is not UTF-8: {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_CONFLICT):
            raise ConfigError(
                f"the baseline {file} has merge conflict markers on line {number}; keep the lines of both sides, and "
                "`amplint baseline --prune` takes out what is too much"
            )
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the baseline {file} is not valid JSON: {error}") from error
    return Baseline(file, root, tuple(dict.fromkeys(_entries(document, file))))


def _entries(document: Any, file: Path) -> Iterable[Entry]:
    version = document.get("version") if isinstance(document, dict) else None
    if type(version) is not int or not isinstance(document.get("findings"), list):
        raise ConfigError(f"{file} is no baseline of amplint")
    if version > VERSION:
        raise ConfigError(
            f"the baseline {file} has version {version}, which amplint {__version__} does not know; use a newer amplint"
        )
    codes = {name: code for code, name in rule_names().items()}
    for number, row in enumerate(document["findings"], 1):
        if not isinstance(row, dict) or any(type(row.get(key)) is not kind for key, kind in _FIELDS.items()):
            raise ConfigError(f"the baseline {file}: finding {number} needs {', '.join(_FIELDS)}")
        rule: str = row["rule"]
        yield Entry(row["path"], codes.get(rule, rule), row["line"], row["occurrence"] - 1)


def written(entries: Iterable[Entry]) -> bytes:
    """The bytes of a file with these entries, in ASCII."""
    rows = [
        json.dumps(dict(zip(_FIELDS, (entry.path, entry.name, entry.line, entry.number + 1), strict=True)))
        for entry in sorted(set(entries))
    ]
    findings = "[\n    " + ",\n    ".join(rows) + "\n  ]" if rows else "[]"
    return f'{{\n  "version": {VERSION},\n  "findings": {findings}\n}}\n'.encode()


def compare(
    baseline: Baseline,
    found: Sequence[tuple[Finding, str]],
    told: Callable[[Finding], bool],
    is_judged: Callable[[str], bool],
    codes: Callable[[], frozenset[str]],
) -> Compared:
    """Holds findings, each with the absolute path of its file, against a baseline. ``told`` says which would be
    reported, ``is_judged`` whether the run can say that something is not in a file, ``codes`` which rules ran."""
    entries = {finding: baseline.entry_of(finding, path) for finding, path in found if is_baselined(finding)}
    keys = {entry.key for entry in entries.values()}
    known = [finding for finding, entry in entries.items() if entry.key in baseline.keys and told(finding)]
    missing = [
        entry
        for entry in baseline.entries
        if entry.key not in keys and is_judged(os.path.normpath(baseline.root / entry.path))
    ]
    ran = codes() | {entry.rule for entry in missing if entry.rule not in rule_names()} if missing else ()
    stale = [entry for entry in missing if entry.rule in ran]
    return Compared(baseline, tuple(known), tuple(stale), tuple(entries.values()))
