"""The interpreter: the present path, statements, expressions, calls and objects brought together.

A call is followed only if it can matter (``Interpreter.follows``): a walk of all code would cost too much. What an
abstract method gives is unknown, since a subclass has another one. Small functions are followed for what they return:
two calls of ``is_special()`` have one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from amplint.events import Place
from amplint.flow.core import calls, objects, summaries
from amplint.flow.core.api import Arguments, Dead, Settings, SeveralAmbient
from amplint.flow.core.comparisons import named
from amplint.flow.core.expressions import EVALUATE
from amplint.flow.core.instances import Instances, matters
from amplint.flow.core.machine import Frame, ProjectView
from amplint.flow.core.names import dotted_name
from amplint.flow.core.registry import EnterModel, ExitModel, Registry, Weight
from amplint.flow.core.statements import RUN
from amplint.flow.core.targets import bind
from amplint.flow.state import conditions
from amplint.flow.state.conditions import Condition
from amplint.flow.state.graph import Calls, Graph
from amplint.flow.state.store import Ambient
from amplint.flow.state.symbols import COMPUTED, NUMBER, Symbol, symbol
from amplint.flow.state.values import (
    NONE,
    Choice,
    Constant,
    ContextManager,
    External,
    FunctionValue,
    Instance,
    Number,
    Partial,
    Unknown,
    Usual,
    Value,
)
from amplint.lowering import program as ir
from amplint.source.project import ProjectFile
from amplint.stopping import stop_if_asked

_TIDY = 64
"""After so many statements it is seen to that tables do not grow too large."""
LOOKED_INTO = 3
"""So deep constructors and small functions are followed that have no effects."""
SMALL = 12
"""A function of so few statements is followed for what it returns, whether it has effects or not; a property, one of a
single statement, and one that imports something, at any depth."""


class Interpreter(Instances):
    """Runs statements and evaluates expressions: what they, calls and objects ask of each other."""

    def __init__(self, registry: Registry, project: ProjectView, settings: Settings) -> None:
        super().__init__(registry, project)
        self.settings = settings
        self.summaries: dict[object, list[summaries.Summary]] = {}
        self.active: dict[object, tuple[object, ...]] = {}
        self.is_cut = False
        self._ambient_before: dict[Symbol, dict[type[Ambient], Value]] = {}
        self.rests: dict[Symbol, Graph] = {}
        """What functions of context managers do behind their ``yield``, by the contexts that were entered."""

    # running -----------------------------------------------------------------------------------------------------

    def evaluate(self, node: ir.Expression) -> Value:
        """The value of an expression."""
        handler = EVALUATE.get(type(node))
        return handler(self.machine, node) if handler is not None else self.unknown(node)

    def run(self, block: ir.Block) -> None:
        """Runs statements."""
        for statement in block:
            if self.dead():
                return
            self.steps += 1
            if not self.steps % _TIDY:
                conditions.forget()
            stop_if_asked()
            handler = RUN.get(type(statement))
            if handler is not None:
                self.attempt(partial(self._walk_statement, partial(handler, self.machine, statement)))

    def _walk_statement(self, walk: Callable[[], None]) -> None:
        """Walks a statement; where a model asks in it for regions that depend on conditions, for each of them."""
        if not any(isinstance(value, Choice) for value in self.state.ambient.values()):
            walk()
            return
        frame, before = self.frame, self.state
        count = len(frame.graph.items)
        known = frame.breaks, frame.continues, frame.branches, frame.rounds, frame.loops, frame.context
        self.state = before.fork()
        try:
            walk()
        except SeveralAmbient:
            del frame.graph.items[count:]
            frame.breaks, frame.continues, frame.branches, frame.rounds, frame.loops, frame.context = known
            self.state = before
            self.on_each(walk)

    def test(self, node: ir.Expression) -> Condition:
        """The condition under which an expression is true."""
        return self.truth(self.evaluate(node))

    def assign(self, target: ir.Expression, value: Value) -> None:
        """Binds a target."""
        bind(self.machine, target, value)

    def never_raises(self, block: ir.Block) -> bool:
        """Whether statements only import what is there: packages that models take for installed, or files of the
        project."""
        for statement in block:
            if not isinstance(statement, ir.Import):
                return False
            for _, target in statement.bindings:
                found = self.project.imported(self.frame.file, target)
                if isinstance(found, External) and found.name.split(".")[0] not in self.registry.installed:
                    return False
        return bool(block)

    # calls -------------------------------------------------------------------------------------------------------

    def call(self, function: Value, arguments: Arguments, node: ir.Node) -> Value:
        """Calls a value."""
        return self.each(function, lambda one: calls.call(self.machine, one, arguments, node))

    def call_method(self, receiver: Value, name: str, arguments: Arguments, node: ir.Node) -> Value:
        """A method that a model knows, or nobody."""
        return calls.call_method(self.machine, receiver, name, arguments, node)

    def call_function(self, function: FunctionValue, arguments: Arguments, node: ir.Node) -> Value:
        """Calls a function of the project."""
        return calls.call_function(self.machine, function, arguments, node)

    def follows(self, function: FunctionValue, given: Arguments) -> bool:
        """Whether a call can matter: its function has effects or can meet an ENTRY key by the classes on its way, it is
        small or part of a constructor; or what it is given or is around it matters, or has or holds what has effects
        when it is called."""
        if self.project.is_abstract(function):
            return False
        if any(map(matters, given.all)):
            return True
        if any(map(matters, self.state.ambient.values())) and self.project.computes(function):
            return True
        if any(map(self._has_effects, given.all)) or any(map(self.is_holder, given.all)):
            return True
        if self.has_effects(function) or self.project.enters(function):
            return True
        receiver = given.positional[0] if given.positional else None
        method = function.outline is not None and function.outline.owner is not None
        if any(self._lends_effects(function, one) for one in given.all if not method or one is not receiver):
            return True
        if receiver is not None and self.is_being_built(receiver) and self.project.stored_by(function):
            return True
        attribute = self.project.kind_of_method(function) in ("property", "cached property") or (
            function.outline is not None and function.outline.name == "__getattr__"
        )
        near = len(self.active) < LOOKED_INTO
        gives = self.project.imports(function) or self.project.dispatches(function)
        return _is_small(function) and (attribute or near or gives or _is_single(function))

    def cut(self, function: FunctionValue, given: Arguments, node: ir.Node) -> Value:
        """What a call of a function of the project gives that is not followed: what it may set is forgotten."""
        effects = self.project.weight(function) >= Weight.EFFECT
        receiver = given.positional[0] if given.positional else None
        if isinstance(receiver, Instance):
            for name in self.project.stored_by(function):
                if self.read((receiver.identity, name)) is not None or receiver.identity in self._initialised:
                    made_of = receiver.made_of
                    kind = self.kind_of_attribute(made_of, name) if made_of is not None else None
                    own = symbol("attribute", receiver.identity, name, "since", node.number)
                    self.state.store((receiver.identity, name), Unknown(own, kind))
        self.is_cut = True
        try:
            return self.unfollowed(given, effects, node)
        finally:
            self.is_cut = False

    # contexts ----------------------------------------------------------------------------------------------------

    def enter(self, context: Value, node: ir.Node) -> Value:
        """Enters a context manager that is no Choice."""
        if isinstance(context, ContextManager) and context.kind == "generator":
            return self._enter_generator(context, node)
        for key in self.keys_of(context):
            model = self.registry.enters.get(key)
            if model is None:
                continue
            result = self.answered(Arguments(), partial(self._entered_by, model, context, node))
            if result is not None:
                return result
        if isinstance(context, External):
            self.discard(context, "class", "", node)
            return self.unknown(node)
        if isinstance(context, Instance) and context.made_of is not None:
            method = self.find_method(context.made_of, "__enter__")
            if method is not None:
                return self.call_function(method, Arguments((context,), (), (node,)), node)
            return context
        if context == NONE:
            raise Dead
        return context

    def _entered_by(self, model: EnterModel, context: Value, node: ir.Node, given: Arguments) -> Value | None:
        return model(self.machine, context, node)

    def _left_by(self, model: ExitModel, context: Value, node: ir.Node, given: Arguments) -> Value:
        model(self.machine, context, node)
        return NONE

    def _enter_generator(self, context: ContextManager, node: ir.Node) -> Value:
        call = context.call
        assert isinstance(call, Partial) and isinstance(call.function, FunctionValue)
        assert context.identity is not None
        self._ambient_before[context.identity] = dict(self.state.ambient)
        function = call.function
        program = self.program_of(function)
        if program is None:
            return self.unknown(node)
        given = Arguments(call.positional, call.keywords, (node,) * len(call.positional))
        before = self._ambient_before[context.identity]
        result, self.rests[context.identity] = summaries.run_generator(
            self.machine, function, program, given, node
        )
        self.on_each(partial(self.registry.hooks.entered, self.machine, before, node))
        return result

    def leave(self, context: Value, node: ir.Node) -> None:
        """Leaves a context manager."""
        if isinstance(context, Choice):
            self.each(context, lambda one: self._left(one, node))
            return
        if isinstance(context, ContextManager) and context.kind == "generator":
            before = self._ambient_before.get(context.identity) if context.identity is not None else None
            if before is not None:
                self.on_each(partial(self.registry.hooks.left, self.machine, before, node))
            rest = self.rests.get(context.identity) if context.identity is not None else None
            if rest is not None and rest.items and not self.silent and not self.dead():
                place = self.machine.place(node)
                self.frame.graph.items.append(Calls(self.state.condition, rest, place, self.state.yielded))
            return
        for key in self.keys_of(context):
            model = self.registry.exits.get(key)
            if model is not None:
                self.resolved(Arguments(), partial(self._left_by, model, context, node))
                return
        if isinstance(context, Instance) and context.made_of is not None:
            method = self.find_method(context.made_of, "__exit__")
            if method is not None:
                unknowns = tuple(
                    Unknown(symbol("exit", self.frame.context, node.number, n)) for n in range(3)
                )
                self.call_function(method, Arguments((context, *unknowns), (), (node,) * 4), node)

    def _left(self, context: Value, node: ir.Node) -> Value:
        self.leave(context, node)
        return NONE

    # objects -----------------------------------------------------------------------------------------------------

    def attribute(self, value: Value, name: str, node: ir.Node) -> Value:
        """``value.name``."""
        return self.each(value, lambda one: objects.attribute(self.machine, one, name, node))

    def external(self, name: str) -> Value:
        """A qualified name outside the project."""
        return objects.external(self.machine, name)

    def set_attribute(self, base: Value, name: str, value: Value, node: ir.Node) -> None:
        """``base.name = value``."""
        objects.set_attribute(self.machine, base, name, value, node)

    def subscript(self, base: Value, keys: tuple[Value, ...], node: ir.Node) -> Value:
        """``base[keys]``."""
        return objects.subscript(self.machine, base, keys, node)

    def set_item(self, base: Value, keys: tuple[Value, ...], value: Value, node: ir.Node) -> None:
        """``base[keys] = value``."""
        objects.set_item(self.machine, base, keys, value, node)

    def iterate(self, value: Value, node: ir.Node) -> Value:
        """One item of a collection."""
        return self.each(value, lambda one: objects.iterate(self.machine, one, node))

    def part(self, value: Value, index: int, count: int, node: ir.Node) -> Value:
        """One of the parts of ``a, b = value``."""
        return objects.part(self.machine, value, index, count, node)

    def operate(self, operator: str, left: Value, right: Value | None, node: ir.Node) -> Value:
        """``left operator right`` for values that are no Choice."""
        if any(isinstance(value, Choice) for value in self.state.ambient.values()):
            return self.resolved(Arguments(), lambda _: self._operated(operator, left, right, node))
        return self._operated(operator, left, right, node)

    def _operated(self, operator: str, left: Value, right: Value | None, node: ir.Node) -> Value:
        for side in (left, right):
            model = self.registry.operators.get(type(side)) if side is not None else None
            found = model(self.machine, operator, left, right, node) if model is not None else None
            if found is not None:
                return found
        if right is None:
            return left if isinstance(left, Number) else self.unknown(node)
        one, other = named(left), named(right)
        if one is None or other is None:
            return self.unknown(node)
        if all(isinstance(side, (Number, Constant)) for side in (left, right)):
            return Number(symbol(COMPUTED, operator, one, other))
        sides = (
            symbol(NUMBER, name) if isinstance(side, (Number, Constant)) else name
            for side, name in ((left, one), (right, other))
        )
        return Unknown(symbol(COMPUTED, operator, *sides))

    def annotated(self, parameter: ir.Parameter, own: Symbol) -> Value | None:
        """What the annotation of a parameter says of it; of one that may be None only what kind it is of then."""
        if parameter.annotation is None:
            return None
        written = self._unless_none(parameter.annotation)
        text = _dotted(written)
        found = self.project.resolve(self.frame.file, text) if text is not None else None
        value = self.of_class(found, own) if found is not None else None
        return value if written is parameter.annotation or isinstance(value, Unknown) else None

    def _unless_none(self, node: ir.Expression) -> ir.Expression:
        """``X`` of ``Optional[X]``, ``Union[X, None]`` and ``X | None``."""
        match node:
            case ir.Subscript(value=value, keys=(inner,)) if self._means(value, "typing.Optional"):
                return inner
            case ir.Subscript(value=value, keys=(inner, ir.LiteralNode(value=None))) if self._means(
                value, "typing.Union"
            ):
                return inner
            case ir.Binary(operator="|", left=inner, right=ir.LiteralNode(value=None)):
                return inner
        return node

    def _means(self, node: ir.Expression, name: str) -> bool:
        """Whether an expression of an annotation is something of another package, whatever it is called here."""
        text = dotted_name(node)
        return text is not None and self.project.resolve(self.frame.file, text) == External(name)

    def evaluate_default(self, parameter: ir.Parameter) -> Value:
        """The default of a parameter that is not given."""
        assert parameter.default is not None
        frame, self.frame.outside = self.frame, True
        try:
            return self.evaluate(parameter.default)
        finally:
            frame.outside = False

    def default_of_unknown(self, parameter: ir.Parameter, own: Symbol) -> Value:
        """A parameter of which nothing is known: a number, if its default is one."""
        default = parameter.default
        if isinstance(default, ir.LiteralNode) and type(default.value) in (int, float):
            self.machine.set_note(own, Usual(Constant(default.value)))
            return Number(own)
        return Unknown(own)

    def resolve(self, name: str, file: ProjectFile | None = None) -> Value | None:
        """What a dotted name means in a file."""
        return self.project.resolve(file if file is not None else self.frame.file, name)

    # what models ask ---------------------------------------------------------------------------------------------

    @property
    def function(self) -> FunctionValue | None:
        """The function that is being walked."""
        return self.frame.function

    @property
    def receiver(self) -> Value | None:
        """The object whose method is being walked."""
        return self.frame.receiver

    @property
    def in_fallback(self) -> bool:
        return self.frame.fallback

    @property
    def is_tried(self) -> bool:
        return self.frame.tried

    @property
    def in_loop(self) -> bool:
        """Whether the present statement stands in a loop of its function."""
        return bool(self.frame.rounds)

    @property
    def in_long_loop(self) -> bool:
        """Whether that is a loop of which not all rounds are walked, or are told apart."""
        return bool(self.frame.loops)

    @property
    def runs_each_round(self) -> bool:
        """Whether nothing but the loop around decides that the present statement runs."""
        return _each_round(self.frame)

    @property
    def is_built_each_round(self) -> bool:
        """Whether nothing but the loop around decides that the object is built whose constructor is being walked;
        true outside of constructors."""
        frame: Frame | None = self.frame
        while frame is not None and frame.function is not None and frame.program.name in _CONSTRUCTORS:
            frame = frame.caller
        return frame is None or frame is self.frame or _each_round(frame)

    @property
    def runs_once_in(self) -> Symbol | None:
        """The outermost call inside of which no loop runs the present statement again; None if it stands in one."""
        frame: Frame | None = self.frame
        found: Symbol | None = None
        while frame is not None and not frame.rounds:
            found, frame = frame.context, frame.caller
        return found

    @property
    def called_at(self) -> Place | None:
        """Where the function was called that is being walked; None in constructors and where a walk begins."""
        caller, context = self.frame.caller, self.frame.context.parts
        if caller is None or context[0] != "call" or self.frame.program.name in _CONSTRUCTORS:
            return None
        number = context[2]
        assert isinstance(number, int)
        return self.place_in(caller.program, number)

    def callers(self) -> Iterator[FunctionValue]:
        """The functions on the way to the present one, innermost first."""
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.function is not None:
                yield frame.function
            frame = frame.caller


_CONSTRUCTORS = ("__new__", "__init__", "__post_init__")


def _each_round(frame: Frame | None) -> bool:
    while frame is not None:
        if frame.branches:
            return False
        if frame.rounds:
            return True
        frame = frame.caller
    return True


def _dotted(node: ir.Expression) -> str | None:
    if isinstance(node, ir.LiteralNode) and isinstance(node.value, str):
        return node.value if all(part.isidentifier() for part in node.value.split(".")) else None
    return dotted_name(node)


def _is_single(function: FunctionValue) -> bool:
    """Whether a function is one statement, ``return _initialised``: two calls of it are to have one answer."""
    return function.outline is not None and function.outline.size == 1


def _is_small(function: FunctionValue) -> bool:
    """Whether a function has few statements."""
    if function.outline is not None:
        return function.outline.size <= SMALL
    assert function.program is not None
    count = 0
    pending = list(function.program.body)
    while pending:
        statement = pending.pop()
        count += 1
        if count > SMALL:
            return False
        for name in ("body", "other", "last"):
            pending += getattr(statement, name, ())
    return True
