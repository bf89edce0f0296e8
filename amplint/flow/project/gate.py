"""Which files are worth reading, from the registered keys and the bytes of the files.

``tokens(registry)`` gives the rows of the byte gate: a file passes if all tokens of one row occur in it. A key with a
model of weight ENTRY gives its last part, ``autocast`` for ``torch.autocast``; for keys of other packages the name of
the package has to occur, too. Keys with the tag ``HALF``, types such as ``torch.float16``, occur in much code without
AMP: they count beside a key with the tag ``BESIDE_HALF`` alone. docs/generate.py writes the rows to amp/gate.py, so
that a run over files without AMP need not import the models.

``users`` finds the files without a token of their own that use what the others define, such as a script that hands its
model to the function which opens the region: they mention a module, and a function or value of it that leads to an
ENTRY key, or a class, and a method of it that does, or make an object of such a class, ``Amp(options)``; or they derive
from a class that scales losses, ``class Own(Trainer)``, and may fill in what its methods call; or they name
no more than such a method, ``wrapper.update(loss)``, of whatever object, where nothing else in the project has a method
of that name. What they define in turn is looked for, too, until nothing more is found.

Other classes alone are none of these: most files that name a model only use it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from amplint.amp.tokens import BESIDE_HALF, HALF, SCALES_LOSSES
from amplint.flow.core.registry import About, Registry, Weight
from amplint.flow.project.classes import Classes
from amplint.flow.project.edges import CALLED, Edges
from amplint.flow.project.effects import OF_PYTHON, Effects, keys_of
from amplint.flow.project.meanings import Assigned
from amplint.flow.project.names import Names
from amplint.flow.state.values import ClassValue, External, FunctionValue
from amplint.source.facts import facts_of
from amplint.source.project import Project, ProjectFile, module_of
from amplint.source.words import mentions

MOST_ROUNDS = 10
"""So many files may hand a name on to each other."""
_OF_CLASSES = ("{}(", '":{}', "':{}", "={}", "return {}")
"""Where code makes an object of a class, or hands the class on: under a key of a dict, by which somebody chooses it, or
as what a name or function stands for."""
_OWN = "torch"
"""Of this package the last parts of names are enough: files of a project hand them on by star imports."""


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
            rows.add(_row(name))
    return tuple(sorted(row for row in rows if all(row)))


def _every(registry: Registry) -> list[tuple[str, About]]:
    found = [(name, about) for name, (_, about) in {**registry.calls, **registry.namespaces}.items()]
    found += [(name, about) for (_, name), (_, about) in registry.methods.items() if name is not None]
    return [*found, *registry.abouts.items()]


def _last(name: str) -> bytes:
    """The part of a key that code has to write to meet it, with the dot of an attribute: ``.half`` for a method,
    ``optim.`` for what is below a package; not ``__init__``, which nobody calls by name."""
    if name.startswith("."):
        return name.encode()
    if name.endswith("."):
        return name.rstrip(".").rpartition(".")[2].encode() + b"."
    parts = [part for part in name.split(".") if not part.startswith("__")]
    return parts[-1].encode() if parts else b""


def _row(name: str) -> tuple[bytes, ...]:
    root, last = name.partition(".")[0].encode(), _last(name)
    return (last,) if root in (b"", _OWN.encode(), last) else (root, last)


def users(
    project: Project,
    registry: Registry,
    passed: Iterable[Path],
    others: Iterable[Path],
    in_passing: Callable[[Path], bool] = lambda path: False,
) -> list[Path]:
    """Those of the other files that use what the files that passed the gate define, in order, if they can be parsed.
    None of the rest is parsed for it: nothing in it could lead to a key of weight ENTRY. Tests and the like, of which
    ``in_passing`` tells, have to name what they use: each of them is walked for little."""
    candidates, rest = set(passed), set(others)
    asked: set[tuple[bytes, bytes]] = set()
    asked_by_tests: set[tuple[bytes, bytes]] = set()
    found: set[Path] = set()
    for _ in range(MOST_ROUNDS):
        effects = _effects(project, registry, candidates) if rest else None
        wanted = _wanted(effects, asked) if effects is not None else {}
        of_tests = _wanted(effects, asked_by_tests, sure=True) if effects is not None else {}
        for name, modules in (*wanted.items(), *of_tests.items()):
            project.asked.mentioned.setdefault(name, set()).update(modules)
        new = {
            path
            for path in rest
            if (names := of_tests if in_passing(path) else wanted)
            and mentions(path, project.current_bytes(path), names)
        }
        if not new:
            break
        found |= new
        candidates |= new
        rest -= new
    return sorted(path for path in found if project.load(path) is not None)


def _effects(project: Project, registry: Registry, paths: Collection[Path]) -> Effects:
    """The effects of some files, seen as if there were no others."""
    names = Names(project, keys_of(registry).knows, paths.__contains__)
    files = [file for path in sorted(paths) if (file := project.load(path)) is not None]
    return Effects(Edges(Classes(names), files), registry)


def _wanted(
    effects: Effects, asked: set[tuple[bytes, bytes]], *, sure: bool = False
) -> dict[bytes, set[bytes]]:
    """The names that lead to ENTRY keys, each with the modules or classes that have it, but for those that were asked
    for. ``sure``: the text shows that they do, and the class or module has to be named."""
    wanted: dict[bytes, set[bytes]] = {}
    leading = Leading(effects, sure=sure)
    judged = {file.path for file in effects.edges.files}
    for file in effects.edges.files:
        module = module_of(file.display)
        methods = leading.methods(file)
        names = {(name, module) for name in leading.names(file)} | methods
        packages = file.module.split(".")  # one of which may hand a class on
        names |= {
            (form.format(name), place)
            for name in leading.classes(file)
            for form in _OF_CLASSES
            for place in packages
        }
        if not sure:
            # an object may be handed to a file that names no class
            names |= {(name, name[1:]) for name, _ in methods if _is_telling(effects, name[1:], judged)}
            names |= {(f"({name}", place) for name in leading.training_classes(file) for place in packages}
        for name, place in ((name.encode(), place.encode()) for name, place in names):
            if (name, place) not in asked:
                asked.add((name, place))
                wanted.setdefault(name, set()).add(place)
    return wanted


def _is_telling(effects: Effects, method: str, judged: Collection[Path]) -> bool:
    """Whether neither Python nor a model knows a method of that name, and no file defines one but those that are
    ``judged``: it is one of these on whatever object it is called."""
    if effects.keys.of_method(method) != About() or method in OF_PYTHON:
        return False
    return all(path in judged for path in effects.edges.names.project.files_defining(method))


class Leading:
    """What of some files leads to ENTRY keys. ``sure``: the text shows that it does."""

    def __init__(self, effects: Effects, *, sure: bool = False) -> None:
        self._effects = effects
        self._classes = effects.edges.classes
        self._weight = effects.sure_weight if sure else effects.told_weight
        self._own_methods: dict[ClassValue, tuple[frozenset[str], frozenset[str]]] = {}
        self._scaling: dict[ClassValue, bool] = {}

    def methods(self, file: ProjectFile) -> set[tuple[str, str]]:
        """The methods that may lead to an ENTRY key, inherited ones included, each with its class:
        ``{(".fit", "Trainer")}``; all of them where the constructor does."""
        return {
            (f".{name}", outline.name)
            for outline in facts_of(file.outline).classes
            for name in self._methods(ClassValue(file, outline))
        }

    def classes(self, file: ProjectFile) -> set[str]:
        """The classes of a module whose objects do something with AMP: whoever makes one may hand it to what calls a
        method of it."""
        return {
            outline.name
            for outline in facts_of(file.outline).classes
            if self._leads(ClassValue(file, outline)) or self._methods(ClassValue(file, outline))
        }

    def training_classes(self, file: ProjectFile) -> set[str]:
        """The classes of a module that have or inherit a method which scales losses: what derives from one may fill in
        what the others call."""
        return {
            outline.name
            for outline in facts_of(file.outline).classes
            if any(
                isinstance(base, ClassValue) and self._scales(base)
                for base in self._classes.bases(ClassValue(file, outline))
            )
        }

    def _scales(self, value: ClassValue) -> bool:
        """Whether a method of the class itself scales losses."""
        if value not in self._scaling:
            self._scaling[value] = any(
                SCALES_LOSSES in self._effects.told_tags(method) and self._weight(method) >= Weight.ENTRY
                for method in self._classes.methods(value).values()
            )
        return self._scaling[value]

    def _methods(self, value: ClassValue) -> set[str]:
        """The methods of a class that lead to an ENTRY key, or all where the constructor does."""
        made = self._leads(self._classes.find_method(value, "__init__"))
        found: set[str] = set()
        for base in self._classes.bases(value):
            if isinstance(base, ClassValue):
                every, leading = self._methods_of(base)
                found |= every if made else leading
        return found

    def _methods_of(self, value: ClassValue) -> tuple[frozenset[str], frozenset[str]]:
        """The methods that a class defines itself, and those of them that lead to an ENTRY key. None of them are those
        that Python or torch calls, since most files that name a model only use it, and those that a class keeps to
        itself."""
        known = self._own_methods.get(value)
        if known is None:
            every = {
                name: method
                for name, method in self._classes.methods(value).items()
                if not name.startswith("_")
                and name not in CALLED
                and not _is_token(self._effects.keys.of_method(name))
            }
            leading = frozenset(name for name, method in every.items() if self._leads(method))
            known = self._own_methods[value] = (frozenset(every), leading)
        return known

    def names(self, file: ProjectFile) -> frozenset[str]:
        """The names of functions and values of a module that may lead to an ENTRY key: its own, and those of the
        project that it hands on. Of what stars give each module is asked once, and not each name of each star."""
        found = set(self._own_names(file))
        seen, pending = {file.path}, [file]
        while pending:
            inner = pending.pop()
            for star in facts_of(inner.outline).bindings.stars:
                source = self._effects.edges.names.starred(inner, star)
                if source is None or source.path in seen:
                    continue
                seen.add(source.path)
                pending.append(source)
                exports = facts_of(source.outline).exports
                found |= {
                    name
                    for name in self._own_names(source)
                    if (not name.startswith("_") if exports is None else name in exports)
                }
        return frozenset(found)

    def _own_names(self, file: ProjectFile) -> Iterator[str]:
        """Those of them that the module itself binds."""
        names = self._effects.edges.names
        for name in facts_of(file.outline).bindings.all:
            if any(map(self._leads, names.global_meanings(file, name))):
                yield name

    def _leads(self, meaning: object) -> bool:
        effects = self._effects
        match meaning:
            case External(name=name):
                return effects.keys.of_name(name).weight >= Weight.ENTRY
            case FunctionValue():
                return self._weight(meaning) >= Weight.ENTRY
            case Assigned():
                value = Assigned(meaning.file, meaning.name)
                named = (*effects.edges.of(value).sure, *effects.held.get(value, ()))
                held = (one for one in named if isinstance(one, ClassValue))
                return effects.sure_weight(value) >= Weight.ENTRY or any(map(self._methods, held))
            case ClassValue():  # of a framework's trainer: whoever names it may train with it
                bases = (base.name for base in self._classes.bases(meaning) if isinstance(base, External))
                return any(effects.keys.of_name(base).weight >= Weight.ENTRY for base in bases)
        return False


def _is_token(about: About) -> bool:
    """Whether the gate asks for a method by itself, ``half``: a class that has one of its own, and calls the inherited
    one there, is no reason to read what makes its objects."""
    return about.weight >= Weight.ENTRY or HALF in about.tags
