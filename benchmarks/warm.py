"""Whether a run that takes results of earlier ones finds what a fresh run finds, whatever happens to the files.

    python benchmarks/warm.py DIR [PROJECT...] --steps 500      each project is a folder of DIR

Each project is copied. At each step some of its files are edited, added, renamed, deleted or touched at random; then
the copy, or one of its files, is linted with and without a cache in one process, and the results are compared. A line
for each project: the steps, those in which the cache had the result, the results that differ.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from measure import table

from amplint import cache
from amplint.check import CheckResult, check_views
from amplint.config import Settings, load_settings
from amplint.scope import views

_LINES = (
    "import torch",
    "from torch.cuda.amp import autocast, GradScaler",
    "with torch.autocast('cuda'): pass",
    "# amplint: ignore[half-model]",
    "model = model.half()",
    "loss.backward()",
    "def forward(self, x): return x.half()",
    "from train import *",
    "x = 'é'",
    "scaler = torch.cuda.amp.GradScaler()",
    "",
)
_SETTINGS = ("select = ['ALL']\n", "ignore = ['half-model']\n", "device = 'cpu'\n", "torch-version = '2.1'\n")


class Compared(NamedTuple):
    """What became of some steps: those that the cache answered, and what differed, in words."""

    warm: int
    differing: list[str]


class Edits:
    """Random changes of the files of a folder, which bring back what was there before now and then."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._before: list[tuple[Path, bytes]] = []

    def files(self) -> list[Path]:
        """The Python files."""
        return sorted(path for path in self._folder.rglob("*.py") if path.is_file())

    def one(self) -> str:
        """Makes a change, and says which."""
        kinds: tuple[Callable[[Path], None], ...] = (
            self._line, self._line, self._line, self._line, self._without_line, self._letter, self._letter,
            self._bytes, self._touched, self._back, self._back, self._back, self._copied, self._renamed,
            self._gone, self._settings,
        )  # fmt: skip
        path = self._random.choice(self.files())
        kind = self._random.choice(kinds)
        if len(self._before) < 1000:
            self._before.append((path, path.read_bytes()))
        kind(path)
        return f"{kind.__name__} {path.relative_to(self._folder)}"

    def _line(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        others = [line for line in lines if line.strip()] or [b"\n"]
        made = self._random.choice(_LINES).encode() + b"\n"
        lines.insert(self._random.randint(0, len(lines)), self._random.choice([made, *others[:1]]))
        path.write_bytes(b"".join(lines))

    def _without_line(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        if lines:
            del lines[self._random.randrange(len(lines))]
        path.write_bytes(b"".join(lines))

    def _letter(self, path: Path) -> None:
        """The same size, and the same time of change."""
        data, times = bytearray(path.read_bytes()), path.stat()
        letters = [place for place, byte in enumerate(data) if chr(byte).isalnum() and byte < 128]
        if letters:
            data[self._random.choice(letters)] = self._random.choice(b"abcxyz0123")
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _bytes(self, path: Path) -> None:
        path.write_bytes(
            path.read_bytes() + self._random.choice([b"# \xff\n", b"\0", b"x = (\n", b"\x0c\r\n"])
        )

    def _touched(self, path: Path) -> None:
        path.touch()

    def _back(self, _: Path) -> None:
        path, data = self._random.choice(self._before)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def _copied(self, path: Path) -> None:
        folder = self._random.choice(self.files()).parent
        shutil.copyfile(path, folder / f"copy{self._random.randrange(5)}_{path.name}")

    def _renamed(self, path: Path) -> None:
        path.rename(path.with_name(f"new{self._random.randrange(5)}_{path.name[-40:]}"))

    def _gone(self, path: Path) -> None:
        if len(self.files()) > 1:
            path.unlink()

    def _settings(self, _: Path) -> None:
        path = self._folder / ".amplint.toml"
        path.write_text(self._random.choice(("", *_SETTINGS)), encoding="utf-8")


def compare(folder: Path, steps: int, seed: int = 0) -> Compared:
    """Changes the files of a folder step by step, and compares results with and without its cache."""
    edits, choice = Edits(folder, seed), random.Random(seed)
    kept = cache.Cache(folder / cache.FOLDER)
    grain = cache._GRAIN
    judged, differing = 0, []
    told: list[str] = []

    def settings_of(start: Path) -> Settings:
        return load_settings(start, isolated=False)

    try:
        for step in range(steps):
            told += [edits.one() for _ in range(choice.randint(0, 2))]
            paths = [choice.choice(edits.files())] if choice.random() < 0.3 else [folder]
            # without a grain the times of files count although they are young, which edits seconds apart allow
            cache._GRAIN = choice.choice([0, grain])
            given = views(paths, settings_of)
            warm = check_views(given, jobs=1, cache=kept)
            cold = check_views(given, jobs=1)
            judged += any(account.cache != "used" for account in warm.accounts)
            if _told(warm) != _told(cold):
                differing.append(f"step {step}, after {'; '.join(told[-6:])}")
            gc.collect()
    finally:
        cache._GRAIN = grain
    return Compared(steps - judged, differing)


def _told(result: CheckResult) -> tuple[object, ...]:
    return (*result[:2], *result[3:])  # but for crashes, which have addresses in their words


def main() -> None:
    """Prints the table; ends with 1 if something differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("projects", nargs="*")
    parser.add_argument("--steps", type=int, default=100, help="steps in each project (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = options.projects or sorted(path.name for path in options.folder.iterdir() if path.is_dir())
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch).resolve() / name
            shutil.copytree(options.folder / name, copy, ignore=shutil.ignore_patterns(".git"))
            (copy / ".amplint.toml").touch()
            os.chdir(copy)
            found = compare(copy, options.steps, options.seed)
            os.chdir(options.folder)
        for words in found.differing:
            print(f"{name}: {words}", file=sys.stderr)
        rows.append([name, str(options.steps), str(found.warm), str(len(found.differing))])
        print(table(["project", "steps", "from the cache", "differ"], rows[-1:]), flush=True)
    sys.exit(any(row[3] != "0" for row in rows))


if __name__ == "__main__":
    main()
