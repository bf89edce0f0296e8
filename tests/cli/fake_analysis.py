"""Stands in for the analysis where the tests are about what is around it.

It reports a line that holds BAD as backward-in-autocast, with a trail to the first line that holds autocast;
WAIT reads a FIFO; CRASH is what it says; INTERRUPTED is a Ctrl-C that arrives in a finalizer, where Python drops it.

What can be fixed is a word too: UNTIDY becomes TIDY by a safe fix, RISKY becomes TIDY by an unsafe one.
BROKEN, EATEN and SPREADING have safe fixes that break the syntax, lose a comment and bring a BAD. TWIN_A becomes
TIDY together with the TWIN_B of twin.py beside it.

By the environment, the disk has no space for one file (AMPLINT_TEST_FULL), or files appear, vanish, change and are
touched once while the first lint is at work (AMPLINT_TEST_MEANWHILE).
"""

from __future__ import annotations

import ast
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from amplint.config import Settings
from amplint.findings import Claim, Crash, Edit, Finding, Fix, Level, Span, TrailStep, digest_of
from amplint.source.decoding import lines_of
from amplint.source.nesting import too_deep
from amplint.source.texts import SourceFile, read_source

_replace = os.replace


def _full(source: str, target: str) -> None:
    if target.endswith(os.environ["AMPLINT_TEST_FULL"]):
        raise OSError(28, "No space left on device")
    _replace(source, target)


@dataclass
class Judged:
    """As in amplint.analysis."""

    findings: list[Finding]
    crashes: list[Crash]
    entries: int = 0
    cut: int = 0


class Analysis:
    """As in amplint.analysis."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        project_files: Sequence[Path],
        settings: Settings,
        codes: frozenset[str] | None = None,
        changed: Mapping[str, bytes] = {},
    ) -> None:
        self.files = files

    def run(
        self,
        keep: Callable[[Finding], bool] = lambda finding: True,
        told: Callable[[str, int, int], None] = lambda phase, done, total: None,
    ) -> Judged:
        judged = Judged([], [])
        if os.environ.pop("AMPLINT_TEST_MEANWHILE", ""):
            with Path("changes.py").open("a") as file:
                file.write("# more\n")
            Path("vanishes.py").unlink()
            Path("appears.py").write_text("x = 1\n")
            os.utime("a.py", (1, 1))
        if os.environ.get("AMPLINT_TEST_FULL"):
            os.replace = _full  # type: ignore[assignment]
        for file in self.files:
            if "CRASH" in file.text:
                try:
                    raise ZeroDivisionError("by zero")
                except ZeroDivisionError as error:
                    judged.crashes.append(Crash.of(file.display, "", error))
                continue
            for waiting in re.findall(r"WAIT (.+)", file.text):
                Path(waiting).read_text()
            if "INTERRUPTED" in file.text:
                _Interrupted()
            judged.findings += _judge(file)
        return judged


class _Interrupted:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def _judge(file: SourceFile) -> list[Finding]:
    try:
        if too_deep(ast.parse(file.text)):
            return [_syntax_error(file, "the code is nested too deeply", 1, 1)]
    except SyntaxError as error:
        return [_syntax_error(file, error.msg, error.lineno or 1, error.offset or 1)]
    except (MemoryError, RecursionError):
        return [_syntax_error(file, "the code is nested too deeply", 1, 1)]
    lines = lines_of(file.text)
    opened = next((number for number, line in enumerate(lines, 1) if "autocast" in line), 1)
    step = TrailStep(file.display, Span(opened, 1, opened, 5), "the region opens here")
    return _fixable(file, lines) + [
        Finding(
            "AMP101",
            "backward-in-autocast",
            Level.WARNING,
            "backward() runs inside the region",
            file.display,
            Span(number, line.index("BAD") + 1, number, line.index("BAD") + 4),
            (step,),
            Fix("safe", "move it out of the region"),
        )
        for number, line in enumerate(lines, 1)
        if "BAD" in line
    ]


def _fixable(file: SourceFile, lines: Sequence[str]) -> list[Finding]:
    findings = []
    for word, (applicability, new) in _FIXES.items():
        for found in re.finditer(rf"\b{word}\b", file.text):
            number = len(lines_of(file.text[: found.start()]))
            column = lines[number - 1].index(word) + 1
            edit = Edit(file.display, found.start(), found.end(), new)
            claim = Claim(file.display, number, number)
            edits, claims, bases = [edit], [claim], [(file.display, digest_of(file.text))]
            if word == "EATEN":
                end = file.text.index("#", found.end())
                edits = [Edit(file.display, found.start(), end + 3, new)]
            if word == "TWIN_A":
                twin = read_source(file.path.parent / "twin.py")
                start = twin.text.index("TWIN_B")
                edits.append(Edit(twin.display, start, start + len("TWIN_B"), new))
                claims.append(Claim(twin.display, 1, 1))
                bases.append((twin.display, digest_of(twin.text)))
            fix = Fix(
                applicability,
                f"write {new}",
                tuple(edits),
                tuple(claims),
                _NOTES[applicability],
                bases=tuple(bases),
            )
            place = Span(number, column, number, column + len(word))
            findings.append(
                Finding(
                    "AMP103",
                    "step-in-autocast",
                    Level.ADVICE,
                    f"this is {word}",
                    file.display,
                    place,
                    (),
                    fix,
                )
            )
    return findings


_FIXES = {
    "UNTIDY": ("safe", "TIDY"),
    "RISKY": ("unsafe", "TIDY"),
    "BROKEN": ("safe", "(("),
    "EATEN": ("safe", "TIDY"),
    "SPREADING": ("safe", "BAD"),
    "TWIN_A": ("safe", "TIDY"),
}
_NOTES = {"safe": "", "unsafe": "it may be wanted"}


def _syntax_error(file: SourceFile, message: str, line: int, column: int) -> Finding:
    place = Span(line, column, line, column)
    return Finding("AMP902", "syntax-error", Level.ERROR, message, file.display, place)
