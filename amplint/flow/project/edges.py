"""What a definition leads to, one step far: other definitions, names outside, methods of objects out of sight.

``Edges.of(node)``, where a node is a function (the body of a module included), a class (its construction) or a name
that statements of a module set. Receivers are resolved where the text shows what they are: ``self`` with its class and
the classes below it, a name or attribute that is set to the call of a class once. Everything else is known by the
name of the method, which leads to all methods of that name if they are few.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from amplint.flow.project.classes import Classes
from amplint.flow.project.hierarchy import Hierarchy
from amplint.flow.project.meanings import Assigned, Meaning, Member
from amplint.flow.project.signatures import may_be
from amplint.flow.state.values import ClassValue, External, FunctionValue
from amplint.source.bindings import StatementBinding
from amplint.source.bodies import Body, Call, Store
from amplint.source.facts import Facts, Scope, facts_of
from amplint.source.outline import ClassOutline, FunctionOutline, dotted
from amplint.source.project import ProjectFile

Definition = FunctionValue | ClassValue | Assigned
"""A function or the body of a module, the construction of a class, a name that a module sets."""

MOST_METHODS = 8
"""A call of a method of an object out of sight may lead to any method of that name, if there are no more."""
_CONSTRUCTORS = ("__new__", "__init__", "__post_init__", "__init_subclass__")
CALLED = ("__call__", "forward")
"""Methods that a call of an object runs."""


@dataclass(slots=True)
class Steps:
    """What one definition leads to. ``sure`` are definitions that the text names, ``possible`` those that have the
    name of a method which is called on something out of sight, and ``unlisted`` the names of those of which there are
    too many to be listed; ``outside`` are qualified names of packages outside,
    ``methods`` the names of the methods called on what is out of sight, ``data=`` for ``x.data = …`` and ``grad.`` for
    ``x.grad``, ``bare`` those that are called without arguments. ``multiplies``: it has a matrix product of its own."""

    sure: dict[Definition, None] = field(default_factory=dict)
    possible: dict[Definition, None] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)
    bare: set[str] = field(default_factory=set)
    multiplies: bool = False


class Edges:
    """The steps from definition to definition. ``files`` are those in which methods are looked for by name."""

    def __init__(self, classes: Classes, files: Sequence[ProjectFile]) -> None:
        self.classes = classes
        self.names = classes.names
        self.files = sorted(files, key=lambda file: str(file.path))
        self.hierarchy = Hierarchy(classes, self.files)
        self._steps: dict[Definition, Steps] = {}
        self._stores: dict[ClassValue, dict[str, list[tuple[FunctionValue, Store]]]] = {}
        self._attributes: dict[tuple[ClassValue, str], Meaning | None] = {}
        self._held: dict[tuple[ClassValue, str], set[str]] = {}
        self._of_modules: dict[tuple[ProjectFile, str], Meaning | None] = {}

    def of(self, definition: Definition) -> Steps:
        """The steps from a definition."""
        known = self._steps.get(definition)
        if known is None:
            known = self._steps[definition] = self._drawn(definition)
        return known

    def _drawn(self, definition: Definition) -> Steps:
        match definition:
            case FunctionValue(file=file, outline=FunctionOutline() as outline):
                return _Drawing(self, file, outline).function()
            case ClassValue(file=file, outline=outline):
                return _Drawing(self, file, outline).construction(definition)
            case Assigned(file=file):
                return _Drawing(self, file, None).value(definition)
        return Steps()

    def made_of(self, value: ClassValue, name: str) -> Meaning | None:
        """The class whose call an attribute of the objects of a class is set to, if it is set once."""
        key = (value, name)
        if key not in self._attributes:
            self._attributes[key] = None
            self._attributes[key] = self._made_of(value, name)
        return self._attributes[key]

    def _made_of(self, value: ClassValue, name: str) -> Meaning | None:
        found = {
            self.made_by(method.file, store.value, method.outline)
            for base in self.classes.bases(value)
            if isinstance(base, ClassValue)
            for method, store in self._stores_in(base).get(name, ())
        }
        return next(iter(found)) if len(found) == 1 else None

    def _stores_in(self, value: ClassValue) -> dict[str, list[tuple[FunctionValue, Store]]]:
        """What the methods of a class assign to attributes of their object."""
        known = self._stores.get(value)
        if known is None:
            known = self._stores[value] = {}
            for method in self.classes.methods(value).values():
                outline = method.outline
                if outline is None or not outline.parameters:
                    continue
                first = f"{outline.parameters[0]}."
                for name, stores in facts_of(method.file.outline).of(outline).body.stores.items():
                    if name.startswith(first):
                        of_name = known.setdefault(name[len(first) :], [])
                        of_name += [(method, store) for store in stores]
        return known

    def held(self, value: ClassValue, name: str) -> set[str]:
        """The names outside that an attribute of the objects of a class is made with: ``torch.autocast`` where a
        method says ``self.precision = torch.autocast("cuda")``."""
        key = (value, name)
        if key not in self._held:
            found = self._held[key] = set()
            for base in self.classes.bases(value):
                if isinstance(base, ClassValue):
                    for method in {method for method, _ in self._stores_in(base).get(name, ())}:
                        if method.outline is not None:
                            found |= self._stored(method.file, method.outline, name)
        return self._held[key]

    def _stored(self, file: ProjectFile, method: FunctionOutline, name: str) -> set[str]:
        """The names outside in what a method sets an attribute to, local names followed."""
        body = facts_of(file.outline).of(method).body
        pending = [f"{method.parameters[0]}.{name}"]
        seen: set[str] = set()
        found: set[str] = set()
        while pending:
            target = pending.pop()
            seen.add(target)
            values = [store.value for store in body.stores.get(target, ()) if store.value is not None]
            inner = Body(values)
            read = {call.name for call in inner.calls if call.name is not None} | inner.loads
            for one in sorted(read):
                found |= {part.name for part in self.named(file, one, method) if isinstance(part, External)}
                if one not in seen and one in body.stores and "." not in one:
                    pending.append(one)
        return found

    def made_by(self, file: ProjectFile, value: ast.expr | None, scope: Scope | None) -> Meaning | None:
        """The class of which a call gives an object: ``Trainer(options)``, ``Trainer.create(options)``."""
        name = dotted(value.func) if isinstance(value, ast.Call) else None
        found = self.named(file, name, scope) if name is not None else []
        if name is None or len(found) != 1:
            return None
        one = found[0]
        if isinstance(one, FunctionValue) and self._gives_own_class(one):
            owners = self.named(file, name.rpartition(".")[0], scope)
            one = owners[0] if len(owners) == 1 else one
        return one if isinstance(one, (ClassValue, External)) else None

    def made_in_module(self, file: ProjectFile, name: str) -> Meaning | None:
        """The class of the objects that a module gives a name, if it is one class: ``model = Net()``."""
        if (file, name) not in self._of_modules:
            bindings = self.names.global_bindings(file, name)
            values = [binding.value for binding in bindings if isinstance(binding, StatementBinding)]
            made = {self.made_by(file, value, None) for value in values}
            self._of_modules[file, name] = next(iter(made)) if len(made) == 1 else None
        return self._of_modules[file, name]

    def _gives_own_class(self, function: FunctionValue) -> bool:
        """Whether a class method gives an object of the class that it is called on: ``return cls(options)``."""
        if function.outline is None or self.classes.kind(function) != "classmethod":
            return False
        facts = facts_of(function.file.outline).of(function.outline)
        own, stores = facts.parameters[:1], facts.body.stores

        def is_own(value: ast.expr | None) -> bool:
            if isinstance(value, ast.Name) and value.id in stores:
                return all(
                    isinstance(store.value, ast.Call) and is_own(store.value) for store in stores[value.id]
                )
            return isinstance(value, ast.Call) and dotted(value.func) in own

        return bool(facts.body.returned) and all(map(is_own, facts.body.returned))

    def named(self, file: ProjectFile, name: str, scope: Scope | None) -> list[Meaning]:
        """What a dotted name may mean, members of classes and plain names followed."""
        found: list[Meaning] = []
        for one in self.names.meanings(file, name, scope):
            meaning: Meaning | None = self.names.followed(one)
            if isinstance(meaning, Member):
                owner = meaning.owner
                meaning = self.classes.member(meaning)
                found.append(meaning if meaning is not None else owner)
            elif meaning is not None:
                found.append(meaning)
        return found


class _Drawing:
    """Draws the steps from one definition."""

    def __init__(self, edges: Edges, file: ProjectFile, scope: Scope | None) -> None:
        self._edges = edges
        self._file = file
        self._facts = facts_of(file.outline)
        self._scope = scope
        self._steps = Steps()
        self._calling: Call | None = None
        """The call that is looked at, if it is one."""
        self._kept: set[ast.expr | None] = set()
        """The expressions whose results get names."""
        self._resolved: dict[str, list[Meaning]] = {}
        self._unknown_roots: dict[str, bool] = {}

    def function(self) -> Steps:
        """From a function, or from the body of a module."""
        assert isinstance(self._scope, FunctionOutline)
        facts = self._facts.of(self._scope)
        self._run(facts.body, facts)
        stored = (name.rpartition(".") for name in facts.body.stores)
        self._steps.methods |= {f"{attribute}=" for owner, _, attribute in stored if owner}
        called = {(call.name or "").rpartition(".")[0] for call in facts.body.calls}
        read = {part for name in facts.body.loads | called for part in name.split(".")[1:]}
        self._steps.methods |= {f"{attribute}." for attribute in read}
        self._decorators(facts)
        if self._scope is not self._file.outline.module:
            for inner in facts.nested:
                self._reach(
                    ClassValue(self._file, inner)
                    if isinstance(inner, ClassOutline)
                    else self._edges.names.function(self._file, inner)
                )
        self._class_bodies(facts.classes)
        return self._steps

    def construction(self, value: ClassValue) -> Steps:
        """From the construction of an object."""
        self._decorators(self._facts.of(value.outline))
        self._class_bodies([value.outline])
        for base in self._edges.classes.bases(value):
            if isinstance(base, External):
                self._steps.outside.add(base.name)
            elif base != value:
                self._reach(base)
        for name in _CONSTRUCTORS:
            method = self._edges.classes.own_method(value, name)
            if method is not None:
                self._reach(method)
        return self._steps

    def value(self, definition: Assigned) -> Steps:
        """From a name that the statements of a module set."""
        for binding in self._edges.names.global_bindings(self._file, definition.name):
            if isinstance(binding, StatementBinding) and binding.value is not None:
                self._run(Body([binding.value]), None)
        return self._steps

    def _class_bodies(self, classes: Iterable[ClassOutline]) -> None:
        """What the statements in the body of a class do when the class is defined."""
        outer = self._scope
        for part in classes:
            self._scope, self._resolved, self._unknown_roots = part, {}, {}
            facts = self._facts.of(part)
            self._run(facts.body, facts)
            self._class_bodies(facts.classes)
        self._scope, self._resolved, self._unknown_roots = outer, {}, {}

    def _run(self, body: Body, facts: Facts | None) -> None:
        self._steps.multiplies |= body.multiplies
        self._kept = {store.value for stores in body.stores.values() for store in stores}
        for call in body.calls:
            self._call(call, facts)
        runs = isinstance(self._scope, FunctionOutline) and self._scope is not self._file.outline.module
        handed_on = frozenset() if runs or facts is None else _arguments_in(body)
        for name in sorted(body.loads):
            only_names = not runs and facts is not None and name not in handed_on
            self._load(name, facts, only_names=only_names, compared=name in body.compared)

    def _decorators(self, facts: Facts) -> None:
        outer, self._scope = self._scope, self._facts.around(facts.scope)
        self._resolved, self._unknown_roots = {}, {}
        inner = Body([decorator.node for decorator in facts.decorators])
        self._run(inner, None)
        self._scope, self._resolved, self._unknown_roots = outer, {}, {}

    # what is named

    def _named(self, name: str) -> list[Meaning]:
        known = self._resolved.get(name)
        if known is None:
            root = name.partition(".")[0]
            if root not in self._unknown_roots:
                self._unknown_roots[root] = self._is_parameter(root)
            if self._unknown_roots[root]:
                return []
            known = self._resolved[name] = self._edges.named(self._file, name, self._scope)
        return known

    def _is_parameter(self, name: str) -> bool:
        scope = self._scope
        return isinstance(scope, FunctionOutline) and name in self._facts.of(scope).parameters

    def _reach(self, meaning: Meaning) -> None:
        match meaning:
            case External(name=name):
                self._steps.outside.add(name)
            case Assigned(file=file, name=name, rest=rest):
                self._steps.sure[Assigned(file, name)] = None
                if rest:
                    self._method_outside(rest[-1])
            case FunctionValue() | ClassValue():
                self._steps.sure[meaning] = None

    def _load(self, name: str, facts: Facts | None, *, only_names: bool, compared: bool) -> None:
        """A name that is read. ``only_names``: the body of a module or class that puts a function into a table does
        not call it; one that hands it to a call may. ``compared``: it is only compared with."""
        found = self._named(name)
        for meaning in found:
            if compared and isinstance(meaning, External):
                continue
            if not only_names or isinstance(meaning, (External, Assigned)):
                self._reach(meaning)
        if not found and facts is not None:
            owner = self._owner_of(name, facts)
            if owner is not None:
                self._method(owner, name.split(".")[1], called=False)

    def _call(self, call: Call, facts: Facts | None) -> None:
        self._calling = call
        self._called(call, facts)
        self._calling = None

    def _called(self, call: Call, facts: Facts | None) -> None:
        if call.name is None:
            self._call_of_expression(call, facts)
            return
        base, dot, method = call.name.rpartition(".")
        found = self._named(call.name)
        for meaning in found:
            match meaning:
                case Assigned(rest=rest) if not rest:
                    self._reach(meaning)
                    self._unknown("__call__")
                case Assigned(file=file, name=name, rest=(*_, last)):
                    self._reach(Assigned(file, name))
                    self._receiver_of_module(Assigned(file, name), meaning.rest, last)
                case _:
                    self._reach(meaning)
        if found:
            return
        if not dot:
            self._local(method, "__call__", facts)
            return
        owner = self._owner_of(call.name, facts) if facts is not None else None
        parts = call.name.split(".")
        if owner is not None and len(parts) == 2:
            self._method(owner, method)
        elif owner is not None and len(parts) == 3:
            self._receiver(self._edges.made_of(owner, parts[1]), method)
            self._method(owner, parts[1], called=False)
        else:
            self._local(base, method, facts)

    def _call_of_expression(self, call: Call, facts: Facts | None) -> None:
        function = call.node.func
        inner = function.value if isinstance(function, ast.Attribute) else None
        if call.receiver == "super":
            owner = self._class_around(facts)
            found = (
                self._edges.classes.find_method(owner, call.method, after=owner)
                if owner is not None
                else None
            )
            if found is not None:
                self._reach(found)
            elif owner is not None:
                self._inherited(owner, call.method)
            return
        self._receiver(self._edges.made_by(self._file, inner, self._scope), call.method or "__call__")

    # receivers

    def _class_around(self, facts: Facts | None) -> ClassValue | None:
        """The class of the method in which a function stands."""
        scope: Scope | None = facts.scope if facts is not None else None
        while scope is not None:
            if isinstance(scope, FunctionOutline) and scope.owner is not None:
                return ClassValue(self._file, scope.owner)
            scope = self._facts.around(scope)
        return None

    def _owner_of(self, name: str, facts: Facts) -> ClassValue | None:
        """The class of the object if a dotted name begins with the first parameter of a method around."""
        first, dot, _ = name.partition(".")
        scope: Scope | None = facts.scope
        while dot and isinstance(scope, FunctionOutline):
            if scope.owner is not None:
                kind = self._edges.classes.kind(self._edges.names.function(self._file, scope))
                takes_self = kind != "staticmethod" and scope.parameters[:1] == (first,)
                return ClassValue(self._file, scope.owner) if takes_self else None
            if self._facts.of(scope).is_local(first):
                return None
            scope = self._facts.around(scope)
        return None

    def _method(self, owner: ClassValue, name: str, *, called: bool = True) -> None:
        """``self.name``: of the class or one below it. Not ``called``: only a property is run, but a method that is
        handed on may be."""
        found = [self._edges.classes.find_method(owner, name)]
        found += self._edges.hierarchy.overriding(owner, name)
        for method in found:
            if method is not None:
                self._reach(method)
        if found[0] is None and called:
            if self._edges.classes.attribute(owner, name) is None:
                self._inherited(owner, name)
            self._receiver(self._edges.made_of(owner, name), "__call__")
        if found[0] is None:
            self._steps.outside |= self._edges.held(owner, name)

    def _inherited(self, owner: ClassValue, name: str) -> None:
        """A method that only a class outside can have."""
        self._method_outside(name)
        for base in self._edges.classes.bases(owner):
            if isinstance(base, External):
                self._steps.outside.add(f"{base.name}.{name}")

    def _local(self, base: str, method: str, facts: Facts | None) -> None:
        """A call on a local name. A dotted one is out of sight."""
        stores = facts.body.stores.get(base, ()) if facts is not None else ()
        made = {self._edges.made_by(self._file, store.value, self._scope) for store in stores}
        known = len(made) == 1 and facts is not None and base not in facts.parameters
        self._receiver(next(iter(made)) if known else None, method)

    def _receiver_of_module(self, owner: Assigned, rest: Sequence[str], method: str) -> None:
        """A call on a name that a module sets: ``model.eval()``."""
        made = self._edges.made_in_module(owner.file, owner.name) if len(rest) == 1 else None
        self._receiver(made, method)

    def _receiver(self, made: Meaning | None, method: str) -> None:
        """A call of a method of an object of a class, or of one out of sight."""
        if isinstance(made, ClassValue):
            found = [self._edges.classes.find_method(made, name) for name in self._names_of(method)]
            for one in found:
                if one is not None:
                    self._reach(one)
            if not any(found):
                self._inherited(made, method)
        elif isinstance(made, External):
            self._steps.outside.add(f"{made.name}.{method}")
            self._method_outside(method)
        else:
            self._unknown(method)

    def _names_of(self, method: str) -> tuple[str, ...]:
        return CALLED if method == "__call__" else (method,)

    def _method_outside(self, name: str) -> None:
        self._steps.methods.add(name)
        if self._calling is None or not (self._calling.node.args or self._calling.node.keywords):
            self._steps.bare.add(name)

    def _unknown(self, method: str) -> None:
        self._method_outside(method)
        for name in self._names_of(method):
            found = self._edges.hierarchy.methods_named.get(name, ())
            if len(found) <= MOST_METHODS:
                self._steps.possible.update({one: None for one in found if self._may_be_called(one)})
            else:
                self._steps.unlisted.add(name)

    def _may_be_called(self, method: FunctionValue) -> bool:
        """Whether the call on something out of sight that is looked at may be one of this method."""
        call = self._calling
        return call is None or may_be(method, call, kept=call.node in self._kept)


def _arguments_in(body: Body) -> frozenset[str]:
    """The names that are handed to calls."""
    calls = [call.node for call in body.calls]
    given = (value for call in calls for value in (*call.args, *(word.value for word in call.keywords)))
    return frozenset(name for argument in given if (name := dotted(argument)) is not None)


def definitions_in(edges: Edges, file: ProjectFile) -> Iterator[FunctionValue]:
    """The body of a file and its functions in the order of the text, nested ones left out: they are part of those
    around them."""
    facts = facts_of(file.outline)
    if file.outline.module is not None:
        yield edges.names.function(file, file.outline.module)
    for part in facts.functions:
        around = facts.around(part)
        while isinstance(around, ClassOutline):
            around = facts.around(around)
        if around is None:
            yield edges.names.function(file, part)
