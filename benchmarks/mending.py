"""Do fixes mend? For each rule with a fix a mistake is put into five right programs; the right one, the broken one and
the fixed one train for fifty steps on simulated CUDA.

    python benchmarks/mending.py [--on-cuda] [RULE...]

With --on-cuda they train on the CUDA device that is there.

A broken program differs from the right one if it raises, if a loss is off by more than float16 explains, or if what it
keeps of types and counts is something else; the fixed one follows if it does not. Prints a table by rule, with how the
mistake shows, and the rules whose mistakes cannot show here, with the reason; exit status 1 if a fixed program does not
follow. One process, one thread.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from measure import describe_machine, table
from mistakes import MISTAKES, UNSEEN, Mistake
from training_programs import VARIANTS

from amplint.config import Settings
from amplint.confirm.simulation import SimulatedCuda, leave_regions
from amplint.fixing import fix
from amplint.scope import alone

ON_CUDA = "--on-cuda" in sys.argv
ABSOLUTE, RELATIVE = 0.02, 0.05
"""How far a loss may be off: products in float16 have eleven bits, and fifty steps add up what they lose."""


@dataclass(frozen=True)
class Outcome:
    """What a run left: its losses, what else it kept, and how it ended if that was by an exception."""

    losses: tuple[float, ...] = ()
    seen: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Verdict:
    """How a broken program differs from the right one, and the fixed one, "" if it does not."""

    broken: str
    fixed: str


def run(text: str) -> Outcome:
    """Runs a program on simulated CUDA."""
    names: dict[str, object] = {"__name__": "__main__"}
    with warnings.catch_warnings(record=True) as told, contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("always")
        torch.manual_seed(0)
        try:
            with contextlib.nullcontext() if ON_CUDA else SimulatedCuda():
                exec(compile(text, "<program>", "exec"), names)
        except Exception as error:
            return Outcome(error=f"{type(error).__name__}: {error}".splitlines()[0][:80])
        finally:
            leave_regions()
    seen = [str(part) for part in names["seen"]]  # type: ignore[attr-defined]
    deprecated = {str(part.category.__name__) for part in told if part.category is FutureWarning}
    return Outcome(tuple(names["losses"]), (*seen, *sorted(deprecated)))  # type: ignore[arg-type]


right = cache(run)


def difference(one: Outcome, right: Outcome) -> str:
    """How an outcome differs from the right one: "raises", "loss" or "types"; "" if it follows it."""
    if one.error:
        return "raises"
    pairs = zip(one.losses, right.losses, strict=False)
    if len(one.losses) != len(right.losses) or not all(_is_close(*pair) for pair in pairs):
        return "loss"
    return "types" if one.seen != right.seen else ""


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= ABSOLUTE + RELATIVE * abs(other)


def fixed(text: str, rule: str) -> tuple[str, str]:
    """A program with the fixes of a rule, unsafe ones included, and why something is left to be fixed."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "program.py"
        path.write_text(text, encoding="utf-8")
        settings = Settings(
            root=Path(name), select=(rule,), fixable=(rule,), torch=((2, 4), None), torch_from="the benchmark"
        )
        fixing = fix([alone([name], settings)], unsafe=True, jobs=1)
        fixing.write()
        left = [finding.fix_note or "a finding" for finding in fixing.result.findings]
        left += [crash.reason for crash in fixing.result.crashes]
        return path.read_text(encoding="utf-8"), "; ".join(left)


def judged(mistake: Mistake, number: int) -> Verdict:
    """What comes of one program with a mistake."""
    program, wrong = mistake.texts(VARIANTS[number])
    goal = right(program)
    if goal.error:
        return Verdict("", f"the right program raises {goal.error}")
    mended, left = fixed(wrong, mistake.rule)
    after = difference(run(mended), goal)
    if mended == wrong:
        after = "no fix"
    return Verdict(difference(run(wrong), goal), f"{after} ({left})" if left else after)


def rows(mistakes: Iterable[Mistake], report: Callable[[str], None]) -> list[list[str]]:
    """A row for each rule; what is wrong is reported as well."""
    found = []
    for mistake in mistakes:
        verdicts = [judged(mistake, number) for number in range(len(VARIANTS))]
        shows = sorted({verdict.broken for verdict in verdicts if verdict.broken})
        differs = sum(bool(verdict.broken) for verdict in verdicts)
        follows = sum(not verdict.fixed for verdict in verdicts)
        for number, verdict in enumerate(verdicts):
            if verdict.fixed or not verdict.broken:
                report(f"{mistake.rule}, program {number}: broken {verdict.broken}, fixed {verdict.fixed}")
        total = len(verdicts)
        found.append([mistake.rule, ", ".join(shows), f"{differs} of {total}", f"{follows} of {total}"])
    return found


def main(wanted: Sequence[str]) -> int:
    """Prints the tables."""
    torch.set_num_threads(1)
    chosen = [mistake for mistake in MISTAKES if not wanted or mistake.rule in wanted]
    told = rows(chosen, lambda text: print(text, file=sys.stderr, flush=True))
    print(describe_machine())
    print(table(["rule", "the mistake shows in", "broken differs", "fixed follows"], told))
    if not wanted:
        print(table(["rule", "why its mistake cannot show here"], [list(pair) for pair in UNSEEN.items()]))
    total = f"{len(VARIANTS)} of {len(VARIANTS)}"
    return 0 if all(row[3] == total for row in told) else 1


if __name__ == "__main__":
    sys.exit(main([name for name in sys.argv[1:] if name != "--on-cuda"]))
