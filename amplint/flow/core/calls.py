"""Calls: who is called, with what, and what comes back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from amplint.flow.core.api import Arguments, Dead
from amplint.flow.core.bodies import refused
from amplint.flow.core.instances import method_of_asked
from amplint.flow.core.machine import Machine
from amplint.flow.core.registry import CallModel, MethodModel
from amplint.flow.core.summaries import canonical, summarised
from amplint.flow.state.conditions import negation
from amplint.flow.state.graph import Graph
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    NONE,
    BoundMethod,
    Choice,
    ClassValue,
    Constant,
    ContextManager,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Partial,
    Super,
    Unknown,
    Value,
)
from amplint.lowering.program import Node


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
        if isinstance(receiver, ClassValue) and isinstance(key, str):
            # a method of objects that is asked of their class gets its object first
            owner = given.positional[0] if given.positional else None
            if not isinstance(owner, Instance):
                break
            return call_method(m, owner, name, given.rest(1), node, inherited=inherited)
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
    given = canonical(m, function, program, given)
    return m.for_each_ambient(partial(summarised, m, function, program, given, node))


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
