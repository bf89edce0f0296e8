"""Calls: who is called, with what, and what comes back. A summary serves all calls that agree on what it has read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from amplint.flow.core.api import Arguments, Dead
from amplint.flow.core.bodies import bind_parameters, refused, run_body
from amplint.flow.core.instances import method_of_asked
from amplint.flow.core.machine import Frame, Machine
from amplint.flow.core.registry import CallModel, MethodModel
from amplint.flow.state.conditions import Condition, atoms, negation, without
from amplint.flow.state.graph import Calls, Graph
from amplint.flow.state.store import Ambient, Key
from amplint.flow.state.symbols import AT, Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    BoundMethod,
    Choice,
    ClassValue,
    Constant,
    ContextManager,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Number,
    Partial,
    Super,
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


def call(m: Machine, function: Value, given: Arguments, node: Node) -> Value:
    """Calls a value that is no Choice; arguments that are Choices are taken apart where a model sees them."""
    match function:
        case FunctionValue():
            return m.call_function(function, given, node)
        case BoundMethod():
            return _call_bound(m, function, given, node)
        case ClassValue():
            return m.construct(function, given, node)
        case External():
            return call_external(m, function.name, given, node)
        case Partial():
            return call(m, function.function, _merged(function, given, node), node)
        case Decorated():
            return _call_decorated(m, function, given, node)
        case Instance():
            return _call_instance(m, function, given, node)
        case Constant():
            raise Dead
        case Unknown():
            return call_method(m, function, "__call__", given, node)
    return call_method(m, function, "__call__", given, node)


def _merged(function: Partial, given: Arguments, node: Node) -> Arguments:
    named = {name for name, _ in given.keywords}
    kept = tuple(item for item in function.keywords if item[0] not in named)
    return Arguments(
        (*function.positional, *given.positional),
        (*kept, *given.keywords),
        (*((node,) * len(function.positional)), *given.nodes),
        given.keyword_nodes,
        given.unclear,
        given.receiver,
        given.starred,
    )


def _call_decorated(m: Machine, function: Decorated, given: Arguments, node: Node) -> Value:
    m.each(function.context, lambda context: m.enter(context, node))
    result = m.each(function.function, lambda one: call(m, one, given, node))

    def leave(context: Value) -> Value:
        m.leave(context, node)
        return NONE

    m.each(function.context, leave)
    return result


def _call_bound(m: Machine, bound: BoundMethod, given: Arguments, node: Node) -> Value:
    if bound.function is not None:
        return m.each(bound.receiver, lambda one: _call_with(m, bound, one, given, node))
    if isinstance(bound.receiver, Super):
        return _call_super(m, bound.receiver, bound.name, given, node)
    return m.each(bound.receiver, lambda one: call_method(m, one, bound.name, given, node))


def _call_with(m: Machine, bound: BoundMethod, receiver: Value, given: Arguments, node: Node) -> Value:
    assert bound.function is not None
    items = m.frame.graph.items
    before = len(items)
    result = m.call_function(bound.function, given.after(receiver, node), node)
    if isinstance(receiver, Instance):
        for key in m.outside(receiver):
            model = m.registry.filled_in.get((key, bound.name))
            if model is not None:
                told = Graph()
                told.items = items[before:]
                m.on_each(partial(model, m, receiver, given, told.kinds, node))
                break
    return result


def _call_super(m: Machine, base: Super, name: str, given: Arguments, node: Node) -> Value:
    """A method of a class outside, called through ``super()``."""
    for key in m.outside(base.after):
        model = m.registry.calls.get(f"{key}.{name}")
        if model is not None:
            return _by_model(m, model[0], f"{key}.{name}", replace(given, receiver=base.receiver), node)
    if name == "__init__":
        return NONE
    return call_method(m, base.receiver, name, given, node, inherited=True)


def _call_instance(m: Machine, value: Instance, given: Arguments, node: Node) -> Value:
    for key in m.outside(value):
        model = m.registry.instances.get(key)
        if model is not None:
            result = m.answered(given, partial(_by_instance, m, model, value, node))
            if result is not None:
                return result
    if value.made_of is not None:
        method = m.find_method(value.made_of, "__call__")
        if method is not None:
            return m.call_function(method, given.after(value, node), node)
    return call_method(m, value, "__call__", given, node)


def _by_instance(
    m: Machine, model: MethodModel, value: Instance, node: Node, given: Arguments
) -> Value | None:
    return model(m, value, "__call__", given, node)


def call_external(m: Machine, name: str, given: Arguments, node: Node) -> Value:
    """Calls something outside the project."""
    found = m.registry.called(name)
    if found is not None:
        return _by_model(m, found[0], name, given, node)
    if m.has_methods(name):
        return Instance(m.fresh(node), None, name)
    return m.unfollowed(given, False, node)


def _by_model(m: Machine, model: CallModel, name: str, given: Arguments, node: Node) -> Value:
    def run(resolved: Arguments) -> Value:
        found = model(m, name, resolved, node)
        return found if found is not None else m.unfollowed(resolved, False, node)

    return m.resolved(given, run)


def call_method(
    m: Machine, receiver: Value, name: str, given: Arguments, node: Node, *, inherited: bool = False
) -> Value:
    """A method that a model knows, or nobody."""
    if isinstance(receiver, Constant) and receiver.value is None:
        raise Dead
    several = m.told_apart(receiver)
    if isinstance(several, Choice):
        return m.each(several, lambda one: call_method(m, one, name, given, node, inherited=inherited))
    receiver = m.contents(receiver)
    if isinstance(receiver, Unknown):
        m.exists(receiver)
        method = method_of_asked(m, receiver, name)
        if method is not None:
            return m.call_function(method, given.after(receiver, node), node)
    own = named_in_settings(m, f".{name}") if isinstance(receiver, (Unknown, Instance)) else None
    if own is not None:
        return _by_model(m, own, name, replace(given, receiver=receiver), node)
    if isinstance(receiver, Instance) or (isinstance(receiver, ClassValue) and not inherited):
        for outside in m.outside(receiver):
            model = m.registry.calls.get(f"{outside}.{name}")
            if model is not None:
                return _by_model(m, model[0], f"{outside}.{name}", replace(given, receiver=receiver), node)
    methods = m.registry.methods
    for key in m.method_keys_of(receiver):
        found = methods.get((key, name)) or methods.get((key, None))
        if found is None:
            continue
        return m.resolved(given, partial(_by_method, m, found[0], receiver, name, node))
    return _nobody_knows(m, receiver, name, given, node)


def _by_method(
    m: Machine, model: MethodModel, receiver: Value, name: str, node: Node, given: Arguments
) -> Value:
    found = model(m, receiver, name, given, node)
    return found if found is not None else _nobody_knows(m, receiver, name, given, node)


def _nobody_knows(m: Machine, receiver: Value, name: str, given: Arguments, node: Node) -> Value:
    method = _method_of(receiver, name)
    if method is not None:
        m.on_each(partial(m.registry.hooks.unresolved, m, method, given, node))
    result = m.unfollowed(replace(given, receiver=receiver), False, node)
    if isinstance(receiver, Unknown) and not given.all and name != "__call__":
        return Unknown(symbol("call", receiver.symbol, name))  # the same question to the same object
    return result


_IDENTITIES = frozenset({"made", "self"})
"""What the names of objects of known classes begin with."""


def _method_of(receiver: Value, name: str) -> str | None:
    """The method that is meant by ``x.name()``, or by ``f()`` after ``f = x.name``, for something unknown x."""
    if not isinstance(receiver, Unknown):
        return None
    if name != "__call__":
        return name
    kind, *parts = receiver.symbol.parts
    owner = parts[0] if kind == "attribute" else None
    known = not isinstance(owner, Symbol) or owner.parts[0] in _IDENTITIES
    return None if known else str(parts[1])


# functions of the project ----------------------------------------------------------------------------------------


def call_function(m: Machine, function: FunctionValue, given: Arguments, node: Node) -> Value:
    """Calls a function of the project: walks it, or takes what an earlier walk in the same situation gave."""
    own = _own_model(m, function)
    if own is not None:
        is_method = function.outline is not None and function.outline.owner is not None
        bound = is_method and m.kind_of_method(function) != "static method"
        return _by_model(m, own, "", given.rest(1) if bound else given, node)
    if not function.undecorated:
        value = m.decorated(function)
        if isinstance(value, FunctionValue) and value.undecorated:
            if m.is_cached(function) and not given.unclear:
                return _call_cached(m, value, given, node)
            return call_function(m, value, given, node)
        if value != function:
            return m.each(value, lambda one: call(m, one, given, node))
    if function.manages_context:
        return ContextManager("generator", m.fresh(node), Partial(function, given.positional, given.keywords))
    if function.outline is not None and function.outline.placeholder:
        return m.unknown(node)
    if not m.follows(function, given):
        return m.cut(function, given, node)
    program = m.program_of(function)
    if program is None:
        return m.cut(function, given, node)
    m.assume(negation(refused(program, given)))
    given = _canonical(m, function, program, given)
    return m.for_each_ambient(partial(_summarised, m, function, program, given, node))


def _own_model(m: Machine, function: FunctionValue) -> CallModel | None:
    """What the settings say of a function of the project."""
    if m.registry.own is None or function.outline is None:
        return None
    return named_in_settings(m, f"{function.file.module}.{function.outline.qualified}")


def named_in_settings(m: Machine, name: str) -> CallModel | None:
    """What the settings say of a qualified name, or of a method whose name comes after a dot."""
    found = m.registry.own(name) if m.registry.own is not None else None
    return found[0] if found is not None else None


def _call_cached(m: Machine, function: FunctionValue, given: Arguments, node: Node) -> Value:
    """The result of a function that keeps it: what the first call with these arguments gave."""
    program = m.program_of(function)
    if program is None:
        return m.cut(function, given, node)
    owner = symbol("cached", program.path, *program.root, program.number, *given.positional, *given.keywords)
    known = m.load(owner, "result")
    if known is not None:
        return known
    frame, context = m.frame, m.frame.context
    frame.context = owner  # what it makes belongs to no caller
    try:
        result = call_function(m, function, given, node)
    finally:
        frame.context = context
    m.store(owner, "result", result)
    m.settle(owner, "result", result)
    return result


def _canonical(m: Machine, function: FunctionValue, program: Program, given: Arguments) -> Arguments:
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


def _summarised(m: Machine, function: FunctionValue, program: Program, given: Arguments, node: Node) -> Value:
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
        if (not summary.makes or summary.context is context) and all(
            m.peek(key) == value for key, value in summary.reads.items()
        ):
            m.missed += not summary.whole
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
    made = _definition(function)
    if made is not None:
        caller.defined.pop(made, None)
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


def _definition(function: FunctionValue) -> Symbol | None:
    if function.program is None or function.closure is None:
        return None
    return symbol("defined", function.closure.identity, function.program.number)
