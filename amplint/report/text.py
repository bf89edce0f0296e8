"""Text for people: escapes, widths and colours.

Nothing from a linted file reaches a terminal or a log as it is: control characters, characters that change
the direction of text and invisible ones are shown as escapes.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from amplint.catalog import catalog

if TYPE_CHECKING:
    from amplint.check import CheckResult
    from amplint.findings import Finding

_SHOWN_AS_ESCAPE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories: control, format (with bidirectional controls), surrogate, line and paragraph
separators."""

_COLORS = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "yellow": "1;33",
    "cyan": "1;36",
    "blue": "1;34",
    "green": "1;32",
}

LEVEL_COLORS = {"error": "red", "warning": "yellow", "advice": "cyan"}
"""Keyed by the value of a level: not to import ``Level`` keeps a run without findings quick."""


class Style(NamedTuple):
    """How to write: with colours or without, and wrapped to a width or not (0); ``quiet``: the findings and nothing
    else; ``all_fixes``: what each fix changes, however long that is; ``rules``: the address of the folder with the
    rules, whose files begin with their pages, for links to them, or empty."""

    color: bool = False
    width: int = 0
    quiet: bool = False
    all_fixes: bool = False
    rules: str = ""

    def paint(self, text: str, color: str) -> str:
        """The text in a colour, one of bold, dim, red, yellow, cyan, blue and green; "plain" is none."""
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m" if self.color and text and color != "plain" else text


def kind_of(finding: Finding) -> str:
    """``error[half-model]``."""
    return f"{finding.level.value}[{finding.name}]"


def painted_kind(finding: Finding, style: Style) -> str:
    """The same in the colour of its level and, where the terminal can, linked to the page of the rule
    (https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda)."""
    text = style.paint(kind_of(finding), LEVEL_COLORS[finding.level.value])
    module = next((row.module for row in catalog() if row.code == finding.code), "")
    if not style.rules or not module:
        return text
    return f"\x1b]8;;{style.rules}/{module}.py\x1b\\{text}\x1b]8;;\x1b\\"


def escaped(text: str) -> str:
    r"""The text in one line, with escapes such as ``\x1b`` for what must not reach a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(shown(character) for character in text)


def shown(character: str) -> str:
    """One character, or its escape."""
    if unicodedata.category(character) not in _SHOWN_AS_ESCAPE:
        return character
    number = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def width_of(character: str) -> int:
    """The columns that a terminal gives to a printable character: 0 if it combines, 2 if it is wide."""
    if character.isascii():
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, style: Style, indent: str) -> list[str]:
    """The text in lines that fit the terminal, all but the first one indented."""
    if not style.width:
        return [text]
    import textwrap

    lines = textwrap.wrap(
        text,
        max(style.width, 40),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [text]


def place_of(finding: Finding) -> str:
    """``path:line:column``, escaped."""
    return f"{escaped(finding.path)}:{finding.span.line}:{finding.span.column}"


def reasons(finding: Finding) -> list[str]:
    """A line that says what comes of a finding, if there is something to say."""
    return [f"why: {finding.why}"] if finding.why else []


def remedies(finding: Finding) -> list[str]:
    """Lines that say what to do about a finding: the fix, or in words, with why there is no fix."""
    if finding.fix is not None:
        return [f"help: {finding.fix.title}"]
    said = (("help", finding.help), ("no fix", finding.fix_note))
    return [f"{kind}: {text}" for kind, text in said if text]


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    plural = noun if noun == "advice" or number == 1 else noun + "s"
    return f"{number} {plural}"


def is_fixable(finding: Finding, unsafe: bool) -> bool:
    """Whether a finding would be fixed, with the unsafe fixes or without."""
    return finding.fix is not None and finding.fix.chosen(unsafe) is not None


def fixable_summary(findings: tuple[Finding, ...], unsafe: bool) -> str:
    """A line about what can be fixed, such as "2 can be fixed with `--fix`, 1 more with `--unsafe-fixes`.";
    empty if nothing can be."""
    now = sum(is_fixable(finding, unsafe) for finding in findings)
    all_in_all = sum(is_fixable(finding, True) for finding in findings)
    option = "`--fix --unsafe-fixes`" if unsafe else "`--fix`"
    if now == 0:
        return f"{all_in_all} can be fixed with `--fix --unsafe-fixes`." if all_in_all else ""
    more = f", {all_in_all - now} more with `--unsafe-fixes`" if all_in_all > now else ""
    return f"{now} can be fixed with {option}{more}."


def in_lines(parts: Iterable[str]) -> str:
    """Each part on a line of its own; nothing if there are none."""
    return "".join(f"{part}\n" for part in parts)


def ending(result: CheckResult, style: Style, mark: str = "") -> list[str]:
    """The last lines of a report: what was fixed, what there is, what can be fixed, with the mark that such
    findings have. A quiet report ends with the files that were left alone."""
    if style.quiet:
        return left_alone(result)
    good = not result.findings and not result.skipped
    last = style.paint(summary(result), "green" if good else "bold")
    fixable = fixable_summary(result.findings, result.unsafe_fixes)
    return [
        *([result.done] if result.done else []),
        *left_alone(result),
        last,
        *([mark + fixable] if fixable else []),
        *baselined(result),
    ]


def baselined(result: CheckResult) -> list[str]:
    """Lines about the baseline: how many findings are in it, and how many of its entries are stale."""
    known, stale = len(result.known), result.stale
    lines = [f"{counted(known, 'finding')} in the baseline."] if known else []
    if stale:
        entries, them = (
            ("entry of the baseline is", "it") if stale == 1 else ("entries of the baseline are", "them")
        )
        lines.append(f"{stale} {entries} found no more: `amplint baseline --prune` takes {them} out.")
    return lines


def left_alone(result: CheckResult) -> list[str]:
    """A line for each file that was to be fixed and is left as it is."""
    return [
        f"{escaped(name)} is left as it is: {escaped(reason)}."
        for name, reason in sorted(result.skipped.items())
    ]


def summary(result: CheckResult) -> str:
    """The line of a report that counts the findings."""
    findings, checked = result.findings, result.checked
    if not findings and not checked:
        return "Nothing to check: no Python files."
    if not findings:
        good = f"{counted(len(result.skipped), 'file')} left alone" if result.skipped else "All good"
        new = "new " if result.known else ""
        return f"{good}: no {new}findings; checked {counted(checked, 'file')}."
    levels = Counter(finding.level.value for finding in findings)
    weights = ", ".join(counted(levels[level], level) for level in LEVEL_COLORS if levels[level])
    files = len({finding.path for finding in findings})
    what = "new finding" if result.known else "finding"
    return (
        f"Found {counted(len(findings), what)} ({weights}) in {counted(files, 'file')}; "
        f"checked {counted(checked, 'file')}."
    )
