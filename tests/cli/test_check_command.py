from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

GOOD = "import torch\n\nwith torch.autocast('cuda'):\n    pass\n"
BAD = "import torch\n\nwith torch.autocast('cuda'):\n    loss.backward()  # BAD\n"


def test_without_findings_the_exit_code_is_0(amplint, project: Path) -> None:
    (project / "good.py").write_text(GOOD)
    done = amplint()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "All good: no findings; checked 1 file.\n"


def test_findings_give_exit_code_1_and_a_frame(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    done = amplint()
    assert done.returncode == 1
    assert done.stdout == (
        "bad.py:4:24: warning[backward-in-autocast] AMP101 backward() runs inside the region\n"
        "  |\n"
        "3 | with torch.autocast('cuda'):\n"
        "  | ---- the region opens here\n"
        "4 |     loss.backward()  # BAD\n"
        "  |                        ^^^\n"
        "  |\n"
        "  = fix: move it out of the region\n"
        "\n"
        "Found 1 finding (1 warning) in 1 file; checked 1 file.\n"
    )


@pytest.mark.parametrize("output_format", ["full", "concise", "github", "json"])
def test_nothing_to_check_is_not_all_good(amplint, project: Path, output_format: str) -> None:
    (project / "docs").mkdir()
    (project / "docs" / "page.md").write_text("autocast\n")
    done = amplint("docs", "--output-format", output_format)
    assert done.returncode == 0
    assert done.stderr == "amplint: warning: there are no Python files to check in docs\n"
    assert done.stdout == ("[]\n" if output_format == "json" else "Nothing to check: no Python files.\n")
    assert "no Python files" in amplint("docs", "--diff").stderr
    quiet = amplint("docs", "-q", "--output-format", output_format)
    assert (quiet.stdout.strip("[]\n"), quiet.stderr) == ("", "")


def test_what_is_excluded_is_nothing_to_check(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    done = amplint("--exclude=bad.py", "--force-exclude", "bad.py")
    assert (done.returncode, done.stdout) == (0, "Nothing to check: no Python files.\n")


def test_quiet_is_findings_and_nothing_else(amplint, project: Path) -> None:
    (project / "a.py").write_text(BAD)
    (project / "b.py").write_text("import torch\nx = 'autocast UNTIDY'\n")
    found = amplint("-q", "--output-format=concise", "a.py")
    assert (found.returncode, found.stderr) == (1, "")
    assert (
        found.stdout == "a.py:4:24: warning[backward-in-autocast] AMP101 backward() runs inside the region\n"
    )
    fixed = amplint("--quiet", "--fix", "b.py")
    assert (fixed.returncode, fixed.stdout, fixed.stderr) == (0, "", "")
    assert "TIDY" in (project / "b.py").read_text()
    (project / "b.py").write_text("import torch\nx = 'autocast UNTIDY'\n")
    assert amplint("-q", "--diff", "b.py").stderr == ""
    assert amplint("-q", "--fix-only", "b.py").stderr == ""
    assert amplint("-q", "-v").returncode == 2


def test_verbose_says_what_was_read(amplint, project: Path) -> None:
    (project / "amplint.toml").write_text('ignore = ["half-model"]\n')
    (project / "bad.py").write_text(BAD)
    (project / "plain.py").write_text("x = 1\n")
    first, again = (amplint("-v", "--output-format=json").stderr for _ in range(2))
    for line in (
        f"amplint: project {project}",
        f"amplint:   settings: {project / 'amplint.toml'}",
        "amplint:   2 files, 1 of them read for AMP:",
        "amplint:     bad.py",
    ):
        assert line in first.splitlines()
    seconds = r"\d+\.\d\d s"
    assert re.search(rf"cache {seconds}, gate {seconds}, analysis {seconds}\n", first)
    assert re.search(rf"in all: settings and list of files {seconds}, checking and report {seconds}\n", first)
    assert "results of an earlier run: nothing to use\n" in first
    assert "results of an earlier run: used\n" in again
    assert "results of an earlier run: off\n" in amplint("-v", "--no-cache").stderr
    assert "amplint: project" in amplint("-v", "--fix").stderr


def test_level_hides_what_is_milder(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    assert amplint("--level", "warning").returncode == 1
    assert amplint("--level", "advice").returncode == 1
    hidden = amplint("--level", "error")
    assert (hidden.returncode, hidden.stdout) == (0, "All good: no findings; checked 1 file.\n")
    (project / "amplint.toml").write_text('level = "error"\n')
    assert amplint().returncode == 0
    assert amplint("--level=warning").returncode == 1
    done = amplint("--level", "errors")
    assert (done.returncode, "did you mean" in done.stderr) == (2, True)


def test_exit_zero(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    assert amplint("--exit-zero").returncode == 0


def test_check_is_the_default_command(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    expected = amplint("check", "--output-format", "concise", "bad.py")
    assert amplint("--output-format", "concise", "bad.py").stdout == expected.stdout
    assert amplint("bad.py", "--output-format=concise").stdout == expected.stdout


def test_version_and_help(amplint) -> None:
    assert re.fullmatch(r"amplint \d+\.\d+\S*\n", amplint("--version").stdout)
    assert "check" in amplint("--help").stdout
    assert "--torch-version" in amplint("check", "--help").stdout


def test_json_has_exactly_the_documented_keys(amplint, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "bad.py").write_text(BAD)
    [finding] = json.loads(amplint("--output-format", "json").stdout)
    fingerprint = finding.pop("fingerprint")
    assert re.fullmatch("[0-9a-f]{32}", fingerprint)
    assert finding == {
        "code": "AMP101",
        "name": "backward-in-autocast",
        "level": "warning",
        "message": "backward() runs inside the region",
        "why": "",
        "help": "",
        "path": "src/bad.py",
        "line": 4,
        "column": 24,
        "end_line": 4,
        "end_column": 27,
        "trail": [{"path": "src/bad.py", "line": 3, "column": 1, "message": "the region opens here"}],
        "fix": {
            "applicability": "safe",
            "title": "move it out of the region",
            "note": "",
            "edits": [],
            "minimum": None,
        },
        "fix_note": "",
        "assumes": [],
    }


def test_json_without_findings_is_an_empty_array(amplint, project: Path) -> None:
    (project / "good.py").write_text(GOOD)
    assert json.loads(amplint("--output-format", "json").stdout) == []


def test_fingerprints_survive_new_lines_and_are_distinct(amplint, project: Path) -> None:
    def fingerprints() -> list[str]:
        return [finding["fingerprint"] for finding in json.loads(amplint("--output-format=json").stdout)]

    twice = "with autocast():\n    f()  # BAD\n    f()  # BAD\n    g()  # BAD\n"
    (project / "bad.py").write_text(twice)
    before = fingerprints()
    assert len(set(before)) == 3
    (project / "bad.py").write_text("import os\n\n" + twice)
    assert fingerprints() == before


def test_output_file(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    done = amplint("--output-file", "report.json", "--output-format", "json", env={"FORCE_COLOR": "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert len(json.loads((project / "report.json").read_text())) == 1


def test_an_output_file_that_cannot_be_written_is_an_error(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    done = amplint("--output-file", "missing/report.txt")
    assert done.returncode == 2
    assert "amplint: error: cannot write missing/report.txt" in done.stderr


def test_statistics(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD + "    # BAD\n")
    (project / "worse.py").write_text("with autocast(:\n")
    done = amplint("--statistics", "--torch-version=2.13")
    assert done.stdout.splitlines() == [
        "2  AMP101  warning  backward-in-autocast",
        "1  AMP902  error    syntax-error",
        "Read with the op table of torch 2.13.",
        "Found 3 findings (1 error, 2 warnings) in 2 files; checked 2 files.",
    ]
    counts = json.loads(amplint("--statistics", "--output-format=json").stdout)
    assert counts[0] == {"code": "AMP101", "name": "backward-in-autocast", "level": "warning", "count": 2}


def test_show_files(amplint, project: Path) -> None:
    for name in ("b.py", "a.pyi", "c.txt"):
        (project / name).write_text(BAD)
    done = amplint("--show-files")
    assert (done.returncode, done.stdout) == (0, "a.pyi\nb.py\n")


def test_standard_input(amplint, project: Path) -> None:
    done = amplint("-", "--stdin-filename", "src/train.py", "--output-format=concise", stdin=BAD)
    assert done.returncode == 1
    assert done.stdout.startswith("src/train.py:4:24: warning[backward-in-autocast] AMP101 ")
    full = amplint("-", stdin=BAD)
    assert "4 |     loss.backward()  # BAD\n" in full.stdout
    assert amplint("-", stdin=GOOD).returncode == 0


def test_standard_input_that_cannot_be_decoded(amplint, project: Path) -> None:
    done = amplint("-", "--output-format=concise", stdin=b"autocast \xff\n")
    assert done.returncode == 1
    assert done.stdout.startswith("stdin.py:1:10: error[syntax-error] AMP902 cannot decode")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "no such file or directory: nowhere.py"),
        (["trian.py"], 'no such file or directory: trian.py (did you mean "train.py"?)'),
        (["--select", "backward-in-autocats"], 'unknown rule "backward-in-autocats" (did you mean'),
        (["--ignore", "AMP999"], '--ignore: unknown rule "AMP999"'),
        (["--output-format", "jsno"], '(did you mean "json"?)'),
        (["--device", "gpu"], '"gpu" is none of cuda, cpu, xpu, mps'),
        (["--torch-version", "two"], '"two" is no torch version'),
        (["--config", "none.toml"], "cannot read the configuration file none.toml"),
        (["--config", "amplint.toml", "--isolated"], "--config and --isolated exclude each other"),
        (["--no-such-option"], "No such option"),
        (["-", "train.py"], "cannot be combined"),
        (["--stdin-filename", "x.py"], "needs the path -"),
        (["rule", "backward-in-autocats"], '(did you mean "backward-in-autocast"?)'),
    ],
)
def test_wrong_use_is_said_and_exits_with_2(
    amplint, project: Path, arguments: list[str], message: str
) -> None:
    (project / "train.py").write_text(BAD)
    done = amplint(*arguments)
    assert done.returncode == 2
    assert message.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_select_and_ignore(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    assert amplint("--select", "AMP2").returncode == 0
    assert amplint("--select", "AMP2,backward-in-autocast").returncode == 1
    assert amplint("--ignore", "AMP1").returncode == 0
    assert amplint("--ignore", "AMP1", "--extend-select", "AMP101").returncode == 1


def test_suppressions(amplint, project: Path) -> None:
    (project / "a.py").write_text("with autocast():\n    f(  # BAD\n    )  # noqa: E501, AMP101\n")
    (project / "b.py").write_text("# amplint: ignore-file[backward-in-autocast] why\n" + BAD)
    (project / "c.py").write_text("with autocast():\n    # amplint: ignore[AMP1] why\n    f()  # BAD\n")
    assert amplint().returncode == 0


def test_settings_from_pyproject(amplint, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.amplint]\nignore = ["AMP101"]\noutput-format = "json"\n')
    (project / "bad.py").write_text(BAD)
    assert amplint().stdout == "[]\n"
    assert amplint("--isolated").returncode == 1


def test_per_file_ignores(amplint, project: Path) -> None:
    (project / "amplint.toml").write_text('[per-file-ignores]\n"tests/" = ["AMP101"]\n"b.py" = ["ALL"]\n')
    (project / "tests").mkdir()
    for name in ("tests/a.py", "b.py", "c.py"):
        (project / name).write_text(BAD)
    done = amplint("--output-format=json")
    assert [finding["path"] for finding in json.loads(done.stdout)] == ["c.py"]


def test_tests_benchmarks_and_profiling_code_get_errors_only(amplint, project: Path) -> None:
    quiet = (
        "tests/a.py",
        "pkg/tests/a.py",
        "test_a.py",
        "benchmarks/a.py",
        "bench_a.py",
        "tools/profile_a.py",
    )
    for name in (*quiet, "latest.py", "src/attest/a.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(BAD)
    (project / "tests" / "broken.py").write_text(f"{BAD}(\n")
    done = amplint("--output-format=json")
    found = [(finding["path"], finding["level"]) for finding in json.loads(done.stdout)]
    assert found == [("latest.py", "warning"), ("src/attest/a.py", "warning"), ("tests/broken.py", "error")]
    (project / "amplint.toml").write_text('errors-only = ["latest.py"]\n')
    done = amplint("--output-format=json", *quiet, "latest.py")
    assert [finding["path"] for finding in json.loads(done.stdout)] == sorted(quiet)
    done = amplint("--output-format=json", "--errors-only=", "test_a.py", "latest.py")
    assert [finding["path"] for finding in json.loads(done.stdout)] == ["latest.py", "test_a.py"]


@pytest.mark.parametrize("place", ["above", "elsewhere", "inside"])
def test_tests_are_tests_wherever_amplint_runs(amplint, project: Path, place: str) -> None:
    own = project / "work" / "own"
    (own / ".git").mkdir(parents=True)
    (own / "tests").mkdir()
    (own / "tests" / "a.py").write_text(BAD)
    (own / "b.py").write_text(BAD)
    target = project
    if place == "elsewhere":
        target = project / "far"
    elif place == "inside":
        target = own / "tests"
    target.mkdir(exist_ok=True)
    done = amplint("--output-format=json", str(own), cwd=target)
    assert [Path(finding["path"]).name for finding in json.loads(done.stdout)] == ["b.py"]
    alone = amplint("--output-format=json", str(own / "tests" / "a.py"), cwd=target)
    assert json.loads(alone.stdout) == []


def test_a_wrong_setting_names_the_file_and_suggests(amplint, project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.amplint]\nselekt = []\n")
    done = amplint()
    assert done.returncode == 2
    assert 'pyproject.toml: selekt: unknown key "selekt" (did you mean "select"?)' in done.stderr


def test_a_projects_own_wrapper_passes_the_gate(amplint, project: Path) -> None:
    (project / "bad.py").write_text("with my_region():\n    loss.backward()  # BAD\n")
    assert amplint().returncode == 0
    (project / "amplint.toml").write_text('autocast-contexts = ["my.project.my_region"]\n')
    assert amplint().returncode == 1


def test_files_that_use_what_the_first_ones_define_are_judged_as_well(amplint, project: Path) -> None:
    regions = "import torch\ndef my_region():\n    return torch.autocast('cuda')\n"
    (project / "regions.py").write_text(regions)
    (project / "train.py").write_text("from regions import my_region\nloss.backward()  # BAD\n")
    done = amplint("--output-format=concise")
    assert done.stdout.startswith("train.py:2:20:")


def test_workers_find_the_same_as_one_process(amplint, project: Path) -> None:
    for number in range(60):
        (project / f"m{number}.py").write_text(BAD + "x = 1\n" * number)
    alone = amplint("-j", "1", "--output-format=json")
    assert amplint("-j", "3", "--output-format=json").stdout == alone.stdout
    assert len(json.loads(alone.stdout)) == 60


def test_a_crash_in_the_analysis_costs_one_file(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    (project / "crash.py").write_text(BAD + "# CRASH\n")
    done = amplint("--output-format=json")
    assert done.returncode == 2
    assert [finding["path"] for finding in json.loads(done.stdout)] == ["bad.py"]
    assert "amplint: internal error: crash.py: ZeroDivisionError: by zero" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in amplint(env={"AMPLINT_DEBUG": "1"}).stderr


def test_colours_are_for_terminals(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    assert "\x1b" not in amplint().stdout
    assert "\x1b[" in amplint(env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b" not in amplint(env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout


def test_where_results_are_kept(amplint, project: Path) -> None:
    (project / "amplint.toml").touch()
    (project / "bad.py").write_text(BAD)
    own, other, given = project / ".amplint_cache", project / "other", project / "given"
    cold = amplint("--no-cache").stdout
    assert not own.exists()
    assert amplint().stdout == cold
    assert amplint("cache", "dir").stdout == f"{own}\n"
    assert amplint(env={"AMPLINT_CACHE_DIR": str(other)}).stdout == cold
    assert amplint("--cache-dir", "given", env={"AMPLINT_CACHE_DIR": str(other)}).stdout == cold
    assert [len(list(folder.glob("*.json"))) for folder in (own, other, given)] == [1, 1, 1]
    assert amplint().stdout == cold
    assert amplint("cache", "clean").stdout == f"Removed 1 result from {own}.\n"
    assert not own.exists()
    assert amplint("cache", "clean", "--cache-dir", "given").returncode == 0
    assert other.exists()
    assert not given.exists()
    assert amplint("cache", "clean").stdout == f"Removed 0 results from {own}.\n"
    assert amplint("--cache-dir", "").stdout == cold
    assert own.exists()
    (project / "part").mkdir()
    assert amplint("cache", "dir", "--project", "part").stdout == f"{project / 'part' / '.amplint_cache'}\n"


def test_nothing_is_kept_for_what_belongs_to_no_project(amplint, project: Path) -> None:
    done = amplint("cache", "dir")
    assert done.returncode == 2
    assert "belongs to no project" in done.stderr


def test_github_writes_the_step_summary(amplint, project: Path) -> None:
    (project / "bad.py").write_text(BAD)
    done = amplint("--output-format=github", env={"GITHUB_STEP_SUMMARY": str(project / "summary.md")})
    assert done.stdout.startswith("::warning file=bad.py,line=4,")
    assert "| warning | backward-in-autocast (AMP101) | bad.py:4:24 |" in (project / "summary.md").read_text()


def test_paths_outside_of_the_working_directory_are_absolute(
    amplint, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "bad.py"
    outside.write_text(BAD)
    done = amplint(str(outside), "--output-format=concise")
    assert done.stdout.startswith(f"{outside.as_posix()}:4:24:")


@pytest.mark.parametrize("selector", ["backward-in-autocast", "AMP101", "amp101"])
def test_rule_shows_a_page(amplint, selector: str) -> None:
    done = amplint("rule", selector)
    assert done.returncode == 0
    assert done.stdout.startswith("# backward-in-autocast (AMP101)\n")


def test_rule_lists_and_shows_all(amplint) -> None:
    listed = amplint("rule").stdout
    assert "AMP101  backward-in-autocast" in listed
    assert "AMP902  syntax-error" in listed
    assert amplint("rule", "--all").stdout.count("## What it does") == len(listed.splitlines())
    objects = json.loads(amplint("rule", "--output-format", "json").stdout)
    assert {"code", "name", "level", "default", "summary", "page"} == set(objects[0])


def test_rule_in_a_terminal_has_no_markdown_headings(amplint) -> None:
    shown = amplint("rule", "AMP902", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[1msyntax-error (AMP902)\x1b[0m" in shown
    assert "## " not in shown
