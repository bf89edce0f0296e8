"""Arguments of the command line: which of them are numbers, and what others offer. ``parser.add_argument("--size",
type=int, default=4)``."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry, Weight
from amplint.flow.models.python.numbers import PlainData
from amplint.flow.state.symbols import symbol
from amplint.flow.state.values import NONE, Constant, External, Instance, Note, Number, Sequence, Usual, Value
from amplint.lowering.program import Node

models = Registry()

_PARSER = "argparse.ArgumentParser"
_NUMBERS = frozenset({"builtins.int", "builtins.float"})


@dataclass(frozen=True, slots=True)
class Option(Note):
    """The texts that an option offers: its choices, or its default."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Options(Note):
    """The options of a parser that give a number, whoever runs the program, and those that offer texts."""

    numbers: tuple[str, ...] = ()
    defaults: tuple[tuple[str, Value], ...] = ()
    """Those that are numbers where nobody gives another one."""
    texts: tuple[tuple[str, Option], ...] = ()

    def joined(self, other: Note | None) -> Note:
        """An option that only one path has is one all the same where it is read."""
        more = other if isinstance(other, Options) else Options()
        return Options(
            tuple(dict.fromkeys((*self.numbers, *more.numbers))),
            tuple(dict((*self.defaults, *more.defaults)).items()),
            tuple(dict((*self.texts, *more.texts)).items()),
        )


@models.call(_PARSER, weight=Weight.EFFECT)
def _made(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``argparse.ArgumentParser(parents=[common])`` has the options of its parents."""
    made = Instance(api.fresh(node), None, name)
    parents = api.contents(arguments.keyword("parents") or NONE)
    for parent in parents.items if isinstance(parents, Sequence) else ():
        own = api.note(parent.identity, Options) if isinstance(parent, Instance) else None
        known = api.note(made.identity, Options)
        if own is not None:
            api.set_note(made.identity, own.joined(known))
    return made


@models.call(f"{_PARSER}.add_argument")
def _add(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``parser.add_argument("--size", type=int, default=4)``."""
    parser, option = arguments.receiver, _name(arguments)
    if isinstance(parser, Instance) and option is not None:
        known = api.note(parser.identity, Options) or Options()
        api.set_note(parser.identity, known.joined(_own(api, option, arguments)))
    return api.unknown(node)


def _own(api: Api, option: str, arguments: Arguments) -> Options:
    """What is known of one option."""
    if _is_number(arguments):
        default = arguments.keyword("default")
        return Options((option,), ((option, default),) if default is not None else ())
    texts = _texts(api, arguments)
    return Options(texts=((option, texts),)) if texts is not None else Options()


def _texts(api: Api, arguments: Arguments) -> Option | None:
    """What an option offers, if that is texts."""
    choices = api.contents(arguments.keyword("choices") or NONE)
    given = choices.items if isinstance(choices, Sequence) else (arguments.keyword("default"),)
    values = [value.value for value in given if isinstance(value, Constant)]
    return Option(tuple(map(str, values))) if values and all(isinstance(one, str) for one in values) else None


def _name(arguments: Arguments) -> str | None:
    """The attribute in which the value is found."""
    dest = arguments.keyword("dest")
    given = [dest] if dest is not None else list(arguments.positional)
    names = [value.value for value in given if isinstance(value, Constant) and isinstance(value.value, str)]
    long = next((name for name in names if name.startswith("--")), names[0] if names else None)
    return long.lstrip("-").replace("-", "_") if long is not None else None


def _is_number(arguments: Arguments) -> bool:
    """Whether an option gives a number and never None."""
    default, kind = arguments.keyword("default"), arguments.keyword("type")
    if arguments.keyword("nargs") is not None or arguments.keyword("action") is not None:
        return False
    if isinstance(default, Constant) and type(default.value) in (int, float):
        return True
    required = default is None and not _is_option(arguments)
    return required and isinstance(kind, External) and kind.name in _NUMBERS


def _is_option(arguments: Arguments) -> bool:
    """Whether the argument may be left out: it then is None."""
    first = arguments.positional[0] if arguments.positional else None
    if isinstance(first, Constant) and isinstance(first.value, str) and not first.value.startswith("-"):
        return False
    return arguments.keyword("required") != Constant(True)


@models.call(f"{_PARSER}.add_argument_group", f"{_PARSER}.add_mutually_exclusive_group")
def _group(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    return arguments.receiver or api.unknown(node)


@models.call(f"{_PARSER}.parse_args", f"{_PARSER}.parse_known_args")
def _parse(api: Api, name: str, arguments: Arguments, node: Node) -> Value:
    """``args = parser.parse_args()``: an object of which nothing is known but its numbers."""
    made = api.unknown(node)
    api.set_note(made.symbol, PlainData())
    parser = arguments.receiver
    known = api.note(parser.identity, Options) if isinstance(parser, Instance) else None
    defaults = dict(known.defaults) if known is not None else {}
    for option in known.numbers if known is not None else ():
        name_of = symbol("attribute", made.symbol, option)
        api.store(made.symbol, option, Number(name_of))
        if option in defaults:
            api.set_note(name_of, Usual(defaults[option]))
    for option, texts in known.texts if known is not None else ():
        api.set_note(symbol("attribute", made.symbol, option), texts)
    return made if name.endswith(".parse_args") else Sequence((made, api.unknown(node)))
