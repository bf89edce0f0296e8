"""What a project does with a name: the methods that are called on it, there and where it is handed to.

A name is followed into the functions and constructors that it is given to, through plain assignments (``self.x = x``,
``step = self.x``, where the target is assigned once), through attributes of ``self`` into all methods of the class,
and out of nested functions. All that can be reached is one set, however it is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from amplint.amp.attributes import TENSOR_PROPERTIES
from amplint.flow.project.components import components
from amplint.flow.project.edges import Edges
from amplint.flow.state.values import ClassValue, FunctionValue
from amplint.source.bodies import Store
from amplint.source.facts import Facts, Scope, facts_of
from amplint.source.outline import ClassOutline, FunctionOutline, dotted
from amplint.source.project import ProjectFile

STEPPED = "<stepped>"
"""Stands for being the first argument of ``x.step(…)`` or ``x.unscale_(…)``."""
ASKED = "<asked>"
"""Stands for being asked for what no tensor has, ``settings.amp``, ``settings["amp"]``, or telling items apart:
``optimizers[index]``."""
_STEPS = ("step", "unscale_")
_TELLING = frozenset({"param_groups", "grad", "dtype", "device", "autocast"})
"""Attributes that tell what an object is, beside its methods."""

Spot = tuple[ProjectFile, Scope, str]
"""A dotted name in a function, class (an attribute of its objects) or module."""


class Uses:
    """What is done with names, over a project."""

    def __init__(self, edges: Edges) -> None:
        self._edges = edges
        self._found: dict[tuple[Scope, str], frozenset[str]] = {}
        self._steps: dict[tuple[Scope, str], list[Spot]] = {}

    @cached_property
    def set_from_outside(self) -> frozenset[str]:
        """The attributes that code sets on anything but the object of its own method."""
        found: set[str] = set()
        for file in self._edges.files:
            facts = facts_of(file.outline)
            for outline in facts.functions:
                own = outline.parameters[0] if outline.owner is not None and outline.parameters else ""
                stored = (name.rpartition(".") for name in facts.of(outline).body.stores)
                found |= {attribute for owner, _, attribute in stored if owner and owner != own}
        return frozenset(found)

    @cached_property
    def keys_put(self) -> dict[str, set[object]]:
        """For each name of an attribute, the keys under which code puts something into it after the constructor, None
        for any: ``self.done["model"] = True``."""
        found: dict[str, set[object]] = {}
        for file in self._edges.files:
            facts = facts_of(file.outline)
            for outline in facts.functions:
                for name, key in facts.of(outline).body.puts if outline.name != "__init__" else ():
                    owner, _, attribute = name.rpartition(".")
                    if owner:
                        found.setdefault(attribute, set()).add(key)
        return found

    @cached_property
    def own_attributes(self) -> frozenset[str]:
        """The attributes that code sets on anything, and those that classes define."""
        found: set[str] = set()
        for file in self._edges.files:
            facts = facts_of(file.outline)
            module = file.outline.module
            for outline in facts.functions if module is None else (*facts.functions, module):
                found |= {name.rpartition(".")[2] for name in facts.of(outline).body.stores if "." in name}
            for owner in file.outline.classes.values():
                found |= {*owner.methods, *owner.fields}
        return frozenset(found)

    def of_name(self, file: ProjectFile, scope: Scope, name: str) -> frozenset[str]:
        """What is done with a dotted name of a function."""
        return self._reached((file, scope, name))

    def of_attribute(self, value: ClassValue, name: str) -> frozenset[str]:
        """What the methods of a class do with an attribute of its objects."""
        return self._reached((value.file, value.outline, name))

    def _reached(self, start: Spot) -> frozenset[str]:
        if start[1:] not in self._found:
            for component in components([start], self._not_known_after):
                found: set[str] = set()
                for spot in component:
                    found |= self._own(spot)
                    for after in self._after(spot):
                        found |= self._found.get(after[1:], frozenset())
                answer = frozenset(found)
                self._found.update((spot[1:], answer) for spot in component)
        return self._found[start[1:]]

    def _not_known_after(self, spot: Spot) -> list[Spot]:
        return [after for after in self._after(spot) if after[1:] not in self._found]

    def _own(self, spot: Spot) -> set[str]:
        file, scope, name = spot
        if isinstance(scope, ClassOutline):
            return set()
        facts = facts_of(file.outline).of(scope)
        if scope is file.outline.module:
            return _in_body(facts, name)
        found = set(facts.uses.get(name, ())) | (facts.reads.get(name, frozenset()) & _TELLING)
        for callee, key in facts.passed.get(name, ()):
            if key == 0 and "." in callee and callee.rpartition(".")[2] in _STEPS:
                found.add(STEPPED)
        if _is_asked(facts, name) or any(self._picks_by(*one) for one in facts.passed.get(name, ())):
            found.add(ASKED)
        return found

    def _picks_by(self, callee: str, key: int | str) -> bool:
        """Whether methods of this name look something up by an argument: ``self.optimizer.step(index)``."""
        if "." not in callee:
            return False
        for method in self._edges.hierarchy.methods_named.get(callee.rpartition(".")[2], ()):
            outline = method.outline
            assert outline is not None
            facts = facts_of(method.file.outline).of(outline)
            name = key if isinstance(key, str) else next(iter(outline.parameters[key + 1 : key + 2]), None)
            if any(name in body.picking for body in facts.bodies()):
                return True
        return False

    def _after(self, spot: Spot) -> list[Spot]:
        key = spot[1:]
        known = self._steps.get(key)
        if known is None:
            known = self._steps[key] = list(self._drawn(*spot))
        return known

    def _drawn(self, file: ProjectFile, scope: Scope, name: str) -> Iterator[Spot]:
        if isinstance(scope, ClassOutline):
            yield from self._in_methods(ClassValue(file, scope), name)
            return
        every = facts_of(file.outline)
        facts = every.of(scope)
        root, dot, rest = name.partition(".")
        if scope is file.outline.module:
            for part in every.functions:
                around = every.around(part)
                if not isinstance(around, FunctionOutline) and not every.of(part).is_local(root):
                    yield file, part, name
            yield from self._handed_on(file, scope, facts.passed_by_body.get(name, ()), facts)
            yield from ((file, scope, other) for other in _aliases(facts.body.stores, name))
            return
        yield from self._handed_on(file, scope, facts.passed.get(name, ()), facts)
        yield from ((file, scope, other) for other in _aliases(facts.stores, name))
        if dot and "." not in rest and scope.owner is not None and scope.parameters[:1] == (root,):
            yield file, scope.owner, rest
        if not facts.is_local(root):
            outer: Scope | None = every.around(scope)
            while outer is not None and not (
                isinstance(outer, FunctionOutline) and every.of(outer).is_local(root)
            ):
                outer = every.around(outer)
            outer = outer or file.outline.module
            if outer is not None:
                yield file, outer, name

    def _in_methods(self, value: ClassValue, name: str) -> Iterator[Spot]:
        for part in self._edges.classes.all_methods(value):
            if part.outline is not None and part.outline.parameters:
                yield part.file, part.outline, f"{part.outline.parameters[0]}.{name}"

    def _handed_on(
        self, file: ProjectFile, scope: Scope, passed: Iterable[tuple[str, int | str]], facts: Facts
    ) -> Iterator[Spot]:
        for callee, key in sorted(passed, key=str):
            for function, offset in self._callees(file, scope, facts, callee):
                outline = function.outline
                if outline is None:
                    continue
                parameters = outline.parameters
                if isinstance(key, int):
                    if key + offset < len(parameters):
                        yield function.file, outline, parameters[key + offset]
                elif key in parameters:
                    yield function.file, outline, key

    def _callees(
        self, file: ProjectFile, scope: Scope, facts: Facts, callee: str
    ) -> Iterator[tuple[FunctionValue, int]]:
        """The functions that a name calls, with the number of arguments that they get by themselves."""
        classes = self._edges.classes
        for one in self._edges.named(file, callee, scope):
            if isinstance(one, ClassValue):
                method = classes.find_method(one, "__init__")
                if method is not None:
                    yield method, 1
            elif isinstance(one, FunctionValue):
                yield one, int(classes.kind(one) == "classmethod")
        base, dot, name = callee.partition(".")
        owner = scope.owner if isinstance(scope, FunctionOutline) else None
        if dot and "." not in name and owner is not None and facts.parameters[:1] == (base,):
            method = classes.find_method(ClassValue(file, owner), name)
            if method is not None:
                yield method, int(classes.kind(method) != "staticmethod")


def _in_body(facts: Facts, name: str) -> set[str]:
    """What the body of a module itself does with a name."""
    found: set[str] = set()
    start = f"{name}."
    for call in facts.body.calls:
        if call.name == name:
            found.add("__call__")
        elif call.name is not None and call.name.startswith(start) and "." not in call.name[len(start) :]:
            found.add(call.method)
        arguments = call.node.args
        if call.method in _STEPS and call.receiver and arguments and dotted(arguments[0]) == name:
            found.add(STEPPED)
    for read in facts.body.loads:
        if read.startswith(start):
            found |= {read[len(start) :].partition(".")[0]} & _TELLING
    return found


def _aliases(assigned: Mapping[str, list[Store]], name: str) -> Iterator[str]:
    """The names that stand for the same object: those that it is assigned to, and what it is assigned from."""
    for target, stores in assigned.items():
        source = _only_source(stores)
        if source == name and target != name:
            yield target
    source = _only_source(assigned.get(name, []))
    if source is not None and source != name:
        yield source


def _only_source(stores: list[Store]) -> str | None:
    value = stores[0].value if len(stores) == 1 else None
    return dotted(value) if value is not None else None


def _is_asked(facts: Facts, name: str) -> bool:
    """Whether a function looks something up in what a name stands for that no tensor has, and does not call it, or
    looks something up by it."""
    asked = facts.reads.get(name, frozenset()) - facts.uses.get(name, frozenset()) - TENSOR_PROPERTIES
    return bool(asked) or any(name in body.keyed or name in body.picking for body in facts.bodies())
