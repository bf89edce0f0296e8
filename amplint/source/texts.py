"""The text of a file, whatever holds it: Python source is decoded, of a notebook it is the code."""

# a Path for each of many thousand files costs more than reading them:
# ruff: noqa: PTH100

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from amplint.source.cells import is_notebook
from amplint.source.decoding import Unreadable, decode, digest_of_bytes, display_name, read_bytes


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A decoded file. ``path`` is absolute, ``display`` is what reports call it, and ``text`` has the
    newlines that the file has."""

    path: Path
    display: str
    text: str
    digest: str = ""
    """That of the bytes on the disk; empty for a text that comes from elsewhere."""
    flaws: tuple[Unreadable, ...] = ()
    """What of it cannot be read although the rest can: cells of a notebook."""


def text_of(data: bytes, path: str | os.PathLike[str]) -> str:
    """The text of a file of this name that has these bytes. Raises Unreadable."""
    if is_notebook(path):
        from amplint.source.notebooks import read_notebook

        return read_notebook(data).text
    return decode(data)


def code_in(data: bytes, path: str | os.PathLike[str]) -> bytes:
    """The bytes in which words of code are to be looked for: those of the file, of a notebook only its code; none of
    one that cannot be read."""
    if not is_notebook(path):
        return data
    try:
        return text_of(data, path).encode("utf-8", "surrogatepass")
    except Unreadable:
        return b""


def source_of(path: str | os.PathLike[str], display: str, data: bytes, *, digest: str = "") -> SourceFile:
    """The file of this name that has these bytes. Raises Unreadable."""
    text = text_of(data, path)
    flaws: tuple[Unreadable, ...] = ()
    if is_notebook(path):
        from amplint.source.notebooks import read_notebook

        flaws = read_notebook(data).flaws
    return SourceFile(Path(os.path.abspath(path)), display, text, digest, flaws)


def read_source(path: str | os.PathLike[str], display: str | None = None) -> SourceFile:
    """Read and decode a file; raises Unreadable."""
    data = read_bytes(path)
    name = display_name(path) if display is None else display
    return source_of(path, name, data, digest=digest_of_bytes(data))
