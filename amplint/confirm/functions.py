"""Ops as the user's code calls them, with the history of their operands.

A TorchFunctionMode sits above autocast: it sees the operands as the code has them and the result in the type
that autocast chose.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

from amplint.amp import ops
from amplint.amp.ops import Policy
from amplint.amp.regions import DEVICES_LIKE_CUDA
from amplint.confirm.places import Site, names_in
from amplint.confirm.provenance import History
from amplint.events import (
    Cast,
    Converted,
    DType,
    Event,
    IndexPut,
    Op,
    Operand,
    Regions,
    enabled_region,
)

if TYPE_CHECKING:
    from amplint.confirm.probe import Probe

_HALF = (torch.float16, torch.bfloat16)
_CASTS = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "long": torch.int64,
    "int": torch.int32,
    "bool": torch.bool,
    "short": torch.int16,
    "byte": torch.uint8,
    "char": torch.int8,
}
_SCATTERS = frozenset(
    {"index_put_", "index_copy_", "index_add_", "scatter_", "scatter_add_", "masked_scatter_", "__setitem__"}
)
_SPELLINGS = {
    "__rdiv__": "__rtruediv__",
    "__idiv__": "__itruediv__",
    "div_": "__itruediv__",
}
_LOOKS = frozenset(
    {
        "__get__",
        "__set__",
        "__delete__",
        "__repr__",
        "__str__",
        "__format__",
        "__hash__",
        "__len__",
        "__bool__",
        "__dir__",
        "__reduce_ex__",
        "__deepcopy__",
        "size",
        "dim",
        "numel",
        "nelement",
        "stride",
        "storage",
        "storage_offset",
        "untyped_storage",
        "element_size",
        "is_contiguous",
        "get_device",
        "is_floating_point",
        "is_complex",
        "data_ptr",
        "register_hook",
        "retain_grad",
        "requires_grad_",
        "is_pinned",
        "has_names",
        "is_same_size",
        "backward",
        "detach_",
        "zero_",
        "fill_",
        "uniform_",
        "normal_",
        "set_",
    }
)
"""Functions that look at a tensor or fill it, without computing from it."""
_SMALL = 1e-4


@dataclass(frozen=True)
class Function:
    """What is known of a function of torch."""

    name: str
    plain: str
    in_place: bool
    cuda: Policy | None
    cpu: Policy | None
    sensitivity: str | None
    weights: str | None
    cast: torch.dtype | None
    method: bool

    def policy(self, cpu: bool) -> Policy | None:
        """What autocast does to it."""
        return self.cpu if cpu else self.cuda


class FunctionMode(TorchFunctionMode):
    """Watches one thread."""

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self.probe = probe
        self._functions: dict[Any, Function | None] = {}
        self._events: dict[Hashable, Event | None] = {}
        self._histories: dict[Hashable, History] = {}
        self._everything = probe.level.value >= 3

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            function = self._functions[func]
        except (KeyError, TypeError):
            function = self._learn(func)
        if kwargs is None:
            kwargs = {}
        if function is None or not self.probe.running:
            return func(*args, **kwargs)
        tensors = _tensors(args, kwargs)
        if self._everything:
            self.probe.here.function = function
        try:
            result = func(*args, **kwargs)
        except Exception:
            self.probe.guarded(self._look, function, args, kwargs, tensors, None)
            raise
        self._observe(function, args, kwargs, tensors, result)
        return result

    def _learn(self, func: Any) -> Function | None:
        found: Function | None = None
        name = getattr(func, "__name__", "")
        if name and name not in _LOOKS and callable(func):
            found = _function(func, name)
        with contextlib.suppress(TypeError):
            self._functions[func] = found
        return found

    def _observe(
        self,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
        result: Any,
    ) -> None:
        """Looks further only if a half-precision tensor, or one with a history, is part of it."""
        if not self._everything:
            for tensor in tensors:
                if tensor.dtype in _HALF:
                    break
            else:
                if not (type(result) is Tensor and result.dtype in _HALF):
                    of = self.probe.histories.of
                    if not any(of(tensor) is not None for tensor in tensors) and function.cast is None:
                        if not isinstance(result, (tuple, list)):
                            return
                        if not any(part.dtype in _HALF for part in _parts(result)):
                            return
        self.probe.guarded(self._look, function, args, kwargs, tensors, result)

    def _look(
        self,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
        result: Any,
    ) -> None:
        probe = self.probe
        site = probe.sites.here(4)
        if site is None:
            return
        regions = probe.here.regions
        of = probe.histories.of
        histories = [of(tensor) for tensor in tensors]
        to = function.cast
        if function.name in ("to", "type") and tensors and to is None:
            to = _target(args, kwargs, result)
        shape = (
            site.key,
            function.name,
            tuple((tensor.dtype, type(tensor) is Parameter) for tensor in tensors),
            tuple(histories),
            regions,
            to,
            getattr(result, "dtype", None),
        )
        try:
            event = self._events[shape]
        except KeyError:
            event = self._events[shape] = self._event(
                function, site, args, kwargs, tensors, histories, to, result
            )
        if event is not None:
            probe.tell(event)
        if result is None:
            return
        for part in _parts(result):
            if function.in_place or part.dtype is torch.bool:
                continue
            if any(part is tensor for tensor in tensors):
                continue
            history = self._history(function, site, regions, tensors, histories, part, to)
            if history is not None:
                probe.histories.note(part, history)

    def _event(
        self,
        function: Function,
        site: Site,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        tensors: list[Tensor],
        histories: list[History | None],
        to: torch.dtype | None,
        result: Any,
    ) -> Event | None:
        regions = self.probe.here.regions
        operands = tuple(
            self._operand(function, site, index, tensor, history)
            for index, (tensor, history) in enumerate(zip(tensors, histories, strict=True))
        )
        if function.cast is not None or (function.name in ("to", "type") and to is not None):
            kind = _dtype(to)
            return Cast(site, regions, operands[0], kind) if operands and kind is not None else None
        if function.name == "numpy":
            return Converted(site, regions, operands[0], "numpy") if operands else None
        if function.name in _SCATTERS:
            if len(operands) < 2:
                return None
            return IndexPut(site, regions, operands[0], operands[-1], function.name)
        policy = function.policy(_on_cpu(regions, self.probe.device))
        if policy is None:
            return None
        weights, weights_raise = self._weights(function, tensors)
        if function.weights is not None:
            operands = tuple(part for part in operands if not part.parameter)
        interesting = any(part.dtype is not None and part.dtype.is_half for part in operands)
        if not interesting and not any(part.raised for part in operands) and not self._everything:
            return None
        softened = next((part.softened for part in histories if part is not None and part.softened), None)
        return Op(
            site,
            regions,
            function.plain,
            operands,
            _dtype(getattr(result, "dtype", None)),
            policy.value,
            function.sensitivity,
            function.in_place,
            weights,
            weights_raise,
            _small_constant(args, kwargs),
            function.plain in ops.RANKING,
            softened,
        )

    def _operand(
        self, function: Function, site: Site, index: int, tensor: Tensor, history: History | None
    ) -> Operand:
        place = site.argument(index, function.name if function.method else None)
        parameter = isinstance(tensor, Parameter)
        if history is None:
            return Operand(place, _dtype(tensor.dtype), parameter=parameter)
        return Operand(
            place,
            _dtype(tensor.dtype),
            born=history.born,
            born_in=history.born_in,
            half_by_user=history.half_by_user,
            raised=history.raised,
            parameter=parameter,
        )

    def _weights(self, function: Function, tensors: list[Tensor]) -> tuple[DType | None, bool]:
        if function.weights is None:
            return None, False
        weight = next((tensor for tensor in tensors if isinstance(tensor, Parameter)), None)
        return (_dtype(weight.dtype) if weight is not None else None), function.weights == "raises"

    def _history(
        self,
        function: Function,
        site: Site,
        regions: Regions,
        tensors: list[Tensor],
        histories: list[History | None],
        part: Tensor,
        to: torch.dtype | None,
    ) -> History | None:
        """That of a result."""
        scaled = next((known.scaled_by for known in histories if known is not None and known.scaled_by), ())
        half = part.dtype in _HALF
        if to is not None:
            if half:
                return self._shared(History(half_by_user=site, scaled_by=scaled))
            if to is torch.float32 and _spelt_out(function, site):
                return self._shared(History(raised=site, scaled_by=scaled))
            return self._shared(History(scaled_by=scaled)) if scaled else None
        region = enabled_region(regions)
        policy = function.policy(_on_cpu(regions, self.probe.device))
        if half and region is not None and policy is Policy.LOWER:
            return self._shared(History(born=site, born_in=region, scaled_by=scaled))
        source = next(
            (
                known
                for tensor, known in zip(tensors, histories, strict=True)
                if known is not None and tensor.dtype == part.dtype
            ),
            None,
        )
        if source is not None and (half or source.raised is not None):
            history = source if policy is Policy.VIEW else source.computed()
            if half and function.sensitivity == "softmax" and region is None:
                history = History(
                    history.born, history.born_in, history.half_by_user, None, site, history.scaled_by
                )
            return self._shared(history) if history != History() else None
        return self._shared(History(scaled_by=scaled)) if scaled else None

    def _shared(self, history: History) -> History:
        """Equal histories are one object, so that there are few of them."""
        return self._histories.setdefault(history, history)


def _function(func: Any, name: str) -> Function | None:
    name = _SPELLINGS.get(name, name)
    in_place = ops.is_in_place(name)
    plain = ops.plain_name(name)
    if in_place:
        plain = f"__{plain[3:]}" if plain.startswith("__i") else plain[:-1]
    method = hasattr(Tensor, name) and getattr(Tensor, name) is not None and _is_method(func)
    return Function(
        name,
        plain,
        in_place,
        ops.policy_of(plain, "cuda"),
        ops.policy_of(plain, "cpu"),
        ops.sensitivity_of(plain),
        ops.KINDS_OF_WEIGHTS.get(plain),
        _CASTS.get(name),
        method,
    )


def _is_method(func: Any) -> bool:
    return "Tensor" in getattr(func, "__qualname__", "")


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


def _target(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> torch.dtype | None:
    """The type that ``to`` was asked for; None where it was asked for a device alone."""
    asked = kwargs.get("dtype") or next((value for value in args[1:] if isinstance(value, torch.dtype)), None)
    return asked if isinstance(asked, torch.dtype) else None


def _spelt_out(function: Function, site: Site) -> bool:
    """Whether the code names the type, instead of taking it from another tensor."""
    return function.cast is not None or site.node is None or bool({"float", "float32"} & names_in(site.node))


def _dtype(dtype: torch.dtype | None) -> DType | None:
    from amplint.confirm.probe import DTYPES

    return DTYPES.get(dtype) if dtype is not None else None


def _on_cpu(regions: Regions, device: str) -> bool:
    here = regions[-1].device if regions and regions[-1].device is not None else device
    return here not in DEVICES_LIKE_CUDA


def _small_constant(args: tuple[Any, ...], kwargs: dict[str, Any]) -> float | None:
    values = (*args, *kwargs.values())
    return next((abs(value) for value in values if type(value) is float and 0 < abs(value) < _SMALL), None)
