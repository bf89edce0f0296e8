"""Which definitions matter: what registered keys they meet, themselves or by what they lead to.

``effects.of(definition)`` gives the greatest Weight and all tags of the keys that a function, class or global name can
reach; ``effects.weight(function)`` and ``effects.tags(function)`` are parts of it. It is one fixed point over the call
graph, without depth or order: recursive functions share what any of them meets.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import TextIOWrapper
from logging import Logger

from amplint.amp.ops import minding_regions
from amplint.amp.packages import WITHOUT_TENSORS
from amplint.amp.tokens import BESIDE_HALF, HALF, TO_HALF
from amplint.flow.core.registry import BARE, About, Registry, Weight
from amplint.flow.project.components import components
from amplint.flow.project.edges import Definition, Edges, Steps, definitions_in
from amplint.flow.project.meanings import Assigned
from amplint.flow.project.registrations import decorates, held
from amplint.flow.state.values import ClassValue, FunctionValue
from amplint.source.facts import facts_of
from amplint.source.project import ProjectFile

_NOTHING = About()
_NOWHERE = Steps()
_BY_TYPE = "enters by type"
"""The tag of what calls a method of which there are too many, some of them with an ENTRY key."""
_TYPES = (object, str, bytes, list, dict, set, tuple, int, float, type, re.Match, TextIOWrapper, Logger)
OF_PYTHON = frozenset(name for kind in _TYPES for name in dir(kind))
"""The methods of Python's own types."""
_COMPUTES = "computes"
"""The tag of what may run an op of torch."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a definition reaches."""

    weight: Weight = Weight.NOTHING
    tags: frozenset[str] = frozenset()

    def and_of(self, other: Effect | About) -> Effect:
        """Both together."""
        if other.weight <= self.weight and other.tags <= self.tags:
            return self
        return Effect(max(self.weight, other.weight), self.tags | other.tags)


class Keys:
    """What a registry says of names."""

    def __init__(self, registry: Registry) -> None:
        self.packages = registry.installed
        """Packages that models know."""
        self._own = registry.own
        self._names = {name: about for name, (_, about) in registry.calls.items()}
        self._prefixes = {prefix: about for prefix, (_, about) in registry.namespaces.items()}
        self._methods: dict[str, About] = {}
        self._read = registry.externals.keys()
        self._types: dict[str, About] = {}
        for (_, method), (_, about) in registry.methods.items():
            if method is not None:
                self._methods[method] = _both(self._methods.get(method, _NOTHING), about)
        for (of, method), (_, about) in registry.methods.items():
            if of == "" and method is not None:
                # what it does to whatever it is called on; the tags of a kind are those of that kind alone
                weight = self._methods[method].weight
                self._methods[method] = About(weight, about.tags)
        for name, about in registry.abouts.items():
            if HALF in about.tags:
                about = About(Weight.EFFECT, about.tags)
            if name.startswith("."):
                self._methods[name[1:]] = _both(self._methods.get(name[1:], _NOTHING), about)
            elif name.endswith("."):
                self._prefixes[name] = _both(self._prefixes.get(name, _NOTHING), about)
            else:
                self._types[name] = _both(self._names.get(name, _NOTHING), about)
        self._names |= self._types

    def knows(self, name: str) -> bool:
        """Whether a qualified name is registered by itself."""
        return name in self._names or name in self._read or self.in_settings(name) is not None

    def in_settings(self, name: str) -> About | None:
        """What the settings say of a function, or, after a dot, of a method."""
        found = self._own(name) if self._own is not None else None
        return found[1] if found is not None else None

    def of_name(self, name: str) -> About:
        """What is registered of a qualified name, of all names below a beginning of it, or of the type of which it
        is an attribute."""
        own = self.in_settings(name)
        if own is not None:
            return own
        about = self._names.get(name)
        if about is not None:
            return about
        head = name
        while "." in head:
            head = head.rpartition(".")[0]
            if head in self._types:
                return self._types[head]
            if f"{head}." in self._prefixes:
                return self._prefixes[f"{head}."]
        return _NOTHING

    def of_method(self, name: str) -> About:
        """What is registered of methods of that name, whatever they are methods of."""
        return self.in_settings(f".{name}") or self._methods.get(name, _NOTHING)


@lru_cache(maxsize=2)
def keys_of(registry: Registry) -> Keys:
    """What a registry says of names, once it is filled."""
    return Keys(registry)


class Effects:
    """The effects of the definitions of one project."""

    def __init__(self, edges: Edges, registry: Registry, judged: Collection[Definition] = ()) -> None:
        """``judged``: definitions that count as meeting nothing, since what they do with AMP was judged already,
        whoever calls them."""
        self.edges = edges
        self.keys = keys_of(registry)
        self._judged = judged
        self._possible = _Closed(self._possibly, self._after)
        self._told = _Closed(self.own, self._after_telling)
        self._sure = _Closed(self.own, self._surely_after)
        self._enters: dict[Definition, bool] = {}
        self._nodes: dict[Definition, _Node] = {}
        self._entering: dict[str, bool] = {}

    def weight(self, definition: Definition) -> Weight:
        """The greatest weight."""
        return _weight(self.of(definition))

    def sure_weight(self, definition: Definition) -> Weight:
        """The greatest weight of what the text names."""
        return _weight(self._sure.of(definition))

    def told_weight(self, definition: Definition) -> Weight:
        """The greatest weight of what the text names, and of methods whose names tell something: ``match.end()`` is no
        call of ``Trainer.end``."""
        return _weight(self._told.of(definition))

    def told_tags(self, definition: Definition) -> frozenset[str]:
        """All tags of what the text names, and of methods whose names tell something."""
        return self._told.of(definition).tags

    def enters(self, definition: Definition) -> bool:
        """Whether a walk of a definition can meet an ENTRY key. A method that is called on something out of sight is
        among what it can meet if its class is named on the way (rapid type analysis): where nothing makes such an
        object, the walk does not know whose method that is."""
        found = self._enters.get(definition)
        if found is None:
            sure = self.sure_weight(definition) >= Weight.ENTRY or self._trains_what_was_cast(definition)
            may = self.weight(definition) >= Weight.ENTRY or _BY_TYPE in self.tags(definition)
            found = self._enters[definition] = sure or (may and self._enters_by_type(definition))
            self._node(definition).enters = found
        return found

    def _trains_what_was_cast(self, definition: Definition) -> bool:
        """Whether it is a method that trains what its object may hold in half precision: what the constructor leads to
        casts, ``self.net.half()``, or another method of its class does, ``self.net = Net().half()``."""
        owner = _owner(definition)
        if owner is None or BESIDE_HALF not in self._sure.of(definition).tags:
            return False
        constructor = self.edges.classes.find_method(owner, "__init__")
        casts = self._sure.of(constructor).tags if constructor not in (None, definition) else frozenset()
        others = (
            method
            for method in self.edges.classes.all_methods(owner)
            if method != definition and not self._is_cast(method)
        )
        return not casts.union(*(self.own(method).tags for method in others)).isdisjoint((HALF, TO_HALF))

    def _is_cast(self, method: FunctionValue) -> bool:
        """Whether a method stands for an inherited one that casts its object, and calls that: ``def half(self): return
        super().half()`` casts nothing that the object holds."""
        outline = method.outline
        if outline is None or self.keys.of_method(outline.name).tags.isdisjoint((HALF, TO_HALF)):
            return False
        calls = facts_of(method.file.outline).of(outline).body.calls
        return any(call.receiver == "super" and call.method == outline.name for call in calls)

    def _enters_by_type(self, definition: Definition) -> bool:
        met = Effect()
        seen: set[_Node] = set()
        classes: list[ClassValue] = []
        called: set[str] = set()
        waiting: dict[_Node, list[_Node]] = {}
        start = self._node(definition)
        pending = [start] if start.owner is None else [start, start.owner]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if not node.is_drawn:
                self._draw(node)
            met = met.and_of(node.effect)
            if _weight(met) >= Weight.ENTRY or (node.enters and node.is_named(seen)):
                return True
            pending += node.sure
            for method in node.possible:
                if method.is_named(seen):
                    pending.append(method)
                elif method.owner is not None:
                    waiting.setdefault(method.owner, []).append(method)
            unlisted = node.unlisted - called
            if unlisted:
                called |= unlisted
                pending += (method for value in classes for method in self._methods(value, unlisted))
            if isinstance(node.definition, ClassValue):
                classes.append(node.definition)
                pending += waiting.pop(node, ())
                pending += self._methods(node.definition, called)
        # what is met from here is met from none of these alone, which name fewer classes
        for node in seen:
            if node.is_named(seen):
                self._enters[node.definition] = False
        return False

    def _methods(self, value: ClassValue, names: Set[str]) -> Iterator[_Node]:
        """The methods of some names that a class defines itself."""
        methods = self.edges.classes.methods(value)
        for name in names & methods.keys():
            method = methods[name]
            if method is not None:
                yield self._node(method)

    def _node(self, definition: Definition) -> _Node:
        node = self._nodes.get(definition)
        if node is None:
            owner = _owner(definition)
            node = self._nodes[definition] = _Node(
                definition, self._node(owner) if owner is not None else None
            )
        return node

    def _draw(self, node: _Node) -> None:
        steps = self.steps(node.definition)
        node.effect = self._sure.of(node.definition)
        node.sure = [self._node(after) for after in steps.sure]
        node.possible = [self._node(after) for after in (*steps.possible, *self._built(node.definition))]
        node.unlisted, node.is_drawn = steps.unlisted, True

    def enters_itself(self, definition: Definition) -> bool:
        """Whether a definition names an ENTRY key by itself."""
        return _weight(self.own(definition)) >= Weight.ENTRY

    def touches(self, definition: Definition) -> bool:
        """Whether a definition names by itself what a package gives that models know, or has an effect."""
        outside = self.edges.of(definition).outside
        known = any(name.partition(".")[0] in self.keys.packages for name in outside)
        return known or self.own(definition).weight > Weight.NOTHING

    def computes(self, definition: Definition) -> bool:
        """Whether a region, or grad mode, can make a difference to what a definition does: it runs an op of torch,
        calls a value or a package that may, or has an effect."""
        found = self.of(definition)
        return _COMPUTES in found.tags or found.weight > Weight.NOTHING

    def tags(self, definition: Definition) -> frozenset[str]:
        """All tags."""
        return self.of(definition).tags

    def of(self, definition: Definition) -> Effect:
        """What a definition reaches."""
        return self._possible.of(definition)

    def own(self, definition: Definition) -> Effect:
        """What a definition meets itself."""
        if definition in self._judged:
            return Effect()
        found = self._met(self.edges.of(definition))
        if isinstance(definition, FunctionValue) and definition.outline is not None:
            own = self.keys.in_settings(f"{definition.file.module}.{definition.outline.qualified}")
            return found.and_of(own) if own is not None else found
        return found

    def files(self, files: Iterable[ProjectFile], wanted: Callable[[Effect], bool]) -> set[ProjectFile]:
        """The files with a definition that by itself meets what is wanted."""
        parts = {file: definitions_in(self.edges, file) for file in files}
        return {file for file in parts if any(wanted(self.own(part)) for part in parts[file])}

    def _possibly(self, definition: Definition) -> Effect:
        """What a definition meets itself, and whether some method that it may call does."""
        unlisted = self.steps(definition).unlisted
        tags = {_BY_TYPE} if any(map(self._is_entering, unlisted)) else set()
        if self._computes_itself(definition):
            tags.add(_COMPUTES)
        return self.own(definition).and_of(About(tags=frozenset(tags)))

    def _computes_itself(self, definition: Definition) -> bool:
        steps = self.steps(definition)
        return (
            steps.multiplies
            or bool(steps.unlisted)
            or "__call__" in steps.methods
            or not minding_regions().isdisjoint(steps.methods)
            or not all(map(_is_without_tensors, steps.outside))
        )

    def _is_entering(self, name: str) -> bool:
        found = self._entering.get(name)
        if found is None:
            methods = self.edges.hierarchy.methods_named.get(name, ())
            found = any(_weight(self._sure.of(method)) >= Weight.ENTRY for method in methods)
            self._entering[name] = found
        return found

    def _after(self, definition: Definition) -> list[Definition]:
        steps = self.steps(definition)
        return [*steps.sure, *steps.possible, *self._built(definition)]

    def _after_telling(self, definition: Definition) -> list[Definition]:
        steps = self.steps(definition)
        methods = (part for part in steps.possible if _name(part) not in OF_PYTHON)
        return [*steps.sure, *methods, *self._built(definition)]

    def _built(self, definition: Definition) -> Iterator[Definition]:
        """What the registries that a definition uses hold: ``LOSSES.build(name)`` may be each of the losses. What puts
        something into one, or is in it by its decorator, builds nothing by that."""
        if isinstance(definition, FunctionValue) and decorates(definition):
            return
        for one in self.steps(definition).sure:
            found = self.held.get(one, ()) if isinstance(one, Assigned) else ()
            if definition not in found:
                yield from found

    @cached_property
    def held(self) -> dict[Assigned, dict[Definition, None]]:
        """What the registries of the files hold."""
        return held(self.edges)

    def _surely_after(self, definition: Definition) -> list[Definition]:
        return list(self.steps(definition).sure)

    def steps(self, definition: Definition) -> Steps:
        """What a definition leads to."""
        return self.edges.of(definition) if definition not in self._judged else _NOWHERE

    def _met(self, steps: Steps) -> Effect:
        effect = Effect()
        for name in steps.outside:
            effect = effect.and_of(self.keys.of_name(name))
        for name in steps.methods:
            about = self.keys.of_method(name)
            if BARE not in about.tags or name in steps.bare:
                effect = effect.and_of(about)
        return effect


def _is_without_tensors(name: str) -> bool:
    package = name.partition(".")[0]
    return package in WITHOUT_TENSORS or package in sys.stdlib_module_names


class _Node:
    """A definition in the graph of calls, with those that it leads to."""

    __slots__ = ("definition", "effect", "enters", "is_drawn", "owner", "possible", "sure", "unlisted")

    def __init__(self, definition: Definition, owner: _Node | None) -> None:
        self.definition = definition
        self.owner = owner
        """The class of a method."""
        self.enters = False
        """Whether it is known that a walk of it can meet an ENTRY key."""
        self.is_drawn = False
        self.effect = Effect()
        self.sure: list[_Node] = []
        self.possible: list[_Node] = []
        self.unlisted: Set[str] = frozenset()

    def is_named(self, seen: Collection[_Node]) -> bool:
        """Whether it is no method, or its class is among some definitions."""
        return self.owner is None or self.owner in seen


class _Closed:
    """What definitions meet, closed over those that they lead to."""

    def __init__(
        self, own: Callable[[Definition], Effect], after: Callable[[Definition], list[Definition]]
    ) -> None:
        self._own = own
        self._after = after
        self._known: dict[Definition, Effect] = {}

    def of(self, definition: Definition) -> Effect:
        known = self._known.get(definition)
        if known is None:
            for component in components([definition], self._unknown_after):
                self._close(component)
            known = self._known[definition]
        return known

    def _unknown_after(self, definition: Definition) -> list[Definition]:
        return [after for after in self._after(definition) if after not in self._known]

    def _close(self, component: list[Definition]) -> None:
        """A component whose followers are all known."""
        effect = Effect()
        for part in component:
            effect = effect.and_of(self._own(part))
            for after in self._after(part):
                if after in self._known:
                    effect = effect.and_of(self._known[after])
        for part in component:
            self._known[part] = effect


def _name(method: Definition) -> str | None:
    return method.outline.name if isinstance(method, FunctionValue) and method.outline is not None else None


def _weight(effect: Effect) -> Weight:
    return Weight.ENTRY if {HALF, BESIDE_HALF} <= effect.tags else effect.weight


def _owner(method: Definition) -> ClassValue | None:
    """The class of a method."""
    if isinstance(method, FunctionValue) and method.outline is not None and method.outline.owner is not None:
        return ClassValue(method.file, method.outline.owner)
    return None


def _both(one: About, other: About) -> About:
    return About(max(one.weight, other.weight), one.tags | other.tags)
