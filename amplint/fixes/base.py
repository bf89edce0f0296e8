"""What a builder is: the description of a change that a rule wants, and how it becomes a Fix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import libcst as cst

from amplint.events import Place
from amplint.findings import Claim, Edit, Fix, Span, digest_of
from amplint.fixes.edits import applied, comments_of, crosses_cells
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.source.project import Project

__all__ = ["Files", "FixBuilder", "NoFix", "ParsedFile", "Refusal", "make_fix", "offered"]


Made = TypeVar("Made")


CallSites = Callable[[str, str], tuple[tuple[str, Span], ...] | None]


class Files:
    """The files that fixes may look at, parsed when they are asked for and kept while their text stays."""

    def __init__(
        self,
        project: Project,
        odd: Mapping[tuple[object, ...], Collection[str]],
        call_sites: CallSites,
        *,
        line_length: int,
    ) -> None:
        """``project`` is that of the files, in which other files may use what a fix takes away; ``odd`` has the odd
        values that operands have on some path, see ``flow.core.paths``; ``call_sites`` tells where the function of a
        name at the top of a file is called, None where that may be elsewhere, too; ``line_length`` how long the lines
        may be that fixes write."""
        self.project = project
        self.call_sites = call_sites
        self._odd = odd
        self.line_length = line_length
        self._texts: dict[str, str] | None = None
        self._parsed: dict[str, ParsedFile] = {}
        self._kept: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What ``make`` gives, or the Refusal that it raises, which it is asked for only once for a key: a change that
        does not depend on the finding is derived for the first of them. Nodes of files may be parts of the key."""
        if key not in self._kept:
            try:
                self._kept[key] = make()
            except Refusal as refusal:
                self._kept[key] = refusal
        found = self._kept[key]
        if isinstance(found, Refusal):
            raise found
        return cast("Made", found)

    def odd(self, place: Place, role: str = "") -> list[str]:
        """What an operand is on some path that no cast to float32 is for: "None", "a tuple or list". ``role`` says
        which operand of the op at the place."""
        key = place.key if isinstance(place.key, tuple) else (place.key,)
        return sorted(self._odd.get((*key, role), ()))

    def text(self, path: str) -> str | None:
        """The text of a file, or None if it was not read."""
        return self.project.text_of(path) if self._texts is None else self._texts.get(path)

    def halfway(self, path: str, text: str, call_sites: CallSites) -> Files:
        """One file as it is after the first step of a fix, for the second one. There are no others."""
        files = Files(self.project, self._odd, call_sites, line_length=self.line_length)
        files._texts = {path: text}
        return files

    def parsed(self, path: str) -> ParsedFile:
        """The file that reports call by this name, such as ``Place.path``. Raises Refusal."""
        text = self.text(path)
        if text is None:
            raise Refusal(f"{path} cannot be read")
        known = self._parsed.get(path)
        if known is None or known.text != text:
            known = self._parsed[path] = ParsedFile(path, text)
        return known


class FixBuilder:
    """Base of all fix builders: frozen, hashable dataclasses that hold places and plain data, no trees.

    Equal fix builders are offered once, and equal fixes are made once, so a change that fixes several findings
    together may be given to each of them.
    """

    def offer(self, files: Files) -> Fix | Refusal:
        """The fix for the files as they are, or why there is none. May raise Refusal as well."""
        raise NotImplementedError


@dataclass(frozen=True)
class NoFix(FixBuilder):
    """Says why there is no fix, where the rule knows that already."""

    reason: str

    def offer(self, files: Files) -> Refusal:
        return Refusal(self.reason)


def make_fix(
    title: str,
    changes: Mapping[ParsedFile, cst.Module],
    statements: Iterable[tuple[ParsedFile, cst.CSTNode]] = (),
    *,
    unsafe: str = "",
) -> Fix:
    """The fix that turns each file's module into the one derived from it. It claims the statements, and those
    that it edits besides; ``unsafe`` says why somebody has to look at it. Raises Refusal if nothing changes."""
    edits = tuple(edit for file, module in changes.items() for edit in file.edits(module))
    if not edits:
        raise Refusal("there is nothing to change")
    claims = {file.claim(node) for file, node in statements}
    for file in changes:
        claims |= {_claim(file, edit) for edit in edits if edit.path == file.path}
    return Fix("unsafe" if unsafe else "safe", title, edits, joined(claims), unsafe)


def offered(builder: FixBuilder, files: Files) -> Fix | Refusal:
    """The fix of a builder, with claims that cover its edits. Raises what a broken builder raises."""
    try:
        fix = builder.offer(files)
        return fix if isinstance(fix, Refusal) else _completed(fix, files)
    except Refusal as refusal:
        return refusal


def _completed(fix: Fix, files: Files) -> Fix:
    """The fix with its edits in order, and claims that cover them. Raises Refusal where a comment would be
    lost or a cell of a notebook left; a minimum that does not is offered instead."""
    minimum = _completed(fix.minimum, files) if fix.minimum is not None else None
    paths = sorted({edit.path for edit in fix.edits})
    texts = {path: files.parsed(path).text for path in paths}
    for path, text in texts.items():
        edits = [edit for edit in fix.edits if edit.path == path]
        reason = "a comment would be lost" if _loses_comment(text, edits) else ""
        if crosses_cells(path, text, edits):
            reason = "it would reach from one cell into another"
        if reason:
            if minimum is not None:
                return minimum
            raise Refusal(reason)
    claims = {*fix.claims, *(_claim(files.parsed(edit.path), edit) for edit in fix.edits)}
    bases = tuple((path, digest_of(text)) for path, text in texts.items())
    return replace(fix, claims=joined(claims), edits=tuple(sorted(fix.edits)), minimum=minimum, bases=bases)


def _loses_comment(text: str, edits: Sequence[Edit]) -> bool:
    if not any("#" in text[edit.start : edit.end] for edit in edits):
        return False
    return bool(comments_of(text) - comments_of(applied(text, edits)))


def joined(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """The claims in order, with those that overlap or touch made one."""
    result: list[Claim] = []
    for claim in sorted(claims):
        last = result[-1] if result else None
        if last is not None and last.path == claim.path and claim.first <= last.last + 1:
            result[-1] = last._replace(last=max(last.last, claim.last))
        else:
            result.append(claim)
    return tuple(result)


def _claim(file: ParsedFile, edit: Edit) -> Claim:
    """The lines that an edit touches. An edit that ends where a line begins does not touch that line."""
    last = edit.end - 1 if edit.end > edit.start else edit.end
    return Claim(file.path, file.line(edit.start), file.line(last))
