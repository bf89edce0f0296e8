"""Applies fixes to copies of many real packages: do the files still compile, keep their comments, change only
where a fix says so, and is a second run idle?

    python benchmarks/fixes.py [--root DIR] [--diffs FILE] [--seconds N] [PACKAGE...]

DIR holds the packages, as benchmarks/breadth.py leaves them. Each package is copied, linted and, if anything in
it can be fixed, fixed twice: with the safe fixes, and in a fresh copy with all. The project is taken to ask for
torch 2.4. Prints one line for each package and mode, and totals; exit status 1 if something went wrong.
Packages that are not begun within N seconds are left out, and named.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from measure import PACKAGES, describe_machine, table

from amplint import fixing
from amplint.config import Settings
from amplint.findings import Claim
from amplint.fixes import rounds
from amplint.fixes.rounds import MOST_ROUNDS, comments_of

RULES = (
    "backward-in-autocast",
    "step-in-autocast",
    "epoch-wide-autocast",
    "half-model",
    "missing-float",
    "disabled-region-without-cast",
    "useless-float",
    "bfloat16-to-numpy",
    "deprecated-amp-api",
)


@dataclass
class Tally:
    """What fixing one package, or several, came to."""

    files: int = 0
    findings: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    broken: int = 0
    comments_lost: int = 0
    unexplained: int = 0
    taken_back: Counter[str] = field(default_factory=Counter)
    not_idle: int = 0
    notes: list[str] = field(default_factory=list)

    def row(self) -> list[str]:
        """The cells of its line."""
        found = ", ".join(f"{number} {name}" for name, number in sorted(self.findings.items()))
        lost = ", ".join(f"{number} {name}" for name, number in sorted(self.taken_back.items()))
        numbers = (self.files, self.rounds, self.broken, self.comments_lost, self.unexplained, self.not_idle)
        return [*map(str, numbers), lost or "0", found]

    def add(self, other: Tally) -> None:
        """Sums up."""
        for name in ("files", "broken", "comments_lost", "unexplained", "not_idle"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rounds = max(self.rounds, other.rounds)
        self.findings += other.findings
        self.taken_back += other.taken_back

    @property
    def is_well(self) -> bool:
        """Whether nothing went wrong."""
        return not (self.broken or self.comments_lost or self.unexplained or self.taken_back or self.not_idle)


def settings() -> Settings:
    """The rules with fixes, for a project that asks for torch 2.4."""
    return Settings(root=Path.cwd(), select=RULES, torch=((2, 4), None), torch_from="the benchmark")


def apply(unsafe: bool) -> tuple[Tally, str]:
    """Fixes what is in the working directory, round by round. The tally, and the difference as a patch."""
    tally = Tally()
    first: dict[str, str] = {}
    texts: dict[str, str] = {}
    for _ in range(MOST_ROUNDS + 1):
        made = fixing.fix(["."], settings(), unsafe=unsafe, jobs=1)
        tally.taken_back += Counter(crash.rule or "amplint" for crash in made.result.crashes)
        tally.notes += [f"{crash.path}: {crash.reason}" for crash in made.result.crashes]
        tally.notes += [f"{path}: {reason}" for path, reason in made.skipped.items()]
        if not made.changes:
            break
        tally.rounds += 1
        tally.findings += Counter(finding.name for finding in made.fixed)
        claims = [
            claim
            for finding in made.fixed
            if finding.fix is not None and (fix := finding.fix.chosen(unsafe)) is not None
            for claim in fix.claims
        ]
        for change in made.changes:
            before, after = change.texts
            first.setdefault(change.name, before)
            texts[change.name] = after
            unexplained = changed_lines(before, after) - claimed_lines(claims, change.name)
            tally.unexplained += len(unexplained)
            tally.notes += [
                f"{change.name}:{line}: changed, and no fix says so" for line in sorted(unexplained)
            ]
        made.write()
    else:
        tally.not_idle += 1
    for name, text in texts.items():
        tally.files += 1
        try:
            compile(text, name, "exec", dont_inherit=True)
        except SyntaxError as error:
            tally.broken += 1
            tally.notes.append(f"{name}: {error}")
        if comments_of(first[name]) != comments_of(text):
            tally.comments_lost += 1
            tally.notes.append(f"{name}: comments differ")
    return tally, "".join(patch(name, first[name], text) for name, text in texts.items())


def patch(name: str, before: str, after: str) -> str:
    """A unified diff."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
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


def fix_copy(source: Path, unsafe: bool) -> tuple[Tally, str]:
    """Fixes a copy of a package that is thrown away afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / source.name
        ignored = shutil.ignore_patterns("*.so", "*.bin", "*.json", "*.gz", "*.png", "*.txt", "*.model")
        shutil.copytree(source, copy, ignore=ignored)
        start = Path.cwd()
        os.chdir(copy)
        try:
            return apply(unsafe)
        finally:
            os.chdir(start)


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=PACKAGES)
    parser.add_argument("--diffs", type=Path, help="write the patches of all fixes here")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("packages", nargs="*")
    options = parser.parse_args()
    rounds.MOST_ROUNDS = 1  # so that the claims speak of the text that is compared
    root = options.root.resolve()
    names = options.packages or sorted(path.name for path in root.iterdir() if path.is_dir())
    diffs = options.diffs.open("w", encoding="utf-8") if options.diffs else None
    totals = {False: Tally(), True: Tally()}
    rows: list[list[str]] = []
    left_out: list[str] = []
    begun = monotonic()
    for name in names:
        if monotonic() - begun > options.seconds:
            left_out.append(name)
            continue
        for unsafe in (True, False):
            tally, text = fix_copy(root / name, unsafe)
            mode = "all" if unsafe else "safe"
            for note in tally.notes:
                print(f"{name}, {mode}: {note}", file=sys.stderr)
            totals[unsafe].add(tally)
            if unsafe and diffs is not None:
                diffs.write(text)
                diffs.flush()
            if not tally.files:
                break
            rows.append([name, mode, *tally.row()])
            print(*rows[-1], sep=" | ", file=sys.stderr)
    for unsafe in (False, True):
        rows.append(["together", "all" if unsafe else "safe", *totals[unsafe].row()])
    print(describe_machine())
    head = [
        "package",
        "fixes",
        "files changed",
        "rounds",
        "do not compile",
        "comments differ",
        "lines unexplained",
    ]
    print(table([*head, "not idle", "taken back", "findings mended"], rows))
    if left_out:
        print("Left out:", ", ".join(left_out))
    return 0 if all(total.is_well for total in totals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
