"""The project as the interpreter sees it: see ProjectView in flow/core/machine.py for what is asked."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path

from amplint.flow.core.machine import Binding, Lines
from amplint.flow.core.registry import Weight
from amplint.flow.project.choices import Choices
from amplint.flow.project.classes import Classes
from amplint.flow.project.edges import Edges
from amplint.flow.project.effects import Effects
from amplint.flow.project.hierarchy import Concrete
from amplint.flow.project.meanings import UNSEEN, Assigned, Folder, Meaning, Member
from amplint.flow.project.names import Names, statement_at
from amplint.flow.project.registrations import Registrations
from amplint.flow.project.uses import ASKED, Uses
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import ClassValue, External, FunctionValue, ModuleFile, Unknown, Value
from amplint.lowering.lower import lower_function, lower_lines, lower_module
from amplint.lowering.program import Program
from amplint.source.bindings import Binding as Bound
from amplint.source.bindings import Bindings, ClassBinding, FunctionBinding, ImportBinding, StatementBinding
from amplint.source.facts import Facts, facts_of
from amplint.source.outline import ClassOutline, FunctionOutline
from amplint.source.project import ProjectFile

_KINDS = {
    "property": "property",
    "cached_property": "cached property",
    "staticmethod": "static method",
    "classmethod": "class method",
}
_CACHES = frozenset(
    {"functools.lru_cache", "functools.cache", "functools.cached_property", "cachetools.cached"}
)

_HAND_ON = ("dataclasses.", "attr.", "attrs.", "typing.", "functools.total_ordering")
"""How the decorators begin that give the class itself."""


class View:
    """A project: names, classes, uses and effects behind one interface."""

    def __init__(self, effects: Effects, in_passing: Callable[[Path], bool] = lambda path: False) -> None:
        """``in_passing`` tells the files of tests and the like."""
        self.effects = effects
        self._choices = Choices(effects.edges.names)
        self.edges: Edges = effects.edges
        self._concrete = Concrete(self.edges.hierarchy, in_passing)
        self.classes: Classes = self.edges.classes
        self.names: Names = self.classes.names
        self._uses = Uses(self.edges)
        self._registrations = Registrations(self.edges, in_passing)
        self._programs: dict[FunctionOutline, Program | None] = {}
        self._lines: dict[Lines, Program] = {}
        self._stored: dict[FunctionOutline, frozenset[str]] = {}

    # names

    def global_bindings(self, file: ProjectFile, name: str, line: int | None = None) -> Sequence[Binding]:
        """What a name of a module may stand for once the statements above a line have run, or all, likeliest first;
        none if the module does not bind it."""
        if line is not None:
            return self._last_above(file, name, line)
        found: dict[Binding, None] = {}
        for meaning in self.names.global_meanings(file, name):
            found.update(dict.fromkeys(self._bindings(file, name, meaning)))
        if not found and facts_of(file.outline).bindings.stars:
            outside = self.names.resolve(file, name)
            if isinstance(outside, External) and not outside.name.startswith("builtins."):
                found[outside] = None
        return list(found)

    def bound_beside(self, file: ProjectFile, name: str, line: int) -> int | None:
        """The last line of the branch of a module that a line is part of, if that branch binds a name."""
        return self.names.bound_beside(file, name, line)

    def _last_above(self, file: ProjectFile, name: str, line: int) -> list[Binding]:
        """The last statement above a line that binds a name; with its alternatives, if it is a branch of an ``if``."""
        above = [one for one in self.names.global_bindings(file, name) if one.end_line < line]
        if not above:
            return []
        last = above[-1]
        facts = facts_of(file.outline)
        match last:
            case FunctionBinding(node=function):
                return [self.names.function(file, facts.function_of(function))]
            case ClassBinding(node=node):
                return [ClassValue(file, facts.class_of(node))]
        part = statement_at(file.outline.tree.body, last.line)
        if isinstance(part, ast.If) and (part.end_lineno or part.lineno) < line:
            return [Lines(file, part.lineno, part.end_lineno or part.lineno)]
        return [Lines(file, last.line, last.end_line)]

    def _bindings(self, file: ProjectFile, name: str, meaning: Meaning) -> Iterator[Binding]:
        if not isinstance(meaning, Assigned):
            yield self._value(file, meaning)
        elif meaning.rest:
            yield _unseen(file, ".".join((meaning.name, *meaning.rest)))
        elif meaning.name == name:
            bindings = facts_of(meaning.file.outline).bindings
            yield from self._statements(meaning.file, meaning.file.outline.tree.body, bindings, name)
        else:  # imported under another name: that statement binds it
            for binding in facts_of(file.outline).bindings.at_end(name):
                if isinstance(binding, ImportBinding):
                    yield Lines(file, binding.line, binding.end_line)

    def _statements(
        self,
        file: ProjectFile,
        body: list[ast.stmt],
        bindings: Bindings,
        name: str,
        owner: ClassValue | None = None,
    ) -> Iterator[Lines]:
        """The statements that bind a name. Where the branches of one ``if`` all do, that is the statement."""
        options: list[Bound] = [one for one in bindings.at_end(name) if isinstance(one, StatementBinding)]
        if len(options) > 1 and bindings.always(name):
            around = {id(part): part for option in options if (part := statement_at(body, option.line))}
            if len(around) == 1:
                (part,) = around.values()
                if isinstance(part, ast.If):
                    yield Lines(file, part.lineno, part.end_lineno or part.lineno, owner)
                    return
        for option in options:
            yield Lines(file, option.line, option.end_line, owner)

    def _value(self, file: ProjectFile, meaning: Meaning) -> Value:
        """A meaning as a value: what is not seen is unknown."""
        match meaning:
            case External(name=name) if name.startswith(UNSEEN):
                return _unseen(file, name)
            case Member():
                inner = self.classes.member(meaning)
                if inner is None or isinstance(inner, (Assigned, Member)):
                    return _unseen(file, ".".join((meaning.owner.outline.qualified, *meaning.rest)))
                return self._value(file, inner)
            case Assigned(name=name, rest=rest):
                return _unseen(file, ".".join((name, *rest)))
        return meaning

    def registrations(self, file: ProjectFile, name: str) -> Sequence[ClassValue | FunctionValue | Lines]:
        """What fills a dict, list or object of a module when the project is imported."""
        return self._registrations.of(file, name)

    def imported(self, file: ProjectFile, target: str) -> tuple[ProjectFile, str] | Value:
        """What an import of this dotted target binds in a file: a value, or a name of another file."""
        found = self.names.imported(file, target)
        if found is None:
            return _unseen(file, target)
        if isinstance(found, Assigned) and not found.rest:
            return found.file, found.name
        return self._value(file, found)

    def choices(self, file: ProjectFile, most: int) -> Sequence[str]:
        """The first names that a setting may choose among in a module."""
        return self._choices.of(file, most)

    def resolve(self, file: ProjectFile, dotted: str) -> Value | None:
        """What a dotted name means in a file, where no statement has to be walked for it."""
        found = self.names.resolve(file, dotted)
        found = self.names.followed(found) if found is not None else None
        if isinstance(found, Member):
            found = self.classes.member(found)
        if isinstance(found, External) and found.name.startswith(UNSEEN):
            return None
        return found if isinstance(found, (ClassValue, FunctionValue, ModuleFile, External)) else None

    def attribute(self, value: Folder, name: str) -> Value:
        """What lies in a package without ``__init__.py``."""
        found = self.names.attribute(value, name)
        return found if found is not None else External(f"{value.name}.{name}")

    # classes

    def class_value(self, file: ProjectFile, outline: ClassOutline) -> ClassValue:
        """The value of a class."""
        return ClassValue(file, outline)

    def bases(self, value: ClassValue) -> list[ClassValue | External]:
        """A class and what it inherits from, in method order."""
        return self.classes.bases(value)

    def find_method(
        self, value: ClassValue, name: str, after: ClassValue | None = None
    ) -> FunctionValue | None:
        """A method; ``after``: only of classes that come after that one."""
        return self.classes.find_method(value, name, after=after)

    def may_keep(self, value: ClassValue) -> bool:
        """Whether a call of a class may give an object that was made before: as its ``__new__``, its metaclass or a
        decorator of it likes."""
        return any(
            isinstance(base, ClassValue) and ("__new__" in base.outline.methods or self._keeps(base))
            for base in self.bases(value)
        )

    def _keeps(self, value: ClassValue) -> bool:
        match self.classes.metaclass(value):
            case ClassValue() as metaclass:
                if self.find_method(metaclass, "__call__") is not None:
                    return True
            case External() | None:
                pass
            case _:
                return True
        decorators = value.outline.node.decorator_list if value.outline.node is not None else ()
        return not all(self._leaves_alone(value.file, decorator) for decorator in decorators)

    def _leaves_alone(self, file: ProjectFile, decorator: ast.expr) -> bool:
        """Whether a decorator of a class is known to hand the class on."""
        node = decorator.func if isinstance(decorator, ast.Call) else decorator
        found = self.resolve(file, ast.unparse(node))
        return isinstance(found, External) and found.name.startswith(_HAND_ON)

    def find_setter(self, value: ClassValue, name: str) -> FunctionValue | None:
        """The setter of a property."""
        return self.classes.accessor(value, name, "setter")

    def class_binding(self, value: ClassValue, name: str) -> Binding | None:
        """What binds a name in the body of a class or of what it inherits from, methods left out."""
        for base in self.classes.bases(value):
            if not isinstance(base, ClassValue) or base.outline.node is None:
                continue
            facts = facts_of(base.file.outline)
            bindings = facts.bindings_of(base.outline)
            for option in bindings.at_end(name):
                match option:
                    case FunctionBinding():
                        return None
                    case ClassBinding(node=node):
                        return ClassValue(base.file, facts.class_of(node))
                    case ImportBinding(target=target):
                        found = self.names.imported(base.file, target)
                        return self._value(base.file, found) if found is not None else None
                return next(self._statements(base.file, base.outline.node.body, bindings, name, base))
        return None

    def fields(self, value: ClassValue) -> tuple[tuple[str, Binding | None, Value | None], ...] | None:
        """The fields of a dataclass in the order in which its constructor takes them, with defaults and types."""
        found = self.classes.fields(value)
        if found is None:
            return None
        taken = sorted((field for field in found if field.initialized), key=lambda field: field.keyword_only)
        lines = [Lines(field.owner.file, field.line, field.end_line, field.owner) for field in taken]
        return tuple(
            (field.name, default if field.default else None, field.kind)
            for field, default in zip(taken, lines, strict=True)
        )

    def kind_of_method(self, method: FunctionValue) -> str:
        """ "property", "cached property", "static method", "class method" or ""."""
        return _KINDS.get(self.classes.kind(method)) or ""

    def is_abstract(self, method: FunctionValue) -> bool:
        """Whether a method is there to be overridden, a class method or property, too."""
        return self.classes.is_abstract(method)

    def is_cached(self, function: FunctionValue) -> bool:
        """Whether ``functools.cache`` or the like keeps what a function gives."""
        return not _CACHES.isdisjoint(self.classes.decorators(function))

    def classes_in(self, file: ProjectFile) -> Sequence[ClassValue]:
        """The classes that are defined in a file, those inside functions included."""
        return [self.class_value(file, outline) for outline in facts_of(file.outline).classes]

    def concrete(self, value: ClassValue) -> Sequence[ClassValue]:
        """What an object may be that is said to be one of a class: see ``Concrete``."""
        return self._concrete.of(value)

    def class_in(self, file: ProjectFile, name: str, line: int) -> ClassValue | None:
        """The class of a class statement at a line of a file."""
        found = facts_of(file.outline).class_at(line, name)
        return ClassValue(file, found) if found is not None else None

    def attribute_stores(self, value: ClassValue, name: str) -> Sequence[Lines]:
        """The simple statements ``self.name = …`` in methods other than the constructor."""
        found: dict[Lines, None] = {}
        for method in self.classes.all_methods(value):
            outline = method.outline
            if outline is None or outline.name == "__init__" or not outline.parameters:
                continue
            own = outline.parameters[0]
            for store in facts_of(method.file.outline).of(outline).body.stores.get(f"{own}.{name}", ()):
                if store.simple:
                    found[Lines(method.file, store.line, store.end_line, method=method)] = None
        return list(found)

    def is_set_from_outside(self, name: str) -> bool:
        """Whether code sets an attribute of that name on anything but the object of its own method."""
        return name in self._uses.set_from_outside

    def keys_put(self, name: str) -> Set[object]:
        """The keys under which methods put something into an attribute of that name, None for any."""
        return self._uses.keys_put.get(name, frozenset())

    def is_attribute(self, name: str) -> bool:
        """Whether code sets an attribute of that name on anything, or a class defines one."""
        return name in self._uses.own_attributes

    def stored_by(self, function: FunctionValue) -> frozenset[str]:
        """The attributes of its first parameter that a method sets, what it calls of the same object included."""
        start = self._outline(function)
        if start is None:
            return frozenset()
        known = self._stored.get(start)
        if known is not None:
            return known
        found: set[str] = set()
        seen = {start}
        pending = [(function.file, start)]
        while pending:
            file, outline = pending.pop()
            facts = facts_of(file.outline).of(outline)
            first = f"{outline.parameters[0]}." if outline.parameters else "."
            found |= {name[len(first) :].partition(".")[0] for name in facts.stores if name.startswith(first)}
            for method in self._called_of_self(file, outline, facts, first):
                if method.outline is not None and method.outline not in seen:
                    seen.add(method.outline)
                    pending.append((method.file, method.outline))
        answer = self._stored[start] = frozenset(found)
        return answer

    def _called_of_self(
        self, file: ProjectFile, outline: FunctionOutline, facts: Facts, first: str
    ) -> Iterator[FunctionValue]:
        if outline.owner is None:
            return
        owner = ClassValue(file, outline.owner)
        for body in facts.bodies():
            read = [call.name for call in body.calls if call.name is not None] + sorted(body.loads)
            for name in read:
                if name.startswith(first) and "." not in name[len(first) :]:
                    method = name[len(first) :]
                    options = [self.classes.find_method(owner, method)]
                    options += self.edges.hierarchy.overriding(owner, method)
                    yield from (option for option in options if option is not None)
            for call in body.calls:
                if call.receiver == "super":
                    found = self.classes.find_method(owner, call.method, after=owner)
                    if found is not None:
                        yield found

    # functions

    def uses(self, function: FunctionValue, dotted: str) -> frozenset[str]:
        """The methods that are called on a dotted name in a function, and by functions that are given it."""
        outline = self._outline(function)
        return self._uses.of_name(function.file, outline, dotted) if outline is not None else frozenset()

    def is_asked(self, function: FunctionValue, name: str) -> bool:
        """Whether a function, or one that is given it, asks what a name stands for what no tensor has, ``cfg.amp``, or
        picks something by it: ``optimizers[index]``."""
        return ASKED in self.uses(function, name)

    def uses_of_global(self, file: ProjectFile, dotted: str) -> frozenset[str]:
        """The methods that are called on a dotted name of a module, there and in the functions that read it."""
        module = file.outline.module
        return self._uses.of_name(file, module, dotted) if module is not None else frozenset()

    def uses_of_attribute(self, value: ClassValue, name: str) -> frozenset[str]:
        """The methods that are called on ``self.name`` in all methods of a class."""
        return self._uses.of_attribute(value, name)

    def computes_names(self, function: FunctionValue) -> bool:
        """Whether a function may set attributes whose names nobody can read off: by ``setattr`` or ``__dict__``."""
        outline = self._outline(function)
        return outline is None or any(
            body.computed for body in facts_of(function.file.outline).of(outline).bodies()
        )

    def imports(self, function: FunctionValue) -> bool:
        """Whether a function imports something itself, which it may give to its caller: ``torch = load_torch()``."""
        outline = self._outline(function)
        return outline is not None and facts_of(function.file.outline).of(outline).body.imports

    def dispatches(self, function: FunctionValue) -> bool:
        """Whether a function calls what it has looked up: ``getattr(hook, name)(self)``, ``for handler in handlers:
        handler(self)``, ``self.handlers[event](self)``."""
        outline = self._outline(function)
        if outline is None:
            return False
        return any(
            call.name in body.stores or isinstance(call.node.func, (ast.Call, ast.Subscript))
            for body in facts_of(function.file.outline).of(outline).bodies()
            for call in body.calls
        )

    def loads(self, function: FunctionValue, name: str) -> bool:
        """Whether a function reads a local name anywhere."""
        outline = self._outline(function)
        return outline is None or name in facts_of(function.file.outline).of(outline).roots

    def loads_only_calls(self, function: FunctionValue, name: str, methods: frozenset[str]) -> bool:
        """Whether a local name is read for nothing but calls of these methods."""
        outline = self._outline(function)
        if outline is None:
            return False
        facts = facts_of(function.file.outline).of(outline)
        read = {one for one in facts.loads if one.partition(".")[0] == name}
        called = {
            call.name
            for body in facts.bodies()
            for call in body.calls
            if call.name is not None and call.name.partition(".")[0] == name
        }
        return not read and called <= {f"{name}.{method}" for method in methods}

    def weight(self, function: FunctionValue) -> Weight:
        """The Weight of what a function may reach."""
        outline = self._outline(function)
        if outline is None:
            return Weight.NOTHING
        return self.effects.weight(self.names.function(function.file, outline))

    def sure_weight(self, function: FunctionValue) -> Weight:
        """The same without what only has the name of a method that is called on something out of sight."""
        outline = self._outline(function)
        if outline is None:
            return Weight.NOTHING
        return self.effects.sure_weight(self.names.function(function.file, outline))

    def methods_called(self, function: FunctionValue) -> Set[str]:
        """The names of the methods that a function calls on what its text does not tell."""
        outline = self._outline(function)
        if outline is None:
            return frozenset()
        return self.effects.steps(self.names.function(function.file, outline)).methods

    def computes(self, function: FunctionValue) -> bool:
        """Whether what surrounds a call of a function can make a difference to it."""
        outline = self._outline(function)
        return outline is None or self.effects.computes(self.names.function(function.file, outline))

    def enters(self, function: FunctionValue) -> bool:
        """Whether a walk of a function can meet an ENTRY key."""
        outline = self._outline(function)
        return outline is not None and self.effects.enters(self.names.function(function.file, outline))

    def _outline(self, function: FunctionValue) -> FunctionOutline | None:
        """The outline of a function; of a nested one that of its name in the function around it, if there is just
        one, or else that of the function around."""
        if function.outline is not None or function.program is None:
            return function.outline
        program = function.program
        facts = facts_of(function.file.outline)
        first, last = program.root
        if last:
            return None
        outer = next((part for part in facts.functions if part.line == first), None)
        if outer is None:
            return function.file.outline.module
        inner = [
            part
            for part in facts.of(outer).nested
            if isinstance(part, FunctionOutline) and part.name == program.name
        ]
        return inner[0] if len(inner) == 1 else outer

    # programs

    def program(self, function: FunctionValue) -> Program | None:
        """A function lowered."""
        outline = function.outline
        if outline is None:
            return function.program
        if outline not in self._programs:
            is_module = outline is function.file.outline.module
            self._programs[outline] = (
                lower_module(function.file) if is_module else lower_function(function.file, outline)
            )
        return self._programs[outline]

    def lines(self, lines: Lines) -> Program:
        """Statements lowered. What stands on one line with the head of its block is lowered with all of that."""
        known = self._lines.get(lines)
        if known is None:
            file, owner = lines.file, lines.owner
            name = owner.outline.name if owner is not None else ""
            known = lower_lines(file, lines.first, lines.last, name)
            if known is None and owner is None:
                part = statement_at(file.outline.tree.body, lines.first)
                known = lower_lines(file, part.lineno, part.end_lineno or part.lineno) if part else None
            if known is None:
                known = Program(file.display, (lines.first, lines.last), 0, name or "<lines>")
            self._lines[lines] = known
        return known


def _unseen(file: ProjectFile, name: str) -> Unknown:
    place = file.display if not name.startswith(UNSEEN) or name.startswith(f"{UNSEEN}.") else ""
    return Unknown(symbol("import", place, name))
