"""Which findings comments silence, and which comments silence nothing.

The fix of such a comment is made here, of the text: no other fix is about a comment, and it needs no builder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from amplint.catalog import UNUSED_SUPPRESSION, rule_names
from amplint.findings import Claim, Edit, Finding, Fix, Level, Reworded, Span, digest_of
from amplint.selectors import ALL, codes_of, selects, suggestion
from amplint.source.decoding import split_lines
from amplint.source.suppressions import NONE, Selector, Suppressions, read_suppressions, removal

Word = tuple[str, Span]
"""A word of a comment, by the path of its file and its place."""


@dataclass
class Silence:
    """The comments of the files that findings lie in. ``text_of`` gives the text of a file by its path, or
    None."""

    text_of: Callable[[str], str | None]
    used: set[Word] = field(default_factory=set)
    """What has silenced something so far."""
    _read: dict[str, Suppressions] = field(default_factory=dict)

    def of(self, path: str) -> Suppressions:
        """The comments of a file."""
        known = self._read.get(path)
        if known is None:
            text = self.text_of(path)
            known = self._read[path] = read_suppressions(text) if text is not None else NONE
        return known

    def covers(self, finding: Finding) -> bool:
        """Whether a finding is silenced. What silences it counts as used."""
        covering = self.of(finding.path).covering(finding.code, finding.name, finding.span.line)
        if (finding.code, finding.name) == UNUSED_SUPPRESSION:
            # a word cannot be the one that hides its own uselessness
            covering = [
                selector
                for selector in covering
                if selector.text.upper() != ALL and selector.span != finding.span
            ]
        self.used.update((finding.path, selector.span) for selector in covering)
        return bool(covering)

    def unused(self, paths: Iterable[str], ran: frozenset[str], *, fixable: bool = True) -> list[Finding]:
        """A finding for each word that has silenced nothing in these files, and for each that names no rule.
        ``ran`` are the codes of the rules that ran: of the others nobody knows. ``fixable``: fixes are wanted."""
        words = [(path, selector) for path in paths for selector in self.of(path).selectors if selector.ours]
        own = [
            word
            for word in words
            if selects((word[1].text,), *UNUSED_SUPPRESSION) and word[1].text.upper() != ALL
        ]
        found = [
            finding
            for path, selector in words
            if (path, selector) not in own and (finding := self._judge(path, selector, ran)) is not None
        ]
        for finding in found:
            self.covers(finding)  # a word for this rule is used if it hides one of these
        found += [
            finding for path, selector in own if (finding := self._judge(path, selector, ran)) is not None
        ]
        if not fixable:
            return found
        return [
            finding if finding.fix_note else replace(finding, fix=self._fix(finding)) for finding in found
        ]

    def _fix(self, finding: Finding) -> Fix | None:
        """Takes the word away that a finding is about. It is safe: a comment changes nothing that runs."""
        text = self.text_of(finding.path)
        found = removal(text, finding.span) if text is not None else None
        if text is None or found is None:
            return None
        path = finding.path
        first = len(split_lines(text[: found.start] + "x"))
        title = "Remove the word from the comment" if found.left else "Remove the comment"
        return Fix(
            "safe",
            title,
            (Edit(path, found.start, found.end, found.left),),
            (Claim(path, first, finding.span.line),),
            bases=((path, digest_of(text)),),
            comments=(Reworded(path, found.comment, found.left),),
        )

    def _judge(self, path: str, selector: Selector, ran: frozenset[str]) -> Finding | None:
        if (path, selector.span) in self.used:
            return None
        names = rule_names()
        codes = codes_of(selector.text, names)
        note = why = advice = ""
        if not codes:
            word = suggestion(selector.text, [*names.values(), *names])
            message = f"`{selector.text}` is not the name or code of a rule{word}"
            why = "This comment silences nothing."
            note = "the name may be misspelt" if word else ""
        elif codes <= ran:
            extent = "in this file" if selector.lines is None else "on this statement"
            every = selector.text.upper() == ALL
            what = "nothing is found" if every else f"`{selector.text}` finds nothing"
            message = f"{what} {extent}, so this comment silences nothing"
            why = "It would hide the next mistake that is made here."
            advice = "Delete it."
        else:
            return None
        place = selector.span
        return Finding(
            *UNUSED_SUPPRESSION, Level.ADVICE, message, path, place, fix_note=note, why=why, help=advice
        )
