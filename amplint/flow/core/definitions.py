"""Definitions: what is known of functions and classes, and what decorators make of them."""

from __future__ import annotations

from functools import partial

from amplint.events import Place
from amplint.flow.core.api import Arguments
from amplint.flow.core.machine import Frame, Lines, ProjectView
from amplint.flow.core.names import Names
from amplint.flow.core.registry import DecorateModel, Registry
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    NONE,
    BoundMethod,
    ClassValue,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Number,
    Partial,
    Unknown,
    Value,
    to_be_filled,
)
from amplint.lowering import program as ir
from amplint.source.outline import ClassOutline
from amplint.source.project import ProjectFile


class Definitions(Names):
    """The functions and classes that names stand for."""

    def __init__(self, registry: Registry, project: ProjectView) -> None:
        super().__init__(registry, project)
        self._class_names: dict[tuple[ClassValue, str], Value | None] = {}
        self._decorated: dict[int, Value] = {}
        self._outside: dict[int, tuple[str, ...]] = {}
        self._owners: frozenset[str] | None = None

    # classes -----------------------------------------------------------------------------------------------------

    def outside(self, value: Value) -> tuple[str, ...]:
        """The keys under which models may know an object or a class: the qualified names of the classes outside
        from which it derives, then their beginnings up to a dot, and "?" if not all are known."""
        owner = value.made_of if isinstance(value, Instance) else value
        if isinstance(value, Instance) and value.external is not None:
            return _keys_of([value.external])
        if not isinstance(owner, ClassValue):
            return ()
        known = self._outside.get(id(owner.outline))
        if known is None:
            names = [base.name for base in self.project.bases(owner) if isinstance(base, External)]
            known = self._outside[id(owner.outline)] = _keys_of(names)
        return known

    def bases(self, value: ClassValue) -> list[ClassValue | External]:
        """A class and what it inherits from."""
        return self.project.bases(value)

    def derives_from(self, value: Value, name: str) -> bool:
        """Whether an object or class derives from a class outside."""
        return name in self.outside(value)

    def class_value(self, file: ProjectFile, outline: ClassOutline) -> ClassValue:
        """The value of a class."""
        return self.project.class_value(file, outline)

    def find_method(self, value: ClassValue, name: str) -> FunctionValue | None:
        """A method, inherited ones included."""
        return self.project.find_method(value, name)

    def find_method_after(self, value: ClassValue, name: str, after: ClassValue) -> FunctionValue | None:
        """A method as ``super()`` finds it."""
        return self.project.find_method(value, name, after)

    def find_setter(self, value: ClassValue, name: str) -> FunctionValue | None:
        """The setter of a property."""
        return self.project.find_setter(value, name)

    def kind_of_method(self, method: FunctionValue) -> str:
        """ "property", "static method" and so on."""
        return self.project.kind_of_method(method)

    def class_attribute(self, value: ClassValue, name: str) -> Value | None:
        """A name that the body of a class or of what it inherits from binds."""
        key = (value, name)
        if key not in self._class_names:
            self._class_names[key] = None
            binding = self.project.class_binding(value, name)
            found = self._value_of(binding, name) if binding is not None else None
            self._class_names[key] = to_be_filled(found) if found is not None else None
        return self._class_names[key]

    def class_here(self, node: ir.DefineClass) -> Value:
        """The class of a class statement."""
        found = self.project.class_in(self.frame.file, node.name, node.line)
        return found if found is not None else self.unknown(node)

    def has_methods(self, name: str) -> bool:
        """Whether models know methods of a class outside."""
        if self._owners is None:
            self._owners = frozenset(key.rpartition(".")[0] for key in self.registry.calls)
        return name in self._owners and name.rpartition(".")[2][:1].isupper()

    # functions ---------------------------------------------------------------------------------------------------

    def decorated(self, function: FunctionValue) -> Value:
        """A function of a file with its decorators applied."""
        if function.program is not None:
            return function
        key = id(function.outline)
        known = self._decorated.get(key)
        if known is None:
            plain = FunctionValue(function.file, function.outline, undecorated=True)
            self._decorated[key] = plain
            program = self.project.program(function)
            if program is not None and program.decorators:
                context = symbol("decorators", program.path, *program.root)
                made = self.apart(
                    program, function.file, context, lambda: self._apply(plain, program.decorators)
                )
                self._decorated[key] = made if made is not None else plain
            known = self._decorated[key]
        return known

    def decorate(self, function: FunctionValue, node: ir.Define) -> Value:
        """A function that is defined here, with its decorators applied."""
        return self._apply(function, node.program.decorators)

    def _apply(self, function: FunctionValue | ClassValue, decorators: tuple[ir.Decorator, ...]) -> Value:
        value: Value = function
        for decorator in reversed(decorators):
            made = self.evaluate(decorator.expression)
            value = self.each(made, partial(self._applied, value, decorator.expression))
        return value

    def _applied(self, function: Value, node: ir.Expression, decorator: Value) -> Value:
        """``decorator(function)``. A decorator out of sight is taken to leave the function as it is."""
        model = self.registry.decorates.get(type(decorator))
        if model is not None:
            found = self.answered(Arguments(), partial(self._asked, model, decorator, function, node))
            if found is not None:
                return found
        name = decorator.function if isinstance(decorator, Partial) else decorator
        if isinstance(name, External) and name.name not in self.registry.calls:
            return function
        if isinstance(decorator, (FunctionValue, BoundMethod, Partial, External, Decorated, ClassValue)):
            result = self.call(decorator, Arguments((function,), (), (node,)), node)
            return result if not isinstance(result, (Unknown, Number)) else function
        return function

    def fill(self, file: ProjectFile, name: str) -> None:
        """Lets decorators and statements fill what a module binds to a name: ``@register("dice")``."""
        found = [(part, self._program_of_part(part)) for part in self.project.registrations(file, name)]
        parts = [(part, program) for part, program in found if program is not None]
        context = symbol("registrations", file.display, name)

        def run() -> Value:
            for part, program in parts:
                self.attempt(partial(self._register, part, program, context))
            return NONE

        if parts:
            self.apart(parts[0][1], file, context, run, filling=True)

    def _program_of_part(self, part: ClassValue | FunctionValue | Lines) -> ir.Program | None:
        if isinstance(part, FunctionValue):
            return self.program_of(part)
        if isinstance(part, ClassValue):
            part = Lines(part.file, part.outline.line, part.outline.end_line)
        return self.project.lines(part)

    def _register(
        self, part: ClassValue | FunctionValue | Lines, program: ir.Program, context: Symbol
    ) -> None:
        frame = self.frame
        own = symbol("registered", context, program.path, *program.root)
        self.frame = Frame(program, part.file, own, graph=frame.graph)
        try:
            if isinstance(part, FunctionValue):
                plain = FunctionValue(part.file, part.outline, undecorated=True)
                self._apply(plain, program.decorators)
            elif isinstance(part, Lines):
                self.run(program.body)
            else:
                for head in program.body:
                    if isinstance(head, ir.DefineClass):
                        self._apply(part, head.decorators)
        finally:
            self.frame = frame

    def _asked(
        self, model: DecorateModel, decorator: Value, function: Value, node: ir.Expression, given: Arguments
    ) -> Value | None:
        return model(self.machine, decorator, function, node)

    def decorators(self, function: FunctionValue) -> list[Value]:
        """The decorators of a function, evaluated."""
        program = self.program_of(function)
        if program is None:
            return []
        found: list[Value] = []

        def evaluate() -> Value:
            found.extend(self.evaluate(decorator.expression) for decorator in program.decorators)
            return NONE

        self.apart(program, function.file, symbol("decorators", program.path, *program.root), evaluate)
        return found

    def is_cached(self, function: FunctionValue) -> bool:
        """Whether what a function gives is kept."""
        return self.project.is_cached(function)

    def is_asked(self, function: FunctionValue, name: str) -> bool:
        """See Machine."""
        return self.project.is_asked(function, name)

    def program_of(self, function: FunctionValue) -> ir.Program | None:
        """A function lowered."""
        return function.program if function.program is not None else self.project.program(function)

    def place_of(self, function: FunctionValue) -> Place | None:
        """Where the name of a function stands."""
        program = self.program_of(function)
        if program is None:
            return None
        return self.place_in(program, program.node.number)

    # provided by the interpreter

    def evaluate(self, node: ir.Expression) -> Value:
        """The value of an expression."""
        raise NotImplementedError

    def call(self, function: Value, arguments: Arguments, node: ir.Node) -> Value:
        """Calls a value."""
        raise NotImplementedError


def _keys_of(names: list[str]) -> tuple[str, ...]:
    keys = list(dict.fromkeys(name for name in names if not name.startswith("?")))
    for name in list(keys):
        prefix = name
        while "." in prefix:
            prefix = prefix.rpartition(".")[0]
            keys.append(prefix + ".")
    if any(name.startswith("?") for name in names):
        keys.append("?")
    return tuple(dict.fromkeys(keys))
