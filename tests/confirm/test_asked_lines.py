"""Lines are counted where a verdict will ask for them, and before Python 3.12 until each of these has run."""

from __future__ import annotations

import sys
import textwrap
import threading
from pathlib import Path

import pytest

from amplint.confirm import asked
from amplint.confirm.asked import AskedFile
from amplint.confirm.lines import LineCounts
from amplint.confirm.recording import digest_of
from amplint.findings import Finding, Level, Span, TrailStep

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 12) and sys.gettrace() is not None, reason="somebody else watches lines"
)

PROGRAM = """\
def used(x):
    y = x + 1
    return y

def other(x):
    return x - 1

def never():
    return 0

for i in range(3):
    used(i)
    other(i)
"""
TRACED = sys.version_info < (3, 12)


def watched(folder: Path, stretches: tuple[asked.Stretch, ...] | None, name: str = "train.py") -> LineCounts:
    """Runs the program and counts what is asked for of ``train.py``."""
    file = folder / name
    file.write_text(PROGRAM)
    files = None if stretches is None else (AskedFile("train.py", digest_of(file), stretches),)
    lines = LineCounts(lambda name: name == str(file), files, lambda name: Path(name).name)
    code = compile(PROGRAM, str(file), "exec")
    lines.start()
    try:
        exec(code, {})
    finally:
        lines.stop()
    assert sys.gettrace() is None
    return lines


def test_without_a_question_every_line_counts(tmp_path: Path) -> None:
    [counts] = watched(tmp_path, None).counts().values()
    assert (counts[2], counts[6], counts[13]) == (3, 3, 3)


def test_nothing_is_watched_where_nothing_is_asked(tmp_path: Path) -> None:
    lines = LineCounts(lambda name: True, ())
    lines.start()
    assert not lines.active
    assert sys.gettrace() is None


def test_only_functions_with_a_line_that_is_asked_for_count(tmp_path: Path) -> None:
    [counts] = watched(tmp_path, ((2, 2), (9, 9))).counts().values()
    assert counts == {2: 3, 3: 3}


def test_the_trace_function_goes_once_all_has_run(tmp_path: Path) -> None:
    [counts] = watched(tmp_path, ((2, 2),)).counts().values()
    # with sys.monitoring counting costs next to nothing, and goes on
    assert counts == ({2: 1} if TRACED else {2: 3, 3: 3})


@pytest.mark.skipif(not TRACED, reason="sys.monitoring has no trace function")
def test_other_threads_let_go_of_the_trace_function_too(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    lines = LineCounts(
        str(file).__eq__, (AskedFile("train.py", None, ((2, 2),)),), lambda name: Path(name).name
    )
    seen: list[object] = []
    turn = [threading.Event(), threading.Event()]

    def work() -> None:
        turn[0].set()
        turn[1].wait(10)
        textwrap.dedent("")
        seen.append(sys.gettrace())

    lines.start()
    try:
        thread = threading.Thread(target=work)
        thread.start()
        turn[0].wait(10)
        exec(compile(PROGRAM, str(file), "exec"), {})
        turn[1].set()
        thread.join(10)
    finally:
        lines.stop()
    assert seen == [None]
    assert threading.gettrace() is None


def test_a_file_is_known_to_have_run_though_none_of_its_lines_did(tmp_path: Path) -> None:
    assert list(watched(tmp_path, ((9, 9),)).counts()) == [str(tmp_path / "train.py")]


def test_a_copy_of_what_was_linted_counts(tmp_path: Path) -> None:
    [counts] = watched(tmp_path, ((2, 2), (9, 9)), "copy.py").counts().values()
    assert counts[2] == 3


def test_of_another_content_only_that_it_ran_is_known(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    lines = LineCounts(
        str(file).__eq__, (AskedFile("train.py", "changed", ((9, 9),)),), lambda name: "train.py"
    )
    lines.start()
    try:
        exec(compile(PROGRAM, str(file), "exec"), {})
        assert not TRACED or sys.gettrace() is None
    finally:
        lines.stop()
    assert lines.counts() == {str(file): {}}


def test_findings_ask_for_their_lines_and_those_of_their_trails(tmp_path: Path) -> None:
    step = TrailStep("model.py", Span(7, 1, 8, 2), "called from here")
    finding = Finding("AMP101", "x", Level.ERROR, "m", "train.py", Span(3, 1, 3, 9), (step,))
    files = asked.asked([finding], {"train.py": "abc"})
    assert files == (AskedFile("train.py", "abc", ((3, 3),)), AskedFile("model.py", None, ((7, 8),)))
    asked.write(files, tmp_path)
    assert asked.read(tmp_path) == files
    assert asked.read(tmp_path / "nowhere") is None
