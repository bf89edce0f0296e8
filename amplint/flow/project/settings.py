"""What the names of unknowns tell: which flags are settings of one object, and which objects belong to which."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from amplint.flow.state.symbols import AT, DATA, ONE_OF_MANY, Symbol, made_from

_READ = ("attribute", "item")
_PLAIN = (*_READ, "parameter", "global", "member", "binding", "set", "set by", "environment", DATA)
"""How symbols begin of values that are settings as they were read."""
_WALKED = ("self", "made")
"""How symbols begin of objects that have other things than settings."""


def is_flag(switch: Hashable) -> bool:
    """Whether a switch is an argument, an attribute or an item, and nothing that was computed: ``args.amp``."""
    return isinstance(switch, Symbol) and switch.parts[0] in _PLAIN


def was_there(name: Hashable) -> bool:
    """Whether an object was there before the function that is being walked: an argument, something global, or what
    such an object, or that whose method it is, was given or has made for itself: ``self.optimizer``."""
    while isinstance(name, Symbol) and name.parts[0] in _READ:
        name = name.parts[1]
    if not isinstance(name, Symbol):
        return False
    if name.parts[0] == "made":
        maker = name.parts[1]
        return isinstance(maker, Symbol) and maker.parts[0] == "constructor"
    return name.parts[0] in _PLAIN or name.parts[0] == "self"


def are_of_one(switch: Hashable, other: Hashable) -> bool:
    """Whether two switches are settings of one object, or arguments of one function."""
    return not owners_of(switch).isdisjoint(owners_of(other))


def owners_of(switch: Hashable) -> set[Hashable]:
    """The objects that a flag is a setting of: the one whose attribute or item it is and those that hold that one in
    turn, or the function whose parameter it is. An object of which a method is walked counts only for attributes of its
    own."""
    found: set[Hashable] = set()
    while isinstance(switch, Symbol):
        if switch.parts[0] == "parameter" and not found:
            found.add(("parameters of", *switch.parts[1:-1]))
        if switch.parts[0] not in _READ:
            break
        owner = switch.parts[1]
        if not found or (isinstance(owner, Symbol) and owner.parts[0] not in _WALKED):
            found.add(owner)
        switch = owner
    return found


def belongs(part: Hashable, whole: Hashable) -> bool:
    """Whether an object is another one, is held by it, or was made by its constructor: ``self.scaler`` of ``self``."""
    if part == whole:
        return True
    if not isinstance(part, Symbol) or not isinstance(whole, Symbol):
        return False
    made = ("call", *whole.parts[1:3]) if whole.parts[0] == "made" else None
    pending, seen = [part], {part}
    while pending:
        name = pending.pop()
        if name is whole or (made is not None and name.parts[:3] == made):
            return True
        for inner in name.parts:
            if isinstance(inner, Symbol) and inner not in seen:
                seen.add(inner)
                pending.append(inner)
    return False


def is_of_call(thing: Hashable, call: Hashable) -> bool:
    """Whether something out of sight came about inside a call, or in one that leads from there: what ``build()`` gives
    in ``def train(): optimizer = build()`` is another optimizer each time that ``train`` runs."""
    if not isinstance(thing, Symbol) or not isinstance(call, Symbol):
        return False
    contexts = {name.parts[1] for name in (thing, *made_from(thing)) if name.parts[0] == AT}
    return any(context is call or call in made_from(context) for context in contexts)


def came_before(value: Hashable, thing: Hashable) -> bool:
    """Whether all that an unknown is made from came about above the line, of a function on the way there, from which an
    object was made: ``config = {key: globals()[key] for key in keys}`` above ``scaler = GradScaler()``."""
    if not isinstance(value, Symbol) or not isinstance(thing, Symbol) or thing.parts[0] != "made":
        return False
    lines = dict(_lines(thing))
    came = [name for name in (value, *made_from(value)) if name.parts[0] == AT]
    return bool(came) and all(_is_above(name, lines) for name in came)


def _lines(thing: Symbol) -> Iterator[tuple[Hashable, int]]:
    """The calls that lead to where an object is made, each with the number of the node from which it is."""
    context, number = thing.parts[1:3]
    while isinstance(context, Symbol) and isinstance(number, int):
        yield context, number
        if context.parts[0] != "call":
            return
        context, number = context.parts[1:3]


def _is_above(came: Symbol, lines: dict[Hashable, int]) -> bool:
    """Whether something came about above a line, and in no loop: what stands in a comprehension is through with it."""
    context, number, *rounds = came.parts[1:]
    while isinstance(context, Symbol) and context.parts[0] == ONE_OF_MANY:
        context, rounds = context.parts[1], rounds[:-1]
    other = lines.get(context)
    return not rounds and isinstance(number, int) and other is not None and number < other
