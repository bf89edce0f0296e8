"""Summaries: what a call of a function did serves all calls that agree on what it has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from amplint.flow.core.api import Arguments, Dead
from amplint.flow.core.bodies import bind_parameters, run_body
from amplint.flow.core.machine import Frame, Machine
from amplint.flow.state.conditions import Condition, atoms, without
from amplint.flow.state.graph import Calls, Graph
from amplint.flow.state.store import Ambient, Key
from amplint.flow.state.symbols import AT, Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    TRUE,
    ClassValue,
    Constant,
    External,
    FunctionValue,
    Instance,
    Number,
    Unknown,
    Value,
)
from amplint.lowering.program import Node, Program

MOST_DEEP = 24
"""So deep calls are followed."""
MOST_RECURSIVE = 2
"""So often a function is walked inside itself with arguments of the same shape."""


@dataclass(slots=True, eq=False)
class Summary:
    """What a call did: it does the same wherever the same is read."""

    reads: dict[Key, Value | None]
    writes: dict[Key, Value]
    condition: Condition
    ambient: dict[type[Ambient], Value]
    result: Value
    graph: Graph
    context: Symbol
    makes: bool
    made: frozenset[Symbol]
    """The objects that are made in it."""
    whole: bool
    """Whether all of it was followed."""
    told_apart: Key | None = None
    """What the last call that it did not serve found to be another."""

    def serves(self, heap: Mapping[Key, Value]) -> bool:
        """Whether a heap holds what was read."""
        last = self.told_apart
        if last is not None and heap.get(last) != self.reads[last]:
            return False
        for key, value in self.reads.items():
            found = heap.get(key)
            if found is not value and found != value:
                self.told_apart = key
                return False
        return True


def canonical(m: Machine, function: FunctionValue, program: Program, given: Arguments) -> Arguments:
    """The arguments with unknowns that come about at some node, and of which nothing is known, named after the
    parameters: the function does the same with each of them. Settings keep their names: what the function makes by them
    is switched by the same flag as what its caller makes."""
    known = atoms(m.state.condition)
    asked = {part for atom in known for part in atom.parts if isinstance(part, Symbol)}

    def plain(value: Value, name: str) -> Value:
        if not isinstance(value, (Unknown, Number)) or not _is_plain(m, value):
            return value
        if value.symbol in asked or m.is_asked(function, name):
            return value
        return replace(value, symbol=symbol("parameter", program.path, *program.root, program.number, name))

    names = [part.name for part in program.parameters if part.kind in ("positional", "normal")]
    positional = tuple(
        plain(value, names[index] if index < len(names) else str(index))
        for index, value in enumerate(given.positional)
    )
    return replace(
        given,
        positional=positional,
        keywords=tuple((key, plain(value, key)) for key, value in given.keywords),
    )


def summarised(m: Machine, function: FunctionValue, program: Program, given: Arguments, node: Node) -> Value:
    situation = (
        program.key,
        function.closure.identity if function.closure is not None else None,
        function.manages_context,
        given.positional,
        given.keywords,
        given.unclear,
        tuple(m.state.ambient.items()),
        m.silent,
    )
    context = symbol("call", m.frame.context, node.number, program.path, *program.root, program.number)
    for summary in m.summaries.get(situation, ()):
        if (not summary.makes or summary.context is context) and summary.serves(m.state.heap):
            m.missed += not summary.whole
            _note_called(m, function)
            return _apply(m, summary, node)
    shape = _shape_of_call(program, given)
    alike = sum(1 for known in m.active.values() if known == shape)
    recursive = situation in m.active or alike >= MOST_RECURSIVE
    if recursive or len(m.active) >= MOST_DEEP or not m.budget_left(program):
        return m.cut(function, given, node)
    summary = _walked(m, function, program, given, node, context, situation)
    m.summaries.setdefault(situation, []).append(summary)
    return _apply(m, summary, node)


def _shape_of_call(program: Program, given: Arguments) -> tuple[object, ...]:
    """What tells the calls of a recursive function apart that come to an end: objects, functions, flags, names. Data
    may be another piece of it each time, for ever, and so may an object that a call of the function has made."""
    telling = (Instance, FunctionValue, ClassValue, External, Constant)

    def tells(value: Value) -> bool:
        return isinstance(value, telling) and not (
            isinstance(value, Instance) and _is_made_in(value.identity, program)
        )

    return (program.key, *(value if tells(value) else type(value) for value in given.all))


def _is_made_in(identity: Symbol, program: Program) -> bool:
    """Whether an object comes from a call of a function, or of what it calls."""
    call = (program.path, *program.root, program.number)
    context = identity.parts[1] if len(identity.parts) > 1 else None
    while isinstance(context, Symbol) and context.parts[0] == "call":
        if context.parts[3:] == call:
            return True
        context = context.parts[1]
    return False


def _apply(m: Machine, summary: Summary, node: Node) -> Value:
    """Does what a call did."""
    frame = m.frame
    for key, value in summary.reads.items():
        if frame.entry.get(key) is value:
            frame.reads[key] = value
    frame.makes = frame.makes or summary.makes
    if summary.graph.items and not m.silent:
        frame.graph.items.append(Calls(m.state.condition, summary.graph, m.place(node), m.state.yielded))
    condition = m.narrowed(summary.condition)
    if condition == FALSE:
        raise Dead
    for key, value in summary.writes.items():
        m.state.store(key, value)
    m.note_made(summary.made)
    m.state.condition = condition
    m.state.ambient = summary.ambient
    result = summary.result
    if isinstance(result, (Unknown, Number)) and _is_plain(m, result):
        return replace(result, symbol=m.unknown(node).symbol)
    return result


def _is_plain(m: Machine, value: Value) -> bool:
    """Whether a value is an unknown of which nothing more is known than where it came about."""
    if isinstance(value, Unknown) and value.kind is not None:
        return False
    return (
        isinstance(value, (Unknown, Number)) and value.symbol.parts[0] == AT and not m.is_noted(value.symbol)
    )


def _walked(
    m: Machine,
    function: FunctionValue,
    program: Program,
    given: Arguments,
    node: Node,
    context: Symbol,
    situation: object,
) -> Summary:
    caller, before, cuts, lost = m.frame, m.state, m.cuts, m.lost
    caller.names = before.names
    frame = Frame(program, function.file, context, function, function.closure, function.receiver, caller)
    state = before.fork(TRUE)
    state.yielded = False
    state.enter_frame({})
    frame.entry = before.heap
    m.frame, m.state = frame, state
    m.active[situation] = _shape_of_call(program, given)
    try:
        m.attempt(lambda: bind_parameters(m, program, given))
        result = run_body(m, program)
    finally:
        del m.active[situation]
        m.frame, after, m.state = caller, m.state, before
        frame.names = after.names
    if function.outline is not None:
        (m.reached if m.cuts == cuts else m.cut_short).add(id(function.outline))
    _note_called(m, function)
    # whoever gets them may call them
    caller.defined.update(frame.defined)
    frame.graph.end = after.condition
    end = _seen_outside(after.condition, context, program)
    writes = after.written_since(before)
    objects = after.made_since(before)
    reads, makes, whole = frame.reads, frame.makes, m.lost == lost
    return Summary(reads, writes, end, after.ambient, result, frame.graph, context, makes, objects, whole)


def _seen_outside(condition: Condition, context: Symbol, program: Program) -> Condition:
    """What a caller can know of the condition under which a call comes to its end: nobody outside asks again for
    what came about inside."""
    own = (program.path, *program.root, program.number)
    known: dict[Symbol, bool] = {}
    inside = frozenset(atom for atom in atoms(condition) if _is_inside(atom, context, own, known))
    return without(condition, inside) if inside else condition


def _is_inside(part: Symbol, context: Symbol, own: tuple[object, ...], known: dict[Symbol, bool]) -> bool:
    if part is context:
        return True
    found = known.get(part)
    if found is None:
        named = part.parts[0] == "parameter" and part.parts[1 : 1 + len(own)] == own
        inner = (piece for piece in part.parts if isinstance(piece, Symbol))
        found = known[part] = named or any(_is_inside(piece, context, own, known) for piece in inner)
    return found


def run_generator(
    m: Machine, function: FunctionValue, program: Program, given: Arguments, node: Node
) -> tuple[Value, Graph]:
    """What a function under ``contextlib.contextmanager`` does up to its ``yield``; gives what that yields, and what
    happens behind it. What it opened stays open."""
    situation = (program.key, "entered", given.positional, given.keywords)
    if situation in m.active:
        return m.unknown(node), Graph()
    context = symbol("call", m.frame.context, node.number, program.path, *program.root, program.number)
    summary = _walked(m, function, program, given, node, context, situation)
    rest = summary.graph.without_late()
    return _apply(m, summary, node), rest


def _note_called(m: Machine, function: FunctionValue) -> None:
    """A function is called that was perhaps defined in one of the frames around."""
    if function.program is None or function.closure is None:
        return
    made = symbol("defined", function.closure.identity, function.program.number)
    frame: Frame | None = m.frame
    while frame is not None:
        frame.defined.pop(made, None)
        frame = frame.caller
