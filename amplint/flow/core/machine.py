"""What the parts of the interpreter ask of each other: statements, expressions, calls and objects know this
protocol, and only interpreter.py knows them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from amplint.flow.core.api import Api, Arguments
from amplint.flow.core.registry import Registry
from amplint.flow.state.conditions import Condition
from amplint.flow.state.graph import Graph
from amplint.flow.state.store import Key, State
from amplint.flow.state.symbols import Symbol
from amplint.flow.state.values import (
    ClassValue,
    Closure,
    External,
    FunctionValue,
    Instance,
    ModuleFile,
    Note,
    Value,
)
from amplint.lowering.program import Block, Define, DefineClass, Expression, Name, Node, Parameter, Program
from amplint.source.outline import ClassOutline
from amplint.source.project import ProjectFile

M = TypeVar("M")


class Defined(NamedTuple):
    """A function that is defined in another one. ``value``: what its decorators make of it."""

    program: Program
    file: ProjectFile
    value: Value


@dataclass(slots=True, eq=False)
class Frame:
    """One call that is being walked."""

    program: Program
    file: ProjectFile
    context: Symbol
    """Names the call: the function and how it was reached. Objects that are made in it have it in their names."""
    function: FunctionValue | None = None
    closure: Closure | None = None
    """The scopes around a function that is defined in another one."""
    receiver: Value | None = None
    caller: Frame | None = None
    graph: Graph = field(default_factory=Graph)
    names: dict[str, Value] | None = None
    """The local names while a call that this frame has made is being walked, and after its end."""
    entry: dict[Key, Value] = field(default_factory=dict)
    """The objects as they were when the call began."""
    reads: dict[Key, Value | None] = field(default_factory=dict)
    """What was read of them, as it was when the call began: the call comes out the same where it is the same."""
    makes: bool = False
    """Whether objects are made in it."""
    returns: list[tuple[State, Value]] = field(default_factory=list)
    yields: list[tuple[State, Value]] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    rounds: tuple[int, ...] = ()
    outer: tuple[int, ...] = field(init=False, default=())
    """The rounds of the loops around the present statement; outside, that of the innermost one around the call."""
    loops: int = 0
    """How many of these loops have rounds that are not walked, or that make the same things by name."""
    branches: int = 0
    """How many conditions and handlers stand between the present statement and the innermost loop."""
    fallback: bool = False
    """Whether a handler is walked that runs if a call was given arguments which its function does not take."""
    tried: bool = False
    """Whether such a handler, one that names TypeError, stands around what is walked."""
    defined: dict[Symbol, Defined] = field(default_factory=dict)
    """Functions that were defined in it, or in what it has called, and not called yet."""
    outside: bool = False
    """Whether the default of a parameter is evaluated: its names are those of the code around the function."""
    scope: Closure | None = None
    """This frame as functions that are defined in it see it."""

    def __post_init__(self) -> None:
        self.outer = self.caller.rounds[-1:] or self.caller.outer if self.caller is not None else ()

    @property
    def rounds_around(self) -> tuple[int, ...]:
        """What comes about in another round is another thing; each further loop would double what is walked."""
        return self.outer + self.rounds


@dataclass(frozen=True, slots=True)
class Lines:
    """Statements of a module or of the body of a class that bind a name: they have to be walked for its value; or of a
    ``method`` that set an attribute of its object."""

    file: ProjectFile
    first: int
    last: int
    owner: ClassValue | None = None
    method: FunctionValue | None = None


Binding = Value | Lines


class ProjectView(Protocol):
    """The project as the interpreter needs it: names and classes, resolved without interpretation."""

    def global_bindings(self, file: ProjectFile, name: str, line: int | None = None) -> Sequence[Binding]:
        """What a name of a module may stand for once the statements above a line have run, or all, likeliest first;
        none if the module does not bind it."""

    def bound_beside(self, file: ProjectFile, name: str, line: int) -> int | None:
        """The last line of the branch of a module that a line is part of, if that branch binds a name above it and
        nothing below the statement does: what a function means by it that is defined there."""

    def registrations(self, file: ProjectFile, name: str) -> Sequence[ClassValue | FunctionValue | Lines]:
        """What fills an object of a module when the project is imported: decorated definitions, and statements."""

    def imported(self, file: ProjectFile, target: str) -> tuple[ProjectFile, str] | Value:
        """What an import of this dotted target binds in a file: a value, or a name of another file of the project."""

    def class_value(self, file: ProjectFile, outline: ClassOutline) -> ClassValue:
        """The value of a class."""

    def bases(self, value: ClassValue) -> list[ClassValue | External]:
        """A class and what it inherits from, in method order; unresolved bases are External with a name like
        "?Base"."""

    def find_method(
        self, value: ClassValue, name: str, after: ClassValue | None = None
    ) -> FunctionValue | None:
        """A method; ``after``: only of classes that come after that one, as ``super()`` looks."""

    def may_keep(self, value: ClassValue) -> bool:
        """Whether a call of a class may give an object that was made before."""

    def find_setter(self, value: ClassValue, name: str) -> FunctionValue | None:
        """The setter of a property."""

    def class_binding(self, value: ClassValue, name: str) -> Binding | None:
        """What binds a name in the body of a class or of what it inherits from, methods left out."""

    def fields(self, value: ClassValue) -> tuple[tuple[str, Binding | None, Value | None], ...] | None:
        """The fields of a dataclass, in the order in which its constructor takes them, with their defaults; None
        for other classes."""

    def kind_of_method(self, method: FunctionValue) -> str:
        """ "property", "cached property", "static method", "class method" or ""."""

    def is_abstract(self, method: FunctionValue) -> bool:
        """Whether a method is there to be overridden, a class method or property, too."""

    def concrete(self, value: ClassValue) -> Sequence[ClassValue]:
        """The classes that an object may be of which is said to be one of a class."""

    def is_cached(self, function: FunctionValue) -> bool:
        """Whether ``functools.cache`` or the like keeps what a function gives."""

    def class_in(self, file: ProjectFile, name: str, line: int) -> ClassValue | None:
        """The class of a class statement at a line of a file."""

    def classes_in(self, file: ProjectFile) -> Sequence[ClassValue]:
        """The classes that are defined in a file, those inside functions included."""

    def attribute_stores(self, value: ClassValue, name: str) -> Sequence[Lines]:
        """The simple statements ``self.name = …`` in methods other than the constructor."""

    def keys_put(self, name: str) -> Set[object]:
        """The keys under which methods put something into an attribute of that name, None for any."""

    def is_set_from_outside(self, name: str) -> bool:
        """Whether code sets an attribute of that name on anything but the object of its own method."""

    def is_attribute(self, name: str) -> bool:
        """Whether code sets an attribute of that name on anything, or a class defines one."""

    def methods_called(self, function: FunctionValue) -> Set[str]:
        """The names of the methods that a function calls on what its text does not tell."""

    def choices(self, file: ProjectFile, most: int) -> Sequence[str]:
        """The first names that a setting may choose among in a module."""

    def stored_by(self, function: FunctionValue) -> frozenset[str]:
        """The attributes of its first parameter that a method sets, what it calls of the same object included."""

    def uses(self, function: FunctionValue, dotted: str) -> frozenset[str]:
        """The methods that are called on a dotted name in a function, and by functions that are given it."""

    def is_asked(self, function: FunctionValue, name: str) -> bool:
        """Whether a function, or one that is given it, asks what a name stands for what no tensor has, ``cfg.amp``, or
        picks something by it: ``optimizers[index]``."""

    def uses_of_global(self, file: ProjectFile, dotted: str) -> frozenset[str]:
        """The methods that are called on a dotted name of a module, there and in the functions that read it."""

    def uses_of_attribute(self, value: ClassValue, name: str) -> frozenset[str]:
        """The methods that are called on ``self.name`` in all methods of a class."""

    def computes_names(self, function: FunctionValue) -> bool:
        """Whether a function may set attributes whose names nobody can read off: by ``setattr`` or ``__dict__``."""

    def imports(self, function: FunctionValue) -> bool:
        """Whether a function imports something itself."""

    def dispatches(self, function: FunctionValue) -> bool:
        """Whether a function calls what it has looked up: ``getattr(hook, name)(self)``."""

    def loads(self, function: FunctionValue, name: str) -> bool:
        """Whether a function reads a local name anywhere."""

    def loads_only_calls(self, function: FunctionValue, name: str, methods: frozenset[str]) -> bool:
        """Whether a local name is read for nothing but calls of these methods."""

    def weight(self, function: FunctionValue) -> int:
        """The Weight of what a function may reach."""

    def sure_weight(self, function: FunctionValue) -> int:
        """The same without what only has the name of a method that is called on something out of sight."""

    def computes(self, function: FunctionValue) -> bool:
        """Whether what surrounds a call of a function can make a difference to it."""

    def enters(self, function: FunctionValue) -> bool:
        """Whether a walk of a function can meet a key of weight ENTRY."""

    def program(self, function: FunctionValue) -> Program | None:
        """A function lowered."""

    def lines(self, lines: Lines) -> Program:
        """Statements lowered."""

    def resolve(self, file: ProjectFile, dotted: str) -> Value | None:
        """What a dotted name means in a file, where no statement has to be walked for it."""


class Machine(Api, Protocol):
    """The interpreter as its parts see it."""

    state: State
    frame: Frame
    registry: Registry
    silent: bool

    # running

    def where_noted(self, owner: Symbol, kind: type[Note]) -> Condition:
        """The condition under which an object has a note of a kind."""

    def evaluate(self, node: Expression) -> Value:
        """The value of an expression; its effects happen on the present path. May be a Choice."""

    def run(self, block: Block) -> None:
        """Runs statements. The present state is dead afterwards if no path falls out at their end."""

    def test(self, node: Expression) -> Condition:
        """The condition under which an expression is true."""

    def branch(
        self, condition: Condition, node: Node, then: Callable[[], None], other: Callable[[], None]
    ) -> None:
        """Runs ``then`` where a condition holds and ``other`` where not, and joins the two."""

    def attempt(self, action: Callable[[], None]) -> None:
        """Runs an action; where the path ends in it, the present state is dead."""

    def join(self, states: Sequence[State], node: Node) -> State:
        """One state for several."""

    def dead(self) -> bool:
        """Whether the present path has ended."""

    def end(self) -> None:
        """Ends the present path."""

    # names and objects

    def lookup(self, name: str, node: Node) -> Value:
        """What a name stands for."""

    def global_value(self, file: ProjectFile, name: str) -> Value | None:
        """What a name of a file stands for."""

    def read(self, key: Key) -> Value | None:
        """What the store has under a key, noting that it was read."""

    def initialise(self, value: Instance) -> None:
        """Walks the constructor of an object if that has not been done."""

    def construct(self, value: ClassValue, arguments: Arguments, node: Node) -> Value:
        """An object of a class of the project."""

    def call_method(self, receiver: Value, name: str, arguments: Arguments, node: Node) -> Value:
        """``receiver.name(arguments)`` for a receiver whose methods are models'."""

    def call_function(self, function: FunctionValue, arguments: Arguments, node: Node) -> Value:
        """Calls a function of the project."""

    def set_item(self, base: Value, keys: tuple[Value, ...], value: Value, node: Node) -> None:
        """``base[keys] = value``."""

    def kind_of(self, node: Node) -> str | None:
        """What the code does with the name or attribute that an expression is, or None."""

    # what the parts of the interpreter give each other

    reached: set[int]
    cut_short: set[int]
    cut_off: bool
    cuts: int
    missed: int
    active: dict[object, tuple[object, ...]]
    summaries: dict[object, list[Any]]

    @property
    def lost(self) -> int:
        """How often something was not followed so far, or forgotten of a condition."""

    def class_value(self, file: ProjectFile, outline: ClassOutline) -> ClassValue:
        """The value of a class."""

    def discard(self, value: Value, how: str, name: str, node: Node) -> None:
        """Tells models of a value that is thrown away."""

    def selected(
        self,
        condition: Condition,
        node: Node,
        then: Callable[[], Value],
        other: Callable[[], Value],
        *,
        flags: bool = False,
    ) -> Value:
        """The value of ``then`` where a condition holds, else that of ``other``. ``flags``: unknowns are told apart."""

    def scope(self) -> Closure:
        """The present frame as functions that are defined here see it."""

    def both_truths(self, operator: str, left: Value, right: Value) -> Condition:
        """``left & right`` or ``left | right`` of two flags."""

    def unbind(self, name: str) -> None:
        """``del name``."""

    def of_class(self, kind: Value, own: Symbol) -> Value | None:
        """An object of a class, by what an annotation or ``isinstance`` says."""

    def can(self, condition: Condition) -> bool:
        """Whether a condition can hold on the present path."""

    def meet(self, node: Node, value: Value, role: str = "") -> None:
        """Notes a value that an operand has on the present path, if it is an odd one. ``role`` is that of the operand
        if the node is the op."""

    def narrowed(self, condition: Condition) -> Condition:
        """The condition of the present path where another one holds, too."""

    def never_raises(self, block: Block) -> bool:
        """Whether statements only import what is there."""

    def decorate(self, function: FunctionValue, node: Define) -> Value:
        """A function that is defined here, with its decorators applied."""

    def class_here(self, node: DefineClass) -> Value:
        """The class of a class statement."""

    def set_name(self, target: Name, value: Value) -> None:
        """Binds a name."""

    def part(self, value: Value, index: int, count: int, node: Node) -> Value:
        """One of the parts of ``a, b = value``."""

    def kind_of_parameter(self, program: Program, name: str) -> str | None:
        """What a function does with a parameter."""

    def kind_of_attribute(self, value: ClassValue, name: str) -> str | None:
        """What the methods of a class show of an attribute."""

    def kind_of_method(self, method: FunctionValue) -> str:
        """ "property", "static method" and so on."""

    def annotated(self, parameter: Parameter, own: Symbol) -> Value | None:
        """What the annotation of a parameter says of it."""

    def evaluate_default(self, parameter: Parameter) -> Value:
        """The default of a parameter that is not given."""

    def default_of_unknown(self, parameter: Parameter, own: Symbol) -> Value:
        """A parameter of which nothing is known."""

    def has_effects(self, function: FunctionValue) -> bool:
        """Whether a function has effects by what its text names."""

    def follows(self, function: FunctionValue, given: Arguments) -> bool:
        """Whether a call can matter."""

    def holds(self, owner: Instance, value: Value) -> None:
        """Notes that an object has got a value as an attribute."""

    def cut(self, function: FunctionValue, given: Arguments, node: Node) -> Value:
        """What a call gives that is not followed."""

    def decorated(self, function: FunctionValue) -> Value:
        """A function of a file with its decorators applied."""

    def is_cached(self, function: FunctionValue) -> bool:
        """Whether what a function gives is kept."""

    def is_asked(self, function: FunctionValue, name: str) -> bool:
        """Whether a parameter is asked for what no tensor has, or picks something."""

    def keys_of(self, value: Value) -> Sequence[type[Value] | str]:
        """The keys under which the tables of models may know a value, the most telling first."""

    def method_keys_of(self, value: Value) -> Sequence[type[Value] | str]:
        """The same for methods, which a class has as its objects do."""

    def model_of(self, table: Mapping[type[Value] | str, M], value: Value) -> M | None:
        """The model of a table for a value."""

    def is_noted(self, owner: Symbol) -> bool:
        """Whether something is known of an object: a note, an attribute."""

    def unfollowed(self, given: Arguments, effects: bool, node: Node) -> Value:
        """What a call gives that is not followed, after all that it was given is forgotten."""

    def note_made(self, identities: Iterable[Symbol]) -> None:
        """Notes that objects are made on the present path, and were not before."""

    def told_apart(self, value: Value) -> Value:
        """A list that a flag has filled in different ways: one of several lists."""

    def budget_left(self, program: Program) -> bool:
        """Whether a further call of a function may be followed."""

    def joined_results(self, ends: Sequence[tuple[State, Value]], node: Node) -> Value:
        """One value for those that several paths give."""

    def answered(self, given: Arguments, ask: Callable[[Arguments], Value | None]) -> Value | None:
        """What a model gives for each combination of arguments and ambient values; None if it knows nothing of one."""

    def on_each(self, action: Callable[[], None]) -> None:
        """Does something for each combination of ambient values."""

    def for_each_ambient(self, function: Callable[[], Value]) -> Value:
        """The value of a function for each combination of ambient values."""

    def resolved(self, given: Arguments, function: Callable[[Arguments], Value]) -> Value:
        """Calls a function with arguments none of which is a Choice, for each combination."""

    def outside(self, value: Value) -> tuple[str, ...]:
        """The keys under which models may know an object or a class."""

    def has_methods(self, name: str) -> bool:
        """Whether models know methods of a class outside."""

    def member(self, base: ModuleFile, name: str) -> Value | None:
        """``module.name``."""

    def class_attribute(self, value: ClassValue, name: str) -> Value | None:
        """A name that the body of a class binds."""

    def settle(self, owner: Symbol, name: str, value: Value) -> None:
        """Says what an attribute is on all paths that do not set it."""

    def set_elsewhere(self, base: Instance, name: str) -> Value | None:
        """An attribute that another method than the constructor sets."""

    def older(self, value: Instance) -> Instance | None:
        """The object that was there before the code that is walked, of which an object is a part."""

    def is_of_unknown_age(self, value: Instance) -> bool:
        """Whether an object was there before the code that is walked."""

    def is_handed_in(self, value: Instance) -> bool:
        """Whether somebody out of sight made an object."""

    def identity_of_class(self, value: ClassValue) -> Symbol:
        """What names a class as an object."""

    def identity_of_file(self, file: ProjectFile) -> Symbol:
        """What names a module as an object."""

    def has_hidden_attributes(self, made_of: ClassValue) -> bool:
        """Whether the constructor of a class may set attributes whose names nobody can read off."""

    def find_method_after(self, value: ClassValue, name: str, after: ClassValue) -> FunctionValue | None:
        """A method as ``super()`` finds it."""

    def find_setter(self, value: ClassValue, name: str) -> FunctionValue | None:
        """The setter of a property."""

    def fresh_display(self, node: Node) -> Symbol:
        """A name for a list or dict that is written here."""
