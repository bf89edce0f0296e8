"""What a model may ask of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from amplint.events import Event, Place
from amplint.flow.state.conditions import Condition
from amplint.flow.state.store import Ambient
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    ClassValue,
    External,
    FunctionValue,
    Instance,
    Mapping,
    ModuleFile,
    Note,
    Number,
    Unknown,
    Value,
)
from amplint.lowering.program import Expression, Node, Program
from amplint.source.project import ProjectFile

A = TypeVar("A", bound=Ambient)
N = TypeVar("N", bound=Note)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call. ``unclear`` says that a star hides some. ``nodes`` and ``keyword_nodes`` are the
    expressions; arguments that a partial or a model adds have that of the call. ``receiver`` is the object of a
    method that is known by a qualified name. ``starred`` is what a star holds of which it is not known how often,
    ``nn.Sequential(*[Block() for _ in range(depth)])``, and what stands behind it. ``usual``: parameters that are not
    given have their defaults, whatever a star may hide."""

    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()
    nodes: tuple[Node, ...] = ()
    keyword_nodes: tuple[tuple[str, Node], ...] = ()
    unclear: bool = False
    receiver: Value | None = None
    starred: tuple[Value, ...] = ()
    usual: bool = False

    def keyword(self, name: str) -> Value | None:
        """A keyword argument."""
        return next((value for key, value in self.keywords if key == name), None)

    def keyword_node(self, name: str) -> Node | None:
        """The expression of a keyword argument."""
        return next((node for key, node in self.keyword_nodes if key == name), None)

    def get(self, position: int, name: str) -> Value | None:
        """An argument by its position or its name."""
        return self.positional[position] if len(self.positional) > position else self.keyword(name)

    def node(self, position: int, name: str) -> Node | None:
        """The expression of an argument by its position or its name."""
        return self.nodes[position] if len(self.nodes) > position else self.keyword_node(name)

    def by_name(self, parameters: tuple[str, ...]) -> dict[str, Value]:
        """Arguments by the names of parameters."""
        return dict(zip(parameters, self.positional, strict=False)) | dict(self.keywords)

    def after(self, first: Value, node: Node) -> Arguments:
        """With one more argument in front."""
        return replace(self, positional=(first, *self.positional), nodes=(node, *self.nodes))

    def rest(self, count: int) -> Arguments:
        """Without the first positional arguments."""
        return replace(self, positional=self.positional[count:], nodes=self.nodes[count:])

    @property
    def all(self) -> tuple[Value, ...]:
        """All values, those of which it is not known how often they are there or where at the end."""
        return (*self.positional, *(value for _, value in self.keywords), *self.starred)

    def with_values(self, values: Sequence[Value]) -> Arguments:
        """The same arguments with other values, in the order of ``all``."""
        count = len(self.positional)
        after = count + len(self.keywords)
        named = zip(self.keywords, values[count:after], strict=True)
        return replace(
            self,
            positional=tuple(values[:count]),
            keywords=tuple((name, value) for (name, _), value in named),
            starred=tuple(values[after:]),
        )


class Dead(Exception):  # noqa: N818
    """The path ends here: it raises, or contradicts itself."""


class SeveralAmbient(Exception):  # noqa: N818
    """A model has asked for an ambient value, such as the open regions, of which there are several on the present path:
    the statement is walked again for each."""


class Api(Protocol):
    """The interpreter as a model sees it.

    A model is called with values that are no Choice: the interpreter calls it once for each combination of the
    alternatives of receiver, arguments and ambient values, each on a path of its own, and joins what it gives.
    Values inside of sequences, mappings and notes may be Choices; ``each`` takes them apart.
    """

    # places and names

    def place(self, node: Node) -> Place:
        """Where a node stands, for events."""

    def text(self, node: Node) -> str:
        """The text of a node. For messages alone: nothing may be decided on it."""

    def fresh(self, node: Node, *parts: str) -> Symbol:
        """A name for an object that is made at this node, in this call."""

    def unknown(self, node: Node, kind: str | None = None) -> Unknown:
        """An unknown value that comes about at this node."""

    def number(self, node: Node) -> Number:
        """A number that is not known and comes about at this node."""

    # events and paths

    def emit(self, event: Event) -> None:
        """Tells that something happens, on this path."""

    def each(self, value: Value, function: Callable[[Value], Value]) -> Value:
        """Calls a function for each alternative of a value, on a path of its own, and joins the results:
        ``api.each(found, lambda one: …)``."""

    def each_item(self, item: Value, function: Callable[[Value], Value]) -> Value:
        """The same for an item of a list or dict; where there is none, UNBOUND, that stays so and the path goes on:
        ``api.each_item(held.get("aux"), …)``."""

    def overlaid(self, held: Mapping, values: Iterable[Value]) -> Mapping:
        """A dict after values were put into it under keys that nobody knows: its constants are defaults since."""

    def truth(self, value: Value) -> Condition:
        """The condition under which a value is true: TRUE, FALSE or a tree."""

    def truth_of_data(self) -> Condition:
        """The condition under which data is true of which nothing is known, such as a tensor."""

    def known_truth(self, value: Value) -> bool | None:
        """Whether a value is true on this path, or None."""

    def assume(self, condition: Condition) -> None:
        """Goes on only where a condition holds. Raises Dead where it cannot."""

    def exists(self, value: Unknown, *, apart: bool = False) -> None:
        """Notes that an unknown value is an object: a method of it is called. Raises Dead where it is None. ``apart``:
        paths on which it is noted are told from others, as they are for objects whose kind is known."""

    # objects

    def load(self, owner: Symbol, name: str) -> Value | None:
        """An attribute that was set on an object, or None. The value may be a Choice."""

    def store(self, owner: Symbol, name: str, value: Value) -> None:
        """Sets an attribute of an object."""

    def note(self, owner: Symbol, kind: type[N]) -> N | None:
        """The note of a kind on an object, if all paths that led here agree on it; else None."""

    def notes(self, owner: Symbol, kind: type[N]) -> tuple[N, ...]:
        """All notes of a kind that an object may have on this path."""

    def noted(self, owner: Symbol, kind: type[Note]) -> Value | None:
        """The notes of a kind that an object may have on this path: a Choice where paths differ, with UNBOUND where
        there is none; None if there is none on any."""

    def set_note(self, owner: Symbol, note: Note) -> None:
        """Notes something of an object."""

    def drop_note(self, owner: Symbol, kind: type[Note]) -> None:
        """Takes a note back."""

    def ambient(self, kind: type[A]) -> A:
        """The ambient value of a class."""

    def surround(self, value: Ambient) -> None:
        """Sets the ambient value of a class."""

    def attribute(self, value: Value, name: str, node: Node) -> Value:
        """``value.name``, as the code would read it."""

    def attributes_of(self, value: Instance) -> dict[str, Value]:
        """The attributes that are known of an object."""

    def choices(self, module: ModuleFile) -> dict[str, Value]:
        """What a name that is not known may be in a module: ``getattr(models, args.arch)``. Not all of it."""

    def lacks(self, value: Instance, name: str) -> bool:
        """Whether an object surely has no attribute of that name, which was looked for and not found."""

    def is_setting(self, value: Value) -> bool:
        """Whether a value surely comes from outside of the code: ``args.weight``, where no code of the project gives an
        object such an attribute."""

    def older(self, value: Instance) -> Instance | None:
        """The object that was there before the code that is walked, of which an object is a part: ``self`` for what
        its constructor has made, in a method that nobody in sight calls."""

    def identity_of(self, value: Value) -> Symbol | None:
        """What names an object: its identity, the symbol of an unknown, None for other values."""

    def contents(self, value: Value) -> Value:
        """A list or dict as it is now."""

    def is_kept(self, value: Value) -> bool:
        """Whether an attribute of some object is a value."""

    def set_attribute(self, base: Value, name: str, value: Value, node: Node) -> None:
        """``base.name = value``, as the code would set it."""

    def set_settings(self, base: Instance, node: Node) -> None:
        """Sets attributes of an object whose names and values nobody knows: ``setattr(config, key, value)`` for what
        the user has chosen. What the code has set to a constant may be anything since."""

    def set_names(self) -> None:
        """Binds names of the script that is walked, nobody knows which: ``exec(text)`` for what the user has chosen.
        What it has set to a constant may be anything since."""

    def assign(self, target: Expression, value: Value) -> None:
        """Binds a name, an attribute or an item."""

    def operate(self, operator: str, left: Value, right: Value | None, node: Node) -> Value:
        """``left operator right`` for values that are no Choice."""

    # calls

    def call(self, function: Value, arguments: Arguments, node: Node) -> Value:
        """Calls a value."""

    def enter(self, context: Value, node: Node) -> Value:
        """Enters a context manager, as ``with`` does; gives what ``as`` binds."""

    def leave(self, context: Value, node: Node) -> None:
        """Leaves a context manager that was entered at this node."""

    def opaque(self, arguments: Arguments, node: Node) -> Value:
        """What a call gives that is not followed: all that it is given may have changed (havoc)."""

    def subscript(self, base: Value, keys: tuple[Value, ...], node: Node) -> Value:
        """``base[keys]``, as the code would read it."""

    def iterate(self, value: Value, node: Node) -> Value:
        """One item of a collection, as a loop takes it."""

    # the project

    def bases(self, value: ClassValue) -> list[ClassValue | External]:
        """A class and all that it inherits from, in the order in which methods are looked for; unresolved bases are
        External with a name that begins with ``?``."""

    def find_method(self, value: ClassValue, name: str) -> FunctionValue | None:
        """A method of a class of the project, inherited ones included."""

    def derives_from(self, value: Value, name: str) -> bool:
        """Whether an object or class derives from a class outside: ``api.derives_from(value, "torch.nn.Module")``.
        A name that ends in a dot stands for all below it."""

    def resolve(self, name: str, file: ProjectFile | None = None) -> Value | None:
        """What a dotted name means in a file, the present one if none is given."""

    def program_of(self, function: FunctionValue) -> Program | None:
        """A function lowered."""

    def imported(self, target: str) -> Value:
        """What an import of this name binds in the present file."""

    def place_of(self, function: FunctionValue) -> Place | None:
        """Where the name of a function stands."""

    def is_only_called(self, node: Node, methods: frozenset[str]) -> bool:
        """Whether a local name is read for nothing but calls of these methods."""

    def knows(self, name: str) -> bool:
        """Whether a model is registered for calls of exactly this qualified name."""

    def knows_method(self, value: Value, name: str) -> bool:
        """Whether a model is registered for a method of what a value is, rather than of whatever object it may be."""

    def decorators(self, function: FunctionValue) -> list[Value]:
        """The decorators of a function, evaluated."""

    @property
    def function(self) -> FunctionValue | None:
        """The function that is being walked; None in the body of a module."""

    @property
    def receiver(self) -> Value | None:
        """The object whose method is being walked."""

    @property
    def in_fallback(self) -> bool:
        """Whether what is called here is for releases that do not take other arguments: ``except TypeError:``."""

    @property
    def is_tried(self) -> bool:
        """Whether it is minded that what is called here may not take its arguments: ``except TypeError:`` follows."""

    @property
    def in_loop(self) -> bool:
        """Whether the node that is being walked stands in a loop of its function."""

    @property
    def in_long_loop(self) -> bool:
        """Whether that is a loop of which not all rounds are walked, or are told apart."""

    @property
    def is_cut(self) -> bool:
        """Whether a call is not followed although its function is one of the project: it was too much to walk."""

    @property
    def runs_each_round(self) -> bool:
        """Whether nothing but the loop itself decides that the present statement runs: no condition, no try."""

    @property
    def is_built_each_round(self) -> bool:
        """Whether nothing but a loop decides that the object is built whose constructor is being walked; true
        outside of constructors."""

    @property
    def runs_once_in(self) -> Symbol | None:
        """The outermost call inside of which no loop runs the present statement again: where it does run again, so does
        that call. None if it stands in a loop of its own function."""

    @property
    def settings(self) -> Settings:
        """What is known of the project from outside its code."""

    @property
    def called_at(self) -> Place | None:
        """Where the function was called that is being walked; None in constructors and where a walk begins."""

    def callers(self) -> Iterator[FunctionValue]:
        """The functions on the way to the present one that are known, innermost first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is known of the project from outside its code: the releases of the library that it admits (from, below), and
    the device that it runs on. ``off``: flags that are taken to be off where a model would take them to be on."""

    releases: tuple[tuple[int, ...], tuple[int, ...] | None]
    device: str
    off: frozenset[Hashable] = frozenset()
