"""No pattern that sees a user's text takes more than linear time.

Each compiled pattern of the package is fed with what is worst for it: runs of the characters that it speaks of, and
what it looks for, again and again, but never quite. The measure is relative: how the processor's time grows with the
text.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pytest

from amplint.amp.gate import GATE
from amplint.requirements import _requirement, bounds_of_setting
from amplint.source.gate import has_words
from amplint.source.suppressions import insertions, read_suppressions

parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

PACKAGE = Path(__file__).parents[1] / "amplint"

PROGRAMS = ("amplint.__main__", "amplint.confirm.launch")
"""Modules that cannot be imported without running them."""

SIZES = ((300, 1_200), (2_500, 10_000), (25_000, 100_000))
"""Of small and large texts, in characters; the shorter ones first, so that what fails does not take minutes."""
MOST_GROWTH = 8.0
"""Linear time grows by 4 from the small text to the large one, quadratic time by 16."""
NOTICEABLE = 0.05
"""Seconds of the processor's time below which growth is noise."""

T = TypeVar("T")
Apply = Callable[[str], object]
"""Something that is done with a text."""


# what is measured ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A text of any size: how it starts, what comes again and again, how it ends."""

    start: str
    unit: str
    end: str = ""

    def of_size(self, size: int) -> str:
        """The text with about so many characters."""
        return self.start + self.unit * (size // len(self.unit)) + self.end


def too_slow(apply: Apply, shapes: Iterable[Shape]) -> list[Shape]:
    """The first of the shapes for which the time grows faster than the text. Short texts of all of them come first,
    since what fails for a longer one takes its time."""
    every = list(shapes)
    ways: list[Callable[[Apply, Shape], bool]] = [_explodes]
    ways += [partial(_grows, small=small, large=large) for small, large in SIZES]
    return next(([shape] for way in ways for shape in every if way(apply, shape)), [])


def _explodes(apply: Apply, shape: Shape) -> bool:
    """Whether a few units already take their time: what takes exponential time would never be done with more."""
    texts = (shape.of_size(count * len(shape.unit)) for count in range(8, 42, 2))
    return any(all(_seconds(apply, text) > NOTICEABLE for _ in range(3)) for text in texts)


def _grows(apply: Apply, shape: Shape, small: int, large: int) -> bool:
    before = _seconds(apply, shape.of_size(small))
    if before * (large / small) ** 2.5 < NOTICEABLE:
        return (
            False  # even quadratic time for the large text would be noise; cubic time shows in shorter ones
        )
    after = _seconds(apply, shape.of_size(large))
    for _ in range(6 if after < 4 * NOTICEABLE else 2):
        if after < NOTICEABLE or after < MOST_GROWTH * before:
            return False
        # noise only ever adds to the time: the least of several is the truest
        before = min(before, _seconds(apply, shape.of_size(small)))
        if after < 100 * NOTICEABLE:
            after = min(after, _seconds(apply, shape.of_size(large)))
    return True


def _seconds(apply: Apply, text: str) -> float:
    collecting = gc.isenabled()
    gc.disable()  # how long that takes depends on all that there is
    try:
        start = time.process_time()
        apply(text)
        return time.process_time() - start
    finally:
        if collecting:
            gc.enable()


def searching(pattern: re.Pattern[Any]) -> Apply:
    """All searches for a pattern in a text."""

    def search(text: str) -> None:
        data: Any = text.encode() if isinstance(pattern.pattern, bytes) else text
        for _ in pattern.finditer(data):
            pass
        pattern.fullmatch(data)

    return search


# what is worst for a pattern ----------------------------------------------------------------------------------

CANDIDATES = "x1_ \n\t.(),:=#!-*+/\"'[]{}@<>~\x00"
"""Characters of all kinds, by which classes are told apart."""
MOST_SAMPLES = 8
"""How many texts stand for all those that a piece of a pattern matches."""
MOST_LOOPS = 60


@dataclass
class Samples:
    """Texts by which a piece of a pattern shows itself."""

    whole: list[str] = field(default_factory=lambda: [""])
    """Some that it matches as far as that can be said of a piece."""
    beginnings: set[str] = field(default_factory=set)
    """What such a text may have matched so far, anywhere on the way."""
    loops: set[tuple[str, str]] = field(default_factory=set)
    """Where something is repeated: what comes before, and what is repeated."""

    def then(self, other: Samples) -> Samples:
        """This piece with another one behind it."""
        return Samples(
            _spread(f"{first}{second}" for first, second in product(self.whole, other.whole)),
            self.beginnings | {f"{first}{second}" for first in self.whole for second in other.beginnings},
            self.loops | {(f"{first}{start}", body) for first in self.whole for start, body in other.loops},
        )

    def either(self, other: Samples) -> Samples:
        """This piece or another one."""
        return Samples(
            _spread([*self.whole, *other.whole]),
            self.beginnings | other.beginnings,
            self.loops | other.loops,
        )


def _spread(things: Iterable[T], most: int = MOST_SAMPLES) -> list[T]:
    """Some of the things, from all over."""
    found = list(dict.fromkeys(things))
    return found[:: max(1, -(-len(found) // most))]


def samples_of(tree: Any) -> Samples:
    """Those of a sequence, as the parser of ``re`` gives it."""
    samples = Samples()
    for operation, details in tree:
        samples = samples.then(_samples_of_part(str(operation), details))
    return samples


def _samples_of_part(operation: str, details: Any) -> Samples:
    match operation:
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
            found = _members(operation, details)
            return Samples(found, set(found))
        case "BRANCH":
            branches = [samples_of(branch) for branch in details[1]]
            samples = branches[0]
            for branch in branches[1:]:
                samples = samples.either(branch)
            return samples
        case "SUBPATTERN":
            return samples_of(details[-1])
        case "ATOMIC_GROUP":
            return samples_of(details)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, _, repeated = details
            samples = samples_of(repeated)
            samples.loops |= {("", body) for body in samples.whole if body}
            samples.whole = _spread(body * max(least, 1) for body in samples.whole)
            return samples if least else Samples().either(samples)
    return Samples()  # nothing of its own: a place, a look ahead, what a group had


def _members(operation: str, details: Any) -> list[str]:
    """Some characters that a class matches."""
    match operation:
        case "LITERAL":
            return [chr(details)]
        case "NOT_LITERAL":
            return [next(character for character in CANDIDATES if character != chr(details))]
        case "ANY":
            return ["x"]
    negated = any(str(kind) == "NEGATE" for kind, _ in details)
    spelt = [chr(value) for kind, value in details if str(kind) == "LITERAL"]
    ranges = [(value[0], value[1]) for kind, value in details if str(kind) == "RANGE"]
    spelt += [chr(first) for first, _ in ranges]
    kinds = [str(value) for kind, value in details if str(kind) == "CATEGORY"]

    def is_meant(character: str) -> bool:
        inside = any(first <= ord(character) <= last for first, last in ranges)
        return inside or character in spelt or any(_is_of(character, kind) for kind in kinds)

    if negated:
        return [character for character in CANDIDATES if not is_meant(character)][:4]
    return list(dict.fromkeys([*spelt, *filter(is_meant, CANDIDATES)]))[:6]


def _is_of(character: str, kind: str) -> bool:
    name = kind.rpartition("CATEGORY_")[2]
    negated = name.startswith("NOT_")
    match name.removeprefix("NOT_"):
        case "SPACE":
            found = character.isspace()
        case "DIGIT":
            found = character.isdecimal()
        case _:
            found = character.isalnum() or character == "_"
    return found is not negated


def worst_for(pattern: re.Pattern[Any]) -> Iterator[Shape]:
    """Texts that are bad for a pattern: runs of characters; what it matches so far, again and again; that, and then
    a run of a character or of what it repeats. All with something behind that it does not expect."""
    source = pattern.pattern
    if isinstance(source, bytes):
        source = source.decode("latin-1")
    samples = samples_of(parser.parse(source, pattern.flags & ~re.UNICODE))
    beginnings = sorted(samples.beginnings)
    marks = sorted({part for text in beginnings for part in text if not part.isalnum()} - {" ", "\n"})
    characters = [" ", "\n", "x", "1", *_spread(marks, 6)]
    shapes = [Shape("", character) for character in characters]
    shapes += [Shape("", "".join(pair)) for pair in product(characters, repeat=2)]
    shapes += [Shape("", beginning) for beginning in beginnings]
    for beginning in _spread(beginnings):
        shapes += [Shape("", f"{beginning}{character}") for character in characters]
        shapes += [Shape(beginning, character) for character in characters]
    shapes += [Shape(start, body) for start, body in _spread(sorted(samples.loops), MOST_LOOPS)]
    for shape in dict.fromkeys(shapes):
        yield Shape(shape.start, shape.unit, "\x00")


# the patterns of the package ----------------------------------------------------------------------------------


def _modules() -> Iterator[str]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in PROGRAMS:
            yield name


def _patterns_in(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The patterns that a value is or holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from _patterns_in(part, depth + 1)
    elif depth < 3 and isinstance(value, dict):
        yield from _patterns_in((*value.keys(), *value.values()), depth)
    elif depth < 3 and isinstance(value, type) and value.__module__.startswith("amplint"):
        yield from _patterns_in(tuple(vars(value).values()), depth + 1)


def _patterns() -> dict[str, re.Pattern[Any]]:
    """All patterns, by where they are first found."""
    found: dict[re.Pattern[Any], str] = {}
    for module in _modules():
        try:
            things = vars(import_module(module))
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            continue
        for name, value in things.items():
            for pattern in _patterns_in(value):
                found.setdefault(pattern, f"{module}.{name}")
    return {f"{name}: {pattern.pattern!r}"[:80]: pattern for pattern, name in found.items()}


PATTERNS = _patterns()


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
def test_a_pattern_takes_linear_time(pattern: re.Pattern[Any]) -> None:
    assert too_slow(searching(pattern), worst_for(pattern)) == []


def test_no_pattern_is_out_of_sight() -> None:
    """What is written out inside a function is compiled by ``re`` itself, where nobody finds it."""
    hidden = []
    for name in _modules():
        module = import_module(name)
        tree = ast.parse(Path(module.__file__ or "").read_bytes())
        for function in ast.walk(tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                hidden += [f"{name}.{function.name}" for node in ast.walk(function) if _is_hidden(node)]
    assert hidden == []


def _is_hidden(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=act), args=[ast.Constant(), *_]):
            return act != "escape"
    return False


# code instead of patterns -------------------------------------------------------------------------------------


def _in_bytes(act: Callable[[bytes], object]) -> Apply:
    return lambda text: act(text.encode())


WORDS = (
    "autocast",
    "GradScaler",
    "return ",
    "yield",
    "def f(",
    " def f(",
    "    ",
    "\n",
    ":\n",
    ")",
    "f(",
    "=",
    "#",
)
NUMBERS = ("torch", "1", ".", ".*", "!a", ">=", ",", " ", "[", "(", ")", ";", "v", "*")
COMMENTS = (
    "# amplint: ignore",
    "# amplint: ignore[",
    "# noqa",
    "# noqa: ",
    "A1 ",
    "a",
    ",",
    "[",
    "]",
    " ",
    "#",
    ":",
)
CODE: dict[str, tuple[Apply, Sequence[str]]] = {
    "has_words": (_in_bytes(lambda data: has_words(data, GATE)), WORDS),
    "requirement": (lambda text: list(_requirement(f"torch{text}")), NUMBERS),
    "torch-version": (bounds_of_setting, NUMBERS),
    "read_suppressions": (lambda text: read_suppressions(f"x = 1  # amplint: {text}\n"), COMMENTS),
    "insertions": (lambda text: insertions(f"x = 1  # amplint: {text}\n", [(1, "a")]), COMMENTS),
}
"""What reads a text without a pattern, or with several, and pieces of what it looks for."""


@pytest.mark.parametrize(("apply", "pieces"), CODE.values(), ids=CODE.keys())
def test_code_that_reads_a_text_takes_linear_time(apply: Apply, pieces: Sequence[str]) -> None:
    shapes = [Shape("", piece, "\x00") for piece in pieces]
    shapes += [Shape("", "".join(pair), "!") for pair in product(pieces, repeat=2)]
    shapes += [Shape(start, unit, "!") for start, unit in product(pieces, repeat=2)]
    assert too_slow(apply, shapes) == []


# whether it would be seen -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        r"torch\w*\d",
        r"(?m)^\s*[\w.]+\.float\(\)",
        r"[\w.]+\s*=\s*GradScaler",
        r"from[ \t]+(\.*[\w.]*)[ \t]+import",
        r"import[ \t]*(\([^)]*\)|[^\n(]*)",
        r"#\s*amplint:\s*ignore\s*(?:\[[^\]]*\])?",
        r"(?:[<>=!~]=?=?\s*[\w.*+!-]+\s*,?\s*)*$",
        r"\d+(?:\.\d+)?[\w.]*$",
        r"def\s+(\w+)\([^)]*\)[^:\n]*:\n",
        r"return\s[^\n]*autocast",
        r"(?:a+)+b",
        r"\s+$",
    ],
)
def test_patterns_that_take_longer_are_found(source: str) -> None:
    pattern = re.compile(source)
    assert too_slow(searching(pattern), worst_for(pattern)) != []


def test_time_that_grows_with_the_text_is_no_failure() -> None:
    shapes = [Shape("", "ab")]
    assert too_slow(lambda text: [text.count(letter) for letter in text[:3000]], shapes) == []
    assert too_slow(lambda text: [text.count(letter) for letter in text[::10]], shapes) == shapes
