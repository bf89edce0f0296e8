"""Objects: reading and setting attributes and items, constructors, and what stands in for code out of sight."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from amplint.flow.core.api import Arguments, Dead
from amplint.flow.core.chosen import chosen
from amplint.flow.core.machine import Machine
from amplint.flow.state.atoms import equals
from amplint.flow.state.conditions import apply, asked, atoms, either, leaves
from amplint.flow.state.store import keep_apart, with_kind
from amplint.flow.state.symbols import ONE_OF_MANY, Symbol, is_one_of_many, symbol
from amplint.flow.state.values import (
    UNBOUND,
    BoundMethod,
    Choice,
    ClassValue,
    Constant,
    External,
    FunctionValue,
    Instance,
    Iteration,
    Mapping,
    ModuleFile,
    Number,
    Sequence,
    Super,
    Unknown,
    Value,
)
from amplint.lowering.program import Node

MOST_CHOICES = 8
"""So many items of a collection are told apart where an unknown key chooses one."""


# reading ---------------------------------------------------------------------------------------------------------


def attribute(m: Machine, base: Value, name: str, node: Node) -> Value:
    """``base.name`` for a value that is no Choice."""
    if name == "__name__" and isinstance(base, (ClassValue, FunctionValue)):
        named = base.outline if base.outline is not None else m.program_of(base)
        if named is not None:
            return Constant(named.name)
    match base:
        case External():
            return external(m, f"{base.name}.{name}", node)
        case ModuleFile() if name == "__dict__":
            return Mapping(tuple(m.choices(base).items()))
        case ModuleFile():
            found = m.member(base, name)
            return found if found is not None else Unknown(symbol("member", base.file.display, name))
        case Instance():
            return _of_instance(m, base, name, node)
        case ClassValue():
            return _of_class(m, base, name, node)
        case Super():
            return _of_super(m, base, name)
        case Unknown():
            return _of_unknown(m, base, name, node)
        case Constant(value=None):
            raise Dead
    model = m.registry.attributes.get(type(base))
    found = model(m, base, name, node) if model is not None else None
    return found if found is not None else BoundMethod(base, name)


def external(m: Machine, name: str, node: Node | None = None) -> Value:
    """A qualified name outside the project."""
    model = m.registry.externals.get(name)
    prefix = name
    while model is None and "." in prefix:
        prefix = prefix.rpartition(".")[0]
        model = m.registry.externals.get(prefix + ".")
    found = model(m, External(name), name, node) if model is not None else None
    return found if found is not None else External(name)


def _of_unknown(m: Machine, base: Unknown, name: str, node: Node) -> Value:
    stored = m.load(base.symbol, name)
    if stored is not None:
        return stored
    for kind in (base.kind, ""):
        model = m.registry.attributes.get(kind) if kind is not None else None
        found = model(m, base, name, node) if model is not None else None
        if found is not None:
            return found
    return Unknown(symbol("attribute", base.symbol, name), m.kind_of(node))


def _of_instance(m: Machine, base: Instance, name: str, node: Node) -> Value:
    found = m.load(base.identity, name)
    if found is None and base.made_of is not None:
        method = m.find_method(base.made_of, name)
        if method is not None:
            return _bound(m, base, name, method, node)
        m.initialise(base)
        found = m.load(base.identity, name)
    if found is not None:
        return _alive(m, base, name, found, node)
    if name == "__class__" and base.made_of is not None:
        return base.made_of
    if name == "__dict__" and base.made_of is not None:
        held = m.attributes_of(base)
        rest = (m.unknown(node),) if m.has_hidden_attributes(base.made_of) else ()
        loaded = (
            (known, m.load(base.identity, known)) for known in held
        )  # so that a summary knows what was read
        return Mapping(tuple((known, value) for known, value in loaded if value is not None), rest)
    if base.made_of is not None:
        found = m.class_attribute(base.made_of, name)
        if found is not None:
            return _alive(m, base, name, found, node)
        found = m.set_elsewhere(base, name)
        if found is not None and not isinstance(found, Unknown):
            return found
    return _inherited(m, base, name, node)


def _by_hand(m: Machine, base: Instance, owner: ClassValue, name: str, node: Node) -> Value | None:
    """What the class's own ``__getattr__`` gives: ``return getattr(self.scaler, name)``."""
    method = m.find_method(owner, "__getattr__") if not name.startswith("__") else None
    if method is None:
        return None
    found = m.call_function(method, Arguments((base, Constant(name)), (), (node, node)), node)
    return found if not isinstance(found, Unknown) else None


def _alive(m: Machine, base: Instance, name: str, value: Value, node: Node) -> Value:
    """An attribute of an object that was there before the code that is walked. Another method may have set it since the
    constructor left it None or set it to what stands in for something else, or to what a setting is by default. So may
    whoever handed the object in."""
    if not m.is_of_unknown_age(base) or (base.identity, name) in m.state.heap:
        return value
    later: list[Value | None] = []

    def since(one: Value) -> Value:
        if not (one.stands_in or _is_default(one)):
            return one
        if not later:
            later.append(m.set_elsewhere(base, name))
        found = later[0]
        if found is None:
            is_open = _is_default(one) and m.is_handed_in(base)
            return chosen(m, symbol("attribute", base.identity, name), one) if is_open else one
        if one.stands_in or isinstance(found, Unknown):
            return found
        if any(atom.parts[0] == "set by" for atom in atoms(found)):
            return one  # several statements set it: it keeps what has happened, and is no setting
        return keep_apart(asked(symbol("set by", base.identity, name)), found, one)

    found = m.each(value, since)
    if (value.stands_in or _is_default(value)) and found != value:
        # an alternative of several is what the present path has left of them
        m.settle(base.identity, name, found)
    return found


def _is_default(value: Value) -> bool:
    """Whether a value may be that of a setting before somebody has set it."""
    return isinstance(value, Constant) and isinstance(value.value, (bool, str))


def _inherited(m: Machine, base: Instance, name: str, node: Node) -> Value:
    """What an object has from a class outside, or nobody knows of."""
    for key in m.keys_of(base):
        model = m.registry.attributes.get(key)
        found = model(m, base, name, node) if model is not None else None
        if found is not None:
            return found
        if f"{key}.{name}" in m.registry.calls or (key, name) in m.registry.methods:
            return BoundMethod(base, name)
    handed_on = _by_hand(m, base, base.made_of, name, node) if base.made_of is not None else None
    if handed_on is not None:
        return handed_on
    kind = m.kind_of(node)
    if kind is None and base.made_of is not None:
        kind = m.kind_of_attribute(base.made_of, name)
    return Unknown(symbol("attribute", base.identity, name), kind)


def _bound(m: Machine, base: Instance, name: str, method: FunctionValue, node: Node) -> Value:
    match m.kind_of_method(method):
        case "property":
            return m.call_function(method, Arguments((base,), (), (node,)), node)
        case "cached property":
            found = m.call_function(method, Arguments((base,), (), (node,)), node)
            m.store(base.identity, name, found)
            m.settle(base.identity, name, found)
            return found
        case "static method":
            return method
        case "class method":
            return BoundMethod(base.made_of or base, name, method)
    return BoundMethod(base, name, method)


def _of_class(m: Machine, base: ClassValue, name: str, node: Node) -> Value:
    stored = m.load(m.identity_of_class(base), name)
    if stored is not None:
        return stored
    method = m.find_method(base, name)
    if method is not None:
        return BoundMethod(base, name, method) if m.kind_of_method(method) == "class method" else method
    found = m.class_attribute(base, name)
    if found is not None:
        return found
    for key in m.outside(base):
        if f"{key}.{name}" in m.registry.calls or (key, name) in m.registry.methods:
            return BoundMethod(base, name)
    return Unknown(symbol("attribute", m.identity_of_class(base), name))


def _of_super(m: Machine, base: Super, name: str) -> Value:
    receiver = base.receiver
    owner = receiver.made_of if isinstance(receiver, Instance) else receiver
    if not isinstance(owner, ClassValue):
        return BoundMethod(receiver, name)
    method = m.find_method_after(owner, name, base.after)
    if method is None:
        return BoundMethod(replace(base), name)
    if m.kind_of_method(method) == "static method":
        return method
    return BoundMethod(receiver, name, method)


def iterate(m: Machine, value: Value, node: Node) -> Value:
    """One item of a collection, as a loop takes it: of an unknown one, another one in each round."""
    value = m.contents(value)
    match value:
        case Sequence():
            return _some(m, value.items, node)
        case Mapping() if not value.rest:
            return one_of(m, tuple(Constant(key) for key, _ in value.items), node)
        case Mapping():
            return Unknown(symbol(ONE_OF_MANY, m.unknown(node).symbol))
        case Iteration():
            return _another(m, value.each, node)
        case Constant(value=None):
            raise Dead
        case Instance():
            for key in m.keys_of(value):
                model = m.registry.iterations.get(key)
                found = model(m, value, node) if model is not None else None
                if found is not None:
                    return found
    model = m.model_of(m.registry.iterations, value)
    found = model(m, value, node) if model is not None else None
    return found if found is not None else Unknown(symbol(ONE_OF_MANY, m.unknown(node).symbol))


def _another(m: Machine, value: Value, node: Node) -> Value:
    """One item out of an iteration: numbers and unknowns are others in each round."""
    match value:
        case Number():
            return m.number(node)
        case Unknown():
            return Unknown(symbol(ONE_OF_MANY, m.unknown(node).symbol), value.kind)
        case Sequence() if value.exact:
            return replace(value, items=tuple(_another(m, item, node) for item in value.items))
        case Choice():
            return m.each(value, lambda one: _another(m, one, node))
    return value.another()


def one_of(m: Machine, items: tuple[Value, ...], node: Node) -> Value:
    """One of several values, nobody knows which."""
    different = list(dict.fromkeys(items))
    if not different or len(different) > MOST_CHOICES:
        return m.unknown(node)
    found = different[0]
    for index, item in enumerate(different[1:]):
        atom = symbol("item", m.frame.context, node.number, index, *m.frame.rounds_around)
        found = keep_apart(asked(atom), item, found)
    return found


def _some(m: Machine, items: tuple[Value, ...], node: Node) -> Value:
    """What is looked up in a collection that holds more than is known: perhaps another one each time."""
    return apply(_as_another, one_of(m, items, node))


def _as_another(value: Value) -> Value:
    return value.another()


def part(m: Machine, value: Value, index: int, count: int, node: Node) -> Value:
    """One of the parts of ``a, b = value``."""
    match value:
        case Sequence() if len(value.items) == 1 and not value.prefix:
            return value.items[0]
        case Sequence() | Iteration():
            return iterate(m, value, node)
        case Constant(value=None):
            raise Dead
    model = m.model_of(m.registry.items, value)
    found = model(m, value, (Constant(index),), node) if model is not None else None
    if found is not None:
        return found
    if isinstance(value, Unknown):
        return Unknown(symbol("part", value.symbol, index, count))
    return m.unknown(node)


def subscript(m: Machine, base: Value, keys: tuple[Value, ...], node: Node) -> Value:
    """``base[keys]`` for values that are no Choice."""
    base = m.contents(base)
    key = keys[0] if len(keys) == 1 else None
    match base:
        case Sequence():
            return _item(m, base, key, node)
        case Mapping():
            return _value(m, base, key, node)
        case Constant(value=None):
            raise Dead
        case Instance():
            return _item_of_instance(m, base, keys, node)
    model = m.model_of(m.registry.items, base)
    found = model(m, base, keys, node) if model is not None else None
    if found is not None:
        return found
    if isinstance(base, Unknown) and key is not None:
        named = key if isinstance(key, Constant) else getattr(key, "symbol", None)
        if isinstance(named, (Constant, Symbol)):
            stored = m.load(base.symbol, f"[{named!r}]") if isinstance(named, Constant) else None
            return stored if stored is not None else Unknown(symbol("item", base.symbol, named))
    return m.unknown(node)


def _as_one(keys: tuple[Value, ...]) -> Value:
    """What a method is given for ``x[keys]``: one key, or a tuple of several."""
    return keys[0] if len(keys) == 1 else Sequence(keys, kind=tuple)


def _item_of_instance(m: Machine, base: Instance, keys: tuple[Value, ...], node: Node) -> Value:
    if base.made_of is not None:
        method = m.find_method(base.made_of, "__getitem__")
        if method is not None:
            return m.call_function(method, Arguments((base, _as_one(keys)), (), (node, node)), node)
    for key in m.keys_of(base):
        model = m.registry.items.get(key)
        found = model(m, base, keys, node) if model is not None else None
        if found is not None:
            return found
    return m.unknown(node)


def _item(m: Machine, base: Sequence, key: Value | None, node: Node) -> Value:
    if isinstance(key, Constant) and isinstance(key.value, slice):
        known = all(
            part is None or isinstance(part, int)
            for part in (key.value.start, key.value.stop, key.value.step)
        )
        if base.exact and known:
            return Sequence(base.items[key.value])
        return Sequence(base.items, exact=False)
    if isinstance(key, Constant) and isinstance(key.value, int):
        if base.exact:
            try:
                return base.items[key.value]
            except IndexError:
                raise Dead from None
        if 0 <= key.value < base.prefix:
            return base.items[key.value]
    return _some(m, base.items, node) if not base.prefix else m.unknown(node)


def _value(m: Machine, base: Mapping, key: Value | None, node: Node) -> Value:
    if isinstance(key, Constant) and isinstance(key.value, slice):
        return m.unknown(node)  # what raises in a dict, or is no dict
    if isinstance(key, Constant):
        found = base.get(key.value)
        if found is None and base.factory is not None and base.identity is not None:
            found = _made_under(m, base.identity, base, base.factory, key, node)
        if found is None:
            return m.unknown(node)
        if base.factory is not None and UNBOUND in set(leaves(found)):
            made = m.call(base.factory, Arguments(), node)
            return apply(lambda one: made if one == UNBOUND else one, found)
        return found
    if base.rest and not base.items:
        return _some(m, base.rest, node)
    if (
        isinstance(key, (Unknown, Number))
        and base.items
        and not base.rest
        and len(base.items) <= MOST_CHOICES
    ):
        names = list(dict.fromkeys(name for name, _ in base.items))
        chosen: Value = base.get(names[-1]) or m.unknown(node)
        for name in reversed(names[:-1]):
            chosen = keep_apart(asked(equals(key.symbol, Constant(name))), base.get(name) or chosen, chosen)
        if is_one_of_many(key.symbol):
            return apply(_as_another, chosen)  # a loop does not come back to a key
        m.assume(reduce(either, (asked(equals(key.symbol, Constant(name))) for name in names)))
        return chosen
    return one_of(m, tuple(value for _, value in base.items), node) if not base.rest else m.unknown(node)


def _made_under(
    m: Machine, identity: Symbol, base: Mapping, factory: Value, key: Constant, node: Node
) -> Value:
    """What ``handlers["started"]`` is that nobody has asked for before, after ``handlers = defaultdict(list)``."""
    made = m.call(factory, Arguments(), node)
    if isinstance(made, (Sequence, Mapping)):
        made = replace(made, identity=symbol("made", identity, "under", key.value))
    m.store(identity, "[]", replace(base, items=(*base.items, (key.value, made))))
    return made


# setting ---------------------------------------------------------------------------------------------------------


def set_attribute(m: Machine, base: Value, name: str, value: Value, node: Node) -> None:
    """``base.name = value`` for a base that is no Choice."""
    for key in m.keys_of(base):
        model = m.registry.stores.get(key)
        if model is not None and model(m, base, name, value, node):
            return
    match base:
        case Instance():
            setter = m.find_setter(base.made_of, name) if base.made_of is not None else None
            if setter is not None:
                m.call_function(setter, Arguments((base, value), (), (node, node)), node)
            else:
                m.store(base.identity, name, _used_as(m, base, name, value))
                m.holds(base, value)
        case Unknown():
            m.store(base.symbol, name, value)
        case ClassValue():
            m.store(m.identity_of_class(base), name, value)
        case ModuleFile():
            m.store(m.identity_of_file(base.file), name, value)


def _used_as(m: Machine, base: Instance, name: str, value: Value) -> Value:
    """A value of which nothing is known but what the class does with the attribute: ``self.model = build(config)``."""
    made_of = base.made_of
    return with_kind(value, lambda: m.kind_of_attribute(made_of, name)) if made_of is not None else value


def set_item(m: Machine, base: Value, keys: tuple[Value, ...], value: Value, node: Node) -> None:
    """``base[keys] = value`` for values that are no Choice."""
    held = m.contents(base)
    for kind in m.keys_of(base):
        model = m.registry.item_stores.get(kind)
        if model is not None and model(m, base, keys, value, node):
            return
    key = keys[0] if len(keys) == 1 else None
    match held:
        case Mapping(identity=Symbol() as identity):
            if isinstance(key, Constant) and not isinstance(key.value, slice):
                kept = tuple(item for item in held.items if item[0] != key.value)
                m.store(identity, "[]", replace(held, items=(*kept, (key.value, value))))
            elif value not in held.rest:
                m.store(identity, "[]", m.overlaid(held, (value,)))
        case Sequence(identity=Symbol() as identity):
            items = list(held.items)
            position: object = key.value if isinstance(key, Constant) and held.exact else None
            if isinstance(position, int) and -len(items) <= position < len(items):
                items[position] = value
                m.store(identity, "[]", replace(held, items=tuple(items)))
            elif value not in items:
                m.store(identity, "[]", replace(held, items=(*items, value), exact=False))
        case Instance() if held.made_of is not None:
            method = m.find_method(held.made_of, "__setitem__")
            if method is not None:
                m.call_function(method, Arguments((held, _as_one(keys), value), (), (node,) * 3), node)
        case Unknown() if isinstance(key, Constant):
            m.store(held.symbol, f"[{key!r}]", value)
