"""The fixtures are the specification of the rules: what is marked is found, and nothing else is.

A fixture is a program ``fixtures/<rule>/good_*.py`` or ``bad_*.py``, or a folder of that name with several
files. ``# expect: name, name`` stands on the line where a finding begins. Programs in ``static/`` import what
the tests do not install: they are linted and not run.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from amplint.bounds import TORCH_DEFAULT
from amplint.catalog import rule_names
from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding

FIXTURES = Path(__file__).parents[1] / "fixtures"
RULES = sorted(path.name for path in FIXTURES.iterdir() if path.is_dir())
ENOUGH = {"good": 5, "bad": 4}
LONGEST, MEDIAN = 160, 110
"""Characters of a message."""
_MARK = re.compile(r"#\s*expect:\s*(?P<names>[\w-]+(?:\s*,\s*[\w-]+)*)")

Place = tuple[str, int, str]
"""File within the fixture, line, rule."""


def programs(rule: str, kind: str) -> list[Path]:
    """The fixtures of a rule: files, folders, and those in ``static/``. ``kind`` is "good" or "bad"."""
    folder = FIXTURES / rule
    found = [*folder.glob(f"{kind}_*"), *folder.glob(f"static/{kind}_*")]
    return sorted(path for path in found if _is_program(path))


def _is_program(path: Path) -> bool:
    """Whether it is no golden fix."""
    golden = path.name.removesuffix(".py").endswith((".fixed", ".safe"))
    return (path.is_dir() or path.suffix == ".py") and not golden


ALL = [program for rule in RULES for kind in ("good", "bad") for program in programs(rule, kind)]


def sources(program: Path) -> list[Path]:
    """The files of a fixture."""
    return [program] if program.is_file() else sorted(program.rglob("*.py"))


def expected(program: Path) -> set[Place]:
    """What the comments in a fixture say."""
    return {
        (_name(source, program), number, name.strip())
        for source in sources(program)
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), start=1)
        if (mark := _MARK.search(line))
        for name in mark["names"].split(",")
    }


@cache
def findings(program: Path) -> tuple[Finding, ...]:
    """What amplint says about a fixture."""
    settings = Settings(root=FIXTURES, select=("ALL",), torch=TORCH_DEFAULT, torch_from="the tests")
    result = check([str(program)], settings, jobs=1)
    assert result.crashes == ()
    return result.findings


def found(program: Path) -> set[Place]:
    """The places of what amplint says about a fixture."""
    return {
        (_name(Path(finding.path).absolute(), program), finding.span.line, finding.name)
        for finding in findings(program)
    }


def _name(source: Path, program: Path) -> str:
    return source.name if program.is_file() else source.relative_to(program).as_posix()


def _line(program: Path, place: Place) -> str:
    file, number, rule = place
    path = program if program.is_file() else program / file
    text = path.read_text(encoding="utf-8").splitlines()[number - 1].partition("# expect")[0].strip()
    return f"{file}:{number}: {rule}: {text}"


def differences(program: Path) -> str:
    """What is missing and what is too much, one finding a line; empty if the fixture is met."""
    wanted, given = expected(program), found(program)
    missing = [f"  missing   {_line(program, place)}" for place in sorted(wanted - given)]
    extra = [f"  too much  {_line(program, place)}" for place in sorted(given - wanted)]
    return "\n".join(missing + extra)


def _id(program: Path) -> str:
    return program.relative_to(FIXTURES).as_posix()


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_findings_are_the_marked_ones(program: Path) -> None:
    difference = differences(program)
    assert not difference, f"{_id(program)}:\n{difference}"


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_a_message_is_one_short_clause_and_the_rest_whole_sentences(program: Path) -> None:
    for finding in findings(program):
        assert len(finding.message) <= LONGEST, finding.message
        assert not finding.message.endswith("."), finding.message
        for text in filter(None, (finding.why, finding.help)):
            assert re.search(r"\.`?$", text), text
        assert finding.name == "syntax-error" or finding.why or finding.help
        for assumption in finding.assumes:
            assert not assumption.kind.is_guess or assumption.text in finding.message, finding.message


def test_messages_are_short_as_a_rule() -> None:
    lengths = [len(finding.message) for program in ALL for finding in findings(program)]
    assert len(lengths) > 500
    assert median(lengths) <= MEDIAN


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_marks_name_rules(program: Path) -> None:
    rule = program.relative_to(FIXTURES).parts[0]
    names = {name for _, _, name in expected(program)}
    assert names <= set(rule_names().values())
    assert (rule in names) is program.name.startswith("bad_")


@pytest.mark.parametrize("program", ALL, ids=_id)
def test_a_fixture_says_what_it_shows(program: Path) -> None:
    """A folder says so in its main.py."""
    main = program if program.is_file() else program / "main.py"
    assert main.read_text(encoding="utf-8").startswith('"""')


@pytest.mark.parametrize("rule", RULES)
def test_a_folder_is_named_after_a_rule(rule: str) -> None:
    assert rule in rule_names().values()


@pytest.mark.parametrize("kind", ["good", "bad"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_enough_fixtures(rule: str, kind: str) -> None:
    assert len(programs(rule, kind)) >= ENOUGH[kind]


@pytest.mark.parametrize("rule", sorted(set(rule_names().values()) - {"syntax-error"}))
def test_every_rule_has_fixtures(rule: str) -> None:
    assert rule in RULES
