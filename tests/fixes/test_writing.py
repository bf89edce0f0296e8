"""Files on the disk: old or new at any moment, nothing beside them, and nothing that somebody else wrote lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amplint.source import writing
from amplint.source.writing import (
    Replacement,
    Unwritable,
    Writer,
    encoded,
    remove_leftovers,
    replace_all,
)

ROOT = Path(__file__).parents[2]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_has_changed_meanwhile_is_left_alone_with_its_companions(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_bytes(b"old")
    other.write_bytes(b"somebody else's")
    replacements = [Replacement(str(one), b"old", b"new"), Replacement(str(other), b"old", b"new")]
    with Writer() as writer:
        assert writer.replace_all(replacements) == "it has changed on the disk since it was read"
    assert (one.read_bytes(), other.read_bytes()) == (b"old", b"somebody else's")
    assert names_in(tmp_path) == ["one.py", "other.py"]


def test_what_was_replaced_before_a_failure_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path in paths:
        path.write_bytes(b"old")
    real = os.replace

    def failing(source: str, target: str) -> None:
        if target.endswith("c.py"):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", failing)
    reason = replace_all([Replacement(str(path), b"old", b"new") for path in paths])
    assert reason == "No space left on device"
    assert [path.read_bytes() for path in paths] == [b"old"] * 3
    assert names_in(tmp_path) == ["a.py", "b.py", "c.py"]


def test_two_at_once_do_not_undo_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one comes between the last look of the first one and its renaming."""
    pytest.importorskip("fcntl")
    monkeypatch.setattr(writing, "_PATIENCE", 0.0)
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    real, reasons = os.replace, []

    def late(source: str, target: str) -> None:
        if not reasons:
            reasons.append("")
            reasons[0] = replace_all([Replacement(str(path), b"old", b"second")])
        real(source, target)

    monkeypatch.setattr(os, "replace", late)
    assert replace_all([Replacement(str(path), b"old", b"first")]) == ""
    assert reasons == ["another process is writing in its directory"]
    assert path.read_bytes() == b"first"
    assert replace_all([Replacement(str(path), b"old", b"second")]).startswith("it has changed")
    assert names_in(tmp_path) == ["a.py"]


@pytest.mark.parametrize("missing", ["link", "O_TMPFILE", "fork"])
def test_where_a_system_lacks_something_it_works_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def refusing(*arguments: object, **options: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    if missing == "link":
        monkeypatch.setattr(os, "link", refusing)
    else:
        monkeypatch.delattr(os, missing, raising=False)
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with Writer() as writer:
        assert writer.replace_all([Replacement(str(path), b"old", b"new")]) == ""
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert names_in(tmp_path) == ["a.py"]


def test_what_a_killed_process_left_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    names = (".amplint-dead.tmp", ".amplint-live.tmp", ".amplint-notes", "amplint.tmp")
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with (tmp_path / ".amplint-live.tmp").open("rb") as live:
        fcntl.flock(live, fcntl.LOCK_EX)
        remove_leftovers([str(tmp_path), str(tmp_path / "missing")])
    assert names_in(tmp_path) == sorted(names[1:])


@pytest.mark.parametrize(
    ("text", "like"),
    [("é\n", b"# coding: latin-1\n"), ("x\r\n", b"\xef\xbb\xbfy\n"), ("é\r\n", b"")],
)
def test_text_goes_back_into_the_encoding_of_its_file(text: str, like: bytes) -> None:
    head = like.decode("latin-1").removeprefix("ï»¿") if b"coding" in like else ""
    data = encoded(head + text, like)
    assert data.startswith(b"\xef\xbb\xbf") is like.startswith(b"\xef\xbb\xbf")
    assert data.endswith(text.encode("latin-1" if head else "utf-8"))


@pytest.mark.parametrize(
    ("text", "like"),
    [
        ("# coding: latin-1\n\u20ac\n", b"# coding: latin-1\n"),
        ("# coding: utf-7\nx\n", b"# coding: utf-7\n+AGE-\n"),
        ("# coding: latin-1\n", b"\xc3\xa9\n"),
    ],
)
def test_what_would_not_be_read_back_is_refused(text: str, like: bytes) -> None:
    if text.endswith("latin-1\n"):
        assert encoded(text, like) == text.encode()  # ASCII is the same in both
        return
    with pytest.raises(Unwritable):
        encoded(text, like)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_killed_hundreds_of_times_each_file_is_old_or_new_and_alone(tmp_path: Path) -> None:
    """The kill comes at a random moment of the writing; how long that takes does not matter."""
    names = [f"m{number}.py" for number in range(4)]
    old, new = b"old\n" * 5000, b"new\n" * 5000
    for name in names:
        (tmp_path / name).write_bytes(old)
    script = _KILLED.format(root=str(ROOT), folder=str(tmp_path))
    moments = random.Random(7)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        for _ in range(300):
            process.stdin.write(f"{moments.uniform(0, 0.006)}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "killed\n"
            _wait_until_quiet(tmp_path, names)
            for name in names:
                assert (tmp_path / name).read_bytes() in (old, new)
        process.stdin.close()


def _wait_until_quiet(folder: Path, names: list[str]) -> None:
    """The process that writes may outlive the killed one by the file that it is at."""
    for _ in range(1000):
        if names_in(folder) == names:
            return
        time.sleep(0.001)
    raise AssertionError(f"left beside the files: {sorted(set(names_in(folder)) - set(names))}")


_KILLED = """
import os, signal, sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from amplint.source.writing import Replacement, Writer
paths = sorted(Path({folder!r}).glob("*.py"))
old, new = b"old\\n" * 5000, b"new\\n" * 5000

def write_on_and_on():
    with Writer() as writer:
        while True:
            for path in paths:
                data = path.read_bytes()
                writer.replace_all([Replacement(str(path), data, new if data == old else old)])

for line in sys.stdin:
    child = os.fork()
    if not child:
        write_on_and_on()
    time.sleep(float(line))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("killed", flush=True)
"""
