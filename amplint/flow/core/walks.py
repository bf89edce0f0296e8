"""Walks: from the entry points of a project on, each within a budget.

Recursion, calls nested too deeply and the budget end in a cut: what comes of the call is unknown, and what it may
have changed is forgotten. A cut withdraws nothing: what stands around such a call is judged by itself, with less.
Once a large project has used up much, each further entry point gets less.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from amplint.flow.core.api import Arguments, Settings
from amplint.flow.core.bodies import bind_parameters, run_body
from amplint.flow.core.interpreter import Interpreter
from amplint.flow.core.machine import Frame, ProjectView
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.state import conditions
from amplint.flow.state.conditions import Condition, asked
from amplint.flow.state.graph import Graph
from amplint.flow.state.store import Ambient, State
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import NONE, TRUE, ClassValue, Decorated, External, FunctionValue, Value
from amplint.lowering import program as ir
from amplint.source.outline import dotted
from amplint.source.project import ProjectFile

MOST_STEPS = 40_000
"""Statements walked for one entry point: a last resort, which --statistics tells of."""
DEAR_STEPS = 8_000
MOST_TREES = 500_000
"""So many, where so many nodes of conditions were made on the way: each statement takes ten times as long there."""
PLENTY = 150_000
"""Once so many statements of a project were walked, each further entry point gets FEWER, unless it trains; once twice
as many, FEWEST."""
FEWER = 1_000
FEWEST = 250
"""So many also where no key of weight ENTRY is on the way that no walk has met."""
IN_DECORATORS = 100
"""Of these at most so many are what the decorators of one function do."""
MOST_WALKS = 128
"""So often one function is walked for one entry point: one that comes back with ever new data must not use up what
the others need."""


class Walks(Interpreter):
    """Walks entry points of a project and gives their event graphs."""

    def __init__(self, registry: Registry, project: ProjectView, settings: Settings) -> None:
        super().__init__(registry, project, settings)
        self.reached: set[int] = set()
        """The outlines of the functions that were walked from beginning to end."""
        self.cut_short: set[int] = set()
        """Those of the functions around a call for which no statements were left: they are judged by themselves, unless
        another walk went through them."""
        self.cut_off = False
        """Whether the present entry point has met its budget."""
        self.missed = 0
        """How often something was not followed so far, what is known of it from earlier walks included."""
        self._lost = 0
        self.cuts = 0
        """How many calls were not followed because no statements were left."""
        self._walks: Counter[object] = Counter()
        self._most = MOST_STEPS
        self._trees = MOST_TREES
        """So many nodes of conditions there may be in all."""
        self._walked = 0
        """Statements walked for all entry points so far."""

    def make_room(self) -> None:
        """Between entry points: drops what earlier ones have left, if that is much."""
        if conditions.is_full():
            self.summaries.clear()
            self.rests.clear()
            conditions.start_over()
        conditions.forget()

    def walk_module(self, file: ProjectFile, program: ir.Program, most: int | None = None) -> Graph:
        """The events of a file that is run as a script; ``most``: so many statements are walked."""
        frame = Frame(program, file, symbol("run", file.display))
        return self._walk(frame, lambda: self._run_module(program), most=most)

    def _run_module(self, program: ir.Program) -> None:
        self.run(program.body)

    def budget(self, entry: FunctionValue, *, new: bool, passing: bool, scales: bool) -> int:
        """How many statements an entry point may have. ``new``: a key of weight ENTRY may be met for the first time;
        ``passing``: it is a test or the like; ``scales``: losses are scaled in its own file."""
        if self._walked < (2 * PLENTY if scales else PLENTY):
            return FEWER if passing or id(entry.outline) in self.cut_short else MOST_STEPS
        return FEWER if new and self._walked < 2 * PLENTY else FEWEST

    def walk_function(
        self,
        function: FunctionValue,
        receiver: Value | None = None,
        around: Ambient | None = None,
        most: int | None = None,
        *,
        given: Mapping[str, Value] | None = None,
        left_out: frozenset[str] = frozenset(),
    ) -> Graph | None:
        """The events of a function that nobody in sight calls, with unknown arguments beside ``given``, and the
        defaults of those ``left_out``. ``around``: an ambient value that it has to expect of its callers; ``most``: so
        many statements are walked."""
        program = self.project.program(function)
        if program is None:
            return None
        context = symbol("root", program.path, *program.root, program.number)
        frame = Frame(program, function.file, context, function)

        def run() -> None:
            first = (receiver,) if receiver is not None else ()
            defaults = [
                (parameter.name, self.evaluate_default(parameter))
                for parameter in program.parameters
                if parameter.name in left_out and parameter.default is not None
            ]
            named = (*(given or {}).items(), *defaults)
            nodes = tuple((name, program.node) for name, _ in named)
            arguments = Arguments(first, named, (program.node,) * len(first), nodes, unclear=True)
            self._run_decorated(function, program, arguments)

        return self._walk(frame, run, around, most)

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
        node = function.outline.node if function.outline is not None else None
        if node is None or all(map(partial(self._does_nothing, function.file), node.decorator_list)):
            return
        program = self.project.program(function)
        if program is None:
            return
        frame = self.frame
        self.frame = Frame(
            program, function.file, symbol("define", program.path, *program.root), graph=frame.graph
        )
        plain = FunctionValue(function.file, function.outline, undecorated=True)
        self.attempt(partial(self._apply_quietly, plain, program.decorators))
        self.frame = frame

    def _does_nothing(self, file: ProjectFile, decorator: ast.expr) -> bool:
        """Whether a decorator, given nothing that is called, is a function of the project that can meet no ENTRY key,
        or one outside that no model gives an effect."""
        if isinstance(decorator, ast.Call):
            given = (*decorator.args, *(keyword.value for keyword in decorator.keywords))
            if any(isinstance(argument, ast.Call) for argument in given):
                return False
            decorator = decorator.func
        name = dotted(decorator)
        match self.project.resolve(file, name) if name is not None else None:
            case FunctionValue() as found:
                return not self.project.enters(found)
            case External(name=outside):
                model = self.registry.called(outside)
                return model is None or model[1].weight == Weight.NOTHING
        return False

    def fill(self, file: ProjectFile, name: str) -> None:
        """Lets decorators and statements fill what a module binds to a name, whatever is left of the budget."""
        kept = self.steps, self._most, self.cut_off, self.missed, self._walks
        self.steps, self._most, self._walks = 0, MOST_STEPS, Counter()
        try:
            super().fill(file, name)
        finally:
            self.steps, self._most, self.cut_off, self.missed, self._walks = kept

    def _apply(self, function: FunctionValue | ClassValue, decorators: tuple[ir.Decorator, ...]) -> Value:
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

    def _run_decorated(self, function: FunctionValue, program: ir.Program, given: Arguments) -> None:
        """Runs a function inside the contexts that decorate it, and through what a decorator of the project has made of
        it, if that calls it."""
        contexts: list[tuple[Value, ir.Node]] = []
        value = self.decorated(function)
        while isinstance(value, Decorated):
            contexts.append((value.context, program.decorators[0].expression))
            value = value.function
        for context, node in contexts:
            self.attempt(partial(self._entered, context, node))
        wrapped = isinstance(value, FunctionValue) and value.program is not None
        if not wrapped or not self._is_called_by(function, value, given, program.node):
            self.attempt(lambda: bind_parameters(self.machine, program, given))
            run_body(self.machine, program)
        for context, node in reversed(contexts):
            self.attempt(partial(self.leave, context, node))

    def _is_called_by(self, function: FunctionValue, wrapper: Value, given: Arguments, node: ir.Node) -> bool:
        """Calls what a decorator has made of a function, and tells whether that came to the function."""
        key, graph = id(function.outline), self.frame.graph
        kept, state = len(graph.items), self.state.fork()
        self.reached.discard(key)
        self.cut_short.discard(key)
        self.attempt(partial(self._call_unknown, wrapper, given, node))
        if key in self.reached or key in self.cut_short:
            return True
        self.reached.add(key)
        self.state = state
        del graph.items[kept:]
        return False

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
        self._trees = conditions.made() + MOST_TREES
        self._lost = self.lost
        # an entry point that was given its budget keeps it for all of its walks, within bounds
        plenty = PLENTY if most is None else 2 * PLENTY
        limit = MOST_STEPS if self._walked < plenty else FEWER
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
        """Walks the functions that were defined inside and never called, and those that are defined in them: whoever
        got them may do anything before."""
        while frame.defined:
            program, file, function = frame.defined.pop(next(iter(frame.defined)))
            before, head = self.state, program.node
            # they may be called before the program ends, where it does
            self.state = before.fork(TRUE) if self.dead() else before.fork()
            self.state.ambient = {type(value): value for value in self.registry.ambients}
            self.frame = Frame(program, file, frame.context, graph=frame.graph, defined=frame.defined)
            self.opaque(Arguments(), head)
            self.attempt(partial(self._call_unknown, function, Arguments(unclear=True), head))
            self.state, self.frame = before, frame

    def _call_unknown(self, function: Value, given: Arguments, node: ir.Node) -> None:
        self.call(function, given, node)

    @property
    def lost(self) -> int:
        return self.missed + conditions.forgotten()

    @property
    def is_whole(self) -> bool:
        """Whether all of the present entry point was followed, and nothing was forgotten of the conditions on its
        paths."""
        return self.lost == self._lost

    def budget_left(self, program: ir.Program) -> bool:
        """Whether a further call of a function may be followed."""
        self._walks[program.key] += 1
        left = self.steps < self._most and (self.steps < DEAR_STEPS or conditions.made() < self._trees)
        if left and self._walks[program.key] <= MOST_WALKS:
            return True
        self.cut_off = True
        self.missed += 1
        self.cuts += not left
        return False
