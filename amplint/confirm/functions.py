"""Ops as the user's code calls them, with the history of their operands.

A TorchFunctionMode sits above autocast: it sees the operands as the code has them and the result in the type
that autocast chose. What optimizers and scalers do by themselves, a few ops for each parameter, is not told.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from amplint.amp import ops, traits
from amplint.amp.ops import Policy
from amplint.amp.regions import DEVICES_LIKE_CUDA
from amplint.amp.scalers import COPIES, JOINS, PROPORTIONAL, SIZES, size_of
from amplint.confirm.dtypes import HALF, named
from amplint.confirm.levels import Level
from amplint.confirm.places import Site, names_in
from amplint.confirm.provenance import History, operand
from amplint.confirm.signatures import CASTS, DATA, GRADIENT, REPLACES, Function, described
from amplint.confirm.watching import Watch
from amplint.confirm.weights import Weights
from amplint.events import (
    Cast,
    DType,
    Event,
    Filled,
    GradientsNormalized,
    GradientsRead,
    GradientsZeroed,
    Guard,
    IndexPut,
    Op,
    Operand,
    Regions,
    ScaledGradientMixed,
    Trait,
    enabled_region,
)

if TYPE_CHECKING:
    from types import FrameType


_SCATTERS = {
    "__setitem__": 2,
    "index_put_": 2,
    "masked_scatter_": 2,
    "index_copy_": 3,
    "index_add_": 3,
    "scatter_": 3,
    "scatter_add_": 3,
}
"""Functions that write into their first argument, and which argument they write."""
_LEAVES = (Tensor, Parameter)
_SMALL = 1e-4


@dataclass
class Plan:
    """What is to be done when the same op meets the same operands at the same place again: the event to tell, and the
    histories of the results, by type. ``keeps_casts``: the region keeps the casts of weights that the op makes."""

    event: Event | None
    keeps_casts: bool = False
    histories: dict[torch.dtype, History | None] = field(default_factory=dict)


@dataclass(slots=True)
class Call:
    """A function of torch as it runs: what it got, and the histories of its tensors."""

    watch: Watch
    frame: FrameType
    function: Function
    regions: Regions
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[Tensor]
    histories: list[History | None]
    on_cpu: bool = False
    """Whether it is one for the autocast of the CPU."""

    @property
    def site(self) -> Site:
        """Where it stands."""
        return self.watch.sites.at(self.frame)


def install(watch: Watch) -> None:
    """Watches the ops of each thread."""
    if watch.level is Level.FUNCTIONS:
        weights = Weights(watch)
        watch.on_thread(lambda: FunctionMode(watch, weights))


class FunctionMode(TorchFunctionMode):
    """Watches one thread."""

    def __init__(self, watch: Watch, weights: Weights) -> None:
        super().__init__()
        self.watch = watch
        self._cached = weights
        self._functions: dict[Any, Function | None] = {}
        self._plans: dict[Hashable, Plan] = {}
        self._regions: dict[tuple[int, str], tuple[Regions, Regions]] = {}
        """Open regions, and which of them are for a device."""
        self._sums: set[Hashable] = set()
        """Where numbers were added to, by ``total += tensor``."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            function = self._functions[func]
        except (KeyError, TypeError):
            function = self._learn(func)
        if kwargs is None:
            kwargs = {}
        watch = self.watch
        if function is None or not watch.running or watch.here.quiet:
            return func(*args, **kwargs)
        try:
            result = func(*args, **kwargs)
        except Exception:
            watch.guarded(self._look, function, args, kwargs, _tensors(args, kwargs), None)
            raise
        tensors = _tensors(args, kwargs)
        if self._matters(function, tensors, result):
            watch.guarded(self._look, function, args, kwargs, tensors, result)
        if (function.writes or function is DATA) and watch.here.regions and args and type(args[0]) in _LEAVES:
            if function is DATA:
                watch.guarded(self._cached.aliased, args[0], result)
            else:
                watch.guarded(self._cached.wrote, function.name, args[0])
        if function is REPLACES and isinstance(args[1], Tensor):
            watch.guarded(self._replaced, args[0], args[1])
        if watch.scaled.known or watch.gradients.known or watch.penalties.known or function is GRADIENT:
            watch.guarded(self._follow, function, args, tensors, result)
        return result

    def _learn(self, func: Any) -> Function | None:
        found = described(func)
        with contextlib.suppress(TypeError):
            self._functions[func] = found
        return found

    def _matters(self, function: Function, tensors: list[Tensor], result: Any) -> bool:
        """Whether a half-precision tensor, or one with a history, is part of it, or a cast makes floats of integers."""
        if function.casts and tensors and not tensors[0].dtype.is_floating_point:
            return True
        if isinstance(result, Tensor) and traits.counts_far(function.plain, result.numel()):
            return True
        for tensor in tensors:
            if tensor.dtype in HALF:
                return True
        if type(result) is Tensor:
            if result.dtype in HALF:
                return True
        elif isinstance(result, (tuple, list)) and any(part.dtype in HALF for part in _parts(result)):
            return True
        of = self.watch.histories.of
        return any(of(tensor) is not None for tensor in tensors)

    def _look(
        self,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
        result: Any,
    ) -> None:
        watch = self.watch
        frame = watch.sites.frame(3)
        if frame is None:
            return
        regions, on_cpu = self._around(tensors)
        histories = watch.histories.of_each(tensors)
        key = (
            *watch.sites.key_of(frame),
            function.name,
            id(regions),
            on_cpu,
            getattr(result, "dtype", None),
            *[tensor.dtype for tensor in tensors],
            *map(id, histories),
        )
        call = Call(watch, frame, function, regions, args, kwargs, tensors, histories, on_cpu)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = Plan(
                self._event(call, result), self._keeps_casts(function, regions, on_cpu)
            )
        if plan.keeps_casts and result is not None:
            self._cached.used(tensors, frame)
        if plan.event is not None:
            watch.tell(plan.event)
        if result is None:
            return
        if function.in_place:
            if function.plain in traits.GUARDS and tensors[0].dtype in HALF:
                self._guarded_in_place(plan, call)
            return
        for part in (result,) if type(result) is Tensor else _parts(result):
            dtype = part.dtype
            if dtype not in plan.histories:
                history = self._history(call, dtype)
                plan.histories[dtype] = watch.histories.shared(history) if history is not None else None
            history = plan.histories[dtype]
            # a cast that changes nothing gives its operand back
            if history is not None and (
                (function.casts and dtype in HALF) or id(part) not in map(id, tensors)
            ):
                watch.histories.note(part, history)

    def _replaced(self, tensor: Tensor, data: Tensor) -> None:
        """``p.data = x``: it has the type of x, and became so where x did."""
        histories = self.watch.histories
        if data.dtype not in HALF:
            histories.drop(tensor)
            return
        known, site = histories.of(data), self.watch.site(3)
        if known is None or known.half_by_user is None:
            known = histories.shared(History(half_by_user=site)) if site is not None else None
        if known is not None:
            histories.note(tensor, known)

    def _around(self, tensors: list[Tensor]) -> tuple[Regions, bool]:
        """The regions that are for the device of an op's tensors, and whether it is the CPU."""
        regions = self.watch.here.regions
        if not regions or not tensors:
            return regions, self.watch.device not in DEVICES_LIKE_CUDA
        device = self._device(tensors)
        known = self._regions.get((id(regions), device))
        if known is None or known[0] is not regions:
            here = tuple(region for region in regions if region.device in (None, device))
            known = (regions, regions if len(here) == len(regions) else here)
            self._regions[id(regions), device] = known
        return known[1], device not in DEVICES_LIKE_CUDA

    def _device(self, tensors: list[Tensor]) -> str:
        """The device that an op is for: it takes a number on the CPU along to another one. No more tensors are asked
        than it takes to know, since with simulated CUDA each answer is looked up."""
        first = ""
        for tensor in tensors:
            name = tensor.device.type
            if name in DEVICES_LIKE_CUDA:
                return name
            first = first or name
        return first

    def _keeps_casts(self, function: Function, regions: Regions, on_cpu: bool) -> bool:
        """Whether an op leaves casts of its operands in the cache of weights."""
        region = enabled_region(regions)
        if region is None or not region.cache_enabled:
            return False
        return function.policy(on_cpu) is Policy.LOWER

    def _guarded_in_place(self, plan: Plan, call: Call) -> None:
        tensor = call.tensors[0]
        if tensor.dtype not in plan.histories:
            trait = _trait(call, True)
            before = call.histories[0] or History()
            guarded = replace(before, trait=trait) if isinstance(trait, Guard) else None
            plan.histories[tensor.dtype] = self.watch.histories.shared(guarded) if guarded else None
        history = plan.histories[tensor.dtype]
        if history is not None:
            self.watch.histories.note(tensor, history)

    def _event(self, call: Call, result: Any) -> Event | None:
        function, site, regions = call.function, call.site, call.regions
        operands = tuple(
            operand(site.argument(index, function.name if function.method else None), tensor, history)
            for index, (tensor, history) in enumerate(zip(call.tensors, call.histories, strict=True))
            if tensor is not call.kwargs.get("out")
        )
        if function.casts:
            to = named(_asked(function, call.args, call.kwargs))
            return Cast(site, regions, operands[0], to) if operands and to is not None else None
        if function.name in _SCATTERS:
            return self._written(call)
        if result is None and function.plain in ops.FILLS:
            filled = self._filled(call)
            if filled is not None:
                return filled
        policy = function.policy(call.on_cpu)
        if policy is None:
            return None
        if self._accumulates(function, site, call.tensors):
            return Op(site, regions, "accumulate", operands[-1:], operands[-1].dtype, None, "accumulation")
        weights, weights_raise = self._weights(call)
        if function.weights is not None:
            operands = tuple(part for part in operands if not part.parameter)
        operands = _in_asked_type(operands, _written_type(call.args, call.kwargs))
        interesting = any(part.dtype is not None and part.dtype.is_half for part in operands)
        interesting = interesting or policy is Policy.BANNED
        if not interesting and not any(part.raised for part in operands):
            return None
        softened = next(
            (part.softened for part in call.histories if part is not None and part.softened), None
        )
        return Op(
            site,
            regions,
            function.plain,
            operands,
            named(getattr(result, "dtype", None)),
            policy.value,
            function.sensitivity,
            function.in_place,
            weights,
            weights_raise,
            _small_constant(call.args, call.kwargs),
            function.plain in ops.RANKING,
            softened,
            named(getattr(call.kwargs.get("out"), "dtype", None)),
            torch.is_grad_enabled(),
        )

    def _accumulates(self, function: Function, site: Site, tensors: list[Tensor]) -> bool:
        """Whether it is ``total += tensor`` where the total began as a number, and is run again."""
        if function.plain not in ("add", "__add__", "__radd__") or not isinstance(site.node, ast.AugAssign):
            return False
        if len(tensors) == 1:
            self._sums.add(site.key)
            return False
        return site.key in self._sums

    def _written(self, call: Call) -> IndexPut | None:
        function, site, args, kwargs = call.function, call.site, call.args, call.kwargs
        number = _SCATTERS[function.name]
        value = args[number] if len(args) > number else kwargs.get("src", kwargs.get("source"))
        if not isinstance(value, Tensor):
            return None
        if value.numel() == 1 and value.device.type not in DEVICES_LIKE_CUDA:
            return None  # it fills a mask, whatever its type
        if function.name == "__setitem__" and not _indexes(args[1]):
            return None
        of = self.watch.histories.of
        name = "index_put_" if function.name == "__setitem__" else function.name
        target = operand(site.argument(0, name), args[0], of(args[0]))
        written = operand(site.argument(number, name), value, of(value))
        return IndexPut(site, call.regions, target, written, name)

    def _filled(self, call: Call) -> Filled | None:
        """A number that does not fit the half-precision tensor that it is written to."""
        function, site, args, kwargs = call.function, call.site, call.args, call.kwargs
        position, keyword = ops.FILLS[function.plain]
        value: Any = args[position + 1] if len(args) > position + 1 else kwargs.get(keyword)
        dtype = kwargs.get("dtype") or getattr(args[0] if args else None, "dtype", None)
        if dtype not in HALF or type(value) not in (int, float):
            return None
        # beyond the largest number of float32 it raises there, too
        if not torch.finfo(dtype).max < abs(value) <= torch.finfo(torch.float32).max:
            return None
        place = site.argument(0, function.name if function.method else None)
        if kwargs.get("dtype") is not None:
            target = Operand(place, named(dtype))
        else:
            target = operand(place, args[0], call.histories[0])
        return Filled(site, call.regions, target, float(value), function.name)

    def _weights(self, call: Call) -> tuple[DType | None, bool]:
        if call.function.weights is None:
            return None, False
        weight = next((tensor for tensor in call.tensors if isinstance(tensor, Parameter)), None)
        meeting = call.function.weights_on_cpu if call.on_cpu else call.function.weights
        return (named(weight.dtype) if weight is not None else None), meeting == "raises"

    def _history(self, call: Call, dtype: torch.dtype) -> History | None:
        """That of a result."""
        history = self._origin(call, dtype)
        if call.function.cuda is Policy.VIEW:
            return history
        if call.function.casts:
            before = call.histories[0] if call.histories else None
            trait = traits.kept_by_cast(before.trait if before is not None else None)
        else:
            trait = _trait(call, dtype in HALF)
        return replace(history or History(), trait=trait) if trait is not None else history

    def _origin(self, call: Call, dtype: torch.dtype) -> History | None:
        """Where a result got its precision."""
        function, site, tensors = call.function, call.site, call.tensors
        half = dtype in HALF
        region = enabled_region(call.regions)
        if function.casts and _asked(function, call.args, call.kwargs) is not None:
            if half:
                # a type that comes from elsewhere is the one that things run in anyway
                return History(half_by_user=site) if _spelt_out(function, site) else History()
            converted = not tensors or not tensors[0].is_floating_point()
            inside = region is not None and not converted and _spelt_out(function, site)
            return History(raised=site) if dtype is torch.float32 and inside else None
        policy = function.policy(call.on_cpu)
        if half and region is not None and policy is Policy.LOWER:
            return History(born=site, born_in=region)
        if policy is Policy.LOWER and function.weights is not None:
            return None  # it runs in the type of its weights
        source = next(
            (
                known
                for tensor, known in zip(tensors, call.histories, strict=True)
                if known is not None and tensor.dtype == dtype
            ),
            None,
        )
        if source is None or (not half and policy is not Policy.VIEW):
            return None
        if policy is Policy.VIEW:
            return source
        softened = source.softened
        if function.sensitivity == "softmax" and region is None:
            softened = site
        return History(source.born, source.born_in, source.half_by_user, None, softened)

    def _follow(self, function: Function, args: tuple[Any, ...], tensors: list[Tensor], result: Any) -> None:
        """Follows scaled losses and gradients."""
        watch = self.watch
        if function is GRADIENT:
            if isinstance(result, Tensor) and args:
                watch.gradients.note(result, watch.owners.of(args[:1]))
            return
        if not tensors:
            return
        if watch.penalties.known:
            self._penalty(function, args, tensors, result)
        if watch.norms.known:
            self._norm(function, args, tensors, result)
        several = bool(args) and isinstance(args[0], (list, tuple))
        known = [watch.gradients.of(tensor) for tensor in (tensors if several else tensors[:1])]
        gradients = [part for part in known if part is not None]
        if gradients:
            self._gradient(function, args, tensors[0], frozenset().union(*gradients), result)
        scaled = next((known for known in map(watch.scaled.of, tensors) if known is not None), None)
        if scaled is not None and isinstance(result, Tensor) and function.keeps_scale:
            scales = watch.scales.values()
            if any(type(value) is float and value in scales for value in args):
                return  # divided out
            if watch.scaled.of(result) is None:
                watch.scaled.note(result, scaled)

    def _penalty(self, function: Function, args: tuple[Any, ...], tensors: list[Tensor], result: Any) -> None:
        """Follows gradients of a scaled output to where they meet what is not scaled."""
        watch = self.watch
        known = [watch.penalties.of(tensor) for tensor in tensors]
        penalty = next((part for part in known if part is not None), None)
        if penalty is None:
            return
        numbers = [value for value in args if type(value) in (int, float)]
        name = _ORDERED.get(function.plain, function.plain.strip("_"))
        if name in ("add", "sub"):
            keeps = None not in known and not any(numbers)
            scaled = any(watch.scaled.of(tensor) is not None for tensor in tensors)
            site = watch.site(3)
            if not keeps and not scaled and site is not None:
                watch.tell(ScaledGradientMixed(site, watch.here.regions, penalty.scaler, penalty.born, name))
        elif name in ("mul", "div", "truediv"):
            # a number that the code computes may be the scale
            site = watch.site(3)
            keeps = len(tensors) == 1 and site is not None and _is_literal(site)
        else:
            keeps = name in PROPORTIONAL or function.cuda is Policy.VIEW
        if keeps:
            for part in _parts(result):
                watch.penalties.note(part, penalty)

    def _norm(self, function: Function, args: tuple[Any, ...], tensors: list[Tensor], result: Any) -> None:
        """Follows norms of gradients to where something that is no single number is divided by them, unless they were
        compared with something else than 0."""
        watch = self.watch
        norm = watch.norms.of(tensors[-1])
        name = _ORDERED.get(function.plain, function.plain.strip("_"))
        if norm is not None and name == "add" and len(tensors) == 1:
            watch.norms.note(result, norm)
        elif name in ("lt", "le", "gt", "ge") and not any(
            type(part) in (int, float) and not part for part in args
        ):
            for tensor in tensors:
                watch.norms.drop(tensor)
        elif norm is not None and name in ("div", "truediv") and tensors[0].dim():
            site = watch.site(3)
            if site is not None:
                watch.tell(GradientsNormalized(site, watch.here.regions, norm))

    def _gradient(
        self,
        function: Function,
        args: tuple[Any, ...],
        tensor: Tensor,
        whose: frozenset[Hashable],
        result: Any,
    ) -> None:
        watch = self.watch
        copied = watch.copies.of(tensor) is not None
        zeroes = function.name in ("zero_", "_foreach_zero_")
        measures = function.norm or function.plain in SIZES.get(watch.sizes.of(tensor) or "", ())
        other = args[1] if len(args) > 1 else None
        size = "square" if _squares(function.plain, args, other) else size_of(function.plain, other)
        if measures or ((function.limits or zeroes) and not copied):
            site = watch.sites.here(3)
            if site is None:
                return
            regions = watch.here.regions
            if zeroes:
                for name in whose:
                    watch.applied.pop(name, None)
                watch.tell(GradientsZeroed(site, regions, None, whose))
            else:
                watch.tell(GradientsRead(site, regions, function.plain, whose, function.limits))
                for part in _parts(result) if measures else ():
                    watch.numbers.norm(site, part, what="gradient norm" if function.norm else "figure")
                    watch.norms.note(part, site)
        elif size is not None and isinstance(result, Tensor) and not function.in_place:
            watch.gradients.note(result, whose)
            watch.copies.note(result, True)
            watch.sizes.note(result, size)
        elif function.in_place:
            if copied:
                watch.gradients.drop(tensor)  # divided, or anything
        elif isinstance(result, Tensor) and (function.cuda is Policy.VIEW or function.plain in JOINS):
            watch.gradients.note(result, whose)
            if copied or function.plain in COPIES | JOINS:
                watch.copies.note(result, True)


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors among the arguments, those in lists included."""
    found: list[Tensor] = []
    for value in args:
        if isinstance(value, Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found.extend(part for part in value if isinstance(part, Tensor))
    for value in kwargs.values():
        if isinstance(value, Tensor):
            found.append(value)
    return found


def _parts(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from _parts(part)


def _asked(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype | None:
    """The type that a cast was asked for; None where it was asked for a device alone."""
    if function.name in CASTS:
        return CASTS[function.name]
    asked = _written_type(args, kwargs)
    return args[1].dtype if asked is None and len(args) > 1 and isinstance(args[1], Tensor) else asked


def _written_type(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype | None:
    """The type among the arguments of a function."""
    given = (kwargs.get("dtype"), *args[1:])
    return next((value for value in given if isinstance(value, torch.dtype)), None)


def _in_asked_type(operands: tuple[Operand, ...], asked: torch.dtype | None) -> tuple[Operand, ...]:
    """What an op computes with that is asked for a type: ``x.sum(dtype=torch.float32)`` casts its input first."""
    if asked is None or asked in HALF:
        return operands
    return tuple(
        Operand(part.place, named(asked)) if part.dtype is not None and part.dtype.is_half else part
        for part in operands
    )


def _indexes(index: Any) -> bool:
    """Whether an index picks elements; numbers and slices give a view, into which anything is copied."""
    if isinstance(index, tuple):
        return any(_indexes(part) for part in index)
    if isinstance(index, list):
        return True
    # a tensor with one number selects, as the number does
    return isinstance(index, Tensor) and (index.dim() > 0 or index.dtype is torch.bool)


_TYPES = frozenset({"float", "float32", "half", "float16", "bfloat16"})


def _spelt_out(function: Function, site: Site) -> bool:
    """Whether the code names the type, instead of taking it from another tensor."""
    return function.name in CASTS or site.node is None or bool(_TYPES & names_in(site.node))


_ORDERED = {"__radd__": "add", "__rsub__": "sub", "__rmul__": "mul"}


def _is_literal(site: Site) -> bool:
    """Whether the tensor meets a number that stands in the code."""
    match site.node:
        case ast.BinOp(left=ast.Constant()) | ast.BinOp(right=ast.Constant()):
            return True
        case ast.Call(args=[ast.Constant()]) | ast.AugAssign(value=ast.Constant()):
            return True
    return False


def _trait(call: Call, half: bool) -> Trait | None:
    """What an op leaves of itself in its result."""
    args, kwargs = call.args, call.kwargs
    name = call.function.plain
    of_one = name == "__rsub__" and type(args[1]) in (int, float) and args[1] == 1
    name = f"__{name[3:]}" if name in _ORDERED else name
    other = args[1] if len(args) > 1 else kwargs.get("min", kwargs.get("other"))
    small = other if type(other) is float and 0 < other < traits.SMALL and name in traits.GUARDS else None
    below_one = _below_one(name, args, kwargs)
    if half and (small is not None or below_one is not None):
        return Guard(call.site, small, below_one=below_one)
    if half and of_one:
        return traits.rest_to_one(call.histories[0].trait if call.histories[0] is not None else None)
    casts_back = call.function.in_place and call.function.cuda is Policy.FLOAT32
    if name in traits.SQUARING and not casts_back and _squares(name, args, other):
        return "square"
    left = traits.left_by(
        name, [history.trait if history is not None else None for history in call.histories], half
    )
    return "scalar" if left == "squares" and len(args) == 1 and not kwargs else left


def _squares(name: str, args: tuple[Any, ...], other: Any) -> bool:
    """Whether an op squares each element of its first operand."""
    by_itself = name in ("__mul__", "mul") and bool(args) and other is args[0]
    return by_itself or size_of(name, other) == "square"


def _below_one(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    position = traits.UPPER_BOUNDS.get(name)
    if position is None:
        return None
    return traits.below_one(kwargs.get("max", args[position + 1] if len(args) > position + 1 else None))


def _small_constant(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    values = (*args, *kwargs.values())
    return next((abs(value) for value in values if type(value) is float and 0 < abs(value) < _SMALL), None)
