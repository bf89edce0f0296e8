"""Builtin functions that ask for classes and attributes: ``isinstance``, ``hasattr``, ``getattr``, ``type``."""

from __future__ import annotations

import collections.abc
import numbers

from amplint.amp.versions import compare, since
from amplint.flow.core.api import Api, Arguments, Dead
from amplint.flow.core.registry import Registry
from amplint.flow.models.python.argparse import Option
from amplint.flow.models.python.items import is_of_python, named
from amplint.flow.state.atoms import equals, is_instance
from amplint.flow.state.conditions import Condition, asked, either, select
from amplint.flow.state.symbols import Symbol, symbol
from amplint.flow.state.values import (
    FALSE,
    NONE,
    TRUE,
    AskedClasses,
    BoundMethod,
    ClassValue,
    Constant,
    Decorated,
    External,
    FunctionValue,
    Instance,
    Iteration,
    Mapping,
    ModuleFile,
    Number,
    Partial,
    Sequence,
    Text,
    Unknown,
    Usual,
    Value,
)
from amplint.lowering.program import Node

models = Registry()

TYPES: dict[str, type] = {
    **{
        f"builtins.{kind.__name__}": kind
        for kind in (bool, bytes, complex, dict, float, frozenset, int, list, object, set, str, tuple, slice)
    },
    "builtins.NoneType": type(None),
    "types.NoneType": type(None),
    "numbers.Number": numbers.Number,
    "numbers.Real": numbers.Real,
    "numbers.Integral": numbers.Integral,
    **{
        f"{module}.{name}": getattr(collections.abc, name)
        for name in ("Callable", "Collection", "Container", "Iterable", "Iterator", "Mapping")
        for module in ("collections.abc", "typing")
    },
    **{
        f"{module}.{name}": getattr(collections.abc, name)
        for name in ("MutableMapping", "MutableSequence", "Sequence", "Set", "Sized")
        for module in ("collections.abc", "typing")
    },
    **{f"typing.{kind.__name__.capitalize()}": kind for kind in (dict, list, set, tuple)},
}
"""Classes of which Python itself can tell whether a value is an instance."""
_LIKE_SEQUENCES: tuple[object, ...] = ((), [], set(), frozenset())
_FUNCTIONS = (FunctionValue, BoundMethod, Partial, Decorated)


# isinstance ------------------------------------------------------------------------------------------------------


@models.call("builtins.isinstance")
def _isinstance(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) != 2:
        return api.unknown(node)
    value, kinds = arguments.positional
    found = [_is_one(api, value, kind, node) for kind in _classes(kinds)]
    if len(found) == 1:
        return found[0]
    whole: Condition = FALSE
    for one in found:
        whole = either(whole, api.truth(one))
    return whole


@models.call("builtins.issubclass")
def _issubclass(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) != 2:
        return api.unknown(node)
    value, kinds = arguments.positional
    found = [_derives(api, value, kind) for kind in _classes(kinds)]
    if True in found:
        return TRUE
    if None not in found:
        return FALSE
    of = named(value)
    return Unknown(symbol("issubclass", of, *map(_label, _classes(kinds)))) if of else api.unknown(node)


def _classes(kinds: Value) -> tuple[Value, ...]:
    return kinds.items if isinstance(kinds, Sequence) and kinds.exact else (kinds,)


def _is_one(api: Api, value: Value, kind: Value, node: Node) -> Value:
    """Whether a value is an instance of a class: a constant, or the question as an unknown."""
    if isinstance(kind, External):
        if kind.name not in TYPES or not is_of_python(value):
            check = f"{kind.name}.__instancecheck__"
            if api.knows(check):
                return api.call(External(check), Arguments((value,), (), (node,)), node)
        if kind.name in TYPES:
            if value.is_of_own_class:
                return Constant(TYPES[kind.name] is object)
            known = _is_builtin(value, TYPES[kind.name])
            if known is not None:
                return Constant(known)
            if isinstance(value, (Sequence, Iteration)):
                return api.unknown(node)  # a tuple, list or set, it is not known which
    known = _is_of(api, value, kind)
    if known is not None:
        return Constant(known)
    of = named(value)
    if of is None:
        return api.unknown(node)
    if isinstance(kind, ClassValue):
        api.set_note(of, AskedClasses(frozenset({kind})))
    return is_instance(of, kind)


def _label(kind: Value) -> object:
    """What names a class in a question."""
    if isinstance(kind, ClassValue):
        return kind.file.display, kind.outline.qualified, kind.outline.line
    return named(kind) or type(kind).__name__


def _is_builtin(value: Value, kind: type) -> bool | None:
    """Whether a value of Python is an instance of one of Python's own classes."""
    match value:
        case Constant():
            return isinstance(value.value, kind)
        case Text():
            return isinstance("", kind)
        case Mapping():
            return isinstance({}, kind)
        case Sequence(kind=type() as own):
            return issubclass(own, kind)
        case Sequence():
            likely = _LIKE_SEQUENCES[1:2] if value.identity is not None else _LIKE_SEQUENCES
            answers = {isinstance(like, kind) for like in likely}
            return answers.pop() if len(answers) == 1 else None
        case Number():
            answers = {isinstance(like, kind) for like in (0, 0.0)}
            return True if answers == {True} else None
        case Iteration():
            return False if kind in (bool, bytes, dict, float, int, list, set, str, tuple) else None
    if isinstance(value, (*_FUNCTIONS, ClassValue)):
        return issubclass(type(_is_builtin), kind)
    return None


def _is_of(api: Api, value: Value, kind: Value) -> bool | None:
    """Whether a value is an instance of a class of the project, or of one outside that its class derives from."""
    match value, kind:
        case Instance(), _:
            owner = value.made_of if value.made_of is not None else External(value.external or "?")
            return _derives(api, owner, kind)
        case (ClassValue(), External("builtins.type")):
            return True
        case (Constant() | Text() | Sequence() | Mapping() | Iteration(), ClassValue() | External()):
            return False
        case (FunctionValue() | BoundMethod() | Partial() | Decorated() | ClassValue(), ClassValue()):
            return False
        case (_, ClassValue()) if value.is_of_own_class and _is_all_of_the_project(api, kind):
            return False
    return None


def _is_all_of_the_project(api: Api, kind: Value) -> bool:
    """Whether a class derives from nothing but classes of the project: no tensor or optimizer of torch is of it."""
    outside = (
        [base.name for base in api.bases(kind) if isinstance(base, External)]
        if isinstance(kind, ClassValue)
        else []
    )
    return all(name == "builtins.object" or name.startswith(("abc.", "typing.")) for name in outside)


def _derives(api: Api, owner: Value, kind: Value) -> bool | None:
    """Whether a class is another one or derives from it; None where not all that it derives from is known."""
    if owner == kind:
        return True
    if isinstance(owner, ClassValue):
        bases = api.bases(owner)
        if kind in bases or (isinstance(kind, External) and kind.name == "builtins.object"):
            return True
        outside = [base.name for base in bases if isinstance(base, External)]
        if isinstance(kind, ClassValue):
            return None if any(name.startswith("?") for name in outside) else False
        # of the classes outside nothing is known but their names
        plain = isinstance(kind, External) and kind.name in TYPES
        foreign = all(name.partition(".")[0] in ("abc", "torch") for name in outside)
        return False if not outside or (plain and foreign) else None
    if isinstance(owner, External):
        return False if isinstance(kind, ClassValue) else None
    return None


@models.call("builtins.type")
def _type(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) != 1:
        return api.unknown(node)
    first = arguments.positional[0]
    match first:
        case Instance(made_of=ClassValue() as owner):
            return owner
        case Instance(external=str() as outside):
            return External(outside)
        case Constant():
            return External(f"builtins.{type(first.value).__name__}")
        case Mapping():
            return External("builtins.dict")
        case ClassValue():
            return External("builtins.type")
        case Unknown():
            return Unknown(symbol("type", first.symbol))
    return api.unknown(node)


# attributes by name ----------------------------------------------------------------------------------------------


@models.call("builtins.hasattr")
def _hasattr(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) != 2:
        return api.unknown(node)
    value, key = arguments.positional
    wanted = key.value if isinstance(key, Constant) and isinstance(key.value, str) else None
    if wanted is not None:
        known = _has(api, value, wanted, node)
        if known is not None:
            return Constant(known)
    of, what = named(value), named(key)
    return Unknown(symbol("has attribute", of, what)) if of and what else api.unknown(node)


def _has(api: Api, value: Value, name: str, node: Node) -> bool | None:
    if not isinstance(value, Unknown) and api.knows_method(value, name):
        return True
    match value:
        case External():
            return _outside_has(api, value.name, name)
        case Constant():
            return hasattr(value.value, name)
        case Mapping():
            return hasattr({}, name)
        case Text():
            return hasattr("", name)
        case Sequence():
            answers = {hasattr(like, name) for like in _LIKE_SEQUENCES}
            return answers.pop() if len(answers) == 1 else None
        case Instance():
            return _object_has(api, value, name, node)
        case Unknown():
            return True if api.load(value.symbol, name) is not None else None
    return None


def _object_has(api: Api, value: Instance, name: str, node: Node) -> bool | None:
    if value.made_of is None:
        return True if api.load(value.identity, name) is not None else None
    if api.find_method(value.made_of, name) is not None:
        return True
    found = api.attribute(value, name, node)
    missing = isinstance(found, Unknown) and found.symbol is symbol("attribute", value.identity, name)
    if not missing:
        return True
    return False if api.lacks(value, name) else None


def _outside_has(api: Api, owner: str, name: str) -> bool | None:
    """Whether a module has a name in all releases of torch that the project admits, or in none."""
    first = since(f"{owner}.{name}")
    if first is None:
        return None
    low, high = api.settings.releases
    bounds = ((low[0], low[1]), (high[0], high[1]) if high is not None else None)
    return compare(bounds, ">=", first)


@models.call("builtins.getattr")
def _getattr(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    if len(arguments.positional) < 2:
        return api.unknown(node)
    value, key, *rest = arguments.positional
    if isinstance(key, Constant) and isinstance(key.value, str):
        return _attribute(api, value, key.value, rest[0] if rest else None, node)
    if isinstance(value, External):
        what = named(key)
        chosen = symbol("attribute", named(value), what) if what is not None else None
        return chosen_in(_offered(api, value, key, node), key, External(f"{value.name}.?", chosen))
    if isinstance(value, ModuleFile):
        return chosen_in(api.choices(value), key, api.unknown(node))
    held = api.attributes_of(value).items() if isinstance(value, Instance) else ()
    parts = tuple(part for name, part in held if name.startswith("[") and name != "[]")
    if parts:
        return api.iterate(Sequence(parts, exact=False), node)
    of, what = named(value), named(key)
    return Unknown(symbol("attribute", of, what)) if of and what else api.unknown(node)


def _offered(api: Api, module: External, key: Value, node: Node) -> dict[str, Value]:
    """What an option of the command line may choose in a module outside, or a parameter by default: ``getattr(torch,
    args.dtype)``."""
    option = api.note(key.symbol, Option) if isinstance(key, Unknown) else None
    usual = api.note(key.symbol, Usual) if isinstance(key, Unknown) else None
    names: tuple[str, ...] = option.values if option is not None else ()
    if usual is not None and isinstance(usual.value, Constant) and isinstance(usual.value.value, str):
        names = (*names, usual.value.value)
    return {name: api.attribute(module, name, node) for name in names}


def chosen_in(choices: dict[str, Value], key: Value, other: Value) -> Value:
    """One of several, by a name that is not known; another value where it is none of these."""
    found = other
    name = key.symbol if isinstance(key, (Unknown, Text)) else None
    if name is None:
        return found
    start = key.start if isinstance(key, Text) else ""
    for choice, value in reversed(choices.items()):
        if choice.startswith(start):
            found = select(asked(equals(name, Constant(choice))), value, found)
    return found


def _attribute(api: Api, value: Value, name: str, default: Value | None, node: Node) -> Value:
    known = _outside_has(api, value.name, name) if isinstance(value, External) else None
    if isinstance(value, Constant):
        known = hasattr(value.value, name)
    if isinstance(value, Instance) and default is not None:
        known = _object_has(api, value, name, node)
        if known is None and default == value:
            return value  # ``getattr(model, "module", model)``
    if known is False:
        if default is None:
            raise Dead
        return default
    if not isinstance(value, External) or default is None or since(f"{value.name}.{name}") is None or known:
        return api.attribute(value, name, node)
    has = Unknown(symbol("has attribute", named(value), named(Constant(name))))
    given = default
    return api.each(api.truth(has), lambda one: api.attribute(value, name, node) if one == TRUE else given)


@models.call("builtins.setattr", "builtins.object.__setattr__")
def _setattr(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``setattr(config, key, value)``. A value under a key of which nothing is known is a setting; what the code makes,
    or puts under a name that it makes, such as ``f"layer{index}"``, is beside the settings."""
    if len(arguments.positional) == 3:
        value, key, new = arguments.positional
        identity = api.identity_of(new)
        if isinstance(value, Instance) and isinstance(key, Unknown) and isinstance(new, Unknown):
            api.set_settings(value, node)
        if isinstance(key, Constant) and isinstance(key.value, str):
            api.set_attribute(value, key.value, new, node)
        elif identity is not None:  # an attribute of a name that no code can write
            api.set_attribute(value, under_no_name(identity), new, node)
    return NONE


def under_no_name(identity: Symbol) -> str:
    """The name of an attribute that is set under a computed name, which no code can write."""
    return f"[{identity.order}]"


@models.call("builtins.delattr")
def _delattr(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return NONE


@models.call("builtins.vars")
def _vars(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    first = arguments.positional[0] if arguments.positional else api.unknown(node)
    match first:
        case ModuleFile() | Instance(made_of=ClassValue()):
            return api.attribute(first, "__dict__", node)
        case Instance():
            known = tuple(api.attributes_of(first).items())
            return Mapping(known, (api.unknown(node),), None, api.place(node))
        case Unknown():
            return Unknown(symbol("vars", first.symbol))
    return api.unknown(node)
