"""From bytes to text, as Python itself reads its source: BOM, coding line, else UTF-8."""

# a Path for each of many thousand files costs more than reading them:
# ruff: noqa: PTH100, PTH109

from __future__ import annotations

import os
import stat


class Unreadable(Exception):  # noqa: N818
    """A file cannot be read as Python source. Line and column count from 1 and are 1 where there is no
    place."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def display_name(path: str | os.PathLike[str], directory: str | None = None) -> str:
    """What reports call a file: relative to the working directory with forward slashes, or absolute if it
    lies outside. Bytes of the name that are not UTF-8 become backslash escapes."""
    absolute = os.path.abspath(path)
    base = (os.getcwd() if directory is None else directory).rstrip(os.sep) + os.sep
    name = absolute[len(base) :] if absolute.startswith(base) else absolute
    if os.sep != "/":
        name = name.replace(os.sep, "/")
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file. Never waits for a FIFO or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        raise Unreadable(_reason(error)) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"cannot read the file: it is {_kind(status.st_mode)}, not a regular file")
        pieces = [os.read(descriptor, status.st_size + 1)]
        while len(pieces[-1]) > 0 and sum(map(len, pieces)) != status.st_size:
            pieces.append(os.read(descriptor, 1 << 20))
        return b"".join(pieces)
    except OSError as error:
        raise Unreadable(_reason(error)) from error
    finally:
        os.close(descriptor)


def digest_of_bytes(data: bytes) -> str:
    """What tells the bytes of a file from all others: ``digest_of_bytes(b"x")``."""
    from hashlib import sha256

    return sha256(data).hexdigest()


def decode(data: bytes) -> str:
    """The text of a Python file without its BOM; newlines stay as they are. Raises Unreadable."""
    for mark, encoding in _FOREIGN_MARKS:
        if data.startswith(mark):
            raise Unreadable(
                f"the file is encoded in {encoding}; Python source has to be UTF-8 or name its encoding"
            )
    if b"\0" in data:
        line, column = _place(data, data.index(b"\0"))
        raise Unreadable("the source contains a null byte", line, column)
    encoding = _encoding(data)
    body = data.removeprefix(_UTF_8_MARK)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line, column = _place(error.object, error.start)
        found = f"byte 0x{error.object[error.start]:02x}" if error.start < len(error.object) else "the end"
        raise Unreadable(
            f"cannot decode the file as {encoding}: {found} is invalid here ({error.reason}); "
            "a file in another encoding needs a coding line such as `# -*- coding: latin-1 -*-`",
            line,
            column,
        ) from error
    except Exception as error:  # a coding line may name any codec, and codecs raise what they like
        raise Unreadable(f"cannot decode the file as {encoding}: {error}") from error
    if encoding != "utf-8":
        _refuse_what_python_cannot_parse(text, encoding)
    return text


def lines_of(text: str) -> list[str]:
    """The lines of a source text without their ends, as Python counts them: unlike ``str.splitlines``, it
    does not begin a new line at a form feed or another separator."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def split_lines(text: str) -> list[str]:
    """The lines of a source text with their ends kept. Form feeds and the like end no line in Python."""
    lines: list[str] = []
    start = 0
    length = len(text)
    while start < length:
        line_feed = text.find("\n", start)
        carriage = text.find("\r", start, line_feed if line_feed >= 0 else length)
        if carriage >= 0 and carriage + 1 != line_feed:
            end = carriage + 1
        elif line_feed >= 0:
            end = line_feed + 1
        else:
            end = length
        lines.append(text[start:end])
        start = end
    return lines


def encoding_of(data: bytes) -> str:
    """The encoding in which Python reads these bytes; raises Unreadable if it is none."""
    return _encoding(data)


_UTF_8_MARK = b"\xef\xbb\xbf"
_FOREIGN_MARKS = (
    (b"\xff\xfe\0\0", "UTF-32"),
    (b"\0\0\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
FOREIGN_MARKS = tuple(mark for mark, _ in _FOREIGN_MARKS)
"""Byte order marks of the encodings that Python does not read source in."""


def _encoding(data: bytes) -> str:
    lines = data[:4096].splitlines(keepends=True)[:2]
    if not any(b"coding" in line for line in lines):
        return "utf-8"
    import tokenize

    remaining = iter(lines)
    try:
        encoding, _ = tokenize.detect_encoding(lambda: next(remaining, b""))
    except (SyntaxError, LookupError) as error:
        raise Unreadable(str(getattr(error, "msg", None) or error)) from error
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _refuse_what_python_cannot_parse(text: str, encoding: str) -> None:
    """Codecs such as utf-7 and unicode_escape can yield null characters and lone surrogates."""
    if "\0" in text:
        raise Unreadable(f"decoded as {encoding}, the source contains a null character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable(f"decoded as {encoding}, the source contains a lone surrogate") from error


def _place(data: bytes, offset: int) -> tuple[int, int]:
    before = data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].removeprefix(_UTF_8_MARK).decode("utf-8", "replace")) + 1
    return before.count(b"\n") + 1, column


def _reason(error: Exception) -> str:
    detail = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"cannot read the file: {detail}"


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"
