"""``dataclasses``: fields with defaults, copies with changes, dicts of fields; and tuples whose items are fields."""

from __future__ import annotations

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.values import ClassValue, External, Instance, Mapping, Partial, Sequence, Value
from amplint.lowering.program import Node

models = Registry()


@models.call("dataclasses.dataclass")
def _dataclass(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """A class stays itself; that it has fields, the project tells."""
    return arguments.positional[0] if arguments.positional else Partial(External(name))


@models.call("dataclasses.field")
def _field(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """Stands in the body of a class for its default."""
    default = arguments.keyword("default")
    if default is not None:
        return default
    factory = arguments.keyword("default_factory")
    return api.call(factory, Arguments(), node) if factory is not None else api.unknown(node)


@models.call("dataclasses.asdict", "dataclasses.astuple")
def _as_dict(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    value = arguments.get(0, "obj")
    names = _fields(api, value) if isinstance(value, Instance) else None
    if value is None or names is None:
        return api.unknown(node)
    held = [(field, api.attribute(value, field, node)) for field in names]
    if name.endswith("astuple"):
        return Sequence(tuple(item for _, item in held))
    return Mapping(tuple(held), (), api.fresh(node), api.place(node))


@models.call("dataclasses.replace")
def _replace(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``replace(config, amp=True)``: another object, made of the fields of the first one and of the changes."""
    value = arguments.positional[0] if arguments.positional else None
    names = _fields(api, value) if isinstance(value, Instance) else None
    if not isinstance(value, Instance) or value.made_of is None or names is None:
        return api.unknown(node)
    changed = {key for key, _ in arguments.keywords}
    kept = tuple((field, api.attribute(value, field, node)) for field in names if field not in changed)
    given = Arguments((), (*kept, *arguments.keywords), unclear=arguments.unclear)
    return api.call(value.made_of, given, node)


@models.into(models.items, "typing.NamedTuple")
def _item(api: Api, base: Instance, keys: tuple[Value, ...], node: Node) -> Value | None:
    """``out[0]`` and ``logits, aux = out``."""
    names = _fields(api, base) or ()
    return api.subscript(Sequence(tuple(api.attribute(base, name, node) for name in names)), keys, node)


def _fields(api: Api, value: Instance) -> tuple[str, ...] | None:
    """The names of the fields of an object, those of the classes it derives from first."""
    if value.made_of is None:
        return None
    found: list[str] = []
    for base in reversed(api.bases(value.made_of)):
        if isinstance(base, ClassValue):
            found += base.outline.fields
    return tuple(dict.fromkeys(found))
