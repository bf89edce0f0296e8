"""What an earlier run found in a project, kept in a folder ``.amplint_cache/``.

With the findings stands everything that was asked about the files: the digests of those that were read, and of the
others what was looked for in their bytes (the gate, names that they import, define or mention). A later run takes the
findings if it has the same files, settings and amplint and would get the same answers. So an edit in a file without
AMP costs one look at its bytes, and one in a file that was read makes the run look at everything anew.

What is kept is JSON behind its own digest. Whatever is damaged, foreign or of another form counts as nothing, and what
cannot be written is not kept: a run never fails for its cache.

There is nothing between that and judging anew: walks share what they have reached, their budgets and their summaries,
so that the findings of one entry point are not a function of what was read for it alone.
"""

# a Path for each of many thousand files costs more than reading them:
# ruff: noqa: PTH116, PTH123

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amplint import __version__
from amplint.config import Settings
from amplint.gating import gate_of, is_worth_reading
from amplint.kept import Kept, decoded, encoded
from amplint.source.decoding import Unreadable, digest_of_bytes, read_bytes
from amplint.source.gate import Gate
from amplint.source.texts import code_in

if TYPE_CHECKING:
    from amplint.scope import View
    from amplint.source.words import Asked

FOLDER = ".amplint_cache"
"""The name of the folder in a project."""
_MARKS = {
    "CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# The cache of amplint; see https://bford.info/cachedir/\n",
    ".gitignore": "# Made by amplint.\n*\n",
}
"""What keeps backups and git away from it."""
_PREFIX = "amplint-"
_SUFFIX = ".json"
_UNFINISHED = ".tmp"
_MOST_RUNS = 64
"""So many results are kept in one folder, those that were used last: of projects, sets of files, settings and working
directories."""
_WITHOUT_EFFECT = frozenset({"output_format", "origins", "level", "baseline", "with_baseline"})
"""Settings that say nothing of what is found."""
_STALE = 3600.0
"""Seconds after which a file that was never finished is taken away."""
_GRAIN = 2_000_000_000
"""Nanoseconds: a file that changed so short before a run may change again without its time telling."""

Stamp = list[int]
"""What the disk says of a file: size, times and identity."""
_Answers = list[list[Any]]
"""What was found in the bytes of a file: names that it imports, with their modules; names that it defines."""


class Cache:
    """The results of earlier runs: ``Cache()`` keeps each in its project, ``Cache(folder)`` all in one folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def of(self, view: View, changed: Mapping[str, bytes] = {}) -> Entry | None:
        """Where the result for the project of a view, whose settings have their torch, is kept; None if nowhere.
        ``changed`` holds bytes by absolute path that count instead of those on the disk: of such nothing is kept."""
        folder = self._folder or folder_of(view)
        return Entry(folder, view) if folder is not None and not changed else None


def folder_of(view: View) -> Path | None:
    """The folder for a project; None for files that nothing marks as one, such as a script in a home directory."""
    return view.root / FOLDER if view.is_marked else None


class Entry:
    """The result for one project, one working directory and one amplint, with the stamps of the files before the run
    looks at them."""

    def __init__(self, folder: Path, view: View, changed: Mapping[str, bytes] = {}) -> None:
        self._view = view
        self._changed = changed
        self.path = folder / f"{_PREFIX}{_key_of(view)}{_SUFFIX}"
        self._before = self._look()
        self._start = _now()

    def get(self) -> Kept | None:
        """What was found, if a run now would find the same."""
        try:
            document = self._read()
            if document is None or not self._is_same(document):
                return None
            kept = decoded(document)
            if document["stamps"] != self._stamps():
                self._write({**document, "stamps": self._stamps()})
            else:
                self._touch()
            return kept
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return None

    def take(self, document: Mapping[str, Any]) -> None:
        """Keeps what another place has for the same files, if there is nothing here yet."""
        if self.get() is None:
            self._write({**document, "stamps": self._stamps()})

    def put(self, kept: Kept, asked: Asked, unreadable: Sequence[str]) -> None:
        """Keeps what was found, unless a file changed meanwhile: then some of it is about what was there before.
        ``unreadable``: files that could not be read or decoded."""
        files = self._view.project
        if not files or self._before != self._look():
            return
        read = {str(path): digest for path, digest in asked.read.items()} | dict.fromkeys(unreadable, "")
        read |= {path: digest_of_bytes(data) for path, data in self._changed.items() if read.get(path) == ""}
        answers = _answers_of(asked)
        document = {
            "stamps": self._stamps(),
            "read": {number: read[file] for number, file in enumerate(files) if file in read},
            "imported": sorted(asked.imported),
            "defined": sorted(asked.defined),
            "mentioned": {
                name.decode("latin-1"): sorted(module.decode("latin-1") for module in modules)
                for name, modules in asked.mentioned.items()
            },
            "answers": {
                number: answers[file]
                for number, file in enumerate(files)
                if file in answers and file not in read
            },
            **encoded(kept),
        }
        self._write(document)

    def _read(self) -> Mapping[str, Any] | None:
        return _read(self.path)

    def _write(self, document: Mapping[str, Any]) -> None:
        _write(self.path, document)

    def _touch(self) -> None:
        with contextlib.suppress(OSError):
            os.utime(self.path)  # it was used last

    def _look(self) -> list[Stamp | None]:
        return [
            stamp_of(file) if (data := self._changed.get(file)) is None else _stamp_of_bytes(data)
            for file in self._view.project
        ]

    def _bytes(self, file: str) -> bytes:
        """What a file holds now. Raises Unreadable."""
        return self._changed[file] if file in self._changed else read_bytes(file)

    def _stamps(self) -> list[Stamp | None]:
        """Those that tell whether a file is what it was when this run looked at it."""
        return [
            stamp if stamp is not None and max(stamp[1], stamp[2]) < self._start - _GRAIN else None
            for stamp in self._before
        ]

    def _is_same(self, document: Mapping[str, Any]) -> bool:
        """Whether all that was asked about the files gets the same answer."""
        stamps = document["stamps"]
        changed = [
            number
            for number, (stamp, now) in enumerate(zip(stamps, self._before, strict=True))
            if stamp is None or stamp != now
        ]
        others = []
        for number in changed:
            digest = document["read"].get(str(number))
            if digest is None:
                others.append(number)
            elif digest != self._digest(self._view.project[number]):
                return False
        return all(self._says_the_same(document, number) for number in others)

    def _digest(self, file: str) -> str | None:
        try:
            return digest_of_bytes(self._bytes(file))
        except Unreadable:
            return None

    @cached_property
    def _gate(self) -> Gate:
        return gate_of(self._view.settings)

    def _says_the_same(self, document: Mapping[str, Any], number: int) -> bool:
        """Whether a file that nobody has read, and that changed, gives the same answers, and would not be read now."""
        from amplint.source.words import defined_names, imported_names, mentions

        file = self._view.project[number]
        try:
            data = self._bytes(file)
        except Unreadable:
            return False  # it is to be reported
        if is_worth_reading(file, data, self._gate, refined=not self._view.settings.has_own_wrappers):
            return False
        data = code_in(data, file)
        wanted = {
            name.encode("latin-1"): {module.encode("latin-1") for module in modules}
            for name, modules in document["mentioned"].items()
        }
        if wanted and mentions(Path(file), data, wanted):
            return False
        imported, defined = imported_names(data), defined_names(data)
        found = [
            [pair for pair in document["imported"] if tuple(pair) in imported],
            [name for name in document["defined"] if name in defined],
        ]
        return bool(found == document["answers"].get(str(number), [[], []]))


def clean(folder: Path) -> int:
    """Takes away what amplint keeps in a folder, and the folder if nothing else is in it: how many results there were.
    Raises OSError."""
    removed = 0
    with contextlib.suppress(FileNotFoundError):
        for path in _ours(folder):
            path.unlink(missing_ok=True)
            removed += path.suffix == _SUFFIX
        for name, text in _MARKS.items():
            with contextlib.suppress(FileNotFoundError, ValueError):
                if (folder / name).read_text("utf-8") == text:
                    (folder / name).unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()
    return removed


def _ours(folder: Path) -> Iterator[Path]:
    """The results in a folder, those that were never finished among them."""
    for path in folder.iterdir():
        if path.name.startswith(_PREFIX) and path.suffix in (_SUFFIX, _UNFINISHED):
            yield path


def _now() -> int:
    return time.time_ns()


def stamp_of(path: str) -> Stamp | None:
    """What tells whether a file has changed, None for one that is not there."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _stamp_of_bytes(data: bytes) -> Stamp:
    return [-1, -1, -1, int(digest_of_bytes(data)[:16], 16)]


def _digest(path: str) -> str | None:
    try:
        return digest_of_bytes(read_bytes(path))
    except Unreadable:
        return None


def _key_of(view: View) -> str:
    parts = [
        os.getcwd(),  # noqa: PTH109 - findings name files relative to it
        str(view.root),
        *(
            f"{part.name}={getattr(view.settings, part.name)!r}"
            for part in fields(Settings)
            if part.name not in _WITHOUT_EFFECT
        ),
        *_amplint(),
        *view.project,
    ]
    return digest_of_bytes("\0".join(parts).encode("utf-8", "surrogatepass"))[:32]


@lru_cache(maxsize=1)
def _amplint() -> tuple[str, ...]:
    """This amplint, down to the bytes of its files, and what it is run with: the same on every machine."""
    own = Path(__file__).parent
    code = [
        f"{Path(folder, name).relative_to(own).as_posix()} {_digest(os.path.join(folder, name))}"  # noqa: PTH118
        for folder, _, names in os.walk(own)
        for name in names
        if name.endswith((".py", ".json"))
    ]
    return __version__, sys.version, _version_of("libcst"), _version_of("pathspec"), *sorted(code)


def _version_of(package: str) -> str:
    """The version of a package that need not be imported for it, by the folder that pip keeps beside it."""
    found = find_spec(package)
    if found is None or found.origin is None:
        return ""
    beside = Path(found.origin).parent.parent
    return " ".join(sorted(path.name for path in beside.glob(f"{package}-*.dist-info")))


def _answers_of(asked: Asked) -> dict[str, _Answers]:
    """For each file that has some of the names that were looked for which these are, in order."""
    answers: dict[str, _Answers] = {}
    for pair in sorted(asked.imported):
        for path in asked.imported[pair]:
            answers.setdefault(str(path), [[], []])[0].append(list(pair))
    for name in sorted(asked.defined):
        for path in asked.defined[name]:
            answers.setdefault(str(path), [[], []])[1].append(name)
    return answers


def _read(path: Path) -> dict[str, Any] | None:
    """A whole document that belongs to this user."""
    try:
        if hasattr(os, "geteuid") and os.stat(path).st_uid != os.geteuid():
            return None
        digest, _, data = read_bytes(path).partition(b"\n")
    except (OSError, ValueError, Unreadable):
        return None
    if digest_of_bytes(data).encode() != digest:
        return None
    document = json.loads(data)
    return document if isinstance(document, dict) else None


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Puts a document in its place at once, if that can be done."""
    data = json.dumps(document, separators=(",", ":")).encode()
    with contextlib.suppress(OSError):
        _make(path.parent)
        _put(path, digest_of_bytes(data).encode() + b"\n" + data)
        _prune(path.parent)


def _put(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all. Raises OSError."""
    descriptor, unfinished = tempfile.mkstemp(_UNFINISHED, _PREFIX, path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)  # noqa: PTH108
        raise


def _make(folder: Path) -> None:
    # in a folder that is somebody else's, or a link to one, such files would do harm
    is_own = not folder.is_dir() or (folder.name == FOLDER and not folder.is_symlink())
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _MARKS.items() if is_own else ():
        if not (folder / name).exists():
            _put(folder / name, text.encode())


def _prune(folder: Path) -> None:
    """Takes away the oldest results beyond the number that is kept, and what was never finished."""
    now = _now()
    kept: list[tuple[int, Path]] = []
    for path in _ours(folder):
        with contextlib.suppress(FileNotFoundError):
            changed = path.stat().st_mtime_ns
            if path.suffix == _SUFFIX:
                kept.append((changed, path))
            elif now - changed > _STALE * 1e9:
                path.unlink()
    for _, path in sorted(kept)[:-_MOST_RUNS]:
        path.unlink(missing_ok=True)
