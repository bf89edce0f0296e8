"""Whether one file alone gets the findings that a run over its project has for it.

    python benchmarks/one_file.py DIR [PROJECT...]      each project is a folder of DIR

Each project is linted as a whole, then each of ``--files`` of its files that have findings, alone and with
``--project``. A line for each project: the files that were compared, their findings, those that differ, and the
seconds of the whole run and of the slowest run over one file.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measure import program, table

_OPTIONS = ("--isolated", "--no-cache", "--select", "ALL", "--output-format", "json", "--project", ".")
_SEED = 0


def lint(folder: Path, path: str) -> tuple[list[dict[str, Any]], float]:
    """The findings at a path of a project, and the seconds that it took. Ends the program if amplint fails."""
    start = time.perf_counter()
    done = subprocess.run(
        [program("amplint"), "check", *_OPTIONS, path], cwd=folder, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        sys.exit(f"{folder}: amplint ended with {done.returncode}: {done.stderr}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found, time.perf_counter() - start


def row(folder: Path, count: int) -> list[str]:
    """The comparison of one project."""
    whole, seconds = lint(folder, ".")
    by_file: dict[str, list[dict[str, Any]]] = {}
    for finding in whole:
        by_file.setdefault(finding["path"], []).append(finding)
    files = sorted(by_file)
    random.Random(_SEED).shuffle(files)
    findings = differing = 0
    slowest = 0.0
    for path in sorted(files[:count]):
        alone, taken = lint(folder, path)
        slowest = max(slowest, taken)
        findings += len(by_file[path])
        differing += sum(one not in alone for one in by_file[path])
        differing += sum(one not in by_file[path] for one in alone)
        if alone != by_file[path]:
            print(f"{folder.name}: {path} differs", file=sys.stderr)
    compared = min(count, len(files))
    numbers = [compared, findings, differing]
    return [folder.name, *map(str, numbers), f"{seconds:.1f}", f"{slowest:.1f}"]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("projects", nargs="*")
    parser.add_argument("--files", type=int, default=3, help="files compared in each project (default: 3)")
    options = parser.parse_args()
    names = options.projects or sorted(path.name for path in options.folder.iterdir() if path.is_dir())
    rows = [row(options.folder / name, options.files) for name in names]
    rows = [cells for cells in rows if cells[1] != "0"]
    totals = [str(sum(int(cells[index]) for cells in rows)) for index in (1, 2, 3)]
    print(
        table(
            ["project", "files", "findings", "differ", "all, s", "one, s"], [*rows, ["all", *totals, "", ""]]
        )
    )


if __name__ == "__main__":
    main()
