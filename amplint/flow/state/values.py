"""What the interpreter knows about a value of Python. Everything it does not follow is ``Unknown``.

Values are immutable and hashable; what changes over time, such as the attributes of objects, is in the store under
the identity of the object. Models add kinds of their own, such as tensors, by deriving from ``Value``.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Mapping_
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, ClassVar

from amplint.events import Place
from amplint.flow.state.symbols import LOST, LOST_OBJECT, ONE_OF_MANY, Symbol, is_one_of_many, symbol

if TYPE_CHECKING:
    from amplint.lowering.program import Program
    from amplint.source.outline import ClassOutline, FunctionOutline
    from amplint.source.project import ProjectFile


class Value:
    """Base of all values.

    ``matters``: a call that is given such a value is followed, however little is in its text.
    ``spreads``: so is a call of a method of an object that holds it.
    ``is_of_own_class``: its class is none of Python's and derives from none of them but ``object``.
    ``is_float``: it is a float of Python: ``float(x)`` is ``x``.
    ``is_expected``: a list that was picked of these, ``[p.grad for p in ps if p.grad is not None]``, has some: on a
    path where it is empty there is nothing to be done to them.
    """

    __slots__ = ()
    matters: ClassVar[bool] = False
    spreads: ClassVar[bool] = False
    is_of_own_class: ClassVar[bool] = False
    is_float: ClassVar[bool] = False
    is_expected: ClassVar[bool] = False

    @property
    def of_kind(self) -> str | None:
        """The kind that an unknown has which stands for it among others, or None."""
        return None

    @property
    def stands_in(self) -> bool:
        """Whether it stands for what comes later, as None does in ``self.optimizer = None``."""
        return False

    def another(self) -> Value:
        """The value as a loop takes it out of a collection of which not all is known: another one in each round."""
        return self

    def bound(self, name: Callable[[], Symbol]) -> Value:
        """The value once a name is bound to it: what stands for it where it is tested, if nothing did before."""
        return self

    def in_common(self, others: Sequence_[Value]) -> Value | None:
        """What holds of this value and of others where one of them is meant and they are too many to be told apart;
        None for nothing."""
        return None


class Note(Value):
    """What a model notes of an object, under its identity and the class of the note: ``frozen``, ``sharded``.

    ``forgettable``: it is no note any more where too many questions would decide whether it holds.
    """

    __slots__ = ()
    forgettable: ClassVar[bool] = False

    def joined(self, other: Note | None) -> Note | None:
        """The note that holds where this one and another one (None: no note) meet, or NotImplemented where both are
        to be kept apart by the condition that chose between them."""
        del other
        kept_apart: Note | None = NotImplemented
        return kept_apart


@dataclass(frozen=True, slots=True)
class Exists(Note):
    """A method of an unknown object was called: it is not None from there on. ``apart``: paths on which that is so are
    told from others."""

    forgettable: ClassVar[bool] = True
    apart: bool = False

    def joined(self, other: Note | None) -> Note | None:
        """It holds where it holds on both paths, unless they are told apart."""
        if self.apart and other != self:
            kept_apart: Note | None = NotImplemented
            return kept_apart
        return self if other == self else None


@dataclass(frozen=True, slots=True)
class AskedForNone(Note):
    """The code has asked whether an unknown object is None: ``if optimizer is not None``."""

    forgettable: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Annotated(Note):
    """The code says itself of what kind an argument from out of sight is: ``optimizer: torch.optim.Optimizer``."""


@dataclass(frozen=True, slots=True)
class AskedClasses(Note):
    """The code has asked whether an object is of one of these classes of the project: ``isinstance(x, Several)``."""

    forgettable: ClassVar[bool] = True
    kinds: frozenset[ClassValue]

    def joined(self, other: Note | None) -> Note:
        """What either path has asked."""
        return AskedClasses(self.kinds | other.kinds) if isinstance(other, AskedClasses) else self


@dataclass(frozen=True, slots=True)
class Usual(Note):
    """What an unknown is where nobody chooses another value: the default of an option, or the middle of what a function
    such as ``math.cos`` gives."""

    value: Value

    def joined(self, other: Note | None) -> Note:
        """A default is one on all paths."""
        return self


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Anything. ``symbol`` stands for it where it is compared or tested again; ``kind`` is what the code does with
    it: the name of a kind that a model has registered, such as "module", or None. ``apart``: so much is known of it
    that where it is one of two it is told apart from the other one."""

    symbol: Symbol
    kind: str | None = None
    apart: bool = field(default=False, compare=False)

    def another(self) -> Value:
        """It, as one of several of which a loop takes another one in each round."""
        return self if is_one_of_many(self.symbol) else Unknown(symbol(ONE_OF_MANY, self.symbol), self.kind)

    @property
    def of_kind(self) -> str | None:
        return self.kind

    @property
    def is_data(self) -> bool:
        """Whether nothing tells that it is more than data, such as a tensor."""
        return self.kind is None and self.symbol.parts[0] not in (LOST, LOST_OBJECT)

    def in_common(self, others: Sequence_[Value]) -> Value | None:
        """Data of which nothing is known."""
        known = [other for other in (self, *others) if isinstance(other, Unknown) and other.is_data]
        if len(known) <= len(others):
            return None
        return Unknown(symbol("one of data", *(one.symbol for one in known)))


@dataclass(frozen=True, slots=True)
class Constant(Value):
    """A Python constant: ``Constant(1)`` is not ``Constant(True)``."""

    value: object

    def __hash__(self) -> int:
        value = self.value
        if isinstance(value, slice):  # it has no hash before Python 3.12
            value = (value.start, value.stop, value.step)
        return hash((type(self.value), value))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is Constant and type(self.value) is type(other.value) and self.value == other.value

    @property
    def stands_in(self) -> bool:
        """None does."""
        return self.value is None


NONE, TRUE, FALSE = Constant(None), Constant(True), Constant(False)


_numbers = count(2)


class Choice(Value):
    """One of two values: ``then`` where ``atom`` holds. Made by conditions.choice and its like alone, which make but
    one node of the same parts, so that equal trees are the same object."""

    __slots__ = ("_atoms", "atom", "leaves", "number", "other", "size", "then")

    def __init__(self, atom: Symbol, then: Value, other: Value) -> None:
        self.atom = atom
        self.then = then
        self.other = other
        self._atoms: frozenset[Symbol] | None = None
        self.leaves: tuple[Value, ...] | None = None
        """What conditions.leaves has found, if somebody has asked."""
        self.number = next(_numbers)
        """Of no other tree, whether that is still there or not; it begins at 2, which is no truth value."""
        one = then.size if type(then) is Choice else 0
        two = other.size if type(other) is Choice else 0
        self.size: int = one + two + 1
        """Nodes, those that both sides share counted twice."""

    @property
    def atoms(self) -> frozenset[Symbol]:
        """All atoms in the tree, collected when somebody asks."""
        if self._atoms is None:
            found: set[Symbol] = set()
            seen: set[int] = set()
            pending: list[Value] = [self]
            while pending:
                part = pending.pop()
                if type(part) is not Choice or part.number in seen:
                    continue
                seen.add(part.number)
                if part._atoms is not None:
                    found |= part._atoms
                else:
                    found.add(part.atom)
                    pending += (part.then, part.other)
            self._atoms = frozenset(found)
        return self._atoms

    def __repr__(self) -> str:
        return f"Choice({self.atom}, {self.then}, {self.other})"


@dataclass(frozen=True, slots=True)
class Unbound(Value):
    """A local name that one path has not bound: who reads it there gets an UnboundLocalError."""


UNBOUND = Unbound()


@dataclass(frozen=True, slots=True)
class Text(Value):
    """A string of which the beginning is known: ``f"cuda:{rank}"``."""

    start: str
    symbol: Symbol | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Number(Value):
    """A number that is not known: the result of ``.item()``, a counter, a parameter whose default is a number."""

    symbol: Symbol


@dataclass(frozen=True, slots=True)
class External(Value):
    """Something of a package outside the project, by its qualified name: ``torch.nn.functional.softmax``. Builtins
    are ``builtins.len``. One whose last part an unknown decides, ``getattr(torch, args.dtype)``, is ``torch.?``, and
    ``chosen`` stands for it in questions."""

    name: str
    chosen: Symbol | None = None

    @property
    def symbol(self) -> Symbol:
        """What stands for it in questions."""
        return self.chosen if self.chosen is not None else symbol("external", self.name)


@dataclass(frozen=True, slots=True)
class ModuleFile(Value):
    """A module (file) of the project."""

    file: ProjectFile


@dataclass(frozen=True, slots=True)
class ClassValue(Value):
    """A class of the project."""

    file: ProjectFile
    outline: ClassOutline

    def __hash__(self) -> int:
        return hash(id(self.outline))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassValue) and other.outline is self.outline


@dataclass(frozen=True, slots=True)
class Instance(Value):
    """An object. ``identity`` names it; its attributes are in the store. ``made_of`` is its class in the project, or
    ``external`` the qualified name of a class outside."""

    identity: Symbol
    made_of: ClassValue | None = None
    external: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionValue(Value):
    """A function of the project: by its outline, or one defined inside a function that is being walked, with the
    names that it sees there (``closure``, by scope, innermost first)."""

    matters: ClassVar[bool] = True
    file: ProjectFile
    outline: FunctionOutline | None = None
    program: Program | None = None
    closure: Closure | None = None
    receiver: Value | None = None
    """The ``self`` of the method around a nested function."""
    undecorated: bool = False
    """Whether its decorators are applied already, or are to be left out."""
    manages_context: bool = False
    """Whether ``contextlib.contextmanager`` decorates it."""

    def __hash__(self) -> int:
        return hash(id(self.outline if self.program is None else self.program))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FunctionValue)
            and other.outline is self.outline
            and other.program is self.program
            and other.closure is self.closure
            and other.undecorated is self.undecorated
            and other.manages_context is self.manages_context
        )


class Closure:
    """The scope around a nested function. ``names`` gives its names as they are now."""

    __slots__ = ("identity", "names", "outer")

    def __init__(
        self, identity: Symbol, names: Callable[[], Mapping_[str, Value]], outer: Closure | None
    ) -> None:
        self.identity = identity
        """Under which the store keeps the names that nested functions set."""
        self.names = names
        self.outer = outer


@dataclass(frozen=True, slots=True)
class BoundMethod(Value):
    """A method with its object. ``function`` is None where the method is known by its name alone."""

    receiver: Value
    name: str
    function: FunctionValue | None = None


@dataclass(frozen=True, slots=True)
class Super(Value):
    """``super()``: the object, and the class after which its methods are looked for."""

    receiver: Value
    after: ClassValue


@dataclass(frozen=True, slots=True)
class Partial(Value):
    """``functools.partial``, or a callable outside with arguments already given."""

    function: Value
    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Decorated(Value):
    """A function around each call of which a context is entered."""

    matters: ClassVar[bool] = True
    function: Value
    context: Value


@dataclass(frozen=True, slots=True)
class Sequence(Value):
    """A tuple, list or set. ``exact``: ``items`` are all there are, in order; otherwise they are the different things
    that may be in it, of which the first ``prefix`` stand at the beginning. ``identity`` names a list that can
    change; its contents at a time are in the store under that identity (see Contents). ``rows`` are all there are, in
    order, UNBOUND on the paths that lack them: what a dict shows some of whose keys are there on some paths only.
    ``kind`` is the class of Python that it surely is of, where that is known."""

    items: tuple[Value, ...] = ()
    exact: bool = True
    prefix: int = 0
    identity: Symbol | None = field(default=None, compare=False)
    rows: tuple[Value, ...] = field(default=(), compare=False)
    kind: type | None = field(default=None, compare=False)

    def in_common(self, others: Sequence_[Value]) -> Value | None:
        """A list that many flags have filled in different ways: all that may be in it."""
        items = list(self.items)
        for other in others:
            if (
                not isinstance(other, Sequence)
                or self.identity is None
                or other.identity is not self.identity
            ):
                return None
            items += other.items
        return Sequence(tuple(dict.fromkeys(items)), exact=False, identity=self.identity)


@dataclass(frozen=True, slots=True)
class Mapping(Value):
    """A dict with constant keys; ``rest`` are values under unknown keys. ``identity`` as in Sequence; ``node`` is
    where a display is written, for findings about what it lacks. ``factory`` makes what is asked for under a new key:
    ``defaultdict(list)``."""

    items: tuple[tuple[object, Value], ...] = ()
    rest: tuple[Value, ...] = ()
    identity: Symbol | None = field(default=None, compare=False)
    place: Place | None = field(default=None, compare=False)
    factory: Value | None = field(default=None, compare=False)

    @property
    def values(self) -> tuple[Value, ...]:
        """All that it holds, under keys that are known and under others."""
        return (*(value for _, value in self.items), *self.rest)

    def get(self, key: object) -> Value | None:
        """The value under a constant key, the latest one."""
        return next(
            (value for name, value in reversed(self.items) if type(name) is type(key) and name == key), None
        )


@dataclass(frozen=True, slots=True)
class Iteration(Value):
    """What comes out of ``enumerate``, ``zip``, ``range`` and the like: ``each`` is one item; ``rounds`` how many
    there are, where that is known."""

    each: Value
    rounds: int | None = None


@dataclass(frozen=True, slots=True)
class ContextManager(Value):
    """A context manager of the project or of a builtin. ``kind`` is "null"; "stack" for an ExitStack; "generator" for
    the call of a function under ``contextlib.contextmanager``, whose ``call`` is made when it is entered."""

    kind: str
    identity: Symbol | None = None
    call: Value | None = None


TO_BE_FILLED = "filled"
"""What the names of what may yet be put into a dict begin with."""


def to_be_filled(value: Value) -> Value:
    """A list or dict that a module or constructor has made empty, ``REGISTRY = {}``, as it is found later on: whoever
    put what into it may be out of sight."""
    match value:
        case Mapping(items=(), rest=(), identity=Symbol() as identity):
            return replace(value, rest=(Unknown(symbol(TO_BE_FILLED, identity)),))
        case Sequence(items=(), exact=True, identity=Symbol()):
            return replace(value, exact=False)
    return value
