"""Mutants of real files, each linted by itself and, where it is a program, fixed: no crash, no hang, and every fixed
file is a program that a second round leaves alone.

    python benchmarks/fuzz.py DIR... [--count 20000] [--seed 0] [--jobs 1] [--first 0]

The files are those below the folders that pass the byte gate and are not longer than ``--longest`` bytes. Mutant
number n is the same for the same files and seed. Linting one may take ``--seconds`` of the processor's time and
``--memory`` MB beyond what its process had, and fixing it, with the unsafe fixes, four times as long; the process that
goes beyond is ended by the system, counted and replaced. What fails is written to ``--out`` with the mutations that led
there and the traceback; for an exception, also the fewest lines that show it. Exit status 1 if anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import multiprocessing
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any

from measure import describe_machine, python_files, table
from mutants import mutant

from amplint.bounds import TORCH_DEFAULT
from amplint.check import Stdin, check_stdin
from amplint.config import Settings
from amplint.fixing import fix
from amplint.gating import gate_of, is_worth_reading
from amplint.report import renderer
from amplint.report.text import Style
from amplint.scope import text_alone
from amplint.source.decoding import Unreadable, decode

NAME = Path("program.py")
HERE = Settings(root=Path.cwd(), select=("ALL",), torch=TORCH_DEFAULT, torch_from="the benchmark")
VIEW = text_alone(NAME, HERE)
FORMATS = ("full", "sarif", "rdjson")
"""Reports that quote the text, or count its columns."""
FIXING = 4
"""Fixing twice may take so many times what one lint may: it lints at least four times where something is fixed."""
_SHRINKING = 60.0
"""Seconds that looking for the fewest lines may take."""


class Wrong(Exception):  # noqa: N818
    """amplint did what it must not do. The message is the same for the same mistake."""


@dataclass(frozen=True)
class Limits:
    """For one step with one mutant: seconds of the processor, and bytes beyond what the process has."""

    seconds: float
    memory: int


@dataclass(frozen=True)
class Task:
    """A mutant and where it comes from."""

    number: int
    source: Path
    mutations: list[str]
    data: bytes


@dataclass
class Answer:
    """What came of a mutant: whether it is a program, how many findings and fixes, and the failure, if any."""

    kind: str
    findings: int = 0
    fixed: int = 0
    seconds: float = 0.0
    failure: str = ""
    """A line that is the same for the same mistake."""
    details: str = ""
    fewest: bytes = b""


def candidates(folders: Sequence[Path], longest: int) -> list[Path]:
    """The files whose mutants will meet the analysis."""
    gate = gate_of(HERE)
    found = []
    for folder in folders:
        for path in python_files(folder):
            data = path.read_bytes()
            with contextlib.suppress(Unreadable):
                worth = len(data) <= longest and is_worth_reading(str(path), data, gate, refined=True)
                if worth and decode(data):
                    found.append(path)
    return found


def tasks(paths: Sequence[Path], seed: int, first: int, count: int) -> Iterator[Task]:
    """The mutants from number ``first`` on."""
    for number in range(first, first + count):
        random = Random(f"{seed} {number}")
        path, other = random.choice(paths), random.choice(paths)
        data, mutations = mutant(random, decode(path.read_bytes()), decode(other.read_bytes()))
        yield Task(number, path, mutations, data)


def is_program(data: bytes) -> bool:
    """Whether Python compiles it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(data, str(NAME), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def lint(data: bytes) -> int:
    """Lints and reports; the number of findings. Raises Wrong."""
    result = check_stdin(VIEW, Stdin(NAME, data))
    for crash in result.crashes:
        raise Wrong(f"crash: {crash.reason}\n{crash.traceback}")
    for output_format in FORMATS:
        renderer(output_format)(result, Style(all_fixes=True))
    return len(result.findings)


def mend(data: bytes) -> int:
    """Fixes, and fixes what comes of it; the number of fixed findings. Raises Wrong."""
    fixing = fix([VIEW], unsafe=True, stdin=Stdin(NAME, data))
    for crash in fixing.result.crashes:
        raise Wrong(f"crash while fixing: {crash.reason}\n{crash.traceback}")
    after = fixing.source if fixing.source is not None else data
    if after == data:
        return 0
    names = ", ".join(sorted({finding.name for finding in fixing.fixed}))
    if not is_program(after):
        raise Wrong(f"does not compile after fixes of {names}")
    again = fix([VIEW], unsafe=True, stdin=Stdin(NAME, after))
    if again.source != after:
        more = ", ".join(sorted({finding.name for finding in again.fixed}))
        raise Wrong(f"a second round fixes {more} after {names}")
    return len(fixing.fixed)


def judged(data: bytes, step: Callable[[Callable[[bytes], int], bytes], int]) -> Answer:
    """What comes of a text. ``step`` does one thing under the limits."""
    compiles = is_program(data)
    answer = Answer("program" if compiles else "no program")
    start = time.process_time()
    try:
        answer.findings = step(lint, data)
        if compiles:
            answer.fixed = step(mend, data)
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        answer.failure, answer.details = _failure(error), text
    answer.seconds = time.process_time() - start
    return answer


def _failure(error: Exception) -> str:
    if isinstance(error, Wrong):
        lines = str(error).splitlines()
        frames = [line.strip() for line in lines if line.strip().startswith("File ")]
        return f"{lines[0]} {frames[-1] if frames else ''}".strip()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:100]} File {frame.filename}, line {frame.lineno}"


def fewest_lines(data: bytes, failure: str, judge: Callable[[bytes], Answer]) -> bytes:
    """The text with all lines taken away that are not needed for the same failure."""
    lines = data.splitlines(keepends=True)
    until = time.monotonic() + _SHRINKING
    size = max(len(lines) // 2, 1)
    while time.monotonic() < until:
        first, before = 0, len(lines)
        while first < len(lines) and time.monotonic() < until:
            fewer = lines[:first] + lines[first + size :]
            if judge(b"".join(fewer)).failure == failure:
                lines = fewer
            else:
                first += size
        if size == 1 and len(lines) == before:
            break
        size = max(size // 2, 1)
    return b"".join(lines)


def work(pipe: Connection, limits: Limits, log: str) -> None:
    """The life of a process: a mutant in, an answer out. A signal ends it that goes beyond its time."""
    warnings.simplefilter("ignore")
    lint(b"import torch\nwith torch.autocast('cuda'):\n    loss.backward()\n")  # what is imported late
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with Path(log).open("w") as file:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        faulthandler.register(signal.SIGPROF, file, chain=True)

        def step(act: Callable[[bytes], int], data: bytes) -> int:
            gc.disable()  # as the command line does
            signal.setitimer(signal.ITIMER_PROF, limits.seconds * (FIXING if act is mend else 1))
            resource.setrlimit(resource.RLIMIT_AS, (size + limits.memory, resource.RLIM_INFINITY))
            try:
                return act(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                gc.enable()
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

        while True:
            data = pipe.recv()
            answer = judged(data, step)
            if answer.failure:
                answer.fewest = fewest_lines(data, answer.failure, lambda fewer: judged(fewer, step))
            pipe.send(answer)


@dataclass
class Worker:
    """A process, and what it is at."""

    limits: Limits
    log: Path
    task: Task | None = None
    pipe: Connection = field(init=False)
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Starts the process, in the place of one that has died."""
        self.pipe, end = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self.process = context.Process(target=work, args=(end, self.limits, str(self.log)), daemon=True)
        self.process.start()
        end.close()

    def give(self, task: Task) -> None:
        """Hands a mutant to the process."""
        self.task = task
        self.pipe.send(task.data)

    def take(self) -> tuple[Task, Answer]:
        """The mutant, and what came of it. A process that has died is replaced."""
        task, self.task = self.task, None
        assert task is not None
        try:
            return task, self.pipe.recv()
        except EOFError:
            self.process.join()
            ended, details = self.process.exitcode, self.log.read_text(errors="replace")
            self.start()
            what = "hang" if ended == -signal.SIGPROF else f"the process ended with {ended}"
            return task, Answer("ended", failure=what, details=details)


def answers(made: Iterator[Task], workers: list[Worker]) -> Iterator[tuple[Task, Answer]]:
    """What comes of each mutant, in any order."""
    for worker, task in zip(workers, made, strict=False):
        worker.give(task)
    while busy := {worker.pipe: worker for worker in workers if worker.task is not None}:
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            told = worker.take()
            following = next(made, None)
            if following is not None:
                worker.give(following)
            yield told


def keep(folder: Path, task: Task, answer: Answer) -> None:
    """Writes down a failure: the mutant, how it came to be, and the fewest lines."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{task.number}.py").write_bytes(task.data)
    text = f"{answer.failure}\n{task.source}: {', '.join(task.mutations)}\n\n{answer.details}"
    (folder / f"{task.number}.txt").write_text(text, "utf-8", "backslashreplace")
    if answer.fewest:
        (folder / f"{task.number}.least.py").write_bytes(answer.fewest)


def arguments(given: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--longest", type=int, default=40_000, help="bytes of the files that are taken")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--memory", type=int, default=600, help="MB")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    return parser.parse_args(given)


def main(given: Sequence[str]) -> int:
    """Prints how many mutants there were of each kind, and each failure once."""
    options = arguments(given)
    paths = candidates(options.folders, options.longest)
    options.out.mkdir(parents=True, exist_ok=True)
    limits = Limits(options.seconds, options.memory * 1_000_000)
    workers = [Worker(limits, options.out / f"worker{number}.log") for number in range(options.jobs)]
    kinds: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    seconds: list[float] = []
    made = tasks(paths, options.seed, options.first, options.count)
    for done, (task, answer) in enumerate(answers(made, workers), 1):
        kinds[answer.kind] += 1
        kinds["with findings"] += bool(answer.findings)
        kinds["fixed"] += bool(answer.fixed)
        seconds.append(answer.seconds)
        if answer.failure:
            failures[answer.failure] += 1
            keep(options.out, task, answer)
            print(f"{task.number}: {answer.failure}", file=sys.stderr, flush=True)
        if done % 500 == 0:
            print(f"{done} of {options.count}", file=sys.stderr, flush=True)
    print(describe_machine())
    print(
        f"{len(paths)} files, mutants {options.first} to {options.first + len(seconds) - 1}, seed {options.seed}"
    )
    rows = [*kinds.most_common(), *failures.most_common()]
    print(table(["mutants", "number"], rows))
    print(f"seconds of the processor: {sum(seconds):.0f} in all, {max(seconds, default=0):.2f} at most")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
