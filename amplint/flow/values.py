"""What the flow knows about a value. Everything it does not follow is ``Unknown``.

Values are immutable and hashable; what changes over time (attributes of objects) lives in the path's heap
under the object's identity.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import libcst as cst

from amplint.events import INITIAL_SCALE, Certainty, DType, Place, Region, Regions, Trait

if TYPE_CHECKING:
    from amplint.flow.scopes import Scope
    from amplint.source.outline import ClassOutline, FunctionOutline
    from amplint.source.project import ProjectFile


class Value:
    """Base of all values."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Anything. ``symbol`` stands for the value where it is compared or tested again; ``kind`` is what its
    use tells: "module", "optimizer", "scaler", "framework" or None."""

    symbol: Hashable = None
    kind: str | None = None


UNKNOWN = Unknown()
ONE_OF_MANY = "one of many"
"""The first part of the symbols of what a loop takes out of a collection: in the next round it is another
one, and in the next loop perhaps the same. So are the identities of what a comprehension makes."""


@dataclass(frozen=True, slots=True)
class Constant(Value):
    """A Python constant."""

    value: object

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Constant)
            and type(self.value) is type(other.value)
            and self.value == other.value
        )


NONE = Constant(None)


@dataclass(frozen=True, slots=True)
class Alternatives(Value):
    """One of several values, depending on the path that was taken. Each comes with the facts of its path, and
    once more for each further way that led to it; reading the value chooses one (Expressions.pin)."""

    options: tuple[tuple[Value, frozenset[tuple[Hashable, bool]]], ...]


@dataclass(frozen=True, slots=True)
class Unbound(Value):
    """Stands among alternatives for a local name that one way through the code has not bound. Who reads it there
    gets an UnboundLocalError."""


UNBOUND = Unbound()


@dataclass(frozen=True, slots=True)
class DTypeValue(Value):
    """A ``torch.dtype``. ``of_tensor``: it was asked of a tensor or a weight, as in ``x.dtype``. ``chosen``: it is
    what it is on this path only, float16 on another."""

    dtype: DType
    of_tensor: bool = field(default=False, compare=False)
    chosen: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class TypeInfo(Value):
    """``torch.finfo(dtype)``."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class DeviceValue(Value):
    """A ``torch.device``: its type if that is known, "cuda" or "cpu", and the string that it was made of."""

    device: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Text(Value):
    """A string of which the beginning is known."""

    start: str


MOST_KEYS = 3
"""So deep the parts of what a module gave back are told apart."""


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """A tensor as far as its type is known; see events.Operand."""

    dtype: DType | None = None
    certainty: Certainty = Certainty.SURE
    born: Place | None = None
    born_in: Region | None = None
    half_by_user: Place | None = None
    raised: Place | None = None
    device: str | None = None
    whole_output: bool = False
    """Whether it is what a module gave back: a tensor, or a tuple, dict or object of them."""
    parameter_of: Hashable = None
    ranked: bool = False
    softened: Place | None = None
    """Where an op that only ranking survives (softmax, sigmoid) ran on it in half precision."""
    trait: Trait | None = None
    element: tuple[Hashable, ...] = ()
    """Which part of what a module gave back it comes from, by keys, positions and names of attributes."""

    def part(self, key: Hashable) -> Tensor:
        """A part of what a module gave back."""
        return replace(self, element=(*self.element, key)) if len(self.element) < MOST_KEYS else self

    def moved(self) -> Tensor:
        """The same data in another shape."""
        return replace(self, parameter_of=None, whole_output=False) if self.whole_output else self

    @property
    def is_half(self) -> bool:
        """Whether it has sixteen bits."""
        return self.dtype is not None and self.dtype.is_half


FLOAT32_TENSOR = Tensor(DType.FLOAT32)
INTEGER_TENSOR = Tensor(DType.INTEGER)


@dataclass(frozen=True, slots=True)
class Number(Value):
    """A Python number that is not known: the result of ``.item()``, a counter."""

    symbol: Hashable = None


@dataclass(frozen=True, slots=True)
class Library(Value):
    """Something of a package outside the project, by its qualified name: ``torch.nn.functional.softmax``."""

    name: str


@dataclass(frozen=True, slots=True)
class Imported(Value):
    """A name of another file of the project that nobody has had to look at yet. ``name`` is dotted."""

    path: FilePath
    name: str

    @property
    def symbol(self) -> Hashable:
        """Stands for the value in comparisons."""
        return (self.path, self.name)


@dataclass(frozen=True, slots=True)
class Module(Value):
    """A module (file) of the project."""

    file: ProjectFile


@dataclass(frozen=True, slots=True)
class ClassValue(Value):
    """A class of the project."""

    file: ProjectFile
    outline: ClassOutline


@dataclass(frozen=True, slots=True)
class Instance(Value):
    """An object. ``identity`` is where it was made; its attributes are in the heap. ``made_of`` is a class of
    the project, ``library`` the qualified name of a class outside, or of a torch module class."""

    identity: Hashable
    made_of: ClassValue | None = None
    library: str | None = None


@dataclass(frozen=True, slots=True)
class FunctionValue(Value):
    """A function of the project: an outline (parsed on demand), or a definition inside a function that is
    being walked, with the scope it sees."""

    file: ProjectFile
    outline: FunctionOutline | None = None
    node: cst.FunctionDef | cst.Lambda | None = None
    scope: Scope | None = None
    undecorated: bool = False
    context_manager: bool = False

    def __hash__(self) -> int:
        return hash((id(self.outline), id(self.node)))


@dataclass(frozen=True, slots=True)
class BoundMethod(Value):
    """A method with its object. ``name`` alone where the method is not known as a function."""

    receiver: Value
    name: str
    function: FunctionValue | None = None


@dataclass(frozen=True, slots=True)
class Partial(Value):
    """``functools.partial`` or a library callable with arguments already given."""

    function: Value
    positional: tuple[Value, ...] = ()
    keywords: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Decorated(Value):
    """A function inside a context that is entered around each call."""

    function: Value
    context: Value


@dataclass(frozen=True, slots=True)
class Sequence(Value):
    """A tuple or list. ``exact`` says that ``items`` are all there are, in order; otherwise they are the
    different things that may be in it, of which the first ``prefix`` stand at the beginning."""

    items: tuple[Value, ...] = ()
    exact: bool = True
    prefix: int = 0


@dataclass(frozen=True, slots=True)
class Mapping(Value):
    """A dict with constant keys; ``rest`` are values under unknown keys. ``place`` is where one with the state of
    an optimizer is written."""

    items: tuple[tuple[object, Value], ...] = ()
    rest: tuple[Value, ...] = ()
    place: Place | None = field(default=None, compare=False)

    def get(self, key: object) -> Value | None:
        """The value under a constant key, the latest one."""
        return next((value for name, value in reversed(self.items) if name == key), None)


@dataclass(frozen=True, slots=True)
class Parameters(Value):
    """Parameters of a module, alone or as a collection: ``model.parameters()``."""

    module: Hashable
    named: bool = False
    one: bool = False


@dataclass(frozen=True, slots=True)
class Optimizer(Value):
    """An optimizer and the modules whose parameters it updates. ``owner`` is the object whose constructor made
    it: objects that are made alike share the identities of what they hold."""

    identity: Hashable
    modules: frozenset[Hashable] = frozenset()
    owner: Hashable = None


@dataclass(frozen=True, slots=True)
class Scaler(Value):
    """A gradient scaler. ``switch`` is the flag given as ``enabled`` where it is not a constant. ``optional``:
    on another path there is None in its place."""

    identity: Hashable
    enabled: bool | None = None
    takes_half: bool = False
    switch: Value | None = None
    made: Place | None = None
    optional: bool = field(default=False, compare=False)
    initial: float | None = INITIAL_SCALE


@dataclass(frozen=True, slots=True)
class Scheduler(Value):
    """A learning-rate scheduler. ``optimizer`` identifies the one whose rate it sets."""

    identity: Hashable
    optimizer: Hashable = None


@dataclass(frozen=True, slots=True)
class Sharded(Value):
    """A note on a module or optimizer: its parameters are split among processes since ``place``."""

    place: Place


@dataclass(frozen=True, slots=True)
class Preparer(Value):
    """A note on a framework, and on the optimizers that it has prepared: it was made at ``place`` and has a
    gradient scaler of its own, if it is told to train in float16."""

    place: Place


@dataclass(frozen=True, slots=True)
class ScaledGradient(Value):
    """What ``torch.autograd.grad`` gives for a scaled output, and what is in proportion to it."""

    scaler: Hashable
    born: Place


@dataclass(frozen=True, slots=True)
class ScaledLoss(Value):
    """What ``scaler.scale(loss)`` gives. ``scaler`` is None where it is not sure that one scaled it."""

    scaler: Hashable
    loss: Value


@dataclass(frozen=True, slots=True)
class Gradient(Value):
    """``parameter.grad``; ``module`` owns the parameter, or is None."""

    module: Hashable = None


@dataclass(frozen=True, slots=True)
class StateDict(Value):
    """What ``state_dict()`` gives. ``kind`` is "optimizer", "scaler", "module" or, for an object that nothing
    is known of, "object"."""

    kind: str
    identity: Hashable
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Autocast(Value):
    """An autocast context that was made. ``switch`` is the flag given as ``enabled``, if any; ``chosen`` as in
    DTypeValue."""

    place: Place
    identity: Hashable
    device: str | None
    dtype: DType | None
    dtype_given: bool
    inherits_dtype: bool = True
    enabled: bool | None = True
    switch: Value | None = None
    cache_enabled: bool | None = None
    framework: bool = False
    chosen: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Context(Value):
    """Another context manager: "null", "grad off", "grad on", "stack", "regions" for a function or object
    that opens the given autocast regions, or "compiled" around code that was compiled at ``place``."""

    kind: str
    regions: Regions = ()
    identity: Hashable = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class TorchVersion(Value):
    """``torch.__version__``, or something made from it."""


@dataclass(frozen=True, slots=True)
class Iteration(Value):
    """What comes out of ``enumerate``, ``zip`` and the like: ``each`` is one item."""

    each: Value = field(default_factory=Unknown)
