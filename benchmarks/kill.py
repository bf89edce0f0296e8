"""``kill -9`` during ``amplint --fix``: is each file the old or the new one, and is nothing left beside them?

    python benchmarks/kill.py [--kills 100] [--files 300] [--folder DIR]

Makes a project in which each file has something to fix, and runs amplint on it once undisturbed, to see how long the
writing takes. Then as often as ``--kills`` says it runs it anew and kills it: a few times before anything is written,
else when a file has just been replaced, each time one further on, and a part of the time for one file has passed. When
the process that finishes what amplint has begun is gone as well, the files are looked at, and whether there are
others. Says in how many runs some files were new and some old. Exit status 1 if anything is wrong. Linux alone.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from measure import describe_machine, program

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: processes whose parent is gone become children of this one."""
_EARLY = 5
"""So many kills come before the first file is written."""
OLD = """\
import torch

scaler = torch.cuda.amp.GradScaler()


def train_{number}(model, loader, optimizer):
    for batch in loader:
        with torch.cuda.amp.autocast(dtype=torch.float16):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""


@dataclass
class Folder:
    """A project of files that can be fixed."""

    path: Path
    number: int
    new: list[bytes]
    """What the files are once they are fixed."""

    @property
    def old(self) -> list[bytes]:
        """What they are before."""
        return [OLD.format(number=number).encode() for number in range(self.number)]

    @property
    def files(self) -> list[Path]:
        """The files, in the order in which they are written."""
        return [self.path / f"m{number:04}.py" for number in range(self.number)]

    def reset(self) -> None:
        """Makes the files anew."""
        for file, data in zip(self.files, self.old, strict=True):
            file.write_bytes(data)

    def start(self) -> subprocess.Popen[bytes]:
        """Starts to fix them."""
        command = [
            program("amplint"),
            "--fix",
            "--isolated",
            "--no-cache",
            "--torch-version",
            ">=2.4",
            "-q",
            ".",
        ]
        return subprocess.Popen(command, cwd=self.path, stdout=subprocess.DEVNULL)

    def wrong(self) -> list[str]:
        """What is wrong with the folder."""
        found = [
            f"{file.name} is neither the old nor the new one"
            for file, old, new in zip(self.files, self.old, self.new, strict=True)
            if not file.is_file() or file.read_bytes() not in (old, new)
        ]
        beside = {path.name for path in self.path.iterdir()} - {file.name for file in self.files}
        return [*found, *(f"{name} is left beside" for name in sorted(beside))]

    def changed(self) -> int:
        """How many files are not the old ones."""
        return sum(file.read_bytes() != old for file, old in zip(self.files, self.old, strict=True))


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> float:
    """The moment at which something is so, or at which the process has ended."""
    while not condition() and process.poll() is None:
        time.sleep(0.0005)
    return time.monotonic()


def is_replaced(file: Path, inode: int) -> bool:
    """Whether another file has the name."""
    return file.stat().st_ino != inode


def undisturbed(folder: Folder) -> tuple[float, float]:
    """The seconds from the start to the first changed file, and from there to the last one."""
    folder.reset()
    first, last = folder.files[0], folder.files[-1]
    inodes = first.stat().st_ino, last.stat().st_ino
    start = time.monotonic()
    process = folder.start()
    begin = wait_for(lambda: is_replaced(first, inodes[0]), process)
    end = wait_for(lambda: is_replaced(last, inodes[1]), process)
    process.wait()
    return begin - start, end - begin


def killed(folder: Folder, reached: int, pause: float) -> None:
    """Kills a run so many seconds after the file of this number has changed; if that is negative, so long after the
    start."""
    folder.reset()
    file = folder.files[max(reached, 0)]
    inode = file.stat().st_ino
    process = folder.start()
    if reached >= 0:
        wait_for(lambda: is_replaced(file, inode), process)
    time.sleep(pause)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while True:  # the process that writes ends when its parent is gone
        try:
            os.wait()
        except ChildProcessError:
            return


def main(given: Sequence[str]) -> int:
    """Prints what came of the kills."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument(
        "--folder", type=Path, help="where to make the project; else where temporary files are"
    )
    options = parser.parse_args(given)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Folder(Path(name), options.files, [])
        lead, writing = undisturbed(folder)
        folder.new = [file.read_bytes() for file in folder.files]
        if folder.changed() != options.files:
            print("amplint does not fix all files", file=sys.stderr)
            return 1
        print(f"{lead:.1f} s to the first changed file, {writing:.2f} s from there to the last", flush=True)
        between, wrong = 0, 0
        random = Random(0)
        for number in range(options.kills):
            late = max(number - _EARLY, 0) / (options.kills - _EARLY)
            reached = int(late * options.files) if number >= _EARLY else -1
            pause = random.random() * (writing / options.files if reached >= 0 else lead)
            killed(folder, reached, pause)
            changed = folder.changed()
            between += 0 < changed < options.files
            problems = folder.wrong()
            wrong += bool(problems)
            for problem in problems:
                print(
                    f"killed {pause:.4f} s after file {reached}, {changed} files new: {problem}", flush=True
                )
    print(describe_machine())
    print(
        f"{options.kills} kills, {between} between the first and the last of {options.files} files; wrong: {wrong}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
