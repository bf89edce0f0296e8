"""What IPython understands and Python does not: magics, shell commands and questions in the source of a cell.

IPython takes a cell that begins with ``%%name`` for the argument of that magic. Else a logical line that begins with
one of ``! ? % , ; /`` is a command up to its end, backslashes at the ends of lines included, and so is what stands
behind the ``=`` of ``files = !ls`` and ``value = %magic``; a line that ends with ``?`` asks for help. No line of Python
can be one of these. (``IPython.core.inputtransformer2``, IPython 9.)
"""

from __future__ import annotations

import ast
import keyword
import re
import warnings
from collections.abc import Generator, Iterator

from amplint.source.cells import hidden, marked
from amplint.source.decoding import Unreadable

PYTHON_BODIES = frozenset({"capture", "debug", "prun", "time", "timeit", "memit", "snakeviz", "wandb"})
"""The cell magics that run their body as Python among the names of the notebook: those of IPython 9
(``IPython/core/magics/``), of memory_profiler, snakeviz and wandb. Others may do with it what they like."""

_CELL_MAGIC = re.compile(r"%%(\w+)([^\r\n]*)")
_COMMANDS = tuple("!?%,;/")
_BLANKS = re.compile(r"[ \t\f]*")
_CONTINUED = re.compile(r"(?:[^\r\n]*\\(?:\r\n|\r|\n))*[^\r\n]*")
_TOKEN = re.compile(
    r"""(?P<string>'''(?:\\.|(?!''').)*(?:'''|\Z)|\"\"\"(?:\\.|(?!\"\"\").)*(?:\"\"\"|\Z)"""
    r"""|'(?:\\(?:\r\n|.)|[^'\\\r\n])*'?|"(?:\\(?:\r\n|.)|[^"\\\r\n])*"?)"""
    r"""|(?P<comment>\#[^\r\n]*)|(?P<joined>\\(?:\r\n|\r|\n))|(?P<end>\r\n|\r|\n)"""
    r"""|(?P<assigned>(?<![=!<>])=[ \t]*(?=!|%[^\W\d]))|(?P<opened>[(\[{])|(?P<closed>[)\]}])|(?P<other>.)""",
    re.DOTALL,
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_AUTOMAGIC = re.compile(r"\b([A-Za-z_]\w*)[ \t]+[\w./~$\"'-][^\r\n]*")


def python_of(source: str) -> str | None:
    """The source of a cell as Python, line for line; None for one that holds something else. Raises Unreadable, with
    the place in the cell, for one that neither Python nor IPython can parse."""
    pieces, at = [], 0
    while (found := _cell_magic(source, at)) is not None:
        if found[1] not in PYTHON_BODIES:
            return None
        pieces += [source[at : found.start()], hidden(found[0])]
        at = found.end()
    head, body = "".join(pieces), source[at:]
    if _flaw(head + body) is None:
        return head + body
    changed = head + "".join(_without_commands(body))
    wrong = _flaw(changed)
    if wrong is None:
        return changed
    word = _AUTOMAGIC.fullmatch(source.strip())
    if word is None or keyword.iskeyword(word[1]):
        raise wrong
    # IPython takes a line such as `pip install torch` for a magic
    return source.replace(word[0], hidden(word[0]), 1)


def _flaw(source: str) -> Unreadable | None:
    """Why Python cannot parse a cell, if it cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(marked(1, source))
    except SyntaxError as error:
        said = (error.msg or "invalid syntax").partition(" (detected at line")[0]  # which counts the mark
        return Unreadable(said, max((error.lineno or 1) - 1, 1), max(error.offset or 1, 1))
    except ValueError as error:
        reason = "it contains a lone surrogate" if isinstance(error, UnicodeError) else str(error)
        return Unreadable(reason)
    except (MemoryError, RecursionError):
        return Unreadable("the code is nested too deeply to be parsed")
    return None


def _cell_magic(source: str, at: int) -> re.Match[str] | None:
    """The magic that the first line behind an offset names which is not blank, if it takes the rest of the cell."""
    start = len(source) - len(source[at:].lstrip())
    if start and source[start - 1] not in "\r\n":
        return None
    found = _CELL_MAGIC.match(source, start)
    return None if found is None or found[2].startswith("?") else found


def _without_commands(source: str) -> Iterator[str]:
    """The pieces of a source with each command and question hidden."""
    at = 0
    while at < len(source):
        blanks = _BLANKS.match(source, at)
        start = at if blanks is None else blanks.end()
        if source.startswith(_COMMANDS, start):
            end = _end_of_command(source, start)
            yield source[at:start]
            yield hidden(source[start:end])
        else:
            end = yield from _logical_line(source, at)
        at = end
        line_end = _LINE_END.match(source, at)
        if line_end is not None:
            yield line_end[0]
            at = line_end.end()


def _logical_line(source: str, start: int) -> Generator[str, None, int]:
    """The pieces of the logical line that begins at an offset, without its line end; returns where it ends."""
    depth, at, last = 0, start, ""
    while at < len(source):
        token = _TOKEN.match(source, at)
        assert token is not None
        kind = token.lastgroup
        if kind == "end" and not depth:
            break
        depth += (kind == "opened") - (kind == "closed" and depth > 0)
        at = token.end()
        if kind == "assigned" and not depth:
            end = _end_of_command(source, at)
            yield source[start:at]
            yield hidden(source[at:end])
            return end
        if not token[0].isspace():
            last = token[0]
    line = source[start:at]
    blank = len(line) - len(line.lstrip(" \t\f"))
    yield line if last != "?" else line[:blank] + hidden(line[blank:])
    return at


def _end_of_command(source: str, start: int) -> int:
    found = _CONTINUED.match(source, start)
    assert found is not None
    return found.end()
