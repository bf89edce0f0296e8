"""The kinds of value that models of torch add, and the ambient values; notes stand in ``notes.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from amplint.events import INITIAL_SCALE, Certainty, DType, Place, Region, Regions, Trait
from amplint.flow.state.store import Ambient
from amplint.flow.state.symbols import ONE_OF_MANY, Symbol, symbol
from amplint.flow.state.values import Instance, Unknown, Value

MODULE, OPTIMIZER, SCALER = "module", "optimizer", "scaler"
TYPE_OF_MODULE = "type of a module"
"""The kinds of unknowns: what the code does with an object from out of sight."""


# types and devices -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DTypeValue(Value):
    """A ``torch.dtype``. ``of_tensor``: it was asked of a tensor or a weight, as in ``x.dtype``; ``of_autocast``: of
    autocast, as in ``torch.get_autocast_dtype("cuda")``."""

    is_of_own_class: ClassVar[bool] = True

    dtype: DType
    of_tensor: bool = field(default=False, compare=False)
    of_autocast: bool = field(default=False, compare=False)

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """Whether a call that is given it is followed: it may make parameters of that type."""
        return self.dtype.is_half


@dataclass(frozen=True, slots=True)
class TypeInfo(Value):
    """``torch.finfo(dtype)``; None where the type is not known."""

    is_of_own_class: ClassVar[bool] = True

    dtype: DType | None


@dataclass(frozen=True, slots=True)
class DeviceValue(Value):
    """A ``torch.device``: its type if that is known, "cuda" or "cpu", and the string that it was made of. ``symbol``
    stands for one of which the type is not known."""

    is_of_own_class: ClassVar[bool] = True

    device: str | None = None
    text: str | None = None
    symbol: Symbol | None = None


@dataclass(frozen=True, slots=True)
class TorchVersion(Value):
    """``torch.__version__``, or something made from it."""


# tensors and modules ---------------------------------------------------------------------------------------------

Terms = tuple[tuple[Symbol | None, float], ...]


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """A tensor as far as its type is known; see events.Operand."""

    spreads: ClassVar[bool] = True
    dtype: DType | None = None
    certainty: Certainty = Certainty.SURE
    born: Place | None = None
    born_in: Region | None = None
    half_by_user: Place | None = None
    raised: Place | None = None
    device: str | None = None
    whole_output: bool = False
    """Whether it is what a module out of sight gave back: a tensor, or a tuple, dict or object of them."""
    parameter_of: Symbol | None = None
    softened: Place | None = None
    """Where an op that only ranking survives (softmax, sigmoid) ran on it in half precision."""
    trait: Trait | None = None
    element: tuple[object, ...] = ()
    """Which part of what a module gave back it comes from, by keys, positions and names of attributes."""
    asked: bool = False
    """Whether the code has asked for its type since it became half: it knows what it does with it."""
    was_half: bool = False
    """Whether it was cast to float32 by hand, from half precision."""
    name: Symbol | None = field(default=None, compare=False)
    """What stands for its data: ``if bad`` asks the same as ``if bad`` before."""
    terms: Terms = field(default=(), compare=False)
    """What it is a sum of, ``0.01 * x``: by what stands for one that is kept in half precision, None for all others."""

    def __hash__(self) -> int:
        return hash((self.dtype, self.born, self.parameter_of, self.element))

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """Whether a call that is given it is followed."""
        return self.is_half

    @property
    def is_of_own_class(self) -> bool:  # type: ignore[override]
        """Not where it may be a tuple or dict of tensors."""
        return not self.whole_output

    def moved(self) -> Tensor:
        """The same data in another shape."""
        return replace(self, parameter_of=None, whole_output=False) if self.whole_output else self

    def bound(self, name: Callable[[], Symbol]) -> Value:
        """Named after the first name that is bound to it."""
        return self if self.name is not None else replace(self, name=name())

    def in_common(self, others: Sequence[Value]) -> Value | None:
        """Tensors of one type that became half in the same region are one, as sure as the least sure of them."""
        known = [other for other in others if isinstance(other, Tensor)]
        alike = len(known) == len(others) and all(
            other.dtype is self.dtype
            and other.born_in == self.born_in
            and other.parameter_of is self.parameter_of
            and (other.half_by_user is None) is (self.half_by_user is None)
            and (other.raised is None) is (self.raised is None)
            for other in known
        )
        if not alike:
            return None
        same = {name for name in _TOLD if all(getattr(one, name) == getattr(self, name) for one in known)}
        return replace(
            self,
            certainty=next(
                (one.certainty for one in known if one.certainty is Certainty.LIKELY), self.certainty
            ),
            whole_output=any(one.whole_output for one in (self, *known)),
            asked=any(one.asked for one in (self, *known)),
            was_half=all(one.was_half for one in (self, *known)),
            device=self.device if "device" in same else None,
            softened=self.softened if "softened" in same else None,
            trait=self.trait if "trait" in same else None,
            element=self.element if "element" in same else (),
            name=None,
            terms=(),
        )

    @property
    def is_half(self) -> bool:
        """Whether it has sixteen bits."""
        return self.dtype is not None and self.dtype.is_half


_TOLD = ("device", "softened", "trait", "element")
FLOAT32_TENSOR = Tensor(DType.FLOAT32)
INTEGER_TENSOR = Tensor(DType.INTEGER)


@dataclass(frozen=True, slots=True)
class Parameters(Value):
    """Parameters of a module, alone or as a collection: ``model.parameters()``."""

    module: Symbol
    named: bool = False
    one: bool = False
    copied: bool = False
    """Whether it is a copy, ``p.clone()``, which stays as it is where the module is cast."""

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """All of a module go to what measures or changes their gradients."""
        return not self.one


@dataclass(frozen=True, slots=True)
class Replicas(Value):
    """``nn.DataParallel(module)``, which runs replicas of the module in threads."""

    module: Instance | Unknown

    @property
    def of_kind(self) -> str | None:
        return MODULE

    @property
    def identity(self) -> Symbol:
        """What names the module."""
        return self.module.identity if isinstance(self.module, Instance) else self.module.symbol


@dataclass(frozen=True, slots=True)
class StateDict(Value):
    """What ``state_dict()`` gives. ``kind`` is "optimizer", "scaler", "scheduler", "module" or, for an object that
    nothing is known of, "object"."""

    matters: ClassVar[bool] = True
    kind: str
    identity: Symbol | None
    place: Place | None = None


# training --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Optimizer(Value):
    """An optimizer and the modules whose parameters it updates."""

    is_of_own_class: ClassVar[bool] = True
    matters: ClassVar[bool] = True
    identity: Symbol
    modules: frozenset[Symbol] = frozenset()

    def another(self) -> Value:
        """It, as one of several of which a loop takes another one in each round."""
        return replace(self, identity=symbol(ONE_OF_MANY, self.identity))


@dataclass(frozen=True, slots=True)
class Scaler(Value):
    """A gradient scaler. ``enabled`` is None where a flag decides that nothing is known of; ``switch`` is that
    flag."""

    is_of_own_class: ClassVar[bool] = True
    matters: ClassVar[bool] = True
    identity: Symbol
    enabled: bool | None = None
    takes_half: bool = False
    switch: Value | None = None
    made: Place | None = None
    initial: float | None = INITIAL_SCALE
    constant: bool = False
    """Whether its scale is 1 and stays so unless ``update`` is called: ``GradScaler(init_scale=1.0)``."""

    @property
    def stands_in(self) -> bool:
        """One that is off does: ``GradScaler(enabled=False)``."""
        return self.enabled is False


@dataclass(frozen=True, slots=True)
class Scheduler(Value):
    """A learning-rate scheduler. ``optimizer`` identifies the one whose rate it sets."""

    is_of_own_class: ClassVar[bool] = True

    identity: Symbol
    optimizer: Symbol | None = None


@dataclass(frozen=True, slots=True)
class ScaledLoss(Value):
    """What ``scaler.scale(loss)`` gives. ``scaler`` is None where it is not sure that one scaled it."""

    matters: ClassVar[bool] = True
    scaler: Symbol | None
    loss: Value

    def in_common(self, others: Sequence[Value]) -> Value | None:
        """Losses that one scaler scaled, whatever they are."""
        if not all(isinstance(other, ScaledLoss) and other.scaler is self.scaler for other in others):
            return None
        losses = [self.loss, *(other.loss for other in others if isinstance(other, ScaledLoss))]
        common = losses[0].in_common(losses[1:])
        return ScaledLoss(self.scaler, common if common is not None else Tensor())


@dataclass(frozen=True, slots=True)
class Scale(Value):
    """The scale of a scaler, ``scaler.get_scale()``, or a number in proportion to it, or to its inverse."""

    is_float: ClassVar[bool] = True
    scaler: Symbol
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class ScaledGradient(Value):
    """What ``torch.autograd.grad`` gives for a scaled output, and what is in proportion to it."""

    matters: ClassVar[bool] = True
    scaler: Symbol
    born: Place


@dataclass(frozen=True, slots=True)
class Gradient(Value):
    """``parameter.grad``; ``module`` owns it, or is None. ``copied``: joined, ``torch.cat([p.grad for p in ps])``.
    ``size``: its squares, or its magnitudes: "square", "abs"."""

    matters: ClassVar[bool] = True
    is_expected: ClassVar[bool] = True
    module: Symbol | None = None
    copied: bool = False
    size: str | None = None


# contexts --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Autocast(Value):
    """An autocast context that was made. ``enabled`` is None where a flag decides; ``switch`` is that flag."""

    is_of_own_class: ClassVar[bool] = True
    matters: ClassVar[bool] = True
    place: Place
    identity: Symbol
    device: str | None
    dtype: DType | None
    dtype_given: bool
    inherits_dtype: bool = True
    enabled: bool | None = True
    switch: Value | None = None
    cache_enabled: bool | None = None
    framework: bool = False
    chosen: tuple[str, ...] = ()
    """Which of ``enabled`` and ``dtype`` were given by an expression: how it comes out may be known."""
    decorates: bool = False
    """Whether it was put around a function: then the region stands where the context was made, and each call enters
    the same object."""
    whole_step: bool = False
    """Whether a trainer opens it around code that runs its backward pass and steps by itself."""


@dataclass(frozen=True, slots=True)
class GradientSwitch(Value):
    """``torch.no_grad()``, ``torch.enable_grad()``, ``torch.set_grad_enabled(on)``. ``before`` is how it was before
    the call of the last one, which switches at once and goes back when it is left as a context."""

    is_of_own_class: ClassVar[bool] = True

    on: bool
    before: bool | None = None


@dataclass(frozen=True, slots=True)
class Compiled(Value):
    """The context in which code runs that was compiled at ``place``."""

    place: Place


# ambient values --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenRegions(Ambient):
    """The autocast regions that are open, outermost first."""

    regions: Regions = ()

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """Whether calls are followed."""
        return bool(self.regions)


@dataclass(frozen=True, slots=True)
class GradientMode(Ambient):
    """Whether gradients are recorded. ``before`` is how it was before each context that is open now, outermost
    first."""

    on: bool = True
    before: tuple[bool, ...] = ()

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """Whether calls are followed: an evaluation gives back what is written into checkpoints."""
        return not self.on


@dataclass(frozen=True, slots=True)
class InThread(Ambient):
    """Whether the code runs in another thread than the one that started it."""

    started: bool = False

    @property
    def matters(self) -> bool:  # type: ignore[override]
        """Whether calls are followed."""
        return self.started


@dataclass(frozen=True, slots=True)
class RegionDefaults(Ambient):
    """The types that ``torch.set_autocast_dtype`` has set for regions of a device; None where that is not known."""

    dtypes: tuple[tuple[str, DType | None], ...] = ()

    def of(self, device: str | None, otherwise: DType) -> DType:
        """The type that a region for a device runs in if none is given."""
        known = dict(self.dtypes)
        return known[device] or DType.HALF if device is not None and device in known else otherwise
