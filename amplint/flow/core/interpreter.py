"""The interpreter: the present path, statements, expressions, calls and objects brought together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from amplint.events import Place
from amplint.flow.core import calls, objects
from amplint.flow.core.api import Arguments, Dead, Settings, SeveralAmbient
from amplint.flow.core.calls import SMALL, Summary, bind_parameters, run_body
from amplint.flow.core.comparisons import named
from amplint.flow.core.expressions import EVALUATE
from amplint.flow.core.machine import Frame, Lines, ProjectView
from amplint.flow.core.names import Names, dotted_name
from amplint.flow.core.registry import CallModel, EnterModel, ExitModel, Registry, Weight
from amplint.flow.core.statements import RUN, bind
from amplint.flow.state import conditions
from amplint.flow.state.conditions import Condition, asked
from amplint.flow.state.graph import Graph
from amplint.flow.state.store import Ambient, Key, State, join_values
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    NONE,
    Choice,
    ClassValue,
    Constant,
    ContextManager,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Mapping,
    Number,
    Partial,
    Unknown,
    Value,
)
from amplint.flow.state.values import (
    Sequence as Items,
)
from amplint.lowering import program as ir
from amplint.source.project import ProjectFile

MOST_STEPS = 8_000
"""Statements walked for one entry point: a last resort, which --statistics tells of."""
PLENTY = 50_000
"""Once so many statements of a project were walked, each further entry point gets FEWER."""
FEWER = 1_000
FEWEST = 250
"""So many where no key of weight ENTRY is on the way that no walk has met."""
IN_DECORATORS = 100
"""Of these at most so many are what the decorators of one function do."""
MOST_WALKS = 64
"""So often one function is walked for one entry point: one that comes back with ever new data must not use up what
the others need."""
_TIDY = 64
"""After so many statements it is seen to that tables do not grow too large."""
LOOKED_INTO = 3
"""So deep constructors and small functions are followed that have no effects."""


class Interpreter(Names):
    """Walks entry points of a project and gives their event graphs."""

    def __init__(self, registry: Registry, project: ProjectView, settings: Settings) -> None:
        super().__init__(registry, project)
        self.settings = settings
        self.summaries: dict[object, list[Summary]] = {}
        self.active: dict[object, tuple[object, ...]] = {}
        self.reached: set[int] = set()
        """The outlines of the functions that were walked."""
        self.cut_off = False
        """Whether the present entry point has met its budget."""
        self._walks: Counter[object] = Counter()
        self._most = MOST_STEPS
        self._walked = 0
        """Statements walked for all entry points so far."""
        self._ambient_before: dict[Symbol, dict[type[Ambient], Value]] = {}
        self._pending: dict[Symbol, Arguments] = {}
        self._initialised: set[Symbol] = set()
        self._of_unknown_age: dict[Symbol, Instance] = {}

    # entry points ------------------------------------------------------------------------------------------------

    def make_room(self) -> None:
        """Between entry points: drops what earlier ones have left, if that is much."""
        if conditions.is_full():
            self.summaries.clear()
            conditions.start_over()
        conditions.forget()

    def walk_module(self, file: ProjectFile, program: ir.Program) -> Graph:
        """The events of a file that is run as a script."""
        return self._walk(
            Frame(program, file, symbol("run", file.display)), lambda: self._run_module(program)
        )

    def _run_module(self, program: ir.Program) -> None:
        self.run(program.body)

    def budget(self, *, new: bool) -> int:
        """How many statements an entry point may have. ``new``: a key of weight ENTRY may be met for the first time."""
        if self._walked < PLENTY:
            return MOST_STEPS
        return FEWER if new else FEWEST

    def walk_function(
        self,
        function: FunctionValue,
        receiver: Value | None = None,
        around: Ambient | None = None,
        most: int | None = None,
    ) -> Graph | None:
        """The events of a function that nobody in sight calls, with unknown arguments. ``around``: an ambient
        value that it has to expect of its callers; ``most``: so many statements are walked."""
        program = self.project.program(function)
        if program is None:
            return None
        context = symbol("root", program.path, *program.root, program.number)
        frame = Frame(program, function.file, context, function)

        def run() -> None:
            given = Arguments((receiver,), (), (program.node,)) if receiver is not None else Arguments()
            given = Arguments(given.positional, (), given.nodes, (), unclear=True)
            self.attempt(lambda: bind_parameters(self.machine, program, given))
            run_body(self.machine, program)

        return self._walk(frame, lambda: self._decorated_run(function, program, run), around, most)

    def truth_of(self, file: ProjectFile, program: ir.Program) -> Condition:
        """The condition under which an expression is true that stands alone in a program."""
        context = symbol("alone", file.display)
        kept = self.frame if hasattr(self, "frame") else None
        self.frame = Frame(program, file, context) if kept is None else kept
        found: list[Condition] = []

        def evaluate() -> Value:
            for statement in program.body:
                if isinstance(statement, ir.Evaluate):
                    found.append(self.test(statement.value))
            return NONE

        self.apart(program, file, context, evaluate)
        return found[0] if found else asked(symbol("alone", "unknown"))

    def walk_definitions(
        self, file: ProjectFile, program: ir.Program, parts: Sequence[FunctionValue]
    ) -> Graph:
        """The events of the decorators of functions, and of classes that models want to know of: what happens when
        a file is imported."""
        frame = Frame(program, file, symbol("import", file.display))

        def run() -> None:
            for part in parts:
                self._define(part)
            for value in self.project.classes_in(file):
                self._define_class(value)

        walked = self._walked
        graph = self._walk(frame, run)
        self._walked = walked
        return graph

    def _define(self, function: FunctionValue) -> None:
        if function.outline is not None and not function.outline.decorated:
            return
        program = self.project.program(function)
        if program is None or all(map(partial(self._does_nothing, function.file), program.decorators)):
            return
        frame = self.frame
        self.frame = Frame(
            program, function.file, symbol("define", program.path, *program.root), graph=frame.graph
        )
        plain = FunctionValue(function.file, function.outline, undecorated=True)
        self.attempt(partial(self._apply_quietly, plain, program.decorators))
        self.frame = frame

    def _does_nothing(self, file: ProjectFile, decorator: ir.Decorator) -> bool:
        """Whether a decorator is a function of the project that can meet no ENTRY key, given nothing that is called."""
        node = decorator.expression
        if isinstance(node, ir.Call):
            if any(isinstance(argument.value, ir.Call) for argument in node.arguments):
                return False
            node = node.function
        name = dotted_name(node)
        found = self.project.resolve(file, name) if name is not None else None
        return isinstance(found, FunctionValue) and not self.project.enters(found)

    def _apply(self, function: FunctionValue, decorators: tuple[ir.Decorator, ...]) -> Value:
        most = self._most
        self._most = min(most, self.steps + IN_DECORATORS)
        try:
            return super()._apply(function, decorators)
        finally:
            self._most = most

    def _apply_quietly(self, function: FunctionValue, decorators: tuple[ir.Decorator, ...]) -> None:
        self._apply(function, decorators)

    def _define_class(self, value: ClassValue) -> None:
        for key in self.outside(value):
            model = self.registry.definitions.get(key)
            if model is not None:
                model(self.machine, value)
                return

    def _decorated_run(self, function: FunctionValue, program: ir.Program, run: Callable[[], None]) -> None:
        """Runs a function inside the contexts that decorate it."""
        contexts: list[tuple[Value, ir.Node]] = []
        value = self.decorated(function)
        while isinstance(value, Decorated):
            contexts.append((value.context, program.decorators[0].expression))
            value = value.function
        for context, node in contexts:
            self.attempt(partial(self._entered, context, node))
        run()
        for context, node in reversed(contexts):
            self.attempt(partial(self.leave, context, node))

    def _entered(self, context: Value, node: ir.Node) -> None:
        self.each(context, partial(self._enter, node))

    def _enter(self, node: ir.Node, context: Value) -> Value:
        return self.enter(context, node)

    def _walk(
        self, frame: Frame, run: Callable[[], None], around: Ambient | None = None, most: int | None = None
    ) -> Graph:
        self.state = State(self.state.attributes)
        self.state.ambient = {type(value): value for value in self.registry.ambients}
        if around is not None:
            self.state.surround(around)
        self.frame, self.silent, self.active, self.steps, self.cut_off = frame, False, {}, 0, False
        self._walks.clear()
        limit = MOST_STEPS if self._walked < PLENTY else FEWER
        self._most = min(most or limit, limit)
        if frame.function is not None:
            self.reached.add(id(frame.function.outline))
        self.attempt(run)
        self._walk_defined(frame)
        self._walked += self.steps
        if not self.dead():
            self.on_each(partial(self.registry.hooks.returned, self.machine, frame.program.node))
            frame.graph.end = self.state.condition
        return frame.graph

    def _walk_defined(self, frame: Frame) -> None:
        """Walks the functions that were defined inside and never called."""
        for function in list(frame.defined.values()):
            if function.program is None or self.dead():
                continue
            plain = FunctionValue(
                function.file, None, function.program, function.closure, function.receiver, undecorated=True
            )
            head = function.program.node
            before = self.state
            self.state = before.fork()
            self.state.ambient = {type(value): value for value in self.registry.ambients}
            self.attempt(partial(self._call_unknown, plain, head))
            self.state = before

    def _call_unknown(self, function: FunctionValue, node: ir.Node) -> None:
        self.call_function(function, Arguments(unclear=True), node)

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
        known = frame.breaks, frame.continues, frame.branches, frame.rounds, frame.context
        self.state = before.fork()
        try:
            walk()
        except SeveralAmbient:
            del frame.graph.items[count:]
            frame.breaks, frame.continues, frame.branches, frame.rounds, frame.context = known
            self.state = before
            self.on_each(walk)

    def test(self, node: ir.Expression) -> Condition:
        """The condition under which an expression is true."""
        return self.truth(self.evaluate(node))

    def assign(self, target: ir.Expression, value: Value) -> None:
        """Binds a target."""
        bind(self.machine, target, value)

    def budget_left(self, program: ir.Program) -> bool:
        """Whether a further call of a function may be followed."""
        self._walks[program.key] += 1
        if self.steps < self._most and self._walks[program.key] <= MOST_WALKS:
            return True
        self.cut_off = True
        return False

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
        """Whether a call can matter: its function has effects, it is small, or what it is given or is around it
        matters."""
        if self.project.kind_of_method(function) == "abstract":
            return False
        if any(map(_matters, self.state.ambient.values())) or any(map(_matters, given.all)):
            return True
        if self.project.sure_weight(function) >= Weight.EFFECT:
            return True
        depth = len(self.active)
        program = self.program_of(function)
        return program is not None and depth < MOST_PLAIN and _is_small(program)

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
        return self.unfollowed(given, effects, node)

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
        result = calls.run_generator(self.machine, function, program, given, node)
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
        made = symbol("computed", operator, one, other)
        numbers = all(isinstance(side, (Number, Constant)) for side in (left, right))
        return Number(made) if numbers else Unknown(made)

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
        instance = Instance(self.fresh(node), value)
        each_round = self.runs_each_round
        self.on_each(partial(self.registry.hooks.made, self.machine, instance, arguments, each_round, node))
        method = self.find_method(value, "__init__")
        fields = self.project.fields(value) if method is None else None
        if fields is not None:
            self._fill(instance, fields, arguments, node)
        elif method is not None:
            self._begin(instance, method, arguments, node)
        return instance

    def _made_by(self, model: CallModel, key: str, node: ir.Node, given: Arguments) -> Value | None:
        return model(self.machine, key, given, node)

    def _begin(self, instance: Instance, method: FunctionValue, arguments: Arguments, node: ir.Node) -> None:
        """Walks a constructor now, if it has effects, or when an attribute of the object is asked for."""
        matters = self.project.sure_weight(method) >= Weight.EFFECT or any(
            _matters(value) for value in arguments.all
        )
        if matters and not self.silent:
            self._initialised.add(instance.identity)
            self.call_function(method, arguments.after(instance, node), node)
        else:
            self._pending[instance.identity] = arguments

    def _fill(
        self,
        instance: Instance,
        fields: tuple[tuple[str, Value | Lines | None], ...],
        given: Arguments,
        node: ir.Node,
    ) -> None:
        """The attributes of an object of a dataclass."""
        named = given.by_name(tuple(name for name, _ in fields))
        for name, default in fields:
            value = named.get(name)
            if value is None and default is not None and not given.unclear:
                value = self._value_of(default, name)
            if value is None:
                value = Unknown(symbol("attribute", instance.identity, name))
            self.store(instance.identity, name, value)
        made_of = instance.made_of
        after = self.find_method(made_of, "__post_init__") if made_of is not None else None
        if after is not None:
            self.call_function(after, Arguments((instance,), (), (node,)), node)

    def receiver_of(self, value: ClassValue) -> Instance:
        """The object on which a method is walked that nobody in sight calls."""
        identity = symbol("self", value.file.display, value.outline.qualified)
        self._pending.setdefault(identity, Arguments(unclear=True))
        return self._of_unknown_age.setdefault(identity, Instance(identity, value))

    def is_of_unknown_age(self, value: Instance) -> bool:
        """Whether an object was there before the code that is walked: what happened to it since is out of sight."""
        return value.identity in self._of_unknown_age

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
        self._initialised.add(identity)
        method = self.find_method(made_of, "__init__")
        if method is None:
            fields = self.project.fields(made_of)
            for name, _ in fields or ():
                self.base.setdefault((identity, name), Unknown(symbol("attribute", identity, name)))
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
        self.apart(program, method.file, context, lambda: self._with(heap, build))

    def _with(self, heap: dict[Key, Value], build: Callable[[], Value]) -> Value:
        """Walks a constructor among the objects that there are now; only what it makes is kept."""
        before = dict(heap)
        self.state.heap = dict(heap)
        result = build()
        self.state.heap = {
            key: value for key, value in self.state.heap.items() if before.get(key) is not value
        }
        return result

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
        program = self.project.lines(lines)
        context = symbol("set", base.identity, *program.root)

        def run() -> Value | None:
            self.run(program.body)
            return self.state.heap.get((base.identity, name))

        self_name = "self"
        return self.apart(program, lines.file, context, run, receiver=base, names={self_name: base})

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

    def of_class(self, kind: Value, own: Symbol) -> Value | None:
        """An object of a class, by what an annotation or ``isinstance`` says."""
        match kind:
            case ClassValue():
                self._pending.setdefault(own, Arguments(unclear=True))
                return self._of_unknown_age.setdefault(own, Instance(own, kind))
            case External():
                model = self.registry.annotations.get(kind.name)
                return model(own) if model is not None else None
        return None

    def annotated(self, parameter: ir.Parameter, own: Symbol) -> Value | None:
        """What the annotation of a parameter says of it."""
        dotted = parameter.annotation
        if dotted is None:
            return None
        text = _dotted(dotted)
        found = self.project.resolve(self.frame.file, text) if text is not None else None
        return self.of_class(found, own) if found is not None else None

    def evaluate_default(self, parameter: ir.Parameter) -> Value:
        """The default of a parameter that is not given."""
        assert parameter.default is not None
        return self.evaluate(parameter.default)

    def default_of_unknown(self, parameter: ir.Parameter, own: Symbol) -> Value:
        """A parameter of which nothing is known: a number, if its default is one."""
        default = parameter.default
        if isinstance(default, ir.LiteralNode) and type(default.value) in (int, float):
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
    def in_loop(self) -> bool:
        """Whether the present statement stands in a loop of its function."""
        return bool(self.frame.rounds)

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

    def callers(self) -> Iterator[FunctionValue]:
        """The functions on the way to the present one, innermost first."""
        frame: Frame | None = self.frame
        while frame is not None:
            if frame.function is not None:
                yield frame.function
            frame = frame.caller

    def place_of_call(self, node: ir.Node) -> Place:
        """Where a call stands."""
        return self.place(node)


MOST_PLAIN = LOOKED_INTO


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


def _matters(value: Value) -> bool:
    """Whether a call that is given a value is followed."""
    if isinstance(value, Choice):
        return _matters(value.then) or _matters(value.other)
    if value.matters:
        return True
    if isinstance(value, Items):
        return any(map(_matters, value.items))
    if isinstance(value, Mapping):
        return any(_matters(item) for _, item in value.items) or any(map(_matters, value.rest))
    return False


def _is_small(program: ir.Program) -> bool:
    """Whether a function has few statements."""
    count = 0
    pending = list(program.body)
    while pending:
        statement = pending.pop()
        count += 1
        if count > SMALL:
            return False
        for name in ("body", "other", "last"):
            pending += getattr(statement, name, ())
    return True
