"""Runs commands and takes their time and memory; says on what machine. Used by the benchmarks beside it."""

from __future__ import annotations

import os
import platform
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from time import perf_counter, sleep

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = REPOSITORY / "build" / "packages"
"""Where the benchmarks keep the packages that they lint, unless told otherwise."""


@dataclass(frozen=True)
class Run:
    """What a command did. ``peak_mb`` is the memory of all its processes together, in units of 10**6 bytes,
    each shared page counted once (PSS); 0 where nobody asked for it."""

    exit_code: int
    seconds: float
    cpu_seconds: float
    stdout: str
    stderr: str
    timed_out: bool = False
    peak_mb: float = 0.0


def run(
    command: Sequence[str | Path],
    cwd: Path | None = None,
    timeout: float | None = None,
    memory: bool = False,
) -> Run:
    """Runs a command to its end, or kills it and all its children after ``timeout`` seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = perf_counter()
    process = subprocess.Popen(
        [str(word) for word in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    watch = MemoryWatch(process.pid) if memory else None
    timed_out = False
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
    seconds = perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(
        exit_code=process.returncode,
        seconds=seconds,
        cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        stdout=stdout,
        stderr=stderr,
        timed_out=timed_out,
        peak_mb=watch.stop() if watch else 0.0,
    )


class MemoryWatch:
    """Looks every 20 milliseconds at the memory of a session of processes, and keeps the largest sum."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Ends the watch and returns the peak in units of 10**6 bytes."""
        self._done.set()
        self._thread.join()
        return self._peak / 1e6

    def _watch(self) -> None:
        while not self._done.is_set():
            self._peak = max(self._peak, sum(proportional_set_size(p) for p in processes_of(self._session)))
            sleep(0.02)


def processes_of(session: int) -> Iterator[int]:
    """The living processes of a session."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            yield int(entry.name)


def proportional_set_size(process: int) -> int:
    """Bytes of memory, a page that n processes share counting 1/n in each; 0 when the process is gone."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def program(name: str) -> Path:
    """The program of that name beside the Python that runs the benchmark."""
    return Path(sys.executable).parent / name


def version(distribution: str) -> str:
    """The installed version of a distribution, or "absent"."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "absent"


def describe_machine(*distributions: str) -> str:
    """Processor, memory, system, commit and versions, one fact a line."""
    commit = run(["git", "-C", REPOSITORY, "describe", "--always", "--dirty", "--abbrev=12"]).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    versions = ", ".join(f"{name} {version(name)}" for name in ("amplint", "libcst", *distributions))
    return "\n".join(
        (
            f"machine: {processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GB, "
            f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
            f"commit: {commit or 'unknown'}",
            f"versions: {versions}",
        )
    )


def processor() -> str:
    """The processor's name as Linux gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def python_files(folder: Path) -> list[Path]:
    """All Python files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*.py") if path.is_file())


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table whose columns line up; every column but the first is aligned to the right."""
    cells = [[str(cell) for cell in row] for row in (heading, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heading))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        " | ".join((row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))))
        for row in (cells[0], rule, *cells[1:])
    ]
    return "\n".join(f"| {line} |" for line in lines)
