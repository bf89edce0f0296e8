"""Which files without a token of their own take part in AMP: those that use what files with tokens define."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DEFINITION = re.compile(rb"^(?:async\s+)?def\s+(\w+)", re.MULTILINE)
_METHOD = re.compile(rb"^[ \t]+def\s+(\w+)\(", re.MULTILINE)
_DEFINES = re.compile(rb"\Adef\s")
_RETURNS = re.compile(rb"return\s")
_TOUCHES = re.compile(rb"autocast|GradScaler|\.half\(")
_CALLED = re.compile(rb" (\w+)\(")
_KEPT = re.compile(rb"^(\w+)\s*(?::[^=\n]+)?=[^=\n][^\n]*(?:autocast|GradScaler)", re.MULTILINE)
_CLASS = re.compile(rb"^class\s+(\w+)", re.MULTILINE)
_UNTELLING = frozenset({b"main"})

_FIRST_LINES = 26
"""So far into a method a context that it returns is looked for."""

MOST_FILES = 600
"""Above so many other files only contexts are looked for: the search for every function costs too much, and
packages of that size are no training scripts."""


def second_gate(gated: Iterable[tuple[tuple[str, ...], bytes]], others: int) -> Sequence[tuple[bytes, ...]]:
    """Rows of tokens as for the gate: for each function of a file that touches AMP, its name and the name of
    its module; for each method that returns an autocast context, its name. ``gated`` are the names by which
    the files that passed may be imported (their own, their package's) and their bytes; ``others`` counts the
    files that did not pass."""
    rows: set[tuple[bytes, ...]] = set()
    for stems, data in gated:
        if _TOUCHES.search(data) is None:
            continue
        rows.update((name,) for name in _methods_with_context(data) if len(name) > 4)
        bodies = _bodies(data)
        touching = (
            _touching(bodies)
            if others <= MOST_FILES
            else {name for name, body in bodies.items() if _makes_context(body)}
        )
        for module in stems:
            word = module.encode("utf-8", "surrogateescape")
            rows.update((word, name, b"import") for name in touching - _UNTELLING)
    return sorted(rows)


def names_that_touch(data: bytes) -> set[bytes]:
    """The names of a module that stand for AMP: functions that touch it or call one that does, contexts that
    are kept in a name, classes that enter a region."""
    if _TOUCHES.search(data) is None:
        return set()
    found = _touching(_bodies(data)) | set(_KEPT.findall(data))
    classes = list(_CLASS.finditer(data))
    ends = [*(following.start() for following in classes[1:]), len(data)][: len(classes)]
    for part, end in zip(classes, ends, strict=True):
        body = data[part.start() : end]
        if b"__enter__" in body and b"autocast" in body:
            found.add(part.group(1))
    return found


_EFFECTS = re.compile(rb"autocast|GradScaler|backward\(|\.half\(|\.step\(|torch\.optim|\boptim\.")
_TOP = re.compile(rb"^(?:(?:async\s+)?def|class)\s+(\w+)", re.MULTILINE)


def names_with_effects(data: bytes) -> set[bytes]:
    """The functions and classes of a module whose text, or that of one they call, trains or touches AMP, and
    the names that keep a context or scaler."""
    if _EFFECTS.search(data) is None:
        return set()
    found = list(_TOP.finditer(data))
    ends = [*(following.start() for following in found[1:]), len(data)][: len(found)]
    bodies = {part.group(1): data[part.start() : end] for part, end in zip(found, ends, strict=True)}
    names = {name for name, body in bodies.items() if _EFFECTS.search(body)}
    callers = {name for name, body in bodies.items() if any(called + b"(" in body for called in names)}
    return names | callers | set(_KEPT.findall(data))


def _bodies(data: bytes) -> dict[bytes, bytes]:
    """The functions of a module with their text."""
    found = list(_DEFINITION.finditer(data))
    ends = [*(following.start() for following in found[1:]), len(data)][: len(found)]
    return {part.group(1): data[part.start() : end] for part, end in zip(found, ends, strict=True)}


def _touching(bodies: dict[bytes, bytes]) -> set[bytes]:
    """The functions that touch AMP, and those that call one of them."""
    touching = {name for name, body in bodies.items() if _TOUCHES.search(body)}
    callers = {name for name, body in bodies.items() if not touching.isdisjoint(_CALLED.findall(body))}
    return touching | callers


def _methods_with_context(data: bytes) -> set[bytes]:
    """The methods that return an autocast context near their beginning."""
    found: set[bytes] = set()
    closed = -1
    returns = False
    for method in _METHOD.finditer(data):
        if closed < method.end():  # else it is the same bracket that closes the parameters, as in broken code
            closed = data.find(b")", method.end())
            if closed < 0:
                break
            returns = _returns_context(data, closed + 1)
        if returns:
            found.add(method.group(1))
    return found


def _returns_context(data: bytes, start: int) -> bool:
    """Whether a method whose parameters end at ``start`` returns an autocast context before another one begins."""
    end = data.find(b"\n", start)
    head = data[start:end].removesuffix(b"\r")
    if end < 0 or not head.endswith(b":") or b":" in head[:-1]:
        return False
    for _ in range(_FIRST_LINES):
        start, end = end + 1, data.find(b"\n", end + 1)
        line = data[start : end if end >= 0 else len(data)]
        told = line.lstrip(b" \t")
        if told != line and _RETURNS.match(told) and b"autocast(" in told:
            return True
        if end < 0 or _DEFINES.match(told):
            return False
    return False


def _makes_context(body: bytes) -> bool:
    """Whether a function returns an autocast context, or yields in one."""
    opened = False
    for line in body.split(b"\n"):
        told = line.strip()
        if opened and told.startswith(b"yield"):
            return True
        returned = _RETURNS.search(line)
        if returned is not None and line.find(b"autocast", returned.end()) >= 0:
            return True
        opened = (opened and not told) or (b"autocast" in line and line.removesuffix(b"\r").endswith(b":"))
    return False


_RAISES = re.compile(rb"\bBCELoss\(|\bbinary_cross_entropy\(")
_SUFFERS = re.compile(
    rb"\bBCELoss\(|\bbinary_cross_entropy\(|linalg\.|\.inverse\(|\bfft\.|quantile\("
    rb"|1e-(?:[89]|\d\d)|[-+]\s*2(?:\.0?)?\s*\*|\*\*\s*2\b[^#\n]*\*\*\s*2\b"
)
_FILLS = re.compile(rb"fill_?\(([^#\n]*)")
_LARGE = re.compile(rb"\de\+?\d")


def may_raise(data: bytes) -> bool:
    """Whether a text has something that raises in any region for CUDA."""
    return _RAISES.search(data) is not None


def defines(data: bytes, names: Iterable[str]) -> list[str]:
    """Those of the methods that a file defines."""
    return [name for name in names if b"def %b(self" % name.encode() in data]


def may_suffer(data: bytes) -> bool:
    """Whether a text has something that half precision may harm whatever the caller hands in."""
    return _SUFFERS.search(data) is not None or any(map(_LARGE.search, _FILLS.findall(data)))
