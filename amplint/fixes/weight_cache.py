"""Regions told not to keep the casts of weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from amplint.amp.regions import ENTRIES, Entry
from amplint.events import Place
from amplint.findings import Fix
from amplint.fixes.arguments import fitted, keyword, set_argument
from amplint.fixes.base import Files, FixBuilder, make_fix
from amplint.fixes.dependence import dotted
from amplint.fixes.imports import qualified_name
from amplint.fixes.parsed import ParsedFile, Refusal
from amplint.fixes.statements import Replacement, exchanged

_OFF = "cache_enabled"


@dataclass(frozen=True)
class SwitchCacheOff(FixBuilder):
    """Passes ``cache_enabled=False`` to the calls that make these regions, outermost first. A region that
    takes the flag of the one around it is left as it is."""

    regions: tuple[Place, ...]

    def offer(self, files: Files) -> Fix | Refusal:
        """Safe: only speed and memory change beside what the finding is about."""
        changes: dict[ParsedFile, dict[cst.CSTNode, Replacement]] = {}
        statements: list[tuple[ParsedFile, cst.CSTNode]] = []
        is_off = False
        for place in self.regions:
            file, call, entry = making(files, place)
            if is_off and entry.inherits_dtype:
                continue
            changed = fitted(file, call, _without_cache(call, entry), files.line_length)
            changes.setdefault(file, {})[call] = changed
            statements.append((file, file.statement(call)))
            is_off = True
        modules = {file: exchanged(file, nodes) for file, nodes in changes.items()}
        return make_fix(
            f"Pass `{_OFF}=False` to the region", modules, [s for s in statements if _is_line(s[1])]
        )


def _is_line(statement: cst.CSTNode) -> bool:
    return isinstance(statement, cst.SimpleStatementLine)


def making(files: Files, place: Place) -> tuple[ParsedFile, cst.Call, Entry]:
    """The call of torch that makes the context which is entered at a place."""
    file = files.parsed(place.path)
    node = file.expression(place.span)
    found = [node] if isinstance(node, cst.Call) else []
    if isinstance(node, cst.Call):
        found += [arg.value for arg in node.args]  # type: ignore[misc]
    name = dotted(node) if node is not None else None
    if name is not None:
        found = _assigned(file, name)  # type: ignore[assignment]
    calls = [(call, _entry(file, call)) for call in found if isinstance(call, cst.Call)]
    entries = [(call, entry) for call, entry in calls if entry is not None]
    if len(entries) != 1:
        raise Refusal("the call of torch that makes the region is not found")
    call, made_by = entries[0]
    assert made_by is not None
    if made_by.framework:
        raise Refusal("a framework makes the region")
    return file, call, made_by


def _assigned(file: ParsedFile, name: str) -> Sequence[cst.BaseExpression]:
    """What a name or an attribute is assigned in a file."""
    return [
        assign.value
        for assign in file.nodes(cst.Assign)
        if any(dotted(target.target) == name for target in assign.targets)
    ]


def _entry(file: ParsedFile, call: cst.Call) -> Entry | None:
    name = qualified_name(file, call.func)
    return ENTRIES.get(name) if name is not None else None


def _without_cache(call: cst.Call, entry: Entry) -> cst.Call:
    off = keyword(_OFF, cst.Name("False"))
    for number, arg in enumerate(call.args):
        if arg.star:
            raise Refusal("a star hides which arguments are given")
        if arg.keyword is not None:
            given = arg.keyword.value == _OFF
        else:
            given = number < len(entry.parameters) and entry.parameters[number] == _OFF
        if given:
            if not isinstance(arg.value, cst.Name) or arg.value.value != "True":
                raise Refusal(f"`{_OFF}` is given already")
            return set_argument(call, number, arg.with_changes(value=off.value))
    return set_argument(call, len(call.args), off)
