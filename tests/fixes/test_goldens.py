"""Each fixable fixture becomes what stands beside it, to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldens import (
    FIXTURES,
    KINDS,
    RULES,
    expected,
    fixed,
    fixed_again,
    golden,
    programs,
    sources,
)

ALL = [program for rule in RULES for program in programs(rule)]


def _id(program: Path) -> str:
    return program.relative_to(FIXTURES).as_posix()


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_all_fixes_give_the_golden(program: Path) -> None:
    texts, _, problems = fixed(program, unsafe=True)
    assert problems == []
    assert texts == expected(program, ".fixed")


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_safe_fixes_give_their_golden_or_the_same_or_nothing(program: Path) -> None:
    texts, _, problems = fixed(program, unsafe=False)
    assert problems == []
    assert texts == expected(program, ".safe")


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_what_is_left_has_no_fix_but_a_reason(program: Path) -> None:
    for finding in fixed(program, unsafe=True)[1]:
        assert finding.fix is None
        assert finding.fix_note


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_fixing_twice_changes_nothing(program: Path) -> None:
    texts, _, problems = fixed_again(program)
    assert problems == []
    assert texts == expected(program, ".fixed")


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_goldens_for_one_file_and_for_several(rule: str) -> None:
    fixable = [
        program
        for program in programs(rule)
        if any(golden(source, ".fixed").exists() for source in sources(program))
    ]
    assert any(program.is_dir() for program in fixable)
    assert sum(program.is_file() for program in fixable) >= 3
    assert any(program.stem == "bad_odd_formatting" for program in fixable)


def test_a_golden_belongs_to_a_fixture() -> None:
    kept = {
        path
        for kind in KINDS
        for path in [*FIXTURES.glob(f"*/*{kind}.py"), *FIXTURES.glob(f"*/*{kind}/*.py")]
    }
    assert kept <= {golden(source, kind) for program in ALL for source in sources(program) for kind in KINDS}
