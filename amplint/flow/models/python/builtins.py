"""Builtin functions that convert, compute and print."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.items import is_of_python, known_items, named, rounds_of, special
from amplint.flow.state.conditions import Condition, both, either, leaves
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    ClassValue,
    Constant,
    External,
    FunctionValue,
    Instance,
    Mapping,
    Number,
    Sequence,
    Super,
    Text,
    Unknown,
    Value,
)
from amplint.lowering import program as ir
from amplint.lowering.literals import is_too_large
from amplint.lowering.program import Node

models = Registry()

_GLOBALS = "globals"
"""The kind of the dict that holds the names of a module."""
_LARGEST = 1024
"""Powers of larger numbers are not worked out."""


@models.namespace("builtins.")
def _any_other(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """Exceptions, ``open``, ``input``: nothing that they are given changes."""
    return api.unknown(node)


@models.call("builtins.eval", "builtins.compile")
def _run_text(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return api.opaque(arguments, node)


@models.call("builtins.exec")
def _exec(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``exec(open("config.py").read())``, ``exec(text, globals())``."""
    text, names = arguments.get(0, "source"), arguments.get(1, "globals")
    if not isinstance(text, Constant) and (
        names is None or (isinstance(names, Unknown) and names.kind == _GLOBALS)
    ):
        api.set_names()
    return api.opaque(arguments, node)


@models.call("builtins.globals")
def _globals(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return Unknown(symbol(_GLOBALS), _GLOBALS)


@models.into(models.item_stores, _GLOBALS)
def _set_global(api: Api, base: Value, keys: tuple[Value, ...], value: Value, node: Node) -> bool:
    """``globals()[name] = value``."""
    if any(isinstance(key, Unknown) for key in keys):
        api.set_names()
    return True


@models.method(_GLOBALS, "update")
def _update_globals(api: Api, base: Value, name: str, arguments: Arguments, node: Node) -> Value:
    """``globals().update(settings)``."""
    api.set_names()
    return NONE


# how many --------------------------------------------------------------------------------------------------------


@models.call("builtins.len")
def _len(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else api.unknown(node)
    if isinstance(first, Mapping) and any(UNBOUND in set(leaves(value)) for _, value in first.items):
        return api.number(node)
    count = rounds_of(first)
    if count is not None:
        return Constant(count)
    if isinstance(first, Unknown):
        return Number(symbol("len", first.symbol))
    found = special(api, first, "__len__", node)
    return found if isinstance(found, (Constant, Number)) else api.number(node)


# conversions -----------------------------------------------------------------------------------------------------


@models.call("builtins.bool")
def _bool(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """What nothing is known of stands for its truth, too: ``bool(args.amp)`` is the flag that ``args.amp`` is."""
    if not arguments.positional:
        return FALSE
    given = arguments.positional[0]
    return given if isinstance(given, (Unknown, Number)) else api.truth(given)


@models.call("builtins.int", "builtins.float")
def _number(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    kind: Callable[[Any], int | float] = int if name == "builtins.int" else float
    if not arguments.positional:
        return Constant(kind(0))
    first = arguments.positional[0]
    match first:
        case Constant(value=int() | float() | str() as value):
            return _converted(api, kind, value, node)
        case Number() | Unknown():
            return Number(symbol(kind.__name__, first.symbol))
    if first.is_float and kind is float:
        return first
    found = special(api, first, f"__{kind.__name__}__", node)
    return found if isinstance(found, (Constant, Number)) else api.number(node)


def _converted(api: Api, kind: Callable[[Any], int | float], value: object, node: Node) -> Value:
    try:
        number = kind(value)
    except (ValueError, OverflowError):
        return api.unknown(node)
    # a nan equals nothing, itself included
    return api.number(node) if is_too_large(number) or math.isnan(number) else Constant(number)


@models.call("builtins.str", "builtins.repr", "builtins.format", "builtins.ascii")
def _text(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else Constant("")
    match first:
        case Constant(value=str()) if name == "builtins.str":
            return first
        case Constant(value=bool() | int() | None as value) if len(arguments.positional) == 1:
            return Constant(str(value))
        case Text() if name == "builtins.str":
            return first
        case Unknown() | Number():
            return Unknown(symbol("str", first.symbol))
    found = special(api, first, "__str__", node)
    return found if isinstance(found, (Constant, Text)) else api.unknown(node)


@models.call("builtins.print")
def _print(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    for value in arguments.positional:
        if not isinstance(value, Instance):
            special(api, value, "__str__", node)
    return NONE


# arithmetic ------------------------------------------------------------------------------------------------------


@models.call("builtins.abs")
def _abs(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else api.unknown(node)
    match first:
        case Constant(value=int() | float() as value):
            return Constant(abs(value))
        case Number():
            return Number(symbol("abs", first.symbol))
    return special(api, first, "__abs__", node) or api.unknown(node)


@models.call("builtins.round", "math.floor", "math.ceil", "math.trunc")
def _rounded(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else api.unknown(node)
    functions: dict[str, Callable[[float], int]] = {
        "builtins.round": round,
        "math.floor": math.floor,
        "math.ceil": math.ceil,
    }
    function = functions.get(name)
    if isinstance(first, Constant) and isinstance(first.value, (int, float)) and function is not None:
        if len(arguments.all) == 1 and math.isfinite(first.value):
            return Constant(function(first.value))
        return api.number(node)
    if is_of_python(first) or name != "builtins.round":
        return api.number(node)
    return special(api, first, "__round__", node) or api.number(node)


@models.call("builtins.pow", "math.pow")
def _pow(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) != 2:
        return api.number(node)
    base, exponent = arguments.positional
    if isinstance(base, Constant) and isinstance(exponent, Constant):
        return _power(api, base.value, exponent.value, node)
    return api.operate("**", base, exponent, node)


def _power(api: Api, base: object, exponent: object, node: Node) -> Value:
    if not isinstance(base, (int, float)) or not isinstance(exponent, (int, float)):
        return api.unknown(node)
    if abs(base) > _LARGEST or abs(exponent) > _LARGEST:
        return api.number(node)
    try:
        result = base**exponent
    except ArithmeticError:
        return api.unknown(node)
    is_known = isinstance(result, (int, float)) and not is_too_large(result)
    return Constant(result) if is_known else api.number(node)


@models.call("builtins.min", "builtins.max")
def _extreme(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    several = arguments.positional
    if len(several) == 1:
        several = known_items(several[0]) or ()
    numbers = [part.value for part in several if isinstance(part, Constant)]
    plain = all(isinstance(number, (int, float)) for number in numbers)
    if several and plain and len(numbers) == len(several) and arguments.keyword("key") is None:
        function: Callable[[Any], Any] = min if name == "builtins.min" else max
        return Constant(function(numbers))
    floats = [part for part in several if part.is_float]
    if len(floats) == 1 and all(isinstance(part, (Constant, Number)) or part.is_float for part in several):
        return floats[0]  # ``max(scaler.get_scale(), 1e-12)``
    names = [named(part) for part in several if isinstance(part, (Constant, Number, Unknown))]
    if len(names) < max(len(several), 1) or None in names or arguments.keywords:
        return api.unknown(node)
    of = symbol("smallest" if name == "builtins.min" else "largest", *names)
    return Number(of) if all(isinstance(part, (Constant, Number)) for part in several) else Unknown(of)


@models.call("builtins.divmod")
def _divmod(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    number = api.number(node)
    return Sequence((Number(symbol("quotient", number.symbol)), Number(symbol("remainder", number.symbol))))


@models.call("builtins.hash", "builtins.ord", "time.time", "time.perf_counter", "time.monotonic")
def _some_number(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return api.number(node)


@models.call("builtins.id")
def _id(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    value = arguments.positional[0] if arguments.positional else api.unknown(node)
    identity = getattr(value, "identity", None)
    if isinstance(identity, Symbol):
        return Constant(("id", identity))  # as a key of a dict it tells objects apart
    of = named(value)
    return Number(symbol("id", of)) if of is not None else api.number(node)


# conditions ------------------------------------------------------------------------------------------------------


@models.call("builtins.any", "builtins.all")
def _any_or_all(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    source = arguments.positional[0] if arguments.positional else api.unknown(node)
    items = known_items(source)
    is_any = name == "builtins.any"
    if items is None:
        return _of_all_alike(api, source, is_any, arguments.node(0, "iterable")) or api.unknown(node)
    found: Condition = FALSE if is_any else TRUE
    for one in items:
        found = (either if is_any else both)(found, api.truth(one))
    return found


def _of_all_alike(api: Api, source: Value, is_any: bool, written: Node | None) -> Value | None:
    """``any(p.grad is not None for p in parameters)``, where the answer is the same for all there are. Something is
    taken to be there, as loops are taken to run, unless it has to pass a test."""
    if not isinstance(source, Sequence):
        return None
    answers = {api.known_truth(item) for item in source.items}
    if answers == {not is_any}:
        return Constant(not is_any)
    untested = isinstance(written, ir.Comprehension) and not any(one.tests for one in written.clauses)
    return Constant(is_any) if untested and answers == {is_any} else None


# definitions -----------------------------------------------------------------------------------------------------


@models.call("builtins.staticmethod", "builtins.classmethod", "builtins.property", "abc.abstractmethod")
def _marked(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """What kind of method a function is, the project tells."""
    return arguments.positional[0] if arguments.positional else External(name)


@models.call("builtins.super")
def _super(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``super(Class, self)``; without arguments it is the interpreter's."""
    if len(arguments.positional) == 2:
        after, receiver = arguments.positional
        if isinstance(after, ClassValue) and isinstance(receiver, (Instance, ClassValue)):
            return Super(receiver, after)
    return api.unknown(node)


@models.call("builtins.slice")
def _slice(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    parts = [part.value for part in arguments.positional if isinstance(part, Constant)]
    whole = len(parts) == len(arguments.positional) and 0 < len(parts) <= 3
    return Constant(slice(*parts)) if whole else Constant(slice(None, api.unknown(node).symbol))


@models.call("builtins.callable")
def _callable(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else api.unknown(node)
    match first:
        case Constant() | Number() | Text() | Sequence() | Mapping():
            return FALSE
        case Unknown():
            return Unknown(symbol("callable", first.symbol))
        case Instance() if first.made_of is not None and api.find_method(first.made_of, "__call__"):
            return TRUE
        case Instance():
            return Unknown(symbol("callable", first.identity))
        case FunctionValue() | ClassValue():
            return TRUE
    return TRUE if is_of_python(first) else api.unknown(node)
