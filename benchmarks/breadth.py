"""Runs amplint over many real packages: does it crash, hang, or choke on a file, and what does it find?

    python benchmarks/breadth.py [--root DIR] [PACKAGE...]

Downloads the packages of packages.txt that DIR does not hold yet (about 200 MB) and unpacks them; nothing is
built or installed. Then lints each package on its own and prints its files, seconds, peak memory and
findings by rule; every file that amplint could not read (AMP902), beside what Python itself says of it; and
every crash, hang and internal error. Exit status 1 if there was one of these.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from measure import PACKAGES, describe_machine, program, python_files, run, table

LIST = Path(__file__).with_name("packages.txt")


@dataclass
class Result:
    """What linting one package gave."""

    package: str
    files: int
    seconds: float
    peak_mb: float
    rules: Counter[str] = field(default_factory=Counter)
    unreadable: list[tuple[str, str, str]] = field(default_factory=list)
    trouble: str = ""


def requirements() -> list[str]:
    """The pinned packages of packages.txt."""
    lines = (line.partition("#")[0].strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line]


def fetch(requirement: str, root: Path) -> None:
    """Unpacks a package into ``root``/name, unless it is there. Wheels of CPython 3.11 are preferred, so that
    everybody gets the same files."""
    name = requirement.partition("==")[0]
    if (root / name).is_dir():
        return
    unearth = root / ".venv" / "bin" / "unearth"
    if not unearth.exists():
        subprocess.run([sys.executable, "-m", "venv", root / ".venv"], check=True)
        subprocess.run([root / ".venv" / "bin" / "pip", "install", "-q", "unearth"], check=True)
    print(f"downloading {requirement}", file=sys.stderr, flush=True)
    options = ["--prefer-binary", "--python-version", "3.11", "--download", root / ".downloads"]
    answer = run([unearth, requirement, *options])
    if answer.exit_code:
        sys.exit(f"cannot download {requirement}: {answer.stderr.strip()}")
    with tempfile.TemporaryDirectory(dir=root) as part:
        unpack(Path(json.loads(answer.stdout)["local_path"]), Path(part) / name).rename(root / name)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpacks a wheel as it is, and a source archive without its outermost folder."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
        return folder
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    (inner,) = folder.iterdir()
    return inner


def lint(amplint: list[str], package: str, folder: Path, timeout: float) -> Result:
    """Lints one package and sorts what came out."""
    options = ["--isolated", "--no-cache", "--select", "ALL", "--output-format", "json", "."]
    done = run([*amplint, "check", *options], cwd=folder, timeout=timeout, memory=True)
    result = Result(package, len(python_files(folder)), done.seconds, done.peak_mb)
    if done.timed_out:
        result.trouble = f"did not end within {timeout:.0f} s"
        return result
    try:
        findings = json.loads(done.stdout)
    except ValueError:
        result.trouble = f"exit {done.exit_code}, no JSON; {done.stderr.strip()[-400:]}"
        return result
    if done.exit_code not in (0, 1) or "Traceback" in done.stderr:
        result.trouble = f"exit {done.exit_code}; {done.stderr.strip()[-400:]}"
    for finding in findings:
        result.rules[finding["code"]] += 1
        if finding["code"] == "AMP902":
            place = f"{package}/{finding['path']}:{finding['line']}"
            result.unreadable.append((place, finding["message"], verdict_of_python(folder / finding["path"])))
    return result


def verdict_of_python(path: Path) -> str:
    """What the compiler of the running Python says of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as problem:
        line = getattr(problem, "lineno", None)
        return f"{type(problem).__name__}: {getattr(problem, 'msg', problem)}" + (
            f" (line {line})" if line else ""
        )
    return "compiles"


def report(results: list[Result]) -> str:
    """The tables."""
    codes = sorted({code for result in results for code in result.rules})
    rows = [
        [r.package, r.files, f"{r.seconds:.1f}", f"{r.peak_mb:.0f}", *(r.rules[code] or "" for code in codes)]
        for r in results
    ]
    total = sum((result.rules for result in results), Counter[str]())
    rows.append(
        [
            f"{len(results)} packages",
            sum(result.files for result in results),
            f"{sum(result.seconds for result in results):.1f}",
            f"{max(result.peak_mb for result in results):.0f}",
            *(total[code] for code in codes),
        ]
    )
    parts = [table(["package", "files", "seconds", "peak MB", *codes], rows)]
    unreadable = [entry for result in results for entry in result.unreadable]
    parts.append(f"\nAMP902, {len(unreadable)} in all, and what Python itself says of each file:")
    parts += [
        f"  {place}\n    amplint: {message}\n    Python:  {verdict}" for place, message, verdict in unreadable
    ]
    wrong = [place for place, _, verdict in unreadable if verdict == "compiles"]
    parts.append(f"AMP902 on a file that Python compiles: {', '.join(wrong) or 'none'}")
    troubled = [f"{result.package}: {result.trouble}" for result in results if result.trouble]
    parts.append("crashes, hangs, internal errors: " + ("\n  ".join(troubled) or "none"))
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="*", help="only these")
    parser.add_argument(
        "--root", type=Path, default=PACKAGES, help="folder of unpacked packages (%(default)s)"
    )
    parser.add_argument("--amplint", default=str(program("amplint")), help="command to run (%(default)s)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a package (%(default)s)")
    parser.add_argument("--fetch-only", action="store_true", help="download and unpack, then stop")
    options = parser.parse_args()
    options.root.mkdir(parents=True, exist_ok=True)
    chosen = [r for r in requirements() if not options.packages or r.partition("==")[0] in options.packages]
    for requirement in chosen:
        fetch(requirement, options.root)
    if options.fetch_only:
        return
    amplint = shlex.split(options.amplint)
    if not shutil.which(amplint[0]):
        sys.exit(f"{amplint[0]} is not installed")
    print(describe_machine("click", "pathspec"), flush=True)
    results = []
    for requirement in chosen:
        package = requirement.partition("==")[0]
        print(f"linting {package}", file=sys.stderr, flush=True)
        results.append(lint(amplint, package, options.root / package, options.timeout))
    print(report(results))
    sys.exit(any(result.trouble for result in results))


if __name__ == "__main__":
    main()
