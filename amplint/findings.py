"""What every room speaks of in the end: findings, their places and their weight."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Level(str, Enum):
    """How bad a finding is. Error: raises, or silently gives wrong numbers. Warning: wrong under a
    condition that the message names. Advice: style, cost or deprecation, or wrong only with numbers that may never
    occur or under a caller that nobody has seen."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"

    @property
    def rank(self) -> int:
        """Sorting key: 0 for errors, 1 for warnings, 2 for advice."""
        return ("error", "warning", "advice").index(self.value)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of source text. Lines and columns count from 1, columns in code points; the end column is
    the first one after the text."""

    line: int
    column: int
    end_line: int
    end_column: int

    def holds(self, other: Span) -> bool:
        """Whether another stretch lies within this one."""
        begins = (self.line, self.column) <= (other.line, other.column)
        return begins and (other.end_line, other.end_column) <= (self.end_line, self.end_column)


@dataclass(frozen=True, slots=True)
class TrailStep:
    """One station on the way to a finding, such as the line where the region opens."""

    path: str
    span: Span
    message: str


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """One replacement: the characters from ``start`` up to ``end`` of a file's decoded text give way to
    ``text``. Offsets count code points of the text as ``SourceFile`` has it: without a byte order mark, with
    the line ends that are in the file."""

    path: str
    start: int
    end: int
    text: str


class Claim(NamedTuple):
    """Lines that a fix takes for itself, counted from 1, both included: whole statements. No other fix
    touches them in the same round."""

    path: str
    first: int
    last: int


class Reworded(NamedTuple):
    """A comment that a fix changes on purpose. ``after`` is empty where nothing of it is left."""

    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that amplint can make. ``applicability`` is "safe" or "unsafe", ``title`` says what the change
    is, and ``note`` why it is unsafe. The edits lie apart from each other. ``bases`` tells the texts that they
    speak of: for each path what ``digest_of`` says of its text."""

    applicability: str
    title: str
    edits: tuple[Edit, ...] = ()
    claims: tuple[Claim, ...] = ()
    note: str = ""
    minimum: Fix | None = None
    """The safe fix that is made instead where unsafe ones are not wanted, if there is one."""
    bases: tuple[tuple[str, str], ...] = ()
    comments: tuple[Reworded, ...] = ()
    """The comments that it is about; all others it keeps."""
    brings: frozenset[str] = frozenset()
    """The rules that may speak of what it writes: it writes as the code beside it does, of which they speak."""

    @property
    def is_safe(self) -> bool:
        """Whether the change keeps all that the program does, but for what the finding is about."""
        return self.applicability == "safe"

    def chosen(self, unsafe: bool) -> Fix | None:
        """What is made of it, with unsafe fixes or without them."""
        fix = self if unsafe or self.is_safe else self.minimum
        return fix if fix is not None and fix.edits else None


def digest_of(text: str) -> str:
    """What tells a text from every other."""
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Assumed(str, Enum):
    """What kind of thing is assumed, beside what the text says, where a finding is made."""

    FLAG = "flag"
    """A setting is on: ``torch.autocast("cuda", enabled=args.amp)``."""
    TORCH = "torch"
    """A release of torch, among those that the project allows."""
    LIKELY = "likely"
    """A module out of sight returns the type that the region runs matrix products in."""
    TYPE = "type"
    """A region whose type is not known runs in float16."""
    REACHES = "reaches"
    """A call by name of a method, on an object that is not known, gets here, or that of a model that is not known."""
    VALUES = "values"
    """Numbers occur that are large, or close to each other: ``(h * h).mean()`` overflows beyond 255."""
    CALLER = "caller"
    """A caller out of sight runs under autocast, as a region that switches it off inside says."""
    CUT = "cut"
    """What was too much to follow, or to remember, on the way changes nothing."""

    @property
    def is_sure(self) -> bool:
        """Whether settings or documentation say so."""
        return self in (Assumed.FLAG, Assumed.TORCH)

    @property
    def is_guess(self) -> bool:
        """Whether nothing says so, not even the code."""
        return not self.is_sure and self not in (Assumed.CALLER, Assumed.CUT)

    @property
    def costs(self) -> Level:
        """The worst level of a finding that assumes it."""
        if self.is_sure:
            return Level.ERROR
        return Level.ADVICE if self in (Assumed.VALUES, Assumed.CALLER) else Level.WARNING


@dataclass(frozen=True, slots=True)
class Assumption:
    """One thing that a finding rests on beside the text, as a clause: "if the flag of the region on line 3 is set". The
    message of a finding has the clause of a guess in it."""

    kind: Assumed
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim about one place in somebody's code.

    ``message`` says in one short line what is wrong there, ``why`` what comes of it when the program runs, and ``help``
    what to write instead; both are whole sentences, or empty. ``path`` is relative to the working directory, with
    forward slashes. ``fingerprint`` stays the same while the rule, the path and the code of the line stay the same
    (``identity.py``); ``line`` is that code, ``number`` how many findings before it agree in them. ``fix_note`` says
    why there is no fix where a reader would expect one, or why it was not made; ``assumes`` what has to hold beside
    what the text says.
    """

    code: str
    name: str
    level: Level
    message: str
    path: str
    span: Span
    trail: tuple[TrailStep, ...] = ()
    fix: Fix | None = None
    fingerprint: str = ""
    fix_note: str = ""
    assumes: tuple[Assumption, ...] = ()
    why: str = ""
    help: str = ""
    line: str = ""
    number: int = 0

    @property
    def order(self) -> tuple[str, Span, str]:
        """Findings are listed by file, then place, then code."""
        return (self.path, self.span, self.code)

    @property
    def text(self) -> str:
        """All that it says as one text: message, why and help."""
        more = [part for part in (self.why, self.help) if part]
        return " ".join([f"{self.message}.", *more]) if more else self.message


@dataclass(frozen=True, slots=True)
class Crash:
    """Something failed over a file: a bug of ours. ``rule`` is empty where no rule was at work."""

    path: str
    rule: str
    reason: str
    traceback: str = ""

    @classmethod
    def of(cls, path: str, rule: str, error: Exception) -> Crash:
        """The crash that an exception means."""
        import traceback

        summary = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        details = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-30))
        return cls(path, rule, summary, details)
