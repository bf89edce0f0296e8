"""Whatever a file holds: one clear finding or error where due, no traceback, and the others are linted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from running import ROOT, command, environment

from amplint.config import OUTPUT_FORMATS

BAD = "import torch\n\nwith torch.autocast('cuda'):\n    loss.backward()  # BAD\n"


def findings(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str, int, int]]:
    assert "Traceback" not in done.stderr
    return [
        (finding["path"], finding["code"], finding["line"], finding["column"])
        for finding in json.loads(done.stdout)
    ]


@pytest.fixture
def neighbour(project: Path) -> tuple[str, str, int, int]:
    """Another file of the project, which must be linted in any case."""
    (project / "neighbour.py").write_text(BAD)
    return ("neighbour.py", "AMP101", 4, 24)


UNREADABLE = {
    "syntax error": (b"with autocast(:\n", 1, 15),
    "python 2": (b"with autocast():\n    print 'loss', loss\n", 2, 5),
    "null byte": (b"autocast()\nx = 'a\0b'\n", 2, 7),
    "not UTF-8": (b"autocast()\n# caf\xe9 au lait\n", 2, 6),
    "UTF-16 with BOM": ("with autocast(): pass\n".encode("utf-16"), 1, 1),
    "UTF-16 without BOM": ("with autocast(): pass\n".encode("utf-16-le"), 1, 2),
    "UTF-32 with BOM": ("with autocast(): pass\n".encode("utf-32"), 1, 1),
    "unknown coding": (b"# coding: klingon\nautocast()\n", 1, 1),
    "coding that is no text": (b"# coding: rot13\nautocast()\n", 1, 1),
    "coding against BOM": (b"\xef\xbb\xbf# coding: latin-1\nautocast()\n", 1, 1),
    "null by way of utf-7": (b"# coding: utf-7\nautocast()\nx = '+AAA-'\n", 1, 1),
}


@pytest.mark.parametrize(("data", "line", "column"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_file_that_is_no_python_is_one_finding(
    amplint, project: Path, neighbour, data: bytes, line: int, column: int
) -> None:
    (project / "bad.py").write_bytes(data)
    done = amplint("--output-format=json")
    assert findings(done) == [("bad.py", "AMP902", line, column), neighbour]
    assert done.returncode == 1


READABLE = {
    "latin-1 with coding line": ("# -*- coding: latin-1 -*-\n# é\n" + BAD).encode("latin-1"),
    "utf-8 with BOM": b"\xef\xbb\xbf" + b"#\n#\n" + BAD.encode(),
    "CRLF": ("\n\n" + BAD).replace("\n", "\r\n").encode(),
    "CR": ("\n\n" + BAD).replace("\n", "\r").encode(),
    "form feed": ("\f\n\x0c# one line\n" + BAD).encode(),
}


@pytest.mark.parametrize("data", READABLE.values(), ids=READABLE.keys())
def test_a_file_in_an_unusual_form_is_linted(amplint, project: Path, neighbour, data: bytes) -> None:
    (project / "form.py").write_bytes(data)
    assert findings(amplint("--output-format=json")) == [("form.py", "AMP101", 6, 24), neighbour]
    shown = amplint("form.py").stdout
    assert "6 |     loss.backward()  # BAD\n" in shown


def test_a_syntax_error_names_the_python_that_sees_one(amplint, project: Path) -> None:
    (project / "newer.py").write_text("autocast(\n")
    done = amplint("newer.py", fake=False)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"AMP902 Python {python}, which runs amplint, cannot parse this: " in done.stdout
    assert "= help: If the code is for a newer Python, run amplint with that one." in done.stdout


@pytest.mark.parametrize(
    ("line", "newer"),
    [
        ("name = f'{names['autocast']}'", (3, 12)),
        ("autocast(f'{')", (99,)),
        ("type autocast = int", (3, 12)),
        ("print 'autocast'", (99,)),
    ],
    ids=["quotes inside", "no f-string of any Python", "an alias of a type", "Python 2"],
)
def test_the_syntax_of_a_newer_python_is_a_warning(
    amplint, project: Path, line: str, newer: tuple[int, ...]
) -> None:
    (project / "newer.py").write_text(f"{line}\n")
    done = amplint("newer.py", "--output-format=concise", fake=False)
    levels = [found for found in ("error[syntax", "warning[syntax") if found in done.stdout]
    level = "error" if newer == (99,) else "warning"
    assert levels == ([] if sys.version_info >= newer else [f"{level}[syntax"])


def test_tabs_keep_carets_in_place(amplint, project: Path) -> None:
    (project / "tabs.py").write_text("with autocast():\n\tf();\tBAD = 1\n")
    assert "2 |     f();    BAD = 1\n  |             ^^^\n" in amplint().stdout


def test_a_file_of_ten_megabytes(amplint, project: Path, neighbour) -> None:
    (project / "large.py").write_text(BAD + "x = [1, 2, 3, 4, 5, 6, 7]  # and so on\n" * 260_000)
    large = ("large.py", "AMP101", 4, 24)
    assert findings(amplint("--output-format=json", "--select=AMP1")) == [large, neighbour]


DEEP = {
    "parentheses": "x = autocast" + "(" * 10_000 + ")" * 10_000,
    "unclosed parentheses": "autocast" + "(" * 10_000,
    "sum": "x = autocast" + " + a" * 20_000,
    "and": "x = autocast" + " and a" * 20_000,
    "elif": "if autocast:\n    pass\n" + "elif a:\n    pass\n" * 3_000,
    "attributes": "x = autocast" + ".a" * 10_000,
    "minus": "x = autocast(" + "-" * 10_000 + "1)",
}


@pytest.mark.parametrize("real", [False, True], ids=["around the analysis", "with the analysis"])
@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_deep_nesting_is_one_finding(amplint, project: Path, text: str, real: bool) -> None:
    (project / "deep.py").write_text(text + "\n")
    done = amplint("--output-format=json", fake=not real)
    assert [(path, code) for path, code, _, _ in findings(done)] == [("deep.py", "AMP902")]
    assert (done.returncode, done.stderr) == (1, "")


def test_a_loop_of_links(amplint, project: Path, neighbour) -> None:
    (project / "package").mkdir()
    (project / "package" / "loop").symlink_to(project, target_is_directory=True)
    (project / "itself.py").symlink_to("itself.py")
    (project / ".#neighbour.py").symlink_to("user@host.1234")
    assert findings(amplint("--output-format=json")) == [neighbour]


def test_a_linked_file_is_linted_once_under_its_own_name(amplint, project: Path, neighbour) -> None:
    (project / "a_link.py").symlink_to("neighbour.py")
    assert findings(amplint("--output-format=json")) == [neighbour]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(amplint, project: Path, neighbour) -> None:
    (project / "secret.py").write_text(BAD)
    (project / "secret.py").chmod(0)
    (project / "vault").mkdir(mode=0)
    expected = [neighbour, ("secret.py", "AMP902", 1, 1), ("vault", "AMP902", 1, 1)]
    assert findings(amplint("--output-format=json")) == expected


def test_a_directory_with_the_name_of_a_file(amplint, project: Path, neighbour) -> None:
    (project / "package.py").mkdir()
    (project / "package.py" / "inside.py").write_text(BAD)
    inside = ("package.py/inside.py", "AMP101", 4, 24)
    assert findings(amplint("--output-format=json")) == [neighbour, inside]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_fifo_is_passed_over_or_reported_where_it_is_named(amplint, project: Path, neighbour) -> None:
    os.mkfifo(project / "pipe.py")
    assert findings(amplint("--output-format=json")) == [neighbour]
    named = amplint("--output-format=json", "pipe.py", "neighbour.py")
    assert findings(named) == [neighbour, ("pipe.py", "AMP902", 1, 1)]
    assert "it is a FIFO" in named.stdout


def test_a_socket_is_passed_over(amplint, project: Path, neighbour) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        assert findings(amplint("--output-format=json")) == [neighbour]


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes")
@pytest.mark.parametrize("output_format", OUTPUT_FORMATS)
def test_a_name_that_is_not_utf_8(amplint, project: Path, neighbour, output_format: str) -> None:
    name = os.fsencode(project) + b"/caf\xe9.py"
    Path(os.fsdecode(name)).write_text(BAD)
    done = amplint("--output-format", output_format)
    assert done.returncode == 1
    assert "caf\\xe9.py" in unquote(done.stdout).replace("\\\\", "\\")
    assert "caf\\xe9.py" in amplint("--show-files").stdout
    missing = amplint(os.fsencode("caf\udce8.py"))
    assert (missing.returncode, "Traceback" in missing.stderr) == (2, False)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a file system that takes any characters")
@pytest.mark.parametrize("output_format", [name for name in OUTPUT_FORMATS if name != "github"])
def test_control_characters_never_get_through(amplint, project: Path, output_format: str) -> None:
    (project / "\x1b[2J\n::error::\u202e.py").write_text(
        "with autocast():\n    x = '\x1b[31m\u202e\x9b' # BAD\n"
    )
    shown = amplint("--output-format", output_format, env={"PYTHONIOENCODING": "utf-8"}).stdout
    names = shown.replace("\\u001b", "\\x1b").replace("\\\\", "\\")
    in_uri = quote("\x1b[2J\n::error::\u202e.py")
    assert "\\x1b[2J\\n::error::\\u202e.py" in names or (output_format == "sarif" and in_uri in shown)
    assert not set(shown) & {"\x1b", "\u202e", "\x9b"}


def test_output_that_the_terminal_cannot_encode(amplint, project: Path) -> None:
    (project / "日本.py").write_text(BAD, "utf-8")
    done = amplint("--output-format=concise", env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.startswith("\\u65e5\\u672c.py:4:24:")


def test_a_closed_pipe_is_no_error(project: Path) -> None:
    for number in range(50):
        (project / f"m{number}.py").write_text(BAD * 50)
    process = subprocess.Popen(
        command("-j1"), cwd=project, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), errors) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_device_is_one_line(project: Path) -> None:
    (project / "a.py").write_text(BAD)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command(), env=environment(), stdout=full, stderr=subprocess.PIPE, text=True)
    said = "amplint: error: cannot write the report: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.skipif(sys.platform == "win32", reason="closes a descriptor of the child")
def test_a_closed_output_is_one_line(project: Path) -> None:
    (project / "a.py").write_text(BAD)
    done = subprocess.run(
        command(), env=environment(), stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.close(1)
    )
    said = "amplint: error: cannot write the report: the output is closed\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [(".gitignore", "[z-a]\n", 1), ("amplint.toml", 'exclude = ["[z-a]"]\n', 2)],
)
def test_a_pattern_that_is_none(amplint, project: Path, name: str, text: str, status: int) -> None:
    (project / "a.py").write_text(BAD)
    (project / name).write_text(text)
    done = amplint()
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
    assert status == 1 or '"[z-a]" is no valid pattern' in done.stderr


def test_a_key_in_two_lines_stays_in_one(amplint, project: Path) -> None:
    (project / "amplint.toml").write_text('"se\\n::error::lect" = 1\n')
    done = amplint()
    assert done.returncode == 2
    assert [line[:15] for line in done.stderr.splitlines()] == ["amplint: error:"]


def test_a_number_of_many_digits_is_shown_in_part(amplint, project: Path) -> None:
    done = amplint("--torch-version", "9" * 5_000)
    assert done.returncode == 2
    assert len(done.stderr) < 500


@pytest.mark.skipif(sys.platform == "win32", reason="makes a link")
def test_a_link_to_nowhere_says_so(amplint, project: Path) -> None:
    (project / "a.py").symlink_to("nowhere.py")
    done = amplint("a.py")
    assert (done.returncode, done.stderr) == (
        2,
        "amplint: error: a.py is a link to nowhere.py, which does not exist\n",
    )


def test_what_nobody_expected_is_two_lines(project: Path) -> None:
    script = (
        "import sys\n"
        "import amplint.cli.check_command as c\n"
        "def _run(*_): raise KeyError('a\\x1b\\n::error::b')\n"
        "c._run = _run\n"
        "from amplint.cli.main import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert [line[:8] for line in done.stderr.splitlines()] == ["amplint:", "This is "]
    assert "\x1b" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
@pytest.mark.parametrize("jobs", ["-j1", "-j2"])
def test_ctrl_c_ends_the_run_without_a_traceback(project: Path, jobs: str) -> None:
    """The analysis waits at a FIFO, so the run is surely under way when the signal comes."""
    os.mkfifo(project / "waiting")
    for number in range(30):
        (project / f"m{number}.py").write_text(BAD + f"# WAIT {project / 'waiting'}\n")
    process = subprocess.Popen(
        command(jobs),
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # shells let what they run in the background ignore it, and the tests with it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with (project / "waiting").open("w"):  # opens when the analysis has come to it
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.strip()) == (130, b"", b"Interrupted.")
