"""Completion in bash, zsh and fish, by the variables that their scripts set."""

from __future__ import annotations

import re

import pytest

from amplint.catalog import rule_names
from amplint.cli.main import run
from amplint.config import OUTPUT_FORMATS

SHELLS = ("bash", "zsh", "fish")


class Shell:
    """One of the shells, with ``amplint`` and some words typed."""

    def __init__(
        self, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.name = name
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def complete(self, typed: str) -> list[str]:
        """What it is offered for the last word; ``<file>`` and ``<dir>`` stand for what it knows itself."""
        words = ["amplint", *typed.split(" ")]
        self._monkeypatch.setenv("_AMPLINT_COMPLETE", f"{self.name}_complete")
        self._monkeypatch.setenv("COMP_WORDS", " ".join(words))
        is_fish = self.name == "fish"
        self._monkeypatch.setenv("COMP_CWORD", words[-1] if is_fish else str(len(words) - 1))
        return self._offered(self._run())

    def script(self) -> str:
        """What goes into its settings."""
        self._monkeypatch.setenv("_AMPLINT_COMPLETE", f"{self.name}_source")
        return self._run()

    def _run(self) -> str:
        with pytest.raises(SystemExit) as ended:
            run([])
        assert ended.value.code == 0
        told = self._capsys.readouterr()
        assert told.err == ""
        return told.out

    def _offered(self, output: str) -> list[str]:
        lines = output.splitlines() if output.strip() else []
        if self.name == "zsh":
            pairs = list(zip(lines[::3], lines[1::3], strict=True))
        else:
            pairs = [(kind, value.split("\t")[0]) for kind, value in (line.split(",", 1) for line in lines)]
        return [value if kind == "plain" else f"<{kind}>" for kind, value in pairs]


@pytest.fixture(params=SHELLS)
def shell(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    return Shell(request.param, monkeypatch, capsys)


@pytest.mark.parametrize(
    "option", ["--select", "--ignore", "--extend-select", "--fixable", "check --unfixable"]
)
def test_options_take_names_of_rules(shell: Shell, option: str) -> None:
    assert shell.complete(f"{option} half-") == [
        name for name in rule_names().values() if name.startswith("half-")
    ]
    assert shell.complete(f"{option} ") == list(rule_names().values())


def test_codes_come_where_one_is_begun(shell: Shell) -> None:
    assert shell.complete("--select AMP20") == [code for code in rule_names() if code.startswith("AMP20")]
    assert shell.complete("--select AL") == ["ALL"]


def test_of_a_list_the_last_part_is_completed(shell: Shell) -> None:
    assert shell.complete("--select half-model,half-m,half-i") == ["half-model,half-m,half-input"]
    assert "half-model,half-model" not in shell.complete("--select half-model,half-")


def test_patterns_are_no_rules(shell: Shell) -> None:
    assert shell.complete("--exclude half-") == []


def test_the_rule_command_takes_rules_that_are_not_there_yet(shell: Shell) -> None:
    assert shell.complete("rule epoch") == ["epoch-wide-autocast"]
    assert "epoch-wide-autocast" not in shell.complete("rule epoch-wide-autocast ")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("--output-format ", list(OUTPUT_FORMATS)),
        ("check src --output-format js", ["json", "json-lines"]),
        ("--level ", ["error", "warning", "advice"]),
        ("--device c", ["cuda", "cpu"]),
        ("rule --output-format ", ["text", "json"]),
        ("--extend-s", ["--extend-select"]),
        ("src/ --extend-s", ["--extend-select"]),
        ("baseline --pr", ["--prune", "--project"]),
        ("--project ", ["<dir>"]),
        ("--baseline ", ["<file>"]),
        ("src", ["<file>"]),
        ("check b", ["<file>"]),
        ("b", ["<file>", "baseline"]),
        ("src b", ["<file>"]),
        ("confirm src", ["<file>"]),
        ("cache ", ["clean", "dir"]),
        ("", ["<file>", "baseline", "cache", "check", "confirm", "rule", "server", "trace"]),
    ],
)
def test_words_are_completed(shell: Shell, typed: str, offered: list[str]) -> None:
    found = shell.complete(typed)
    assert found[: len(offered)] == offered
    assert len(found) == len(offered) or typed in ("", "b")


def test_the_script_is_for_the_shell(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.shell_completion.BashComplete._check_version", staticmethod(lambda: None))
    text = shell.script()
    assert f"_AMPLINT_COMPLETE={shell.name}_complete" in text
    assert re.search(r"\bamplint\b", text)
