"""--fix and its kin, with the fake analysis: what it calls untidy it can tidy up."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

UNTIDY = "with autocast():\n    x = UNTIDY  # keep this\n"
TIDY = "with autocast():\n    x = TIDY  # keep this\n"
RISKY = "with autocast():\n    x = RISKY\n"


def test_fix_fixes_the_file_and_says_what_it_did(amplint, project: Path) -> None:
    (project / "a.py").write_text(UNTIDY)
    done = amplint("--fix")
    assert (project / "a.py").read_text() == TIDY
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "Fixed 1 finding in 1 file: 1 step-in-autocast.\nAll good: no findings; checked 1 file.\n"
    )


def test_fix_twice_is_fix_once(amplint, project: Path) -> None:
    (project / "a.py").write_text(UNTIDY)
    amplint("--fix")
    before = (project / "a.py").stat()
    assert amplint("--fix").stdout == "All good: no findings; checked 1 file.\n"
    after = (project / "a.py").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_unsafe_fixes_are_made_on_request_alone(amplint, project: Path) -> None:
    (project / "a.py").write_text(RISKY + "    y = UNTIDY\n")
    done = amplint("--fix", "--output-format=concise")
    assert (project / "a.py").read_text() == RISKY + "    y = TIDY\n"
    assert done.returncode == 1
    assert done.stdout == (
        "a.py:2:9: advice[step-in-autocast] AMP103 this is RISKY\n"
        "Fixed 1 finding in 1 file: 1 step-in-autocast.\n"
        "Found 1 finding (1 advice) in 1 file; checked 1 file.\n"
        "1 can be fixed with `--fix --unsafe-fixes`.\n"
    )
    assert amplint("--fix", "--unsafe-fixes").returncode == 0
    assert "RISKY" not in (project / "a.py").read_text()


def test_without_fix_nothing_is_written_and_the_report_shows_what_would_be(amplint, project: Path) -> None:
    (project / "a.py").write_text(UNTIDY + "    y = RISKY\n")
    done = amplint()
    assert (project / "a.py").read_text() == UNTIDY + "    y = RISKY\n"
    assert (
        "  = fix: write TIDY\n"
        "  |\n"
        "1 | with autocast():\n"
        "2 -     x = UNTIDY  # keep this\n"
        "  +     x = TIDY  # keep this\n"
        "3 |     y = RISKY\n"
        "  |\n"
    ) in done.stdout
    assert "  = unsafe fix: write TIDY (it may be wanted)\n" in done.stdout
    assert done.stdout.endswith("1 can be fixed with `--fix`, 1 more with `--unsafe-fixes`.\n")


def test_concise_output_marks_what_can_be_fixed(amplint, project: Path) -> None:
    (project / "a.py").write_text(UNTIDY + "    y = RISKY\n")
    lines = amplint("--output-format=concise").stdout.splitlines()
    assert lines[0].startswith("a.py:2:9: advice[step-in-autocast] AMP103 [*] this")
    assert lines[1].startswith("a.py:3:9: advice[step-in-autocast] AMP103 this")
    assert lines[-1] == "[*] 1 can be fixed with `--fix`, 1 more with `--unsafe-fixes`."
    lines = amplint("--output-format=concise", "--unsafe-fixes").stdout.splitlines()
    assert lines[1].startswith("a.py:3:9: advice[step-in-autocast] AMP103 [*] this")
    assert lines[-1] == "[*] 2 can be fixed with `--fix --unsafe-fixes`."


def test_json_has_the_edits_and_stays_json_while_fixing(amplint, project: Path) -> None:
    (project / "a.py").write_text("# é\n" + UNTIDY + "    y = RISKY\n", "utf-8")
    [safe, unsafe] = json.loads(amplint("--output-format=json").stdout)
    assert safe["fix"] == {
        "applicability": "safe",
        "title": "write TIDY",
        "note": "",
        "edits": [
            {"path": "a.py", "line": 3, "column": 9, "end_line": 3, "end_column": 15, "content": "TIDY"}
        ],
        "minimum": None,
    }
    assert (unsafe["fix"]["applicability"], unsafe["fix"]["note"]) == ("unsafe", "it may be wanted")
    done = amplint("--fix", "--output-format=json")
    assert [finding["line"] for finding in json.loads(done.stdout)] == [4]
    assert done.stderr == "Fixed 1 finding in 1 file: 1 step-in-autocast.\n"


def test_diff_shows_and_writes_nothing(amplint, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text(UNTIDY)
    (project / "b.py").write_text(RISKY)
    done = amplint("--diff")
    assert done.returncode == 1
    assert done.stdout == (
        "--- a/src/a.py\n"
        "+++ b/src/a.py\n"
        "@@ -1,2 +1,2 @@\n"
        " with autocast():\n"
        "-    x = UNTIDY  # keep this\n"
        "+    x = TIDY  # keep this\n"
    )
    assert done.stderr == "Would fix 1 finding in 1 file: 1 step-in-autocast.\n"
    assert (project / "src" / "a.py").read_text() == UNTIDY
    assert "b.py" in amplint("--diff", "--unsafe-fixes").stdout
    assert amplint("--diff", "b.py").returncode == 0
    assert amplint("--diff", "b.py").stdout == ""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "z = 1"])
def test_a_diff_can_be_applied(amplint, project: Path, end: str, last: str) -> None:
    text = (f"\f\n{UNTIDY}" + "    pass\n" * 20 + "    y = UNTIDY\n").replace("\n", end) + last
    (project / "a.py").write_bytes(text.encode())
    (project / "the.patch").write_bytes(amplint("--diff").stdout.encode())
    subprocess.run(["git", "apply", "-p1", "the.patch"], cwd=project, check=True, capture_output=True)
    assert (project / "a.py").read_bytes() == text.replace("UNTIDY", "TIDY").encode()


def test_a_diff_has_no_control_characters(amplint, project: Path) -> None:
    (project / "a.py").write_text("with autocast():\n    x = UNTIDY  # \x1b[31m\u202e\n", "utf-8")
    assert "# \\x1b[31m\\u202e" in amplint("--diff").stdout
    assert "# \\x1b[31m\\u202e" in amplint().stdout
    assert "\x1b[1;32m+    x = TIDY" in amplint("--diff", env={"FORCE_COLOR": "1"}).stdout


def test_fix_only_reports_nothing_that_is_left(amplint, project: Path) -> None:
    (project / "a.py").write_text(UNTIDY + "    BAD\n")
    done = amplint("--fix-only")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "Fixed 1 finding in 1 file: 1 step-in-autocast.\n"
    assert (project / "a.py").read_text() == TIDY + "    BAD\n"


def test_exit_non_zero_on_fix(amplint, project: Path) -> None:
    for option in ("--fix", "--fix-only"):
        (project / "a.py").write_text(UNTIDY)
        assert amplint(option, "--exit-non-zero-on-fix").returncode == 1
        assert amplint(option, "--exit-non-zero-on-fix").returncode == 0


def test_standard_input_comes_out_fixed(amplint, project: Path) -> None:
    text = f"# coding: latin-1\n{UNTIDY}# é".replace("\n", "\r\n").encode("latin-1")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, "--fix", "-", "--stdin-filename=src/x.py"],
        cwd=project,
        input=text + b"\r\nBAD",
        capture_output=True,
    )
    assert done.returncode == 1
    assert done.stdout == text.replace(b"UNTIDY", b"TIDY") + b"\r\nBAD"
    assert done.stderr.startswith(b"src/x.py:5:1: warning[backward-in-autocast]")


def test_standard_input_without_anything_to_fix_comes_out_as_it_is(amplint) -> None:
    for text in (RISKY, "x = 1\n", "with autocast(:\n", ""):
        assert amplint("--fix-only", "-", stdin=text).stdout == text
    assert amplint("--fix", "-", stdin="with autocast(:\n").returncode == 1


def test_standard_input_as_a_diff(amplint) -> None:
    done = amplint("--diff", "-", "--stdin-filename=src/x.py", stdin=UNTIDY)
    assert done.returncode == 1
    assert done.stdout.startswith("--- a/src/x.py\n+++ b/src/x.py\n")


@pytest.mark.parametrize(
    ("word", "new", "reason"),
    [
        ("BROKEN", "((", "the result does not compile"),
        ("EATEN", "TIDY", "the result has lost the comment '# eaten'"),
        ("SPREADING", "BAD", "it brings a new finding: backward-in-autocast on line 3 of a.py"),
    ],
)
def test_a_fix_that_goes_wrong_is_taken_back_and_the_others_are_made(
    amplint, project: Path, word: str, new: str, reason: str
) -> None:
    text = f"{UNTIDY}    y = {word}  # eaten\n    z = UNTIDY\n"
    (project / "a.py").write_text(text)
    (project / "b.py").write_text(UNTIDY)
    done = amplint("--fix")
    assert (project / "a.py").read_text() == text.replace("UNTIDY", "TIDY")
    assert (project / "b.py").read_text() == TIDY
    assert (done.returncode, done.stderr) == (1, "")
    assert f'  = no fix: "write {new}" was not made: {reason}' in done.stdout
    assert "Fixed 3 findings in 2 files" in done.stdout
    assert "can be fixed" not in done.stdout
    (project / "a.py").write_text(text)
    [finding] = json.loads(amplint("--fix", "--output-format=json").stdout)
    assert finding["fix"] is None
    assert finding["fix_note"].startswith(f'"write {new}" was not made: {reason}')
    for option in ("--diff", "--fix-only"):
        (project / "a.py").write_text(text)
        done = amplint(option)
        assert done.returncode == 1
        assert f'amplint: a.py:3:9: "write {new}" was not made: {reason}' in done.stderr


def test_files_that_one_fix_changes_are_written_together(amplint, project: Path) -> None:
    (project / "a.py").write_text("with autocast():\n    x = TWIN_A\n")
    (project / "twin.py").write_text("x = TWIN_B\n")
    assert amplint("--fix").returncode == 0
    assert (project / "a.py").read_text() == "with autocast():\n    x = TIDY\n"
    assert (project / "twin.py").read_text() == "x = TIDY\n"


def protected(path: Path) -> str:
    path.chmod(0o444)
    return "it is write-protected"


def with_another_name(path: Path) -> str:
    os.link(path, path.with_suffix(".txt"))
    return "it has several names (hard links), and the others would keep the old text"


def linked_from_outside(path: Path) -> str:
    outside = path.parents[1] / f"{path.parent.name}-outside.txt"
    path.rename(outside)
    path.symlink_to(outside)
    return "it is a link to a file outside of the project"


OBSTACLES = [protected, with_another_name, linked_from_outside]


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda one: one.__name__)
def test_a_file_that_may_not_be_rewritten_is_left_alone_and_said_so(
    amplint, project: Path, obstacle: Callable[[Path], str]
) -> None:
    """Whoever runs it: root may write everything."""
    (project / "a.py").write_text(UNTIDY)
    (project / "b.py").write_text(UNTIDY)
    reason = obstacle(project / "a.py")
    before = (project / "a.py").stat()
    done = amplint("--fix")
    after = (project / "a.py").stat()
    assert (done.returncode, done.stderr) == (1, "")
    assert f"a.py is left as it is: {reason}.\n" in done.stdout
    assert "Fixed 1 finding in 1 file" in done.stdout
    assert f"  = no fix: a.py is left as it is: {reason}\n" in done.stdout
    assert "All good" not in done.stdout
    assert (project / "a.py").read_text() == UNTIDY
    assert (before.st_ino, before.st_nlink, before.st_mode) == (after.st_ino, after.st_nlink, after.st_mode)
    assert (project / "b.py").read_text() == TIDY
    for output_format in ("concise", "github", "json"):
        done = amplint("--fix", f"--output-format={output_format}")
        assert done.returncode == 1
        assert f"a.py is left as it is: {reason}" in done.stdout
    [finding] = json.loads(done.stdout)
    assert (finding["fix"], finding["fix_note"]) == (None, f"a.py is left as it is: {reason}")
    done = amplint("--fix-only")
    assert (done.returncode, done.stderr) == (1, f"amplint: a.py is left as it is: {reason}.\n")
    done = amplint("--diff")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"amplint: a.py is left as it is: {reason}." in done.stderr
    done = amplint("--add-ignore")
    assert done.returncode == 1
    assert f"a.py is left as it is: {reason}." in done.stdout


def test_a_write_protected_file_is_left_alone_with_its_twin(amplint, project: Path) -> None:
    (project / "a.py").write_text("with autocast():\n    x = TWIN_A\n")
    (project / "b.py").write_text(UNTIDY)
    (project / "twin.py").write_text("x = TWIN_B\n")
    (project / "twin.py").chmod(0o444)
    done = amplint("--fix")
    assert done.returncode == 1
    assert "= no fix: twin.py is left as it is: it is write-protected" in done.stdout
    assert "TWIN_A" in (project / "a.py").read_text()
    assert "TWIN_B" in (project / "twin.py").read_text()
    assert (project / "b.py").read_text() == TIDY


@pytest.mark.parametrize("output_format", ["full", "concise", "github", "json"])
def test_what_cannot_be_written_in_the_end_is_found_again(amplint, project: Path, output_format: str) -> None:
    (project / "a.py").write_text(UNTIDY)
    (project / "full.py").write_text(UNTIDY)
    done = amplint("--fix", f"--output-format={output_format}", env={"AMPLINT_TEST_FULL": "full.py"})
    assert done.returncode == 1
    assert "full.py is left as it is: No space left on device" in done.stdout
    assert "All good" not in done.stdout
    assert "Fixed 1 finding in 1 file" in done.stdout + done.stderr
    assert (project / "full.py").read_text() == UNTIDY
    assert (project / "a.py").read_text() == TIDY


def test_what_appears_vanishes_or_changes_meanwhile_is_named(amplint, project: Path) -> None:
    (project / ".git").mkdir()
    for name in ("a.py", "changes.py", "vanishes.py"):
        (project / name).write_text(UNTIDY)
    (project / "quiet.py").write_text("x = 1\n")
    done = amplint("--fix", env={"AMPLINT_TEST_MEANWHILE": "1"})
    assert done.returncode == 1
    assert "changes.py is left as it is: it has changed on the disk since it was read.\n" in done.stdout
    assert "vanishes.py is left as it is: " in done.stdout
    assert "appears.py is left as it is: it has appeared since the files were listed.\n" in done.stdout
    assert "Fixed 1 finding in 1 file" in done.stdout
    assert (project / "a.py").read_text() == TIDY
    assert (project / "changes.py").read_text() == UNTIDY + "# more\n"


FORMS = {
    "latin-1": ("# -*- coding: latin-1 -*-\n# é\n" + UNTIDY).encode("latin-1"),
    "BOM": b"\xef\xbb\xbf# \xc3\xa9\n" + UNTIDY.encode(),
    "CRLF": UNTIDY.replace("\n", "\r\n").encode(),
    "mixed line ends": b"a = 1\r\nb = 2\rc = 3\n" + UNTIDY.encode() + b"d = 4\r\n",
    "tabs and form feeds": UNTIDY.replace("    ", "\t").encode() + b"\f\nx = 1\n\fy = 2\n",
    "no final newline": UNTIDY.encode().rstrip(b"\n"),
    "trailing spaces": UNTIDY.encode() + b"x = 1;  \n\n   \n\t\n",
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS.keys())
def test_all_other_bytes_stay(amplint, project: Path, data: bytes) -> None:
    (project / "a.py").write_bytes(data)
    assert amplint("--fix").returncode == 0
    assert (project / "a.py").read_bytes() == data.replace(b"UNTIDY", b"TIDY")


def test_mode_and_links_stay(amplint, project: Path) -> None:
    (project / "real").mkdir()
    (project / "real" / "target.txt").write_text(UNTIDY)
    (project / "real" / "target.txt").chmod(0o751)
    (project / "a.py").symlink_to("real/target.txt")
    assert amplint("--fix", "a.py").returncode == 0
    assert (project / "a.py").readlink() == Path("real/target.txt")
    assert (project / "real" / "target.txt").read_text() == TIDY
    assert stat.S_IMODE((project / "real" / "target.txt").stat().st_mode) == 0o751
    assert sorted(path.name for path in project.rglob("*")) == ["a.py", "real", "target.txt"]


def test_rules_may_be_kept_from_fixing(amplint, project: Path) -> None:
    (project / "a.py").write_text(UNTIDY)
    assert amplint("--unfixable", "AMP101").returncode == 1
    assert 'unknown rule "AMP999"' in amplint("--fixable", "AMP999").stderr


CONTRADICTIONS = [
    (["--exit-non-zero-on-fix"], "--exit-non-zero-on-fix needs --fix"),
    (["--add-ignore", "--fix"], "--add-ignore silences findings; it cannot be combined with --fix"),
    (["--add-ignore", "--unsafe-fixes"], "cannot be combined with --unsafe-fixes"),
    (["--diff", "--statistics"], "--statistics and --diff exclude each other"),
    (["--fix-only", "--statistics"], "--statistics and --fix-only exclude each other"),
    (["--fix", "--show-files"], "--show-files shows files"),
    (["--add-ignore=a\nb"], "a single line"),
    (["--add-ignore=# noqa"], "a suppression of its own"),
]


@pytest.mark.parametrize(("arguments", "message"), CONTRADICTIONS, ids=lambda value: str(value)[:40])
def test_what_makes_no_sense_is_refused(amplint, project: Path, arguments: list[str], message: str) -> None:
    (project / "a.py").write_text(UNTIDY)
    done = amplint(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert (project / "a.py").read_text() == UNTIDY


def test_add_ignore_silences_all_and_a_second_run_changes_nothing(amplint, project: Path) -> None:
    text = (
        "with autocast():\n"
        "    BAD\n"
        "    f(  # first\n"
        "        BAD,\n"
        "    )\n"
        '    g("""\n'
        "BAD\n"
        '""")\n'
        "    x = BAD + \\\n"
        "        1\n"
        "    BAD; RISKY  # amplint: ignore[half-model] known\n"
        "    # amplint: ignore[half-model] above\n"
        "    BAD\n"
        "@d(BAD)\n"
        "def f(\n"
        "    a=BAD,\n"
        "): return BAD"
    )
    (project / "a.py").write_bytes(text.replace("\n", "\r\n").encode())
    done = amplint("--add-ignore=for now", "--ignore=unused-suppression", ".")
    assert (done.returncode, done.stderr) == (0, "")
    silenced = (project / "a.py").read_bytes()
    mark = "  # amplint: ignore[backward-in-autocast] for now"
    assert silenced.decode().replace("\r\n", "\n") == (
        "with autocast():\n"
        f"    BAD{mark}\n"
        "    f(  # first\n"
        f"        BAD,{mark}\n"
        "    )\n"
        '    g("""\n'
        "BAD\n"
        f'"""){mark}\n'
        "    x = BAD + \\\n"
        f"        1{mark}\n"
        "    BAD; RISKY  # amplint: ignore[half-model, backward-in-autocast, step-in-autocast] known\n"
        "    # amplint: ignore[half-model, backward-in-autocast] above\n"
        "    BAD\n"
        f"@d(BAD){mark}\n"
        "def f(\n"
        "    a=BAD,\n"
        f"): return BAD{mark}"
    )
    assert silenced.count(b"\r\n") == text.count("\n")
    assert amplint("--ignore=unused-suppression").stdout == "All good: no findings; checked 1 file.\n"
    assert amplint("--add-ignore", "--ignore=unused-suppression").returncode == 0
    assert (project / "a.py").read_bytes() == silenced


def test_add_ignore_without_a_reason_and_of_standard_input(amplint, project: Path) -> None:
    done = amplint("--add-ignore", "-", stdin="with autocast(): BAD\n")
    assert done.stdout == "with autocast(): BAD  # amplint: ignore[backward-in-autocast]\n"
    assert done.returncode == 0


def test_add_ignore_leaves_what_cannot_be_parsed(amplint, project: Path) -> None:
    (project / "a.py").write_text("with autocast(:\n")
    done = amplint("--add-ignore")
    assert done.returncode == 1
    assert (project / "a.py").read_text() == "with autocast(:\n"


_SCRIPT = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parents[2])!r}, {str(Path(__file__).parent)!r}]
import fake_analysis
sys.modules["amplint.analysis"] = fake_analysis
from amplint.cli.main import main
main()
"""
