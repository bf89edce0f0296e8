"""What tells a finding from all others in a report: its rule, its path, the code of its line, and how many there are
before it that agree in all of these. So it stays the same when lines are added above, and when blanks or comments
change."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from amplint.findings import Finding

Key = tuple[str, str, str, int]
"""Code, path, code of the line without blanks, and the number of others before it."""

_SIGNS = re.compile(r"""\\.|['"#]""")
"""What has a say in where a comment begins."""


def code_of_line(line: str) -> str:
    """The code of a line with single blanks: ``code_of_line("  x =  1  # one")`` is ``"x = 1"``. Of a line that is a
    comment, the comment."""
    code = line[: _comment(line)].split()
    return " ".join(code or line.split())


def _comment(line: str) -> int | None:
    """Where the comment of a line begins, as far as the line alone tells."""
    quote = ""
    for sign in _SIGNS.finditer(line):
        if sign.group() == quote:
            quote = ""
        elif not quote and sign.group() == "#":
            return sign.start()
        elif not quote and sign.group() in "'\"":
            quote = sign.group()
    return None


def key_of(code: str, path: str, line: str, number: int) -> Key:
    """What tells a finding on a line of this code, with ``number`` such ones before it, from all others."""
    return code, path, "".join(line.split()), number


def fingerprint(code: str, path: str, line: str, number: int) -> str:
    """The key as 32 characters."""
    from hashlib import sha256

    parts = key_of(code, path, line, number)
    return sha256("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def identified(findings: Iterable[Finding], lines: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Findings, in the order of their places, with what tells them apart. ``lines`` are those of the files, by path;
    a file without any cannot be read."""
    seen: Counter[Key] = Counter()
    marked = []
    for finding in findings:
        source, number = lines.get(finding.path, ()), finding.span.line
        line = code_of_line(source[number - 1]) if 0 < number <= len(source) else ""
        key = key_of(finding.code, finding.path, line, 0)
        nth = seen[key]
        seen[key] += 1
        made = fingerprint(finding.code, finding.path, line, nth)
        marked.append(replace(finding, fingerprint=made, line=line, number=nth))
    return marked
