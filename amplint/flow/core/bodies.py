"""The bodies of functions: parameters get their values, statements are walked, and a result comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from amplint.flow.core.api import Arguments
from amplint.flow.core.machine import Machine
from amplint.flow.state.conditions import Condition, apply, both, choice, either, leaves, negation
from amplint.flow.state.store import State
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    Annotated,
    ClassValue,
    External,
    FunctionValue,
    Instance,
    Iteration,
    Mapping,
    Sequence,
    Unknown,
    Value,
)
from amplint.lowering.program import Attribute, Call, Name, Parameter, Program, Return


def refused(program: Program, given: Arguments) -> Condition:
    """Where Python refuses a call: ``model(x, mask=mask)`` where there is no such parameter, or where another one has
    no default. ``f(**options)`` may give it on some paths alone. What a decorator has made of a function may take
    it."""
    kinds = [parameter.kind for parameter in program.parameters]
    if given.unclear or program.decorators:
        return FALSE
    if "*" not in kinds and len(given.positional) > kinds.count("positional") + kinds.count("normal"):
        return TRUE
    named = {parameter.name for parameter in program.parameters if parameter.kind in ("normal", "keyword")}
    unknown = [value for name, value in given.keywords if name not in named] if "**" not in kinds else []
    found: Condition = FALSE
    for value in unknown:
        found = either(found, apply(_is_given, value))
    keywords = dict(given.keywords)
    for index, parameter in enumerate(program.parameters):
        by_position = index < len(given.positional) and parameter.kind != "keyword"
        if parameter.kind in ("*", "**") or parameter.default is not None or by_position:
            continue
        found = either(found, negation(apply(_is_given, keywords.get(parameter.name, UNBOUND))))
    return found


def given_twice(keywords: Iterable[tuple[str, Value]]) -> Condition:
    """Where Python refuses the keywords of a call, whatever is called: ``f(mode=True, **options)`` where the options
    have a mode, too."""
    given: dict[str, Condition] = {}
    found: Condition = FALSE
    for name, value in keywords:
        here = apply(_is_given, value)
        found = either(found, both(given.get(name, FALSE), here))
        given[name] = either(given.get(name, FALSE), here)
    return found


def _is_given(value: Value) -> Condition:
    return FALSE if value == UNBOUND else TRUE


def bind_parameters(m: Machine, program: Program, given: Arguments) -> None:
    """Gives each parameter its argument, its default, or something unknown."""
    named = dict(given.keywords)
    position = 0
    for parameter in program.parameters:
        match parameter.kind:
            case "*":
                rest = given.positional[position:]
                prefix = len(rest) if given.unclear else 0
                held = Sequence((*rest, *given.starred), not given.unclear, prefix, kind=tuple)
                m.state.bind(parameter.name, held)
                position = len(given.positional)
            case "**":
                items = tuple(named.items())
                unknown = (m.unknown(program.node),) if given.unclear else ()
                m.state.bind(parameter.name, Mapping(items, unknown, m.fresh(program.node, "keywords")))
            case _:
                value: Value | None = None
                if parameter.kind != "keyword" and position < len(given.positional):
                    value = given.positional[position]
                    position += 1
                elif parameter.name in named:
                    value = named.pop(parameter.name)
                m.state.bind(parameter.name, _given(m, program, parameter, value, given))
    first = program.parameters[0] if program.parameters else None
    function = m.frame.function
    if function is not None and function.outline is not None and function.outline.owner is not None and first:
        receiver = m.state.names.get(first.name)
        if receiver is not None:
            m.frame.receiver = receiver


def _given(
    m: Machine, program: Program, parameter: Parameter, value: Value | None, given: Arguments
) -> Value:
    """What a parameter is. ``f(**options)`` may give it on some paths alone."""
    if value is None or UNBOUND not in leaves(value):
        return _value(m, program, parameter, value, given)
    default = _value(m, program, parameter, None, given) if parameter.default is not None else UNBOUND
    return apply(lambda leaf: default if leaf == UNBOUND else leaf, value)


def _value(
    m: Machine, program: Program, parameter: Parameter, value: Value | None, given: Arguments
) -> Value:
    name = parameter.name
    if value is None and (given.usual or not given.unclear) and parameter.default is not None:
        return m.evaluate_default(parameter)
    if value is None:
        own = symbol("parameter", program.path, *program.root, program.number, name)
        value = m.default_of_unknown(parameter, own)
        usual = _usual(m, parameter)
        if isinstance(value, Unknown) and usual is not None:
            return choice(symbol("default", own), usual, _value(m, program, parameter, value, given))
    if not isinstance(value, Unknown):
        return value
    typed = m.annotated(parameter, value.symbol)
    if isinstance(typed, Unknown) and value.kind in (None, typed.kind):
        m.set_note(value.symbol, Annotated())
    if value.kind is not None:
        return value
    if typed is not None:
        return typed
    kind = m.kind_of_parameter(program, name)
    return replace(value, kind=kind) if kind is not None else value


def _usual(m: Machine, parameter: Parameter) -> Value | None:
    """What a parameter is where nobody gives another one, if that is something to be called: ``loss=F.mse_loss``."""
    if not isinstance(parameter.default, (Name, Attribute, Call)):
        return None
    value = m.evaluate_default(parameter)
    return value if isinstance(value, (External, FunctionValue, ClassValue, Instance)) else None


def run_body(m: Machine, program: Program) -> Value:
    """Walks the body of a function in the present frame; the present state is that at its end. Gives the result."""
    frame = m.frame
    if program.kind == "lambda":
        body = program.body[0]
        assert isinstance(body, Return) and body.value is not None
        return m.evaluate(body.value)
    if not m.dead():
        m.run(program.body)
    if not m.dead():
        frame.returns.append((m.state, NONE))
    states: list[State] = [state for state, _ in frame.returns]
    result = m.joined_results(frame.returns, program.node)
    if program.is_generator:
        if frame.function is not None and frame.function.manages_context:
            states, result = (
                [state for state, _ in frame.yields],
                m.joined_results(frame.yields, program.node),
            )
        else:
            result = Iteration(m.joined_results(frame.yields, program.node))
    m.state = m.join(states, program.node) if states else m.state
    return result
