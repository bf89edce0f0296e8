"""Applies fixes to copies of many real packages: do the files still compile, keep their comments, change only
where a fix says so, has pyflakes nothing new to say, and is a second run idle?

    python benchmarks/fixes.py [--root DIR] [--diffs DIR] [--seconds N] [PACKAGE...]

The root holds the packages, as benchmarks/breadth.py leaves them; without names all of them are taken, the
smallest first. Each package has a process of its own and is linted once with all rules, taken to ask for torch 2.4.
If anything in it can be fixed, it is fixed in memory twice, round by round: with all fixes and,
unless these are the same, with the safe ones.
Then the result is written into a copy and fixed once more, which must change nothing. Prints a line for
each package and mode as it goes, and a table at the end; exit status 1 if something went wrong. Packages that are not
begun within N seconds are left out, and named.
"""

from __future__ import annotations

import argparse
import difflib
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from time import monotonic

from measure import PACKAGES, describe_machine, python_files, table

from amplint import fixing
from amplint.check import CheckResult, check
from amplint.config import Settings
from amplint.findings import Claim, Finding
from amplint.fixes import rounds
from amplint.fixes.edits import comments_of
from amplint.fixes.rounds import Rounds
from amplint.rules import all_rules
from amplint.scope import alone
from amplint.source.decoding import decode, display_name, read_bytes
from amplint.source.writing import encoded

SETTINGS = {"select": ("ALL",), "torch": ((2, 4), None), "torch_from": "the benchmark"}
MOST_ROUNDS = 10
MODES = {"all": True, "safe": False}


@dataclass
class Tally:
    """What fixing one package, or several, came to."""

    files: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    broken: int = 0
    comments_lost: int = 0
    unexplained: int = 0
    new_flaws: int = 0
    taken_back: Counter[str] = field(default_factory=Counter)
    not_idle: int = 0
    notes: list[str] = field(default_factory=list)

    def row(self) -> list[str]:
        """The cells of its line."""
        found = ", ".join(f"{number} {name}" for name, number in sorted(self.findings.items()))
        lost = ", ".join(f"{number} {name}" for name, number in sorted(self.taken_back.items()))
        numbers = (
            self.files,
            self.rounds,
            self.broken,
            self.comments_lost,
            self.unexplained,
            self.new_flaws,
            self.not_idle,
        )
        return [*map(str, numbers), lost or "0", found]

    def add(self, other: Tally) -> None:
        """Sums up."""
        for name in ("files", "broken", "comments_lost", "unexplained", "new_flaws", "not_idle"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rounds = max(self.rounds, other.rounds)
        self.findings += other.findings
        self.taken_back += other.taken_back

    @property
    def is_well(self) -> bool:
        """Whether nothing went wrong."""
        return not any(
            (
                self.broken,
                self.comments_lost,
                self.unexplained,
                self.new_flaws,
                self.taken_back,
                self.not_idle,
            )
        )


@dataclass
class Outcome:
    """What came of one package: its findings, those that have a fix, and for each mode the tally and the patch."""

    found: int
    fixable: int
    modes: dict[str, tuple[Tally, str]]
    seconds: float
    peak_mb: float


class Package:
    """The package in the working directory: linted with changed texts, without writing any."""

    def __init__(self) -> None:
        self.settings = Settings(root=Path.cwd(), **SETTINGS)  # type: ignore[arg-type]
        self._paths = {display_name(path): path for path in alone(["."], self.settings).files}
        self._yields = {rule.name: rule.yields_to for rule in all_rules()}
        self._linted: dict[frozenset[tuple[str, str]], CheckResult] = {}

    def lint(self, texts: Mapping[str, str]) -> CheckResult:
        """What linting says with these texts, which is asked only once."""
        key = frozenset(texts.items())
        if key not in self._linted:
            self._linted[key] = check(["."], self.settings, jobs=1, changed=self.bytes(texts))
        return self._linted[key]

    def bytes(self, texts: Mapping[str, str]) -> dict[str, bytes]:
        """The texts by path, in the encodings of their files."""
        return {
            self._paths[name]: encoded(text, read_bytes(self._paths[name])) for name, text in texts.items()
        }

    def text(self, name: str) -> str:
        """The text of a file as it came."""
        return decode(read_bytes(self._paths[name]))

    def fix(self, unsafe: bool) -> tuple[Tally, dict[str, str], list[tuple[Finding, str]]]:
        """Fixes round by round, so that the claims speak of the texts that are compared. The tally, the final
        texts, and what was fixed by which fix."""
        tally = Tally()
        texts: dict[str, str] = {}
        fixed: list[tuple[Finding, str]] = []
        failures: dict[str, str] = {}
        while tally.rounds < MOST_ROUNDS:
            outcome = self._round(texts, unsafe)
            failures |= {f"{one.path}:{one.span.line}: {reason}": one.name for one, reason in outcome.refused}
            tally.notes += [f"{path}: {reason}" for path, reason in outcome.skipped.items()]
            changed = {name: text for name, text in outcome.texts.items() if text != self._now(texts, name)}
            if not changed:
                break
            tally.rounds += 1
            tally.findings += Counter(finding.name for finding in outcome.fixed)
            claims: list[Claim] = []
            for finding in outcome.fixed:
                fix = finding.fix.chosen(unsafe) if finding.fix is not None else None
                if fix is not None:
                    claims += fix.claims
                    fixed.append((finding, fix.title + (f" ({fix.note})" if fix.note else "")))
            for name, after in changed.items():
                lines = changed_lines(self._now(texts, name), after) - claimed_lines(claims, name)
                tally.unexplained += len(lines)
                tally.notes += [f"{name}:{line}: changed, and no fix says so" for line in sorted(lines)]
            texts |= changed
        tally.taken_back = Counter(failures.values())
        tally.notes += failures
        for name, text in texts.items():
            self._examine(name, text, tally)
        return tally, texts, fixed

    def _round(self, texts: Mapping[str, str], unsafe: bool) -> rounds.Outcome:
        def lint(more: Mapping[str, str]) -> CheckResult:
            return self.lint({**texts, **more})

        return Rounds(lint, lambda name: self._now(texts, name), unsafe=unsafe, yields=self._yields).run()

    def _now(self, texts: Mapping[str, str], name: str) -> str:
        return texts[name] if name in texts else self.text(name)

    def _examine(self, name: str, text: str, tally: Tally) -> None:
        """Whether a text still compiles and has its comments."""
        tally.files += 1
        try:
            compile(text, name, "exec", dont_inherit=True)
        except SyntaxError as error:
            tally.broken += 1
            tally.notes.append(f"{name}: {error}")
        if comments_of(self.text(name)) != comments_of(text):
            tally.comments_lost += 1
            tally.notes.append(f"{name}: comments differ")
        new = flaws(text) - flaws(self.text(name))
        tally.new_flaws += new.total()
        tally.notes += [f"{name}: new: {flaw}" for flaw in new]


def fix_package(folder: Path) -> Outcome:
    """Lints the package and fixes it in every mode. Runs in a process of its own, which ends in another
    working directory."""
    begun = monotonic()
    rounds.MOST_ROUNDS = 1
    os.chdir(folder)
    package = Package()
    first = package.lint({}).findings
    fixable = [fix for finding in first if (fix := finding.fix) is not None and fix.chosen(True) is not None]
    results: dict[str, tuple[Tally, str]] = {}
    copies: list[tuple[Tally, dict[str, bytes], bool]] = []
    is_safe = False
    for mode, unsafe in MODES.items():
        if not any(fix.chosen(unsafe) is not None for fix in fixable):
            continue
        if unsafe is False and is_safe:
            results[mode] = results["all"]
            continue
        tally, texts, fixed = package.fix(unsafe)
        is_safe = not tally.taken_back and all(f.fix is not None and f.fix.is_safe for f, _ in fixed)
        said = "".join(f"# {f.path}:{f.span.line}: {f.name}: {title}\n" for f, title in fixed)
        said += "".join(patch(name, package.text(name), texts[name]) for name in sorted(texts))
        results[mode] = (tally, said)
        copies.append((tally, package.bytes(texts), unsafe))
    for tally, contents, unsafe in copies:
        names = {os.path.relpath(path, folder): data for path, data in contents.items()}
        tally.not_idle += changes_again(folder, names, unsafe)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return Outcome(len(first), len(fixable), results, monotonic() - begun, peak)


def changes_again(folder: Path, contents: Mapping[str, bytes], unsafe: bool) -> int:
    """Fixes a copy that holds these files instead: how many of its files change."""

    def ignored(directory: str, names: list[str]) -> list[str]:
        return [name for name in names if not (name.endswith(".py") or Path(directory, name).is_dir())]

    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.name
        copytree(folder, copy, ignore=ignored)
        for name, data in contents.items():
            (copy / name).write_bytes(data)
        os.chdir(copy)
        settings = Settings(root=copy, **SETTINGS)  # type: ignore[arg-type]
        made = fixing.fix([alone(["."], settings)], unsafe=unsafe, jobs=1)
        os.chdir(folder)
    return len(made.changes)


def flaws(text: str) -> Counter[str]:
    """What pyflakes says of a text, by the rules of ruff that stem from it."""
    command = ["ruff", "check", "--isolated", "--quiet", "--select=F", "--output-format=json", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    return Counter(f"{one['code']} {one['message']}" for one in json.loads(done.stdout or b"[]"))


def patch(name: str, before: str, after: str) -> str:
    """A unified diff."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=6
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def changed_lines(before: str, after: str) -> set[int]:
    """The lines that are not the same afterwards, from 1."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return {
        line + 1
        for tag, first, last, _, _ in matcher.get_opcodes()
        if tag in ("replace", "delete")
        for line in range(first, last)
    }


def claimed_lines(claims: list[Claim], path: str) -> set[int]:
    """The lines that fixes claim in a file."""
    return {line for claim in claims if claim.path == path for line in range(claim.first, claim.last + 1)}


def by_size(root: Path) -> list[str]:
    """The packages below the root, the smallest first."""
    folders = [path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")]
    sizes = {path.name: sum(file.stat().st_size for file in python_files(path)) for path in folders}
    return sorted(sizes, key=lambda name: (sizes[name], name))


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=PACKAGES)
    parser.add_argument("--diffs", type=Path, help="write a patch for each package and mode into this folder")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args()
    root = options.root.resolve()
    if options.diffs:
        options.diffs.mkdir(parents=True, exist_ok=True)
    totals = {mode: Tally() for mode in MODES}
    rows: list[list[str]] = []
    left_out: list[str] = []
    nothing: list[str] = []
    begun = monotonic()
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in options.packages or by_size(root):
            if monotonic() - begun > options.seconds:
                left_out.append(name)
                continue
            outcome = pool.apply(fix_package, (root / name,))
            print(
                f"{name}: {outcome.found} findings, {outcome.fixable} with a fix; {outcome.seconds:.0f} s,"
                f" {outcome.peak_mb:.0f} MB",
                file=sys.stderr,
                flush=True,
            )
            if not outcome.modes:
                nothing.append(name)
            for mode, (tally, text) in outcome.modes.items():
                for note in tally.notes:
                    print(f"{name}, {mode}: {note}", file=sys.stderr)
                totals[mode].add(tally)
                if options.diffs:
                    (options.diffs / f"{name}.{mode}.diff").write_text(text, encoding="utf-8")
                rows.append([name, mode, *tally.row()])
                print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    for mode, tally in totals.items():
        rows.append(["together", mode, *tally.row()])
    print(describe_machine())
    head = ["package", "fixes", "files changed", "rounds", "do not compile", "comments differ"]
    print(
        table(
            [*head, "lines unexplained", "new in pyflakes", "not idle", "taken back", "findings fixed"], rows
        )
    )
    if nothing:
        print("Nothing to fix:", ", ".join(nothing))
    if left_out:
        print("Left out:", ", ".join(left_out))
    return 0 if all(total.is_well for total in totals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
