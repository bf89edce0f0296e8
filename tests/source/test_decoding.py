from __future__ import annotations

import os
from pathlib import Path

import pytest

from amplint.source.decoding import Unreadable, decode, display_name, lines_of, read_bytes
from amplint.source.texts import read_source


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"x\r\ny\rz\n", "x\r\ny\rz\n"),
        ("é\n".encode(), "é\n"),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n"),
        (b"\xef\xbb\xbf# coding: utf-8\n", "# coding: utf-8\n"),
        (b"# coding: latin-1\n# \xe9\n", "# coding: latin-1\n# é\n"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n# \x80\n", None),
        (b"x = 1\ny = 2\n# coding: klingon\n", "x = 1\ny = 2\n# coding: klingon\n"),
        (b"# encoding is fun\n", "# encoding is fun\n"),
    ],
)
def test_decode_as_python_does(data: bytes, text: str | None) -> None:
    if text is None:
        assert decode(data).endswith("# €\n")
    else:
        assert decode(data) == text


@pytest.mark.parametrize(
    ("data", "line", "column", "part"),
    [
        ("x".encode("utf-16"), 1, 1, "UTF-16"),
        ("x".encode("utf-32"), 1, 1, "UTF-32"),
        (b"a\r\nb\0", 2, 2, "null byte"),
        (b"a\r\n\xc3\xa9b\xff", 2, 3, "byte 0xff"),
        (b"# coding: nonsense\n", 1, 1, "nonsense"),
        (b"\xef\xbb\xbf# coding: latin-1\n", 1, 1, "utf-8"),
        (b"# coding: hex\n00", 1, 1, "hex"),
        (b"# coding: utf-7\n+2AA-", 1, 1, "surrogate"),
    ],
)
def test_what_cannot_be_decoded_has_a_place(data: bytes, line: int, column: int, part: str) -> None:
    with pytest.raises(Unreadable, match=part) as caught:
        decode(data)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_reading_never_waits(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="No such file"):
        read_bytes(tmp_path / "gone.py")
    with pytest.raises(Unreadable, match="directory"):
        read_bytes(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo.py")
        with pytest.raises(Unreadable, match="FIFO"):
            read_bytes(tmp_path / "fifo.py")
    if Path("/dev/zero").exists():
        with pytest.raises(Unreadable, match="device"):
            read_bytes("/dev/zero")


def test_read_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/a.py").write_bytes(b"\xef\xbb\xbfx\r\n")
    source = read_source("src/../src/a.py")
    assert (source.path, source.display, source.text) == (tmp_path / "src" / "a.py", "src/a.py", "x\r\n")


def test_display_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert display_name("a/b.py") == "a/b.py"
    assert display_name("../other.py") == (tmp_path / "other.py").as_posix()
    assert display_name(tmp_path / "workshop" / "a.py") == (tmp_path / "workshop" / "a.py").as_posix()
    assert display_name("caf\udce9.py") == "caf\\xe9.py"


def test_lines_are_those_of_python() -> None:
    assert lines_of("a\r\nb\rc\nd\fe\u2028f\x1cg") == ["a", "b", "c", "d\fe\u2028f\x1cg"]
