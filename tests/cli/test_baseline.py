"""The baseline: what a project has is written down once, and runs report what is new. With the fake analysis."""

from __future__ import annotations

import io
import json
import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import fake_analysis
import pytest

from amplint.api import Project
from amplint.check import check_views
from amplint.cli import check_command
from amplint.cli.main import run
from amplint.config import ConfigError, load_settings
from amplint.scope import views
from amplint.source.discovery import Obstacle

FILE = "amplint-baseline.json"
OLD = "with autocast():\n    f(BAD)\n    g(BAD)\n"


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str


Amplint = Callable[..., Done]


@pytest.fixture
def amplint(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Amplint:
    """Runs the command line in this process, in a project with one file that has two findings."""
    monkeypatch.setitem(sys.modules, "amplint.analysis", fake_analysis)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    (project / "amplint.toml").write_text("")
    (project / "a.py").write_text(OLD)

    def call(*arguments: str) -> Done:
        code = run(arguments)
        told = capsys.readouterr()
        return Done(code, told.out, told.err)

    return call


def places(amplint: Amplint, *arguments: str) -> list[tuple[str, int]]:
    """Where something is reported."""
    found = json.loads(amplint("--output-format", "json", *arguments).out)
    return [(finding["path"], finding["line"]) for finding in found]


def test_what_was_there_is_hidden_and_counted(amplint: Amplint, project: Path) -> None:
    done = amplint("baseline")
    assert (done.code, done.out, done.err) == (0, f"{FILE} has 2 findings: 2 new, 0 taken out.\n", "")
    done = amplint()
    assert (done.code, done.err) == (0, "")
    assert done.out == "All good: no new findings; checked 1 file.\n2 findings in the baseline.\n"


def test_the_file_is_sorted_and_has_no_line_numbers(amplint: Amplint, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "ä.py").write_text("autocast\nf( 'x',  BAD)  # why\nf('x', BAD)\n")
    amplint("baseline")
    assert (project / FILE).read_text() == (
        "{\n"
        '  "version": 1,\n'
        '  "findings": [\n'
        '    {"path": "a.py", "rule": "backward-in-autocast", "line": "f(BAD)", "occurrence": 1},\n'
        '    {"path": "a.py", "rule": "backward-in-autocast", "line": "g(BAD)", "occurrence": 1},\n'
        '    {"path": "src/\\u00e4.py", "rule": "backward-in-autocast", "line": "f( \'x\', BAD)", "occurrence": 1},\n'
        '    {"path": "src/\\u00e4.py", "rule": "backward-in-autocast", "line": "f(\'x\', BAD)", "occurrence": 2}\n'
        "  ]\n"
        "}\n"
    )
    before = (project / FILE).stat()
    amplint("baseline")
    after = (project / FILE).stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


@pytest.mark.parametrize(
    "text",
    [
        "import os\n\n" + OLD,
        "with autocast():\n    g(BAD)\n    f(BAD)\n",
        "with autocast():\n\tf( BAD )\n\tg(\tBAD)\n",
        "with autocast():\n    f(BAD)  # a remark\n    g(BAD)\n",
        OLD.replace("\n", "\r\n"),
    ],
    ids=["lines above", "the other way round", "blanks", "a comment", "line ends"],
)
def test_what_was_there_stays_known(amplint: Amplint, project: Path, text: str) -> None:
    amplint("baseline")
    (project / "a.py").write_bytes(text.encode())
    done = amplint()
    assert (done.code, done.out.splitlines()[1:]) == (0, ["2 findings in the baseline."])


def test_what_is_new_is_reported(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text(OLD + "    f(BAD)\n")
    assert places(amplint) == [("a.py", 4)]
    done = amplint("--output-format", "concise")
    assert done.code == 1
    assert done.out.splitlines()[1:] == [
        "Found 1 new finding (1 warning) in 1 file; checked 1 file.",
        "2 findings in the baseline.",
    ]
    assert amplint("--exit-zero").code == 0
    assert len(places(amplint, "--no-baseline")) == 3


def test_a_finding_of_another_rule_on_a_known_line_is_new(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text("autocast\nf(BAD, UNTIDY)\n")
    amplint("baseline", "--select", "AMP101")
    found = json.loads(amplint("--output-format", "json").out)
    assert [finding["code"] for finding in found] == ["AMP103"]


def test_what_is_mended_is_told_and_taken_out(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text(OLD.replace("g(BAD)", "g()") + "    h(BAD)\n")
    done = amplint("--output-format", "concise")
    assert done.out.splitlines()[-1] == (
        "1 entry of the baseline is found no more: `amplint baseline --prune` takes it out."
    )
    done = amplint("baseline", "--check")
    assert (done.code, done.out) == (1, "a.py: backward-in-autocast: g(BAD)\n")
    assert done.err.startswith("1 entry of the baseline is found no more: ")
    done = amplint("baseline", "--prune")
    assert (done.code, done.out) == (0, f"{FILE} has 1 finding: 0 new, 1 taken out.\n")
    assert places(amplint) == [("a.py", 4)], "pruning adds nothing"
    done = amplint("baseline", "--check")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_pruning_where_nothing_is_stale_writes_nothing(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    compact = json.dumps(json.loads((project / FILE).read_text()))
    (project / FILE).write_text(compact)
    assert amplint("baseline", "--prune").out == f"{FILE} has 2 findings: 0 new, 0 taken out.\n"
    assert (project / FILE).read_text() == compact


def test_of_equal_lines_the_last_ones_are_stale(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text("autocast\nf(BAD)\nf(BAD)\nf(BAD)\n")
    amplint("baseline")
    (project / "a.py").write_text("autocast\nf(BAD)\nf(BAD)\n")
    amplint("baseline", "--prune")
    rows = json.loads((project / FILE).read_text())["findings"]
    assert [row["occurrence"] for row in rows] == [1, 2]
    assert places(amplint) == []


def test_a_run_over_one_file_says_nothing_of_others(amplint: Amplint, project: Path) -> None:
    (project / "b.py").write_text(OLD)
    amplint("baseline")
    (project / "a.py").write_text("autocast\n")
    assert "no more" not in amplint("b.py").out
    assert amplint("baseline", "--check", "b.py").code == 0
    assert (
        "2 entries of the baseline are found no more: `amplint baseline --prune` takes them out.\n"
        in amplint().out
    )
    assert amplint("baseline", "--prune", "b.py").out == f"{FILE} has 4 findings: 0 new, 0 taken out.\n"
    assert amplint("baseline", "--prune", "a.py").out == f"{FILE} has 2 findings: 0 new, 2 taken out.\n"


def test_writing_for_one_file_leaves_the_others(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "b.py").write_text("autocast\nh(BAD)\n")
    (project / "a.py").write_text(OLD + "    i(BAD)\n")
    assert amplint("baseline", "b.py").out == f"{FILE} has 3 findings: 1 new, 0 taken out.\n"
    assert places(amplint) == [("a.py", 4)]


def test_a_file_that_is_gone_or_renamed_is_stale(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").rename(project / "b.py")
    assert places(amplint) == [("b.py", 2), ("b.py", 3)]
    assert amplint().out.splitlines()[-1].startswith("2 entries of the baseline are found no more")
    assert amplint("b.py").out.splitlines()[-1].startswith("2 entries of the baseline are found no more")
    assert amplint("baseline").out == f"{FILE} has 2 findings: 2 new, 2 taken out.\n"


def test_rules_that_do_not_run_are_not_judged(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text("autocast\n")
    assert "no more" not in amplint("--ignore", "AMP101").out
    assert amplint("baseline", "--prune", "--select", "half-model").out.endswith("0 taken out.\n")
    assert "2 entries" in amplint("--select", "AMP101").out


def test_a_level_hides_no_more_than_it_did_and_makes_nothing_stale(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text("autocast\nf(BAD)\nf(UNTIDY)\n")
    amplint("baseline")
    assert amplint("--level", "warning").out.splitlines()[1:] == ["1 finding in the baseline."]
    assert amplint("--level", "error").out.splitlines()[1:] == []


def test_a_rule_that_is_no_more_is_stale(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / FILE).write_text(
        (project / FILE).read_text().replace("backward-in-autocast", "former-rule", 1)
    )
    assert amplint("baseline", "--check").out == "a.py: former-rule: f(BAD)\n"


def test_a_code_stands_for_its_rule(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / FILE).write_text((project / FILE).read_text().replace("backward-in-autocast", "AMP101"))
    assert amplint().code == 0


def test_a_file_that_cannot_be_read_is_reported_and_not_judged(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text(OLD + "    )\n")
    done = amplint("baseline")
    assert done.out == f"{FILE} has 2 findings: 0 new, 0 taken out.\n"
    assert (
        done.err == "amplint: a.py cannot be read, and no baseline hides that: leave it out with `exclude`.\n"
    )
    done = amplint("--output-format", "concise")
    assert (done.code, "syntax-error" in done.out, "no more" in done.out) == (1, True, False)


def test_a_directory_that_cannot_be_read_is_not_judged(amplint: Amplint, project: Path) -> None:
    """Of what is in it the system says what it says of files that are gone."""
    (project / "src").mkdir()
    (project / "src" / "b.py").write_text(OLD)
    amplint("baseline")
    shutil.rmtree(project / "src")
    [view] = views(["."], load_settings)
    assert check_views([view]).stale == 2
    closed = Obstacle(str(project / "src"), "cannot be listed")
    assert check_views([view._replace(obstacles=(closed,))]).stale == 0


def test_after_a_crash_nothing_is_stale(amplint: Amplint, project: Path) -> None:
    (project / "b.py").write_text(OLD)
    amplint("baseline")
    (project / "b.py").write_text("autocast CRASH\n")
    (project / "a.py").write_text("autocast\n")
    done = amplint("baseline", "--prune")
    assert (done.code, done.out) == (2, f"{FILE} has 4 findings: 0 new, 0 taken out.\n")


def test_an_unused_suppression_can_be_in_it(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text("autocast  # amplint: ignore[half-model] old\n")
    amplint("baseline")
    (project / "a.py").write_text("autocast  # amplint: ignore[half-model] another reason\n")
    assert amplint().out.splitlines()[1:] == ["1 finding in the baseline."]


# --- where it is ---


def test_it_is_found_from_anywhere(amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "src").mkdir()
    shutil.move(project / "a.py", project / "src" / "a.py")
    amplint("baseline")
    monkeypatch.chdir(project / "src")
    assert amplint().code == 0
    assert amplint("baseline").out == f"{project / FILE} has 2 findings: 0 new, 0 taken out.\n"
    monkeypatch.chdir(project.parent)
    assert amplint(str(project / "src" / "a.py")).code == 0


def test_where_nothing_marks_a_project_that_is_said(amplint: Amplint, project: Path) -> None:
    (project / "amplint.toml").unlink()
    done = amplint("baseline")
    assert done.code == 0
    assert done.err.startswith(f"amplint: nothing says that a project begins at {project}: ")
    assert amplint().code == 0
    (project / "amplint.toml").write_text("")
    assert amplint("baseline").err == ""


def test_settings_and_options_name_another_file(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "ci").mkdir()
    (project / "amplint.toml").write_text('baseline = "ci/known.json"\n')
    assert amplint("baseline").out == "ci/known.json has 2 findings: 2 new, 0 taken out.\n"
    assert json.loads((project / "ci" / "known.json").read_text())["findings"][0]["path"] == "a.py"
    monkeypatch.chdir(project / "ci")
    assert amplint("..").code == 0
    assert amplint("--baseline", "known.json", "..").code == 0
    assert amplint("--no-baseline", "..").code == 1
    assert amplint("--isolated", "--project", "..", "..").code == 1, "--isolated looks for none"
    assert amplint("--isolated", "--project", "..", "--baseline", "known.json", "..").code == 0


def test_each_project_has_its_own(amplint: Amplint, project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()
    (inner / "amplint.toml").write_text("")
    (inner / "a.py").write_text(OLD)
    assert amplint("baseline").out == (
        f"{FILE} has 2 findings: 2 new, 0 taken out.\ninner/{FILE} has 2 findings: 2 new, 0 taken out.\n"
    )
    assert amplint().out.splitlines()[1:] == ["4 findings in the baseline."]
    done = amplint("--baseline", FILE)
    assert done.code == 2
    assert done.err.startswith(
        f"amplint: error: the baseline {project / FILE} is for one project, and the paths"
    )


def test_a_link_to_a_file_calls_nothing_stale(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "link.py").symlink_to("a.py")
    assert "no more" not in amplint("link.py").out


# --- what is wrong with it ---


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not valid JSON: "),
        ("[]", "is no baseline of amplint"),
        ('{"version": true, "findings": []}', "is no baseline of amplint"),
        ('{"version": 1}', "is no baseline of amplint"),
        ('{"version": 2, "findings": []}', "has version 2, which amplint "),
        ('{"version": 1, "findings": [{"path": "a.py"}]}', "finding 1 needs path, rule, line, occurrence"),
        ('{"version": 1, "findings": [7]}', "finding 1 needs path, rule, line, occurrence"),
        (
            '{"version": 1, "findings": [\n<<<<<<< HEAD\n=======\n>>>>>>> other\n]}',
            "has merge conflict markers on line 2; keep the lines of both sides",
        ),
        ("[" * 100_000, "is not valid JSON: "),
        ("\udcff", "is not UTF-8: "),
    ],
)
@pytest.mark.parametrize("command", [(), ("baseline",), ("--fix",), ("--show-files",)])
def test_a_broken_file_is_said_in_a_line(
    amplint: Amplint, project: Path, content: str, said: str, command: tuple[str, ...]
) -> None:
    (project / FILE).write_bytes(content.encode("utf-8", "surrogateescape"))
    done = amplint(*command)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert FILE in done.err and said in done.err
    assert (project / FILE).read_bytes() == content.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    "arguments", [("--baseline", "none.json"), ("baseline", "--prune"), ("baseline", "--check")]
)
def test_a_file_that_is_wanted_has_to_be_there(amplint: Amplint, arguments: tuple[str, ...]) -> None:
    done = amplint(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "there is no baseline" in done.err and "`amplint baseline` writes one\n" in done.err


def test_a_file_that_settings_name_has_to_be_there(amplint: Amplint, project: Path) -> None:
    (project / "amplint.toml").write_text('baseline = "known.json"\n')
    assert amplint().code == 2
    amplint("baseline")
    assert amplint().code == 0


def test_a_directory_is_no_baseline(amplint: Amplint, project: Path) -> None:
    (project / FILE).mkdir()
    done = amplint()
    assert (done.code, "is a directory" in done.err.lower()) == (2, True)


def test_both_sides_of_a_merge_may_stay(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    document = json.loads((project / FILE).read_text())
    document["findings"] *= 2
    (project / FILE).write_text(json.dumps(document))
    assert amplint().out.splitlines()[1:] == ["2 findings in the baseline."]
    (project / "a.py").write_text("autocast\n")
    assert amplint().out.splitlines()[1].startswith("2 entries of the baseline are found no more")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("baseline", "--prune", "--check"), "--prune and --check exclude each other"),
        (("baseline", "-"), "a baseline is about files, not about standard input"),
        (("--baseline", FILE, "--no-baseline"), "--baseline and --no-baseline exclude each other"),
    ],
)
def test_contradictions_are_refused(amplint: Amplint, arguments: tuple[str, ...], said: str) -> None:
    done = amplint(*arguments)
    assert (done.code, done.err) == (2, f"amplint: error: {said}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions")
def test_the_file_has_the_rights_of_any_file_and_keeps_them(amplint: Amplint, project: Path) -> None:
    (project / "plain").write_text("")
    amplint("baseline")
    usual = stat.S_IMODE((project / "plain").stat().st_mode)
    assert stat.S_IMODE((project / FILE).stat().st_mode) == usual
    (project / FILE).chmod(0o640)
    (project / "a.py").write_text("autocast\n")
    amplint("baseline")
    assert stat.S_IMODE((project / FILE).stat().st_mode) == 0o640
    (project / FILE).chmod(0o440)
    (project / "a.py").write_text(OLD)
    done = amplint("baseline")
    assert (done.code, done.err) == (
        2,
        f"amplint: error: cannot write {project / FILE}: it is write-protected\n",
    )
    assert sorted(path.name for path in project.iterdir()) == [
        ".amplint_cache", "a.py", FILE, "amplint.toml", "plain",
    ]  # fmt: skip


# --- with the rest ---


@pytest.mark.parametrize("output_format", ["json", "json-lines", "gitlab", "junit", "rdjson", "pylint"])
def test_formats_without_room_say_it_beside(amplint: Amplint, output_format: str) -> None:
    amplint("baseline")
    done = amplint("--output-format", output_format)
    assert (done.code, done.err) == (0, "amplint: 2 findings in the baseline.\n")
    assert "BAD" not in done.out
    assert amplint("--output-format", output_format, "-q").err == ""


def test_github_says_it_at_the_end(amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amplint("baseline")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    done = amplint("--output-format", "github")
    assert (done.out.splitlines()[-1], done.err) == ("2 findings in the baseline.", "")
    assert "2 findings in the baseline." in (project / "summary.md").read_text()


def test_sarif_says_what_is_new(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text(OLD + "    h(BAD)\n")
    [told] = json.loads(amplint("--output-format", "sarif").out)["runs"]
    assert [result["baselineState"] for result in told["results"]] == ["new"]
    notes = told["invocations"][0]["toolExecutionNotifications"]
    assert notes == [{"level": "note", "message": {"text": "2 findings in the baseline."}}]
    [told] = json.loads(amplint("--output-format", "sarif", "--no-baseline").out)["runs"]
    assert [result.get("baselineState") for result in told["results"]] == [None] * 3


def test_statistics_count_what_is_new(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text(OLD + "    h(BAD)\n")
    lines = amplint("--statistics").out.splitlines()
    assert (lines[0].split()[0], lines[-1]) == ("1", "2 findings in the baseline.")
    done = amplint("--statistics", "--output-format", "json")
    assert (json.loads(done.out)[0]["count"], done.err) == (1, "amplint: 2 findings in the baseline.\n")


def test_results_that_are_kept_are_those_without_it(
    amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "amplint.analysis")
    (project / "a.py").write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    assert len(places(amplint)) == 1
    amplint("baseline")
    done = amplint("-v", "--level", "warning")
    assert "results of an earlier run: used" in done.err
    assert done.out == "All good: no findings; checked 1 file.\n"
    assert places(amplint) == []
    assert len(places(amplint, "--no-baseline")) == 1


def test_an_editor_gets_what_is_new(amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amplint("baseline")
    text = "import os\n" + OLD + "    h(BAD)\n"

    class Stdin:
        buffer = io.BytesIO(text.encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert places(amplint, "--stdin-filename", "a.py", "-") == [("a.py", 5)]
    in_editor = Project(project)
    in_editor.set_text("a.py", text)
    assert [finding.span.line for finding in in_editor.check("a.py").findings] == [5]
    (project / FILE).write_text("{")
    with pytest.raises(ConfigError):
        in_editor.check("a.py")


def test_watching_looks_at_it(amplint: Amplint, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[dict[str, object]] = []

    def changes(look: Callable[[], dict[str, object]]) -> list[None]:
        looks.append(look())
        (project / FILE).write_text('{"version": 1, "findings": []}')
        looks.append(look())
        return []

    monkeypatch.setattr("amplint.cli.watch.changes", changes)
    assert check_command._watch(["."], _options("--watch")) == 0
    assert looks[0] != looks[1]


def _options(*arguments: str) -> dict[str, object]:
    return check_command.check_command.make_context("check", list(arguments)).params


def test_settings_shown_have_it(amplint: Amplint, project: Path) -> None:
    line = f'baseline = "{project / FILE}"'
    assert f"{line}  # where it would be\n" in amplint("--show-settings").out
    amplint("baseline")
    assert f"{line}  # found\n" in amplint("--show-settings").out
    assert 'baseline = "known.json"' not in amplint("--show-settings", "--no-baseline").out


# --- fixes ---


def test_fixes_leave_alone_what_is_in_it(amplint: Amplint, project: Path) -> None:
    (project / "a.py").write_text("autocast\nold(UNTIDY)\n")
    amplint("baseline")
    (project / "a.py").write_text("autocast\nold(UNTIDY)\nnew(UNTIDY)\n")
    assert "-old" not in amplint("--diff").out
    done = amplint("--fix")
    assert (project / "a.py").read_text() == "autocast\nold(UNTIDY)\nnew(TIDY)\n"
    assert (done.code, done.out) == (
        0,
        "Fixed 1 finding in 1 file: 1 step-in-autocast.\n"
        "All good: no new findings; checked 1 file.\n"
        "1 finding in the baseline.\n",
    )
    assert amplint("--diff").err == "Nothing to fix.\n1 finding in the baseline.\n"
    assert amplint("--fix-only").err == "1 finding in the baseline.\n"
    amplint("--no-baseline", "--fix")
    assert (project / "a.py").read_text() == "autocast\nold(TIDY)\nnew(TIDY)\n"
    assert "1 entry of the baseline is found no more" in amplint("--fix").out


def test_what_is_in_it_stays_so_while_its_line_changes(amplint: Amplint, project: Path) -> None:
    """A fix of a new finding changes the line of a known one, which may be mended: it is left, and told."""
    (project / "a.py").write_text("autocast\nf(RISKY, UNTIDY)\n")
    amplint("baseline")
    rows = json.loads((project / FILE).read_text())
    rows["findings"] = rows["findings"][:1]  # RISKY comes first
    (project / FILE).write_text(json.dumps(rows))
    done = amplint("--fix", "--unsafe-fixes", "--output-format", "concise")
    assert (project / "a.py").read_text() == "autocast\nf(RISKY, TIDY)\n"
    assert (done.code, done.out.splitlines()[0]) == (
        1,
        "a.py:2:3: advice[step-in-autocast] AMP103 [*] this is RISKY",
    )


def test_only_what_is_new_is_silenced(amplint: Amplint, project: Path) -> None:
    amplint("baseline")
    (project / "a.py").write_text(OLD + "    h(BAD)\n")
    amplint("--add-ignore=known")
    assert (
        project / "a.py"
    ).read_text() == OLD + "    h(BAD)  # amplint: ignore[backward-in-autocast] known\n"
    assert amplint().out.splitlines()[1:] == ["2 findings in the baseline."]
