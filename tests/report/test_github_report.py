"""GitHub's workflow commands, read by a parser that is written from their specification, not our code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from amplint.check import CheckResult
from amplint.findings import Finding, Fix, Level, Span, TrailStep
from amplint.report.github import SUMMARY_LIMIT, render, write_step_summary
from amplint.report.text import Style

HOSTILE = "a:b,c=d%0Ae::error file=x::y\r\n::stop-commands::z\t%25"


@dataclass(frozen=True)
class Annotation:
    command: str
    properties: dict[str, str]
    message: str


def parsed(output: str) -> tuple[list[Annotation], list[str]]:
    """The annotations and the other lines, as the runner (ActionCommand.TryParseV2) reads them: a command is
    a line that begins with ::, has a name, properties up to the next ::, and data after it."""
    annotations, others = [], []
    for line in re.split(r"\r\n|\n|\r", output):
        if not line.lstrip().startswith("::"):
            others.append(line)
            continue
        head, _, data = line.lstrip()[2:].partition("::")
        name, _, listed = head.partition(" ")
        pairs = (part.strip().partition("=") for part in listed.split(",") if part.strip())
        properties = {key: _unescaped_property(value) for key, _, value in pairs}
        annotations.append(Annotation(name, properties, _unescaped_data(data)))
    return annotations, others


def _unescaped_data(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def _unescaped_property(text: str) -> str:
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, character)
    return text


def finding(**changes: object) -> Finding:
    values: dict[str, object] = {
        "code": "AMP101",
        "name": "backward-in-autocast",
        "level": Level.WARNING,
        "message": "backward() runs in the region",
        "path": "src/train.py",
        "span": Span(4, 5, 4, 20),
    }
    return Finding(**(values | changes))  # type: ignore[arg-type]


def rendered(*findings: Finding) -> tuple[list[Annotation], list[str]]:
    return parsed(render(CheckResult(findings, 1), Style()))


@pytest.fixture(autouse=True)
def outside_of_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)


def test_without_findings_there_is_only_the_summary() -> None:
    assert rendered() == ([], ["All good: no findings; checked 1 file.", ""])
    assert render(CheckResult((), 1), Style(quiet=True)) == ""


def test_an_annotation() -> None:
    step = TrailStep("src/model.py", Span(2, 1, 2, 9), "the region opens here")
    [annotation], others = rendered(finding(trail=(step,), fix=Fix("safe", "leave the region")))
    assert annotation == Annotation(
        "warning",
        {
            "file": "src/train.py",
            "line": "4",
            "endLine": "4",
            "col": "5",
            "endColumn": "20",
            "title": "backward-in-autocast (AMP101)",
        },
        "src/train.py:4:5: backward() runs in the region\n"
        "src/model.py:2:1: the region opens here\n"
        "help: leave the region",
    )
    assert others == ["Found 1 finding (1 warning) in 1 file; checked 1 file.", ""]


def test_errors_come_first_and_levels_have_their_commands() -> None:
    advice, warning, error = (finding(level=level) for level in (Level.ADVICE, Level.WARNING, Level.ERROR))
    annotations, _ = rendered(advice, warning, error)
    assert [annotation.command for annotation in annotations] == ["error", "warning", "notice"]


def test_an_annotation_says_why_and_what_to_do() -> None:
    said = {"why": "It raises.", "help": "Write y.", "fix_note": "nobody knows where"}
    place = "src/train.py:4:5: backward() runs in the region"
    [alone], _ = rendered(finding(**said))
    assert alone.message.split("\n") == [
        place,
        "why: It raises.",
        "help: Write y.",
        "no fix: nobody knows where",
    ]
    [fixed], _ = rendered(finding(**said, fix=Fix("safe", "Put y")))
    assert fixed.message.split("\n") == [place, "why: It raises.", "help: Put y"]


def test_no_columns_on_several_lines() -> None:
    [annotation], _ = rendered(finding(span=Span(4, 5, 6, 2)))
    assert not annotation.properties.keys() & {"col", "endColumn"}
    assert (annotation.properties["line"], annotation.properties["endLine"]) == ("4", "6")


def test_hostile_messages_and_names_stay_what_they_are() -> None:
    [annotation], others = rendered(finding(path=HOSTILE, message=HOSTILE, name=HOSTILE))
    shown = HOSTILE.replace("\t", "\\t")
    assert annotation.command == "warning"
    assert annotation.properties["file"] == shown
    assert annotation.properties["title"] == f"{shown} (AMP101)"
    assert annotation.message == f"{shown}:4:5: {shown}"
    assert len(others) == 2


def test_no_control_character_gets_into_the_log() -> None:
    text = render(CheckResult((finding(path="\x1b[2J\u202e\x9b", message="\x1b]0;\x07"),), 1), Style())
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_paths_are_those_in_the_repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "packages" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "packages" / "one")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    [annotation], _ = rendered(finding())
    assert annotation.properties["file"] == "packages/one/src/train.py"


def test_the_step_summary_is_appended_and_escaped(tmp_path: Path) -> None:
    target = tmp_path / "summary.md"
    target.write_text("before\n")
    write_step_summary(CheckResult((finding(message="a | <b> `c`\n*d*"),), 3), target)
    text = target.read_text()
    assert text.startswith("before\n### amplint\n\nFound 1 finding")
    assert text.endswith("| a \\| &lt;b&gt; \\`c\\`\\\\n\\*d\\* |\n\n")


def test_the_step_summary_fits(tmp_path: Path) -> None:
    target = tmp_path / "summary.md"
    write_step_summary(CheckResult((finding(message="é" * 1000),) * 1000, 3), target)
    assert SUMMARY_LIMIT - 4000 < target.stat().st_size <= SUMMARY_LIMIT
    assert "no room for more" in target.read_text()
    write_step_summary(CheckResult((finding(),) * 1000, 3), target)
    assert target.stat().st_size <= SUMMARY_LIMIT
