"""What the bytes of a file say of names, without parsing it: which it may import, define or mention."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from amplint.source.gate import identifiers, last_identifier

_FROM_IMPORT = re.compile(rb"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*|[^\n(]*)", re.MULTILINE)
_IMPORT = re.compile(rb"^[ \t]*import[ \t]+([^\n]*)", re.MULTILINE)
_DEFINITION = re.compile(rb"\bdef[ \t]+([A-Za-z_][A-Za-z0-9_]*)")
_IMPORTED = re.compile(rb"(?<![\w.])(\w+|\*)(?:\s+as\s+\w+)?")
STAR = re.compile(rb"\bfrom[\s\\]+([.\w]+)[\s\\]+import[\s\\]*\*")
"""A file with one may hand on names of the module that do not occur in it."""
_STARRED = re.compile(rb"import[\s\\]*\*")
"""The end of one, which is found faster."""


@dataclass
class Asked:
    """All that was asked about the files of a project: a run in which each answer is the same finds the same."""

    read: dict[Path, str] = field(default_factory=dict)
    """The files of which anything may have counted, with the digest of their bytes; "" if they could not be read."""
    imported: dict[tuple[str, str], tuple[Path, ...]] = field(default_factory=dict)
    """For each name that was looked for among imports, with its module, the files that may import it."""
    defined: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    """For each name of a function that was looked for the files that may define it."""
    mentioned: dict[bytes, set[bytes]] = field(default_factory=dict)
    """What was looked for with ``mentions``, in files that were not read otherwise unless they do mention it."""


def imported_names(data: bytes) -> set[tuple[str, str]]:
    """The names that ``from ... import`` may bring, each behind the last part of its module: ``{("amp", "f")}``; and
    behind "" all that may be a module which an import is about: ``{("", "torch"), ("", "amp"), ("", "f")}``."""
    found = {
        (module.rpartition(b".")[2], name)
        for module, names in _FROM_IMPORT.findall(data)
        for name in _IMPORTED.findall(names)
    }
    modules = {part for module, _ in _FROM_IMPORT.findall(data) for part in module.split(b".")}
    modules |= {word for names in _IMPORT.findall(data) for word in identifiers(names)}
    found |= {(b"", name) for name in modules | {name for _, name in found}}
    return {(module.decode("utf-8", "replace"), name.decode("utf-8", "replace")) for module, name in found}


def defined_names(data: bytes) -> set[str]:
    """The names of functions that may be defined: ``{"train"}``."""
    return {found.decode() for found in _DEFINITION.findall(data)}


def mentions(path: Path, data: bytes, wanted: Mapping[bytes, Collection[bytes]]) -> bool:
    """Whether a file may use one of some names; each is given with the modules that have it, of which the file, or the
    folders around it, have to name one: ``mentions(path, data, {b"train": {b"engine"}})``. A name with a dot before it
    is that of an attribute, one with a bracket behind it has to be called, and what else stands before a name,
    ``=name``, has to stand there, blanks or not. A star import hands on what its module has, written or not."""
    words = identifiers(data)
    asked = [(name, word) for name in wanted if (word := last_identifier(name)) in words]
    text = data.translate(None, b" \t") if any(name != word for name, word in asked) else data
    met = {
        name
        for name, word in asked
        if word == name or _stands(name, data if b" " in name or name.endswith(b"(") else text)
    }
    folders = {part.encode("utf-8", "surrogateescape") for part in path.parent.parts}
    places = words | folders
    if any(not places.isdisjoint(wanted[name]) for name in met):
        return True
    stars = STAR.findall(data) if _STARRED.search(data) else ()
    handed = {module.rpartition(b".")[2] for module in stars}
    handed |= folders if b"" in handed else set()
    return any(
        not handed.isdisjoint(modules)
        for name, modules in (wanted.items() if handed else ())
        if name == last_identifier(name)
    )


def _stands(name: bytes, data: bytes) -> bool:
    """Whether ``.name`` or ``name(`` stands in a text, and no longer name has it at its end or beginning."""
    at = data.find(name)
    while at >= 0:
        end = at + len(name)
        longer = data[end : end + 1] if not name.endswith(b"(") else data[at - 1 : at] if at else b""
        if longer != b"_" and not longer.isalnum():
            return True
        at = data.find(name, end)
    return False
