"""The vocabulary of AMP events that two producers speak: the flow, which predicts them from source text, and
a probe, which observes them in a run. Rules listen to events and know neither syntax trees nor torch."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from amplint.findings import Span


class DType(enum.Enum):
    """Element types as far as AMP cares. HALF is float16 or bfloat16, whichever the region runs in."""

    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    HALF = "half"
    INTEGER = "integer"
    COMPLEX = "complex"

    __hash__ = object.__hash__  # that of Enum hashes the name, in Python

    @property
    def is_half(self) -> bool:
        """Whether the type has sixteen bits."""
        return self in (DType.FLOAT16, DType.BFLOAT16, DType.HALF)

    @property
    def is_floating(self) -> bool:
        """Whether the type is a real floating-point type."""
        return self not in (DType.INTEGER, DType.COMPLEX)


class Place:
    """Where an event happens: a path and a span, and the calls that led there, outermost first.

    The span is worked out when somebody asks for it, because most places are never reported. Places are
    equal when they are the same piece of text reached by whatever calls.
    """

    __slots__ = ("_describe", "_locate", "_named", "_span", "calls", "key", "path")

    def __init__(
        self,
        path: str,
        key: Hashable,
        locate: Callable[[], Span],
        describe: Callable[[], str],
        calls: tuple[Place, ...] = (),
        named: Callable[[int], str] | None = None,
    ) -> None:
        """``named`` gives what messages call a line; if None it is its number."""
        self.path = path
        self.key = key
        self.calls = calls
        self._locate = locate
        self._named = named
        self._describe = describe
        self._span: Span | None = None

    @property
    def span(self) -> Span:
        """The stretch of source text."""
        if self._span is None:
            self._span = self._locate()
        return self._span

    @property
    def line(self) -> int:
        """The first line, from 1."""
        return self.span.line

    @property
    def line_name(self) -> str:
        """What messages call the first line: "line 12", in a notebook "line 2 of cell 3"."""
        return f"line {self.line}" if self._named is None else self._named(self.line)

    @property
    def extent(self) -> Hashable:
        """The path and the span: what a piece of text is to all walks, whether it is walked for itself or in its
        function."""
        return self.path, self.span

    @property
    def text(self) -> str:
        """The source text on one line, shortened."""
        return self._describe()

    def reached_by(self, calls: tuple[Place, ...]) -> Place:
        """The same place, reached by these calls."""
        return Place(self.path, self.key, self._locate, self._describe, calls, self._named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.key == other.key and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Place({self.path}:{self.line})"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a method by its name, ``model.calculate_loss(batch)``, or of a module, ``model(x)``; then ``method`` is
    None."""

    place: Place
    method: str | None


@dataclass(frozen=True, slots=True)
class Region:
    """One autocast context that was entered and not yet left.

    ``device`` is None where it is chosen at run time; ``dtype`` is the type that matrix products run in;
    ``conditional`` says that a flag switches the region and that the path looked at has it on. ``assumed``
    marks the region that code with an ``enabled=False`` region inside must expect around it.
    """

    place: Place
    identity: Hashable
    device: str | None = "cuda"
    dtype: DType | None = DType.HALF
    enabled: bool = True
    conditional: bool = False
    cache_enabled: bool = True
    assumed: bool = field(default=False, compare=False)
    framework: bool = field(default=False, compare=False)
    """Whether a framework (accelerate, Fabric …) opens the region and chooses its type."""
    inner: bool = field(default=False, compare=False)
    """Whether the code has asked if autocast is on, and it was, so that a region out of sight is open around it."""
    switch: Hashable = field(default=None, compare=False)
    """Stands for the flag that switches the region, where it is not known."""
    chosen: tuple[str, ...] = field(default=(), compare=False)
    """Which of ``enabled`` and ``dtype`` an expression decides, known or not."""
    through: Call | None = field(default=None, compare=False)
    """The call of a method, on an object of which nothing is known, that is taken to get here from inside the
    region."""
    whole_step: bool = field(default=False, compare=False)
    """Whether a trainer keeps it open around a step of the code, backward pass and optimizer included: the code has no
    say in that."""

    def __hash__(self) -> int:
        return hash(self.identity)


Regions = tuple[Region, ...]


def innermost(regions: Regions) -> Region | None:
    """The region that decides what autocast does now, or None outside every region."""
    return regions[-1] if regions else None


def enabled_region(regions: Regions) -> Region | None:
    """The innermost region if it has autocast switched on, else None."""
    region = innermost(regions)
    return region if region is not None and region.enabled else None


def enclosing_enabled(regions: Regions) -> Region | None:
    """The nearest enabled region around the innermost one, if that one is a disabled region."""
    region = innermost(regions)
    if region is None or region.enabled:
        return None
    return next((outer for outer in reversed(regions[:-1]) if outer.enabled), None)


class Certainty(enum.Enum):
    """How a type is known. SURE: every op on the way is known. LIKELY: the value came out of a module whose
    code is not part of the project, in a region that runs matrix products in half precision."""

    SURE = "sure"
    LIKELY = "likely"

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Guard:
    """A small constant that was added to a half-precision tensor, or that it was clamped to, to keep it from
    zero; or one a little below 1, to keep it from that."""

    place: Place
    constant: float | None
    tensor: Place | None = field(default=None, compare=False)
    """Where the tensor stands that the constant meets."""
    below_one: float | None = None
    """The largest value that the tensor may have, if it is a little below 1: ``p.clamp(eps, 1 - eps)``."""
    rest: bool = False
    """Whether this is what is left to 1, ``1 - p``, which is zero where that value is 1."""


Trait = Guard | str
"""What an op left of itself in its result: a guard against zero; "square" for the square of each element,
"squares" for sums or averages of them; "product" for a matrix product; "scalar" for a result that has one element;
"positions" for whole numbers up to some n and their products with other tensors, as of rotary embeddings."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as an op meets it. ``born`` is where autocast made it half, ``half_by_user`` where the code
    itself cast it to half, ``raised`` where it was cast to float32 by hand."""

    place: Place
    dtype: DType | None = None
    certainty: Certainty = Certainty.SURE
    born: Place | None = None
    born_in: Region | None = None
    half_by_user: Place | None = None
    raised: Place | None = None
    parameter: bool = False
    """Whether it is a parameter of a module, or the weight that a layer brings along."""
    trait: Trait | None = None
    element: tuple[Hashable, ...] = ()
    """Which part of a module's output it comes from, where only the whole is known to be half: keys, positions, names
    of attributes. Only the flow tells."""
    constant: bool = False
    """Whether it is no tensor: a number, text, None, or several of these. Only the flow tells."""
    was_half: bool = False
    """Whether it was cast to float32 by hand, from half precision. Only the flow tells."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something AMP-relevant that happens at a place while these regions are open, outermost first."""

    place: Place
    regions: Regions


@dataclass(frozen=True, slots=True)
class RegionEntered(Event):
    """An autocast context was entered; it is the last of ``regions``. ``instance`` identifies the object that
    was entered where the code keeps it: entered once more, it is the same one."""

    instance: Hashable = None
    by_hand: str | None = None
    """The local name on which ``__enter__`` was called, if nothing else can call its ``__exit__``."""
    gradients: bool = True
    """Whether gradients were switched on there."""


@dataclass(frozen=True, slots=True)
class RegionExited(Event):
    """``region`` was left; it is no longer among ``regions``."""

    region: Region


@dataclass(frozen=True, slots=True)
class RegionAbandoned(Event):
    """The context that opened ``region`` is gone while the region is still open, so that nobody can leave it:
    ``__enter__`` was called by hand. ``name`` is how the code called the context."""

    region: Region
    name: str


@dataclass(frozen=True, slots=True)
class Given:
    """An argument. ``kind`` names its type: "bool", "str", "None", "number", "torch.dtype", "torch.device" or
    "unknown"; ``value`` is the bool, string or DType if that is known, too: of a string at least the
    beginning, with "…" for the rest. ``place`` is where it stands."""

    parameter: str
    kind: str
    value: object
    place: Place
    positional: bool = False


@dataclass(frozen=True, slots=True)
class Constructed(Event):
    """An autocast context or a scaler was made: ``name`` is the qualified name that was called, ``missing`` says
    that the device was left out where it has no default."""

    name: str
    arguments: tuple[Given, ...] = ()
    missing: bool = False

    def given(self, parameter: str) -> Given | None:
        """The argument for a parameter."""
        return next((part for part in self.arguments if part.parameter == parameter), None)


@dataclass(frozen=True, slots=True)
class NeverOn(Event):
    """An autocast context was made that is on, or for this device, only if a torch.device equals a text, which never is
    so: ``device == "cuda"`` at ``compared``. Only the flow tells of it."""

    compared: Place


@dataclass(frozen=True, slots=True)
class RegionDropped(Event):
    """An autocast context was made and thrown away without being entered. ``how`` is one of "statement",
    "unused name", "class", "boolean"."""

    how: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class GeneratorDecorated(Event):
    """An autocast context decorates a function whose body runs only after the call: ``kind`` is "generator",
    "coroutine" or "context manager"."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class AutocastSwitched(Event):
    """``torch.set_autocast_enabled(enabled)``; None where the value is not known."""

    enabled: bool | None


@dataclass(frozen=True, slots=True)
class ThreadBegan(Event):
    """A function starts in a thread of its own, where autocast is off, or a replica of a module in a thread of
    nn.DataParallel, where only the flag is kept. ``how`` says which; ``started_in`` are the regions of the
    thread that starts it, ``regions`` those of the new one."""

    how: str
    started_in: Regions


@dataclass(frozen=True, slots=True)
class ThreadEnded(Event):
    """What the thread runs came to its end."""


@dataclass(frozen=True, slots=True)
class Captured(Event):
    """A callable was recorded: ``how`` is the function of torch that does it, such as "torch.jit.trace";
    ``trains`` says that parameters of it take gradients, ``decorated`` where an autocast context decorates
    it."""

    how: str
    trains: bool = True
    decorated: Place | None = None
    again: bool = True
    """Whether it runs the callable a second time, as a trace does that is checked."""


@dataclass(frozen=True, slots=True)
class CompiledBegan(Event):
    """Code that torch.compile has compiled begins to run with gradients. ``compiled`` is where that was asked
    for."""

    compiled: Place


@dataclass(frozen=True, slots=True)
class CompiledEnded(Event):
    """The compiled code came to its end."""


@dataclass(frozen=True, slots=True)
class CustomFunction:
    """A torch.autograd.Function of the project, as far as autocast goes. ``forward`` and ``backward`` are where
    they are defined; a decorator is None where it is not known, and False where there is none."""

    name: str
    forward: Place | None
    backward: Place | None
    custom_fwd: bool | None = False
    custom_bwd: bool | None = False
    forward_device: str | None = None
    backward_device: str | None = None
    cast_inputs: bool = False
    """Whether custom_fwd casts the inputs and switches autocast off."""
    inputs_dtype: DType | None = None
    """The type to which it casts them, where that is known."""
    setup_context: bool = False
    """Whether forward is of the new style, without ``ctx``."""
    hands_on: bool = False
    """Whether ``ctx`` goes to other code, which may do what a decorator does."""
    by_hand: bool = False
    """Whether its methods mind autocast or types themselves."""
    products: bool = False
    """Whether both forward and backward run matrix products or convolutions."""
    restored: Place | None = None
    """Where backward enters autocast with a flag that forward has saved, and without the type."""


@dataclass(frozen=True, slots=True)
class FunctionDefined(Event):
    """A file defines a Function that uses custom_fwd, custom_bwd or autocast."""

    function: CustomFunction


@dataclass(frozen=True, slots=True)
class FunctionApplied(Event):
    """``Function.apply`` ran. ``float32`` says that a float32 tensor is surely among its arguments."""

    function: CustomFunction
    float32: bool = False


@dataclass(frozen=True, slots=True)
class RunAgain(Event):
    """A layer with float32 weights that ran in ``region`` in the forward of a Function runs again in its backward,
    without it. ``applied`` is where ``Function.apply`` ran. Only the flow tells."""

    function: CustomFunction
    region: Region
    applied: Place


@dataclass(frozen=True, slots=True)
class WeightCast(Event):
    """Autocast casts a float32 leaf that takes gradients, and keeps the copy. ``owner`` identifies it."""

    owner: Hashable


@dataclass(frozen=True, slots=True)
class ParameterWritten(Event):
    """Parameters of a module, or a leaf tensor, were written in place. ``how`` is the method or statement."""

    owner: Hashable
    how: str


@dataclass(frozen=True, slots=True)
class CacheCleared(Event):
    """``torch.clear_autocast_cache()``: the next forward casts the weights anew."""


@dataclass(frozen=True, slots=True)
class GivenArguments:
    """What a call hands over: how many arguments by position, and which by name. ``more``: there may be others.
    ``package``: the other package that has made what is called, if one has: ``torchvision``."""

    positional: int = 0
    keywords: frozenset[str] = frozenset()
    more: bool = False
    package: str = ""


@dataclass(frozen=True, slots=True)
class Forward(Event):
    """A module ran. ``trains`` says that its parameters take gradients as far as is known. ``inputs`` are
    the tensors that the code itself cast to half precision, unless the module was cast as well."""

    module: Hashable
    trains: bool = True
    gradients: bool = True
    """Whether it ran with gradients switched on."""
    opaque: bool = False
    """Whether its code is out of sight, or that of a layer of torch."""
    inputs: tuple[Operand, ...] = ()
    given: GivenArguments | None = None
    """The arguments, where nothing is known of the module: it may be of some class of the project. A run knows it."""


@dataclass(frozen=True, slots=True)
class ForwardHidden(Event):
    """Code out of sight computed something in these regions, with gradients, and it is computed with: a model has run
    there. It is told where that is first seen; the place is that of the call. Only the flow tells: a run sees the
    modules."""


@dataclass(frozen=True, slots=True)
class Op(Event):
    """A tensor op ran with these operands. ``policy`` is what autocast would do to it if it were on;
    ``sensitivity`` names the kind of harm that half precision does to it, or is None; ``weights`` is the
    type of the layer's own parameters, ``weights_raise`` says that a mismatch with them raises."""

    name: str
    operands: tuple[Operand, ...]
    result: DType | None
    policy: str | None
    sensitivity: str | None = None
    in_place: bool = False
    weights: DType | None = None
    weights_raise: bool = False
    small_constant: float | None = None
    ranks: bool = False
    """Whether only the order of the elements matters to it: argmax, topk, comparisons."""
    softened: Place | None = None
    """Where an operand went through a softmax or a reduction in half precision before."""
    out: DType | None = None
    """The type of the tensor given as ``out=``, into which the op writes without a cast."""
    gradients: bool = True
    """Whether it ran with gradients switched on."""


@dataclass(frozen=True, slots=True)
class Cast(Event):
    """A tensor was cast by hand."""

    operand: Operand
    to: DType


@dataclass(frozen=True, slots=True)
class ModuleCast(Event):
    """All parameters of a module were cast. ``module`` identifies it."""

    module: Hashable
    to: DType


@dataclass(frozen=True, slots=True)
class ScalerAtHand:
    """A gradient scaler, not known to be off, that a function can use: ``name`` is the local name or the attribute of
    ``self`` that has it, ``made`` where it was made."""

    name: str
    made: Place


@dataclass(frozen=True, slots=True)
class Backward(Event):
    """Gradients were computed. ``how`` is the call as a user names it, ``scaled_by`` are the scalers that
    scaled what it started from, as far as they are in sight."""

    how: str
    scaled: bool = False
    scaled_by: tuple[Hashable, ...] = ()
    loss: Hashable = None
    """Stands for what it started from, or None."""
    unclear: bool = False
    """Whether code out of sight may have scaled the loss: a framework's backward, a function that was given
    the scaler."""
    partial: bool = False
    """Whether only the gradients of given inputs were computed."""
    kept: frozenset[Hashable] = frozenset()
    """Optimizers that a scaler has stepped whose gradients are still those of that step. Only a run shows it."""
    halves: tuple[tuple[Place | None, tuple[Hashable, ...]], ...] = ()
    """Of the losses in half precision among what it started from: where they became half, and which part of an output
    they come from. Only the flow tells."""


@dataclass(frozen=True, slots=True)
class CastParameters:
    """Parameters that were cast before an optimizer got them."""

    to: DType
    place: Place


@dataclass(frozen=True, slots=True)
class ObjectGone(Event):
    """There is no optimizer or module of this name any more: no event will name it again. Only a run tells; the place
    is that of the event that follows."""

    name: Hashable


@dataclass(frozen=True, slots=True)
class Framework:
    """What the code of a framework that scales losses looks like: the ``setting`` with which it does, the method that
    ``prepares`` an optimizer for it, and the one that ``clips`` gradients after it has divided them."""

    setting: str
    prepares: str
    clips: str = ""
    stands_for: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The functions of torch that it has methods of the same names for, with what these take."""
    hook: str = ""
    """The method of the user's in which it has divided the gradients, where none of its own does so."""
    backward: str = ""
    """The method that scales a loss and computes its gradients."""
    gives_scaler: bool = False
    """Whether it hands out its gradient scaler: a Fabric keeps its own to itself."""


@dataclass(frozen=True, slots=True)
class OptimizerMade(Event):
    """An optimizer was built."""

    optimizer: Hashable
    modules: frozenset[Hashable] = frozenset()
    """The modules whose parameters it got, as far as they are known."""


@dataclass(frozen=True, slots=True)
class OptimizerStepped(Event):
    """Parameters were updated, through a scaler or not. ``casts`` are those that they went through, ``modules`` as
    in OptimizerMade."""

    optimizer: Hashable
    via_scaler: bool = False
    casts: tuple[CastParameters, ...] = ()
    scaler: Hashable = None
    modules: frozenset[Hashable] = frozenset()
    framework: bool = False
    """Whether a framework owns the optimizer or wrapped it: it may scale and unscale by itself."""
    in_sight: bool = False
    """Whether the optimizer is one of torch's kind that was made in sight."""
    closure: bool = False
    """Whether the step was given a closure, which computes the loss."""
    owner: Framework | None = None
    """The framework that owns it, if that was made in sight. Only the flow tells of it, and of what follows."""
    scales: bool = False
    """Whether the owner steps it through a gradient scaler of its own."""
    chosen: bool = False
    """Whether a setting that is not in sight decides that, which this path takes to be on."""


BY_SCALE = "by scale"
INITIAL_SCALE = 65536.0
"""``init_scale`` of torch.amp.GradScaler where the code does not give one."""


@dataclass(frozen=True, slots=True)
class ScalerMade(Event):
    """A gradient scaler was built. ``enabled`` is None where a flag decides."""

    scaler: Hashable
    enabled: bool | None
    anew: bool = True
    """Whether the object in whose constructor it is built is made each time that the code around runs again; True
    for scalers that no constructor builds."""
    once_in: Hashable = None
    """The outermost call inside of which no loop builds it again, if that is known."""


class Rounds(enum.IntEnum):
    """In which rounds of a loop something happens, if a condition compares what the loop counts."""

    ANY = 0
    FIRST = 1
    """The first one, or those up to one: others may follow."""
    ONE = 2
    """It may be one alone, and the last."""


@dataclass(frozen=True, slots=True)
class ScalerUsed(Event):
    """A scaler was asked to ``act``: scale, unscale_, step, update, get_scale, state_dict, load_state_dict; or the code
    computes "by scale", with what get_scale gave, which a run takes for granted; or the scaler was "given" to code out
    of sight, which may do any of this with it, or to code in sight that was "cut" off; or its private "stages" of the
    optimizers were read."""

    scaler: Hashable
    act: str
    casts: tuple[CastParameters, ...] = ()
    enabled: bool | None = None
    """Whether it is switched on, on this path; None where that is not known."""
    optimizer: Hashable = None
    """Whose gradients are unscaled or applied; None where it is not known."""
    modules: frozenset[Hashable] = frozenset()
    """The modules whose parameters the optimizer got, as far as they are known."""
    loss: Hashable = None
    """Stands for what is scaled, or None."""
    scaled_by: tuple[Hashable, ...] = ()
    """The scalers that have already scaled what is scaled now."""
    new_scale: bool = False
    """Whether ``update`` sets the scale to a given value."""
    made: Place | None = None
    """Where the scaler was made, if that is in sight, with the last of the calls that led there."""
    switch: Hashable = None
    """Stands for the flag that switches the scaler, where it is not known."""
    closure: str = ""
    """How ``step`` was given a closure: "positional", "keyword" or not at all."""
    sharded: Place | None = None
    """Where the parameters of the optimizer were split among processes, for a scaler that does not know of
    that."""
    decided: bool = False
    """Whether a condition on the way here has asked for the flag that switches the scaler, or may have: one has decided
    whether a region is entered."""
    initial: float | None = INITIAL_SCALE
    """The scale that it starts with, or None where that is not known."""
    given: Hashable = None
    """What ``unscale_`` or ``step`` was given, if that is not the optimizer itself but an object around it that has its
    parameters: the scaler keeps a record of its own for that."""


@dataclass(frozen=True, slots=True)
class GradientsRead(Event):
    """Gradients met an op whose result depends on their magnitude. ``how`` is the function or method, such as
    ``clip_grad_norm_``; ``modules`` are those whose parameters they belong to, as far as they are known."""

    how: str
    modules: frozenset[Hashable] = frozenset()
    clips: bool = False
    """Whether it limits the gradients in place."""
    limit: float | None = None
    """The largest norm or value that it allows, where it is a constant."""
    whole: bool = False
    """Whether they are surely those of all the parameters of these modules."""


@dataclass(frozen=True, slots=True)
class GradientsNormalized(Event):
    """Gradients were divided by their norm, ``epsilon * p.grad / torch.norm(p.grad)``, which was measured at ``norm``:
    the scale of both cancels out."""

    norm: Place


@dataclass(frozen=True, slots=True)
class FrameworkScaled(Event):
    """A framework computed gradients of a loss that it has multiplied by its scale, if it scales losses: so does
    ``accelerator.backward(loss)``. Whoever limits or measures them before the framework divides them sees them too
    large. ``float16`` says that it surely scales; ``framework`` is None where no argument in sight asks for any
    precision. Only the flow tells of it; a run shows what the framework's scaler does."""

    float16: bool = False
    framework: Framework | None = None


@dataclass(frozen=True, slots=True)
class FrameworkUnscaled(Event):
    """A framework divided the gradients of all optimizers that it has prepared by its scale, if it scales losses:
    so does accelerate before it clips. ``float16`` says that it surely does, ``told`` that an argument in sight asks
    for a precision. Only the flow tells of it; a run shows what the framework's scaler does."""

    framework: Framework
    float16: bool = False
    told: bool = False


@dataclass(frozen=True, slots=True)
class GradientsZeroed(Event):
    """Gradients were dropped: those of an optimizer, or those of ``modules``, or of who knows which where
    neither is known."""

    optimizer: Hashable = None
    modules: frozenset[Hashable] = frozenset()


@dataclass(frozen=True, slots=True)
class ScaledLossRead(Event):
    """A loss that a scaler has multiplied was turned into a number or text. ``how`` is the function or
    method."""

    scaler: Hashable
    how: str


@dataclass(frozen=True, slots=True)
class StateSaved(Event):
    """``torch.save`` or a like function wrote an object that holds the state of these optimizers and scalers.
    ``complete`` says that no scaler's state can hide in a part of it that is not known; ``taken`` are the
    places where the optimizers were asked for their state, in the same order, None where that is not known."""

    optimizers: tuple[Hashable, ...] = ()
    scalers: tuple[Hashable, ...] = ()
    complete: bool = True
    taken: tuple[Place | None, ...] = ()
    prepared: tuple[Place | None, ...] = ()
    """For each optimizer, where the framework was made that steps it with a scaler of its own in float16, or None.
    A run shows the scaler itself."""
    written: Place | None = None
    """Where the dict is written that holds them. A run does not show that."""
    keys: tuple[str | None, ...] = ()
    """For each scaler, the key of the dict under which its state stands, None where that is not known. A run does not
    show that."""
    optimizer_keys: tuple[str | None, ...] = ()
    """The same of the optimizers, those that are only taken for some left out beside others."""
    hidden: tuple[Hashable, ...] = ()
    """Parts of which nothing is known: in each the state of a scaler may hide that was there before it. A run knows all
    of its parts."""
    through: Call | None = field(default=None, compare=False)
    """The call of a method, on an object of which nothing is known, that is taken to get here."""


@dataclass(frozen=True, slots=True)
class StateLoaded(Event):
    """An optimizer was given a state that was saved: ``optimizer.load_state_dict(saved["optimizer"])``. Only the flow
    tells of it: a run that is resumed is another one."""

    optimizer: Hashable


@dataclass(frozen=True, slots=True)
class ObjectMade(Event):
    """An object of a class of the project was made, or a layer of torch inside a region. What it holds is new, whatever
    was made here before."""

    identity: Hashable
    anew: bool = True
    """Whether one is made each time that the code around runs again: no condition may keep the first one, nor the
    class itself."""
    once_in: Hashable = None
    """As in ScalerMade."""


@dataclass(frozen=True, slots=True)
class SchedulerStepped(Event):
    """A learning-rate scheduler went on by one step; one that is given a metric or an epoch counts no steps.
    ``optimizer`` is the one whose rate it sets. ``compared`` is where the code found the scale the same as before,
    if it went on for that reason; a run cannot tell."""

    scheduler: Hashable
    optimizer: Hashable = None
    compared: Place | None = None


@dataclass(frozen=True, slots=True)
class ScaledGradientMixed(Event):
    """A gradient that ``torch.autograd.grad`` computed from a scaled output, or a norm of it, met a value
    that is not scaled, before anybody divided by the scale. ``born`` is that call; ``how`` is the op."""

    scaler: Hashable
    born: Place
    how: str


@dataclass(frozen=True, slots=True)
class AmpHidden(Event):
    """Code that may run backward passes or use scalers and optimizers was called and is not known further."""


@dataclass(frozen=True, slots=True)
class CalledByName(Event):
    """A method was called on an object of which nothing is known. Only the flow tells of it. ``handed``: by position,
    the objects of the project that it is given, ``callback.on_end(self)``."""

    method: str
    given: GivenArguments
    handed: tuple[tuple[int, Hashable], ...] = ()
    package: str = ""
    """The package that calls it, of an object of a class that derives from one of its own."""


@dataclass(frozen=True, slots=True)
class LoopIterated(Event):
    """A further iteration of a loop begins. ``number`` is 0 for the first."""

    loop: Hashable
    number: int


@dataclass(frozen=True, slots=True)
class LoopEnded(Event):
    """A loop came to its end of which not all iterations were walked: there may have been more. Only the flow
    tells of it."""

    loop: Hashable


@dataclass(frozen=True, slots=True)
class Handled(Event):
    """An exception was caught that may never be raised, and its handler was left. Only the flow tells of it."""


@dataclass(frozen=True, slots=True)
class Averaged(Event):
    """A tensor that the code has cast to half precision became an average of what it was and of something new:
    ``s.mul_(0.999).add_(p, alpha=0.001)``. ``weight`` is that of the new value, with the defaults of settings."""

    operand: Operand
    weight: float


@dataclass(frozen=True, slots=True)
class Converted(Event):
    """A tensor left torch: ``to`` is "numpy"."""

    operand: Operand
    to: str


@dataclass(frozen=True, slots=True)
class Filled(Event):
    """A number was written into a half-precision tensor by an op that converts it to the tensor's type, and
    raises where it does not fit: ``masked_fill``, ``full_like``, ``fill_``, ``pad`` and their like."""

    target: Operand
    value: float
    name: str


@dataclass(frozen=True, slots=True)
class IndexPut(Event):
    """``target[index] = value`` with a tensor value, or its function form. ``name`` is that of the op; "copy_"
    for an index that makes torch copy, whatever the types."""

    target: Operand
    value: Operand
    name: str


@dataclass(frozen=True, slots=True)
class FunctionEnded(Event):
    """The analysed entry point came to an end on this path."""
