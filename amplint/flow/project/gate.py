"""Which files are worth reading, from the registered keys and the bytes of the files.

``tokens(registry)`` gives the rows of the byte gate: a file passes if all tokens of one row occur in it. A key with a
model of weight ENTRY gives its last part, ``autocast`` for ``torch.autocast``; for keys of other packages the name of
the package has to occur, too. Keys with the tag ``HALF``, types such as ``torch.float16``, occur in much code without
AMP: they count beside a key with the tag ``BESIDE_HALF`` alone.

``taking_part`` finds the files that take part, those without a token of their own included: they mention a module, and
a name of it that leads to an ENTRY key. What they define in turn is looked for, too, until nothing more is found.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from amplint.amp.tokens import BESIDE_HALF, HALF
from amplint.flow.core.registry import About, Registry, Weight
from amplint.flow.project.classes import Classes
from amplint.flow.project.edges import Definition, Edges, definitions_in
from amplint.flow.project.effects import Effects, Keys
from amplint.flow.project.meanings import Assigned, Member
from amplint.flow.project.names import Names
from amplint.flow.state.values import ClassValue, External, FunctionValue
from amplint.source.facts import facts_of
from amplint.source.project import Project, ProjectFile

MOST_ROUNDS = 10
"""So many files may hand a name on to each other."""
_OWN = "torch"
"""Of this package the last parts of names are enough: files of a project hand them on by star imports."""

_WORDS = bytes(
    code if code > 127 or chr(code).isalnum() or code == ord("_") else ord(" ") for code in range(256)
)
"""Turns all bytes that are part of no identifier into blanks."""


def tokens(registry: Registry) -> tuple[tuple[bytes, ...], ...]:
    """The rows of the byte gate."""
    models = [*registry.calls.items(), *registry.namespaces.items()]
    rows = {_row(name) for name, (_, about) in models if about.weight >= Weight.ENTRY}
    rows |= {
        (method.encode(),)
        for (_, method), (_, about) in registry.methods.items()
        if about.weight >= Weight.ENTRY and method is not None
    }
    beside = sorted({_last(name) for name, about in _every(registry) if BESIDE_HALF in about.tags})
    for name, about in registry.abouts.items():
        if HALF in about.tags:
            rows |= {(_last(name), token) for token in beside}
        elif about.weight >= Weight.ENTRY:
            rows.add(_row(name) if not name.startswith(".") else (_last(name),))
    return tuple(sorted(row for row in rows if all(row)))


def _every(registry: Registry) -> list[tuple[str, About]]:
    found = [(name, about) for name, (_, about) in {**registry.calls, **registry.namespaces}.items()]
    found += [(name, about) for (_, name), (_, about) in registry.methods.items() if name is not None]
    return [*found, *registry.abouts.items()]


def _last(name: str) -> bytes:
    """The part of a key that code has to write to meet it: not ``__init__``, which nobody calls by name."""
    parts = [part for part in name.split(".") if part and not part.startswith("__")]
    return parts[-1].encode() if parts else b""


def _row(name: str) -> tuple[bytes, ...]:
    root, last = name.partition(".")[0].encode(), _last(name)
    return (last,) if root in (_OWN.encode(), last) else (root, last)


def identifiers(data: bytes) -> frozenset[bytes]:
    """All that may be an identifier in a text, words of comments and strings included. It takes linear time."""
    return frozenset(data.translate(_WORDS).split())


def is_worth_reading(data: bytes, rows: Sequence[Sequence[bytes]]) -> bool:
    """Whether a text that passed the gate has all tokens of a row as words: ``float16`` is no ``float``."""
    words = identifiers(data)
    return any(words.issuperset(row) for row in rows)


def entry_names(effects: Effects, file: ProjectFile) -> frozenset[str]:
    """The names of a module that lead to an ENTRY key: its own definitions, and what it hands on."""
    names = effects.edges.names
    return frozenset(
        name
        for name in _names_of(effects, file, frozenset())
        if any(_leads(effects, meaning) for meaning in names.global_meanings(file, name))
    )


def _names_of(effects: Effects, file: ProjectFile, way: frozenset[Path]) -> set[str]:
    bindings = facts_of(file.outline).bindings
    found = set(bindings.all)
    for star in bindings.stars:
        source = effects.edges.names.starred(file, star)
        if source is not None and source.path not in way:
            found |= _names_of(effects, source, way | {file.path})
    return found


def _leads(effects: Effects, meaning: object) -> bool:
    classes = effects.edges.classes
    if isinstance(meaning, Member):
        meaning = classes.member(meaning)
    match meaning:
        case External(name=name):
            return effects.keys.of_name(name).weight >= Weight.ENTRY
        case Assigned(file=file, name=name):
            return effects.weight(Assigned(file, name)) >= Weight.ENTRY
        case FunctionValue():
            return effects.weight(meaning) >= Weight.ENTRY
        case ClassValue():
            every: list[Definition] = [meaning]
            for base in classes.bases(meaning):
                every += classes.methods(base).values() if isinstance(base, ClassValue) else ()
            return any(effects.weight(one) >= Weight.ENTRY for one in every)
    return False


def takes_part(effects: Effects, file: ProjectFile) -> bool:
    """Whether a function of a file, or its body, leads to an ENTRY key, or it imports one."""
    if any(effects.weight(part) >= Weight.ENTRY for part in definitions_in(effects.edges, file)):
        return True
    imports = (effects.edges.names.global_meanings(file, name) for name in file.outline.imports)
    return any(isinstance(one, External) and _leads(effects, one) for found in imports for one in found)


def taking_part(
    project: Project, registry: Registry, passed: Collection[Path], others: Mapping[Path, Callable[[], bytes]]
) -> list[ProjectFile]:
    """The files that take part: those of the files that passed the gate in which something leads to an ENTRY key, and
    those of the others, given with what reads their bytes, that take part by what they mention. No other file is
    parsed for it: nothing in it could lead to such a key."""
    words: dict[Path, frozenset[bytes]] = {}
    candidates = set(passed)
    asked: set[tuple[bytes, bytes]] = set()
    for _ in range(MOST_ROUNDS):
        effects = _effects(project, registry, candidates)
        wanted = _wanted(effects, asked)
        before = len(candidates)
        for path in others.keys() - candidates if wanted else ():
            if path not in words:
                folders = {part.encode() for part in path.parent.parts}
                words[path] = identifiers(others[path]()) | folders
            if _mentions(words[path], wanted):
                candidates.add(path)
        if len(candidates) == before:
            break
    return [file for file in effects.edges.files if takes_part(effects, file)]


def _effects(project: Project, registry: Registry, paths: Collection[Path]) -> Effects:
    """The effects of some files, seen as if there were no others."""
    names = Names(project, Keys(registry).knows, paths.__contains__)
    files = [file for path in sorted(paths) if (file := project.load(path)) is not None]
    return Effects(Edges(Classes(names), files), registry)


def _wanted(effects: Effects, asked: set[tuple[bytes, bytes]]) -> dict[bytes, set[bytes]]:
    """The names that lead to ENTRY keys, each with the modules that have it, but for those that were asked for."""
    wanted: dict[bytes, set[bytes]] = {}
    for file in effects.edges.files:
        module = (file.path.parent.name if file.is_package else file.path.stem).encode()
        for name in map(str.encode, entry_names(effects, file)):
            if (name, module) not in asked:
                asked.add((name, module))
                wanted.setdefault(name, set()).add(module)
    return wanted


def _mentions(words: frozenset[bytes], wanted: Mapping[bytes, set[bytes]]) -> bool:
    return any(not wanted[name].isdisjoint(words) for name in words & wanted.keys())
