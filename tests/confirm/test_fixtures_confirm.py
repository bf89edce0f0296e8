"""A run shows what the fixtures say: under simulated CUDA each ``bad_*`` is seen on the marked lines, and each
``good_*`` and ``*.fixed.py`` gives nothing. Spelling is no matter of runs: syntax rules take no part."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_fixtures import ALL, FIXTURES, Place, expected  # noqa: E402

from amplint.rules import rule_classes  # noqa: E402
from amplint.rules.base import FlowRule  # noqa: E402

RUNNER = Path(__file__).with_name("run_observed.py")
NOT_SEEN = {
    (
        "autocast-not-entered/bad_class_in_with.py",
        10,
    ): "the interpreter refuses the class before torch is called",
}
"""Lines whose finding no run under the probe can show, and why."""
NOT_HERE = {
    "sharded-needs-sharded-scaler": "parameters are split only where there are several processes",
}
"""Rules that a run in one process cannot show, and why."""
SUPPRESSED = "unused-suppression"
"""These programs carry comments that silence the linter. A run is not silenced."""

FLOW_RULES = {rule().name for rule in rule_classes() if issubclass(rule, FlowRule)} - set(NOT_HERE)
RUNNABLE = [program for program in ALL if "static" not in program.parts and program.parent.name != SUPPRESSED]
FIXED = sorted(FIXTURES.glob("*/*.fixed.py"))


@dataclass(frozen=True)
class Outcome:
    """What came of a program."""

    found: set[Place]
    raised: str | None
    errors: list[str]


def name_of(program: Path) -> str:
    return program.relative_to(FIXTURES).as_posix()


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", str(RUNNER), *map(name_of, [*RUNNABLE, *FIXED])],
        cwd=FIXTURES,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=900,
    )
    lines = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("[")]
    return {
        name: Outcome({(file, line, rule) for file, line, rule in found}, raised, errors)
        for name, found, raised, errors in lines
    }


def of(outcomes: dict[str, Outcome], program: Path) -> Outcome:
    name = name_of(program)
    assert name in outcomes, "the interpreter crashed here or before"
    return outcomes[name]


@pytest.mark.parametrize("program", RUNNABLE, ids=name_of)
def test_a_run_shows_what_is_marked(outcomes: dict[str, Outcome], program: Path) -> None:
    marked = {
        (file, line, rule)
        for file, line, rule in expected(program)
        if rule in FLOW_RULES and (name_of(program), line) not in NOT_SEEN
    }
    assert of(outcomes, program).found == marked


@pytest.mark.parametrize("program", RUNNABLE, ids=name_of)
def test_a_run_goes_to_its_end(outcomes: dict[str, Outcome], program: Path) -> None:
    outcome = of(outcomes, program)
    assert outcome.raised is None
    assert outcome.errors == []


@pytest.mark.parametrize("program", FIXED, ids=name_of)
def test_a_mended_program_gives_nothing(outcomes: dict[str, Outcome], program: Path) -> None:
    rule = program.relative_to(FIXTURES).parts[0]
    assert {place for place in of(outcomes, program).found if place[2] == rule} == set()


@pytest.mark.parametrize("line", NOT_SEEN, ids=str)
def test_an_exception_is_still_one(outcomes: dict[str, Outcome], line: tuple[str, int]) -> None:
    name, number = line
    assert number not in {found for _, found, _ in of(outcomes, FIXTURES / name).found}
