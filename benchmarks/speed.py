"""Times amplint against ruff, TorchFix and Fixit, on real packages.

    python benchmarks/speed.py [--root DIR] [--only ruff,warm,hook,phases,growth,others,memory,startup]

* ruff: `ruff check --isolated --no-cache --select E,F,B` and `amplint check --isolated --no-cache` on the
  transformers wheel, in turns, five pairs. No tool has a cache, the files are in memory.
* warm: the same on a copy of transformers whose result amplint has kept, against ruff without a cache; then with
  another text in a file without AMP before each run, and in one with AMP.
* hook: one file with AMP of --grow as a pre-commit hook gives it, with a result that amplint has kept, against
  `python -c "import click"`; then with another text in it before each run.
* phases: what a run on transformers spends its time on, by the rooms of amplint, under a profiler, whose own cost is
  spread over them.
* growth: one, two, four and eight copies of --grow side by side, in one process.
* memory: the most that all processes of one amplint run on transformers hold together.
* startup: a run in which no file has AMP (the sources of click), against `python -c "import click"`; and
  whether libcst or torch is imported in such a run.
* others: TorchFix and Fixit on timm, each once, stopped after ten minutes. The script installs them in
  environments of their own, below --tools.
"""

from __future__ import annotations

import argparse
import pstats
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from measure import PACKAGES, REPOSITORY, Run, describe_machine, program, python_files, run, table

LINT = ("check", "--isolated", "--no-cache", "--exit-zero", ".")
RUFF = ("check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--select", "E,F,B", ".")
Command = Sequence[str | Path]
STOP_AFTER = 600.0


def read_all(folder: Path) -> tuple[int, float]:
    """Reads every Python file once, so that none of the tools pays for the disk. Number and megabytes."""
    files = python_files(folder)
    return len(files), sum(len(path.read_bytes()) for path in files) / 1e6


def checked(command: Command, folder: Path, memory: bool = False) -> Run:
    """Runs a command that must succeed."""
    done = run(command, cwd=folder, memory=memory)
    if done.exit_code:
        sys.exit(f"{shlex.join(map(str, command))}: exit {done.exit_code}\n{done.stderr[-800:]}")
    return done


def in_turns(first: Command, second: Command, folder: Path, pairs: int) -> tuple[list[Run], list[Run]]:
    """Runs two commands in turns, ``pairs`` times; every other pair begins with the second. One run of each
    comes before and is thrown away: it brings the programs themselves into memory."""
    checked(first, folder)
    checked(second, folder)
    firsts, seconds = [], []
    for number in range(pairs):
        if number % 2:
            seconds.append(checked(second, folder))
            firsts.append(checked(first, folder))
        else:
            firsts.append(checked(first, folder))
            seconds.append(checked(second, folder))
    return firsts, seconds


def compare(names: tuple[str, str], runs: tuple[list[Run], list[Run]]) -> str:
    """Medians of both, the ratio of the medians, and the ratio of each pair."""
    rows = [
        [
            name,
            f"{median(r.seconds for r in side):.3f}",
            f"{min(r.seconds for r in side):.3f} to {max(r.seconds for r in side):.3f}",
            f"{median(r.cpu_seconds for r in side):.3f}",
        ]
        for name, side in zip(names, runs, strict=True)
    ]
    pairs = [a.seconds / b.seconds for a, b in zip(*runs, strict=True)]
    whole = median(r.seconds for r in runs[0]) / median(r.seconds for r in runs[1])
    return "\n".join(
        (
            table(["command", "median s", "range s", "median CPU s"], rows),
            f"ratio of the medians: {whole:.2f}; of each pair: {', '.join(f'{p:.2f}' for p in pairs)}",
        )
    )


def against_ruff(amplint: list[str], ruff: list[str], folder: Path, pairs: int) -> None:
    files, megabytes = read_all(folder)
    version = run([*ruff, "--version"]).stdout.strip()
    print(f"\n== {folder.name}, {files} files, {megabytes:.1f} MB: amplint against {version}")
    runs = in_turns([*amplint, *LINT], [*ruff, *RUFF], folder, pairs)
    print(compare(("amplint", "ruff --select E,F,B"), runs), flush=True)


def warm(amplint: list[str], ruff: list[str], folder: Path, pairs: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy)
        sources = python_files(copy)
        half = next(path for path in sources if b"torch.autocast(" in path.read_bytes())
        plain = next(path for path in sources if b"torch" not in path.read_bytes())
        files, megabytes = read_all(copy)
        print(
            f"\n== {folder.name}, {files} files, {megabytes:.1f} MB: amplint with a result that it has kept"
        )
        kept = (
            "check",
            "--isolated",
            "--exit-zero",
            "--project",
            ".",
            "--cache-dir",
            str(Path(scratch) / "kept"),
            ".",
        )
        runs = in_turns([*amplint, *kept], [*ruff, *RUFF], copy, pairs)
        print(compare(("amplint, nothing changed", "ruff --select E,F,B"), runs), flush=True)
        size = sum(path.stat().st_size for path in (Path(scratch) / "kept").iterdir())
        print(f"kept: {size / 1e6:.2f} MB")
        rows = []
        for what, path in (("without AMP", plain), ("with AMP", half)):
            taken = []
            for number in range(3):
                path.write_bytes(path.read_bytes() + f"# {number}\n".encode())
                taken.append(checked([*amplint, *kept], copy).seconds)
            rows.append([f"one file {what} changed", f"{median(taken):.3f}"])
        print(table(["amplint", "median s"], rows), flush=True)


def hook(amplint: list[str], folder: Path, pairs: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git"))
        half = next(path for path in python_files(copy) if b"autocast(" in path.read_bytes())
        files, _ = read_all(copy)
        print(
            f"\n== {folder.name}, {files} files: amplint on {half.relative_to(copy)} alone, against importing click"
        )
        words = (
            "check",
            "--isolated",
            "--exit-zero",
            "--project",
            ".",
            "--cache-dir",
            str(Path(scratch) / "kept"),
        )
        command = [*amplint, *words, str(half.relative_to(copy))]
        runs = in_turns(command, [sys.executable, "-c", "import click"], copy, pairs)
        print(compare(("amplint, nothing changed", "import click"), runs))
        taken = []
        for number in range(3):
            half.write_bytes(half.read_bytes() + f"# {number}\n".encode())
            taken.append(checked(command, copy).seconds)
        print(f"that file changed: {median(taken):.2f} s", flush=True)


_PHASES = {
    "start": ("importlib", "<frozen"),
    "gate": ("source/gate.py", "source/words.py", "gating.py"),
    "discovery": ("source/discovery.py", "scope.py", "config.py"),
    "outline": (
        "source/outline.py",
        "source/facts.py",
        "source/bodies.py",
        "source/bindings.py",
        "source/project.py",
    ),
    "LibCST and lowering": ("libcst", "lowering/", "source/slices.py"),
    "names, calls and effects of the project": ("flow/project/", "source/modules.py", "source/imports.py"),
    "interpretation": ("flow/core/", "flow/models/", "flow/driver.py", "flow/state/"),
    "rules": ("amplint/rules/", "analysis.py", "flow/state/graph.py", "amp/"),
    "fixes": ("amplint/fixes/",),
    "output": ("amplint/report/", "groups.py", "silence.py"),
}
_PROFILED = """
import cProfile, sys
from amplint.cli.main import run
profile = cProfile.Profile()
profile.runcall(run, sys.argv[2:])
profile.dump_stats(sys.argv[1])
"""


def phases(folder: Path) -> None:
    """Own times of functions, those of builtins counted where they are called."""
    with tempfile.TemporaryDirectory() as scratch:
        stats = Path(scratch) / "stats"
        words = (
            "check",
            "--isolated",
            "--no-cache",
            "--exit-zero",
            "-j",
            "1",
            "--output-file",
            str(Path(scratch) / "out"),
        )
        checked([sys.executable, "-c", _PROFILED, stats, *words, "."], folder)
        entries = pstats.Stats(str(stats)).stats  # type: ignore[attr-defined]
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, callers) in entries.items():
        if file == "~":
            for (caller, _, _), times in callers.items():
                spent[_phase(caller)] += times[2]
        else:
            spent[_phase(file)] += own
    whole = sum(spent.values())
    rows = [[name, f"{seconds / whole:.0%}"] for name, seconds in spent.most_common()]
    print(f"\n== {folder.name}: what a run spends its time on")
    print(table(["phase", "share"], rows), flush=True)


def _phase(file: str) -> str:
    name = file.replace("\\", "/")
    # the last that fits: the graph of events is heard by rules
    fitting = [phase for phase, parts in _PHASES.items() if any(part in name for part in parts)]
    return fitting[-1] if fitting else "other"


def growth(amplint: list[str], folder: Path) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for count in (1, 2, 4, 8):
            copies = Path(scratch) / str(count)
            for number in range(count):
                shutil.copytree(folder, copies / f"project{number}", ignore=shutil.ignore_patterns(".git"))
            done = checked([*amplint, *LINT[:-1], "-j", "1", "."], copies, memory=True)
            rows.append(
                [count, f"{done.cpu_seconds:.1f}", f"{done.cpu_seconds / count:.2f}", f"{done.peak_mb:.0f}"]
            )
    print(f"\n== copies of {folder.name} side by side")
    print(table(["copies", "CPU s", "for each", "MB"], rows), flush=True)


def memory(amplint: list[str], ruff: list[str], folder: Path) -> None:
    read_all(folder)
    print(f"\n== {folder.name}: peak memory of all processes together, shared pages counted once")
    for name, command in (("amplint", [*amplint, *LINT]), ("ruff", [*ruff, *RUFF])):
        print(f"{name}: {checked(command, folder, memory=True).peak_mb:.0f} MB", flush=True)


def startup(amplint: list[str], pairs: int) -> None:
    spec = find_spec("click")
    if spec is None or spec.origin is None:
        sys.exit("click is not installed beside this Python")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copytree(
            Path(spec.origin).parent, folder / "sources", ignore=shutil.ignore_patterns("__pycache__")
        )
        files, _ = read_all(folder)
        print(f"\n== no AMP: amplint on the {files} files of click, against importing click")
        import_click = [sys.executable, "-c", "import click"]
        runs = in_turns([*amplint, *LINT], import_click, folder, 2 * pairs)
        print(compare(("amplint", "import click"), runs))
        listing = checked(["env", "PYTHONPROFILEIMPORTTIME=1", *amplint, *LINT], folder).stderr
    imported = set(re.findall(r"\| +([\w.]+)$", listing, re.MULTILINE))
    for name in ("libcst", "torch"):
        print(f"imports {name}: {'YES' if name in imported else 'no'}", flush=True)


def installed(tools: Path, name: str) -> Path:
    """The program ``name``, in an environment of its own that is made when it is missing."""
    environment = tools / name
    if not (environment / "bin" / name).exists():
        print(f"installing {name}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "-q", name], check=True)
    return environment / "bin" / name


def against_others(amplint: list[str], tools: Path, folder: Path, stop_after: float) -> None:
    files, megabytes = read_all(folder)
    print(f"\n== {folder.name}, {files} files, {megabytes:.1f} MB: amplint against TorchFix and Fixit")
    own = median(checked([*amplint, *LINT], folder).seconds for _ in range(3))
    rows: list[list[object]] = [["amplint", f"{own:.2f}", "1", ""]]
    for name, words in (("torchfix", ("--select=ALL",)), ("fixit", ("--quiet", "lint"))):
        tool = installed(tools, name)
        done = run([tool, *words, "."], cwd=folder, timeout=stop_after)
        pip = run([tool.with_name("pip"), "show", name]).stdout
        version = re.search(r"^Version: (.*)$", pip, re.MULTILINE)
        bound = "more than " if done.timed_out else ""
        state = f"stopped after {stop_after:.0f} s" if done.timed_out else f"exit {done.exit_code}"
        label = f"{name} {version[1] if version else ''}"
        rows.append([label, f"{bound}{done.seconds:.1f}", f"{bound}{done.seconds / own:.0f}", state])
    print(table(["tool", "seconds", "times amplint", "end"], rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--root", type=Path, default=PACKAGES, help="folder of unpacked packages (%(default)s)"
    )
    parser.add_argument("--tools", type=Path, default=REPOSITORY / "build" / "tools", help="(%(default)s)")
    parser.add_argument(
        "--only", default="ruff,warm,phases,memory,startup,others", help="parts to run (%(default)s)"
    )
    parser.add_argument("--grow", type=Path, help="a project with AMP, for growth and hook")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--stop-after", type=float, default=STOP_AFTER, help="seconds (%(default)s)")
    parser.add_argument("--amplint", default=str(program("amplint")), help="command to run (%(default)s)")
    parser.add_argument("--ruff", default=str(program("ruff")), help="command to run (%(default)s)")
    options = parser.parse_args()
    parts = set(options.only.split(","))
    amplint, ruff = shlex.split(options.amplint), shlex.split(options.ruff)
    for package in ("transformers", "timm"):
        if not (options.root / package).is_dir():
            sys.exit(
                f"{options.root / package} is missing: python benchmarks/breadth.py --fetch-only {package}"
            )
    print(describe_machine("click", "pathspec", "ruff"), flush=True)
    if "ruff" in parts:
        against_ruff(amplint, ruff, options.root / "transformers", options.pairs)
    if "warm" in parts:
        warm(amplint, ruff, options.root / "transformers", options.pairs)
    if "phases" in parts:
        phases(options.root / "transformers")
    if parts & {"growth", "hook"} and options.grow is None:
        sys.exit("growth and hook need --grow DIR")
    if "hook" in parts:
        hook(amplint, options.grow.resolve(), options.pairs)
    if "growth" in parts:
        growth(amplint, options.grow.resolve())
    if "memory" in parts:
        memory(amplint, ruff, options.root / "transformers")
    if "startup" in parts:
        startup(amplint, options.pairs)
    if "others" in parts:
        against_others(amplint, options.tools, options.root / "timm", options.stop_after)


if __name__ == "__main__":
    main()
