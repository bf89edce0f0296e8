"""Objects of the classes of the project: how they are made, and what their attributes are.

An object that was there before the code that is walked was made nobody knows when: its constructor is walked from an
empty store. An attribute that only another method sets is what that statement makes of it; whether a method has
converted it since, nobody knows. While an object is built, the methods are followed that set its attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from amplint.flow.core.api import Arguments
from amplint.flow.core.bodies import bind_parameters, run_body
from amplint.flow.core.chosen import chosen
from amplint.flow.core.definitions import Definitions
from amplint.flow.core.machine import Lines, Machine, ProjectView
from amplint.flow.core.registry import CallModel, Registry, Weight
from amplint.flow.state.atoms import is_instance
from amplint.flow.state.conditions import asked
from amplint.flow.state.store import Key, join_values
from amplint.flow.state.symbols import Symbol, made_from, symbol
from amplint.flow.state.values import (
    NONE,
    AskedClasses,
    BoundMethod,
    Choice,
    ClassValue,
    Constant,
    External,
    FunctionValue,
    Instance,
    Mapping,
    Number,
    Partial,
    Super,
    Unknown,
    Usual,
    Value,
)
from amplint.flow.state.values import Sequence as Items
from amplint.lowering import program as ir
from amplint.lowering.walk import nodes

MOST_NESTED = 12
"""So many constructors are walked within each other, each for an attribute that the one around it asks for."""
MOST_ALIKE = 2
"""So many objects of one class are looked into that hold each other, each made by the constructor of the one around it:
a class may be a candidate for a part of itself."""


class Instances(Definitions):
    """The objects that classes of the project make, and those that were there before."""

    def __init__(self, registry: Registry, project: ProjectView) -> None:
        super().__init__(registry, project)
        self._pending: dict[Symbol, Arguments] = {}
        self._first_made: dict[Symbol, ClassValue] = {}
        self._initialised: dict[Symbol, ClassValue | None] = {}
        self._of_unknown_age: dict[Symbol, Instance] = {}
        self._handed_in: set[Symbol] = set()
        self._elsewhere: set[tuple[Symbol, str]] = set()
        self._nested = 0
        self._building: set[Symbol] = set()
        """The objects whose constructors are being walked."""

    def construct(self, value: ClassValue, arguments: Arguments, node: ir.Node) -> Value:
        """An object of a class of the project."""
        for key in self.outside(value):
            model = self.registry.classes.get(key)
            if model is not None:
                run = partial(self._made_by, model, key, node)
                result = self.answered(replace(arguments, receiver=value), run)
                if result is not None:
                    return result
        kept = self.project.may_keep(value)
        self.frame.branches += kept
        try:
            return self._built(value, arguments, node)
        finally:
            self.frame.branches -= kept

    def _built(self, value: ClassValue, arguments: Arguments, node: ir.Node) -> Instance:
        own = self.fresh(node)
        if self._first_made.setdefault(own, value) != value:
            # another one of several classes, ``KINDS[name](8)``, makes an object of its own
            own = self.fresh(node, value.outline.name)
        instance = Instance(own, value)
        each_round = self.machine.runs_each_round
        self.on_each(partial(self.registry.hooks.made, self.machine, instance, arguments, each_round, node))
        method = self.find_method(value, "__init__")
        fields = self.project.fields(value) if method is None else None
        if fields is not None:
            self._fill(instance, fields, arguments, node)
        elif method is not None:
            self._begin(instance, method, arguments, node)
        else:
            # a model may know the constructor that is inherited
            self.machine.call(BoundMethod(Super(instance, value), "__init__"), arguments, node)
        return instance

    def _made_by(self, model: CallModel, key: str, node: ir.Node, given: Arguments) -> Value | None:
        return model(self.machine, key, given, node)

    def _begin(self, instance: Instance, method: FunctionValue, arguments: Arguments, node: ir.Node) -> None:
        """Walks a constructor now, if it has effects, or when an attribute of the object is asked for."""
        now = self.project.sure_weight(method) >= Weight.EFFECT or any(map(matters, arguments.all))
        now = now or any(map(self.is_holder, arguments.all))
        if now and not self.silent:
            self._initialised[instance.identity] = instance.made_of
            with self._being_built(instance):
                self.machine.call_function(method, arguments.after(instance, node), node)
        else:
            self._pending[instance.identity] = arguments

    def has_effects(self, function: FunctionValue) -> bool:
        """Whether a function has effects by what its text names."""
        return self.project.sure_weight(function) >= Weight.EFFECT

    def _lends_effects(self, function: FunctionValue, value: Value) -> bool:
        """Whether a function calls a method with effects of an object that it is given: ``trainer.unscale()`` in a
        callback."""
        if not isinstance(value, Instance) or value.made_of is None:
            return False
        methods = (self.find_method(value.made_of, name) for name in self.project.methods_called(function))
        return any(method is not None and self.has_effects(method) for method in methods)

    def holds(self, owner: Instance, value: Value) -> None:
        """Notes that an object has got a value as an attribute: ``self.process = train_step``, ``self.ema = ema``."""
        if self._has_effects(value) or self._spreads(value):
            self.holders.add(owner.identity)

    def _spreads(self, value: Value, inside: frozenset[Symbol] = frozenset()) -> bool:
        """Whether methods of what holds a value are followed: it matters, or holds such a value itself. ``inside``
        are the collections that it is a part of: a dict may hold itself."""
        if isinstance(value, (Items, Mapping)) and value.identity is not None:
            if value.identity in inside:
                return False
            inside |= {value.identity}
        value = self.machine.contents(value)
        match value:
            case Choice():
                return self._spreads(value.then, inside) or self._spreads(value.other, inside)
            case Items():
                return any(self._spreads(item, inside) for item in value.items)
            case Mapping():
                return any(
                    self._spreads(item, inside) for item in (*(one for _, one in value.items), *value.rest)
                )
        return self.is_holder(value) or (value.spreads and value.matters)

    def _has_effects(self, value: Value) -> bool:
        """Whether calling a value has effects: ``validate(model, amp_autocast=torch.cuda.amp.autocast)``."""
        match value:
            case Choice():
                return self._has_effects(value.then) or self._has_effects(value.other)
            case Partial():
                return self._has_effects(value.function)
            case External():
                found = self.registry.called(value.name)
                return found is not None and found[1].weight >= Weight.EFFECT
            case FunctionValue():
                return self.has_effects(value)
        return False

    def is_holder(self, value: Value) -> bool:
        """Whether a value is an object that has something as an attribute because of which its methods are followed."""
        return isinstance(value, Instance) and value.identity in self.holders

    def _fill(
        self,
        instance: Instance,
        fields: tuple[tuple[str, Value | Lines | None, Value | None], ...],
        given: Arguments,
        node: ir.Node,
    ) -> None:
        """The attributes of an object of a dataclass."""
        named = given.by_name(tuple(name for name, _, _ in fields))
        for name, default, kind in fields:
            value = named.get(name)
            usual = self._value_of(default, name) if value is None and default is not None else None
            if usual is not None and not given.unclear:
                value = usual
            if value is None:
                own = symbol("attribute", instance.identity, name)
                value = self._field(kind, own)
                if isinstance(usual, Constant):
                    self.machine.set_note(own, Usual(usual))
            self.store(instance.identity, name, value)
        made_of = instance.made_of
        after = self.find_method(made_of, "__post_init__") if made_of is not None else None
        if after is not None:
            self.machine.call_function(after, Arguments((instance,), (), (node,), unclear=True), node)

    def _field(self, kind: Value | None, own: Symbol) -> Value:
        """A field that is not known, by its annotation."""
        value = self.of_class(kind, own) if kind is not None else None
        return value if value is not None else Unknown(own)

    def receiver_of(self, value: ClassValue, *, usual: bool = False) -> Instance:
        """The object on which a method is walked that nobody in sight calls. ``usual``: it is made with what its
        constructor takes by default, as far as that says."""
        identity = symbol("self", value.file.display, value.outline.qualified, *("usual",) * usual)
        self._pending.setdefault(identity, Arguments(unclear=True, usual=usual))
        return self._of_unknown_age.setdefault(identity, Instance(identity, value))

    def is_of_unknown_age(self, value: Instance) -> bool:
        """Whether an object was there before the code that is walked: what happened to it since is out of sight."""
        return value.identity in self._of_unknown_age

    def is_handed_in(self, value: Instance) -> bool:
        """Whether somebody out of sight made an object: an argument whose class an annotation or ``isinstance`` tells.
        What its settings are since, only he knows."""
        return value.identity in self._handed_in

    def older(self, value: Instance) -> Instance | None:
        """The object that was there before the code that is walked, of which an object is a part: it was made by the
        constructor of that one."""
        pending: list[Symbol] = [value.identity]
        seen: set[Symbol] = set()
        while pending:
            part = pending.pop()
            found = self._of_unknown_age.get(part)
            if found is not None:
                return found
            seen.add(part)
            pending += [one for one in part.parts if isinstance(one, Symbol) and one not in seen]
        return None

    def initialise(self, value: Instance) -> None:
        """Walks the constructor of an object if that has not been done."""
        identity, made_of = value.identity, value.made_of
        if identity in self._initialised or made_of is None or identity not in self._pending:
            return
        alike = sum(self._initialised.get(part) == made_of for part in made_from(identity))
        if self._nested == MOST_NESTED or alike == MOST_ALIKE:
            return
        self._initialised[identity] = made_of
        method = self.find_method(made_of, "__init__")
        if method is None:
            fields = self.project.fields(made_of)
            for name, _, kind in fields or ():
                self.base.setdefault((identity, name), self._field(kind, symbol("attribute", identity, name)))
                self.state.note_attribute((identity, name))
            return
        program = self.program_of(method)
        if program is None:
            return
        given = self._pending[identity]
        head = program.node
        context = symbol("constructor", identity)

        def build() -> Value:
            self.frame.function = method
            bind_parameters(self.machine, program, given.after(value, head))
            run_body(self.machine, program)
            return NONE

        # one that was there before was made before: nothing has happened yet
        heap = {} if self.is_of_unknown_age(value) else dict(self.state.heap)
        with self._being_built(value):
            self.apart(program, method.file, context, lambda: self._with(heap, build))

    @contextmanager
    def _being_built(self, value: Instance) -> Iterator[None]:
        self._building.add(value.identity)
        try:
            yield
        finally:
            self._building.discard(value.identity)

    def is_being_built(self, value: Value) -> bool:
        """Whether the constructor of an object is being walked."""
        return isinstance(value, Instance) and value.identity in self._building

    def _with(self, heap: dict[Key, Value], build: Callable[[], Value]) -> Value:
        """Walks a constructor among the objects that there are now; only what it makes is kept."""
        before = dict(heap)
        self.state.heap = dict(heap)
        self._nested += 1
        try:
            result = build()
        finally:
            self._nested -= 1
        self.state.heap = {
            key: value for key, value in self.state.heap.items() if before.get(key) is not value
        }
        return result

    def settle(self, owner: Symbol, name: str, value: Value) -> None:
        """Says what an attribute is on all paths that do not set it."""
        self.base[owner, name] = value

    def set_elsewhere(self, base: Instance, name: str) -> Value | None:
        """An attribute that another method than the constructor sets: the values of these statements. Unknown where
        one of them is and the others are None."""
        key = (base.identity, name)
        if base.made_of is None or key in self._elsewhere:
            return None
        self._elsewhere.add(key)
        found: Value | None = None
        hidden = False
        try:
            for index, lines in enumerate(self.project.attribute_stores(base.made_of, name)[:3]):
                value = self._set_by(base, name, lines)
                hidden = hidden or isinstance(value, Unknown)
                if value is None or isinstance(value, Unknown):
                    continue
                atom = symbol("set by", base.identity, name, index)
                found = value if found is None else join_values(asked(atom), value, found)
        finally:
            self._elsewhere.discard(key)
        if hidden and (found is None or found == NONE):
            return Unknown(
                symbol("attribute", base.identity, name), self.kind_of_attribute(base.made_of, name)
            )
        return found

    def _set_by(self, base: Instance, name: str, lines: Lines) -> Value | None:
        """What a statement of a method makes of an attribute. Nobody knows what the method was given."""
        program = self.project.lines(lines)
        method = self.project.program(lines.method) if lines.method is not None else None
        if method is None or not method.parameters:
            return None
        context = symbol("set", base.identity, *program.root)
        own = method.parameters[0].name
        names: dict[str, Value] = {
            local: Unknown(
                symbol("parameter", base.identity, method.path, *method.root, method.number, local)
            )
            for local in sorted({*(parameter.name for parameter in method.parameters), *method.locals})
        }

        def run() -> Value | None:
            for attribute, given in _kept_as_given(method, own):
                self.machine.assign(given, Unknown(symbol("attribute", base.identity, attribute)))
            self.run(program.body)
            found = self.state.heap.get((base.identity, name))
            if isinstance(found, Unknown):
                # what the method was given is not what anybody else calls the attribute
                del self.state.heap[base.identity, name]
            return found

        return self.apart(program, lines.file, context, run, receiver=base, names={**names, own: base})

    def attributes_of(self, value: Instance) -> dict[str, Value]:
        """The attributes that are known of an object."""
        self.initialise(value)
        found: dict[str, Value] = {}
        for name in sorted(self.state.attributes.get(value.identity, ())):
            key = (value.identity, name)
            held = self.state.heap.get(key)
            held = held if held is not None else self.base.get(key)
            if held is not None:
                found[name] = held
        return found

    def set_settings(self, base: Instance, node: ir.Node) -> None:
        """Sets attributes of an object whose names and values nobody knows. A constant may be anything since, unless
        another method sets that attribute: then it is what that one says."""
        made_of = base.made_of
        for name in self.attributes_of(base):
            held = self.read((base.identity, name))
            if held is None or (made_of and self.project.attribute_stores(made_of, name)):
                continue
            since = chosen(self.machine, symbol("attribute", base.identity, name, "since", node.number), held)
            if since is not held:
                self.store(base.identity, name, since)

    def has_hidden_attributes(self, made_of: ClassValue) -> bool:
        """Whether the constructor of a class may set attributes whose names nobody can read off."""
        maker = self.find_method(made_of, "__init__")
        return maker is not None and self.project.computes_names(maker)

    def lacks(self, value: Instance, name: str) -> bool:
        """Whether an object that was made in sight has no attribute of that name: all its classes are known, and no
        code sets it on an object of another class."""
        made_of = value.made_of
        if made_of is None or self.is_of_unknown_age(value) or self.has_hidden_attributes(made_of):
            return False
        for base in self.bases(made_of):
            if isinstance(base, External) and name in self.registry.members.get(base.name, (name,)):
                return False
        if any(
            self.find_method(made_of, one) is not None for one in (name, "__getattr__", "__getattribute__")
        ):
            return False
        stored = self.project.attribute_stores(made_of, name) or self.project.is_set_from_outside(name)
        return not stored and self.class_attribute(made_of, name) is None

    def is_setting(self, value: Value) -> bool:
        """Whether a value surely comes from outside of the code: an attribute that no code of the project gives to any
        object."""
        if not isinstance(value, (Unknown, Number)) or value.symbol.parts[0] != "attribute":
            return False
        return not self.project.is_attribute(str(value.symbol.parts[2]))

    def of_class(self, kind: Value, own: Symbol) -> Value | None:
        """An object of a class, by what an annotation or ``isinstance`` says."""
        match kind:
            case ClassValue():
                self._pending.setdefault(own, Arguments(unclear=True))
                known = self.project.concrete(kind)
                made_of = known[0] if len(known) == 1 else kind
                self._handed_in.add(own)
                return self._of_unknown_age.setdefault(own, Instance(own, made_of))
            case External():
                model = self.registry.annotations.get(kind.name)
                return model(self.machine, own) if model is not None else None
        return None


def _kept_as_given(method: ir.Program, own: str) -> Iterator[tuple[str, ir.Expression]]:
    """The attributes of its object that a method sets to what it was given, or to a part of that: ``self.amp = amp``,
    ``self.amp = config.amp``."""
    given = {parameter.name for parameter in method.parameters[1:]}
    for node in nodes(method):
        if not isinstance(node, ir.Assign):
            continue
        root = node.value
        while isinstance(root, (ir.Attribute, ir.Subscript)):
            root = root.value
        if not isinstance(root, ir.Name) or root.id not in given:
            continue
        for target in node.targets:
            match target:
                case ir.Attribute(value=ir.Name(id=of), name=name) if of == own:
                    yield name, node.value


def matters(value: Value) -> bool:
    """Whether a call that is given a value is followed."""
    if isinstance(value, Choice):
        return matters(value.then) or matters(value.other)
    if value.matters:
        return True
    if isinstance(value, Items):
        return any(map(matters, value.items))
    if isinstance(value, Mapping):
        return any(matters(item) for _, item in value.items) or any(map(matters, value.rest))
    return False


def method_of_asked(m: Machine, value: Unknown, name: str) -> FunctionValue | None:
    """The method of a class of which this path knows that an object is of it: ``if isinstance(loss, Several):
    loss.backward()``."""
    for note in m.notes(value.symbol, AskedClasses):
        for kind in sorted(note.kinds, key=lambda one: (one.file.display, one.outline.line)):
            if m.known_truth(is_instance(value.symbol, kind)) is True:
                return m.find_method(kind, name)
    return None
