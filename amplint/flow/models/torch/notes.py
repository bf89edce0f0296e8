"""What models of torch note of objects: their parameters are cast, frozen, compiled, …"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from amplint.events import DType, Framework, Place, Regions
from amplint.flow.models.torch.values import Autocast
from amplint.flow.state.values import Note, Value


@dataclass(frozen=True, slots=True)
class ComparedAsText(Note):
    """A torch.device was compared with a text, ``device == "cuda"``."""

    place: Place

    def joined(self, other: Note | None) -> Note:
        """It was, on one of the paths."""
        return self


@dataclass(frozen=True, slots=True)
class Frozen(Note):
    """The parameters of a module take no gradients."""

    frozen: bool = True


@dataclass(frozen=True, slots=True)
class ParametersCast(Note):
    """The parameters of a module, or one of them alone, were cast, at ``place`` if the code names a half type there.
    ``dtype`` is None where the type is not known. ``one``: the data of one parameter was replaced, ``p.data = x``, and
    which of those of the module keep their type is not known; ``others`` are the places where that was done to another
    one before."""

    dtype: DType | None
    place: Place | None = None
    one: bool = False
    others: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class WithoutWeights(Note):
    """A layer was made without weights of its own, or may have been: ``nn.LayerNorm(8, elementwise_affine=flag)``."""

    sure: bool


@dataclass(frozen=True, slots=True)
class CastsMade(Note):
    """Modules were cast on one of the paths that led here. ``unclear``: which of the modules that are known share
    their parameters with those that were cast is not known."""

    unclear: bool = False

    def joined(self, other: Note | None) -> Note:
        """What may have happened on either path."""
        return CastsMade(self.unclear or (isinstance(other, CastsMade) and other.unclear))


@dataclass(frozen=True, slots=True)
class DefaultType(Note):
    """``torch.set_default_dtype(dtype)`` was called; None where the type is not known."""

    dtype: DType | None


@dataclass(frozen=True, slots=True)
class UsedAsType(Note):
    """An unknown was given as the type of something: ``torch.zeros(2, dtype=x)``."""

    def joined(self, other: Note | None) -> Note:
        """What one path shows of a value holds on the other, too."""
        return self


@dataclass(frozen=True, slots=True)
class Known(Note):
    """The object that an identity names, for who has the identity alone."""

    value: Value

    def joined(self, other: Note | None) -> Note:
        """The same object on both paths."""
        return self


@dataclass(frozen=True, slots=True)
class Buffers(Note):
    """The names of the attributes of a module that are buffers: a cast of the module casts them."""

    names: tuple[str, ...] = ()

    def joined(self, other: Note | None) -> Note:
        """The names of either path."""
        more = other.names if isinstance(other, Buffers) else ()
        return Buffers(tuple(dict.fromkeys((*self.names, *more))))


@dataclass(frozen=True, slots=True)
class Items(Note):
    """What is in a Sequential, a ModuleList or a ModuleDict: a Sequence or a Mapping."""

    items: Value


@dataclass(frozen=True, slots=True)
class Parallel(Note):
    """A wrapper such as DistributedDataParallel stands for the module: ``wrapped.module`` is the module itself."""


@dataclass(frozen=True, slots=True)
class CompiledNote(Note):
    """torch.compile has compiled the module, at ``place``."""

    place: Place


@dataclass(frozen=True, slots=True)
class FromPackage(Note):
    """A function of another package has made the module: ``torchvision.models.resnet50()``."""

    package: str


@dataclass(frozen=True, slots=True)
class ComputedIn(Note):
    """Code out of sight has computed a value, in regions of which one runs in half precision, with gradients."""

    forgettable: ClassVar[bool] = True
    place: Place
    regions: Regions


@dataclass(frozen=True, slots=True)
class ShardedNote(Note):
    """The parameters of a module or optimizer are split among processes since ``place``."""

    place: Place


@dataclass(frozen=True, slots=True)
class Prepared(Note):
    """A framework owns or has wrapped a module or optimizer. ``place`` is where the framework was made, if that
    has a gradient scaler of its own in float16; ``float32_out``: the module gives float32 whatever runs inside.

    ``context`` is what the forward of the module runs in, ``scales`` the condition under which the optimizer is stepped
    by a gradient scaler of the framework, and ``framework`` what the code of that looks like."""

    place: Place | None = None
    float32_out: bool = False
    context: Autocast | None = None
    scales: Value | None = None
    framework: Framework | None = None


@dataclass(frozen=True, slots=True)
class Wrapped(Note):
    """An optimizer was handed to an object out of sight, or of a class of the project that holds it."""


@dataclass(frozen=True, slots=True)
class Restored(Note):
    """An object loads a state."""
