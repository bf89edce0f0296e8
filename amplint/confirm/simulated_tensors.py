"""Tensors while CUDA is simulated: they are made, moved, saved and loaded on the device that the program asks for, and
say so. The memory of all of them is the CPU's."""

from __future__ import annotations

import functools
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing
import torch.utils._device
from torch._subclasses.fake_tensor import FakeTensor

from amplint.confirm.patches import Patches
from amplint.confirm.placement import (
    CPU,
    asked,
    cuda,
    device_of,
    keep,
    kept,
    named,
    on_cpu,
    place,
    same_memory,
)
from amplint.confirm.simulated_types import device_and_dtype


def install(patches: Patches) -> None:
    """Has tensors know the device that they were asked for."""
    _install_factories(patches)
    _install_methods(patches)
    for name in ("to", "to_empty"):
        patches.wrap(torch.nn.Module, name, _by_name)
    reducers = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    kinds = {kind: _sent(reducers[kind]) for kind in (torch.Tensor, torch.nn.Parameter)}
    patches.set(ForkingPickler, "_extra_reducers", {**reducers, **kinds})


def _install_factories(patches: Patches) -> None:
    constructors = torch.utils._device._device_constructors()
    taking = _names_taking_a_device()
    for owner in (torch, torch.fft, torch.nested, torch.sparse):
        for name, value in list(vars(owner).items()):
            if isinstance(value, type) or not callable(value):
                continue
            if _in(value, constructors) or (owner is torch and name in taking):
                patches.set(owner, name, _made(value))
    patches.set(torch, "from_numpy", _made(torch.from_numpy))
    patches.wrap(torch.utils._device.DeviceContext, "__torch_function__", _in_context)
    patches.set(torch, "Generator", Generator)
    patches.wrap(torch, "load", _load)
    patches.wrap(torch.serialization, "load", _load)
    patches.wrap(torch.serialization, "location_tag", _location)


def _install_methods(patches: Patches) -> None:
    tensor = torch.Tensor
    patches.set(tensor, "device", property(device_of))
    patches.set(tensor, "is_cuda", property(lambda self: device_of(self).type == "cuda"))
    patches.set(tensor, "is_cpu", property(lambda self: device_of(self).type == "cpu"))
    patches.set(tensor, "get_device", _get_device)
    for name in ("new_tensor", "new", *_names_taking_a_device()):
        if name.startswith("new"):
            patches.set(tensor, name, _made(getattr(tensor, name)))
    patches.set(tensor, "to", _to(tensor.to))
    patches.set(tensor, "cuda", _cuda)
    patches.set(tensor, "cpu", _cpu)
    patches.set(tensor, "pin_memory", lambda self, *args, **kwargs: self)
    patches.set(tensor, "type", _type(tensor.type))
    patches.wrap(tensor, "type_as", _type_as)
    patches.set(tensor, "numpy", _numpy(tensor.numpy))
    # lazy parameters know by identity what may be called on them
    lazy = vars(torch.nn.parameter)["UninitializedTensorMixin"]
    patches.set(lazy, "_allowed_methods", [*lazy._allowed_methods, tensor.to])
    patches.wrap(torch, "ctc_loss", _ctc_loss)
    storage = torch.UntypedStorage
    patches.wrap(storage, "clone", _cloned)
    patches.wrap(storage, "to", _storage_to)
    # C++ groups by the devices of memory
    patches.wrap(torch._C, "_group_tensors_by_device_and_dtype", _grouped)
    # memory on the CPU is none that cuDNN could use
    patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)


class _Kind(type(torch._C.Generator)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class Generator(torch._C.Generator, metaclass=_Kind):
    """A generator for the CPU, whatever device it is asked for."""

    _asked: torch.device | None

    def __new__(cls, device: Any = "cpu") -> Generator:
        """As that of torch."""
        made = super().__new__(cls, on_cpu(device))  # type: ignore[call-arg]
        made._asked = named(device)
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that it was asked for."""
        return self._asked or CPU


def _sent(original: Any) -> Any:
    """What a tensor is made of in another process."""

    def sent(tensor: Any) -> Any:
        made = original(tensor)
        device = asked(tensor)
        return made if device is None or device is CPU else (_received, (str(device), *made))

    return sent


def _received(device: str, build: Any, parts: tuple[Any, ...]) -> Any:
    tensor = build(*parts)
    place(tensor, named(device) or CPU)
    return tensor


def _in(value: Any, group: Any) -> bool:
    try:
        return value in group
    except TypeError:
        return False


@functools.cache
def _names_taking_a_device() -> frozenset[str]:
    """Ops of torch with an argument for the device of what they make."""
    return frozenset(
        schema.name.removeprefix("aten::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::") and any(part.name == "device" for part in schema.arguments)
    )


def _made(original: Any) -> Any:
    """A function that makes a tensor, on a device given by keyword or among its arguments, on that of a tensor, or on
    the CPU."""

    @functools.wraps(original)
    def made(*args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.get("device")
        if wanted is not None:
            kwargs["device"] = _for_torch(wanted)
        for at, value in enumerate(args):
            if isinstance(value, torch.device):
                wanted, args = value, (*args[:at], on_cpu(value), *args[at + 1 :])
        device = named(wanted)
        if not any(isinstance(value, torch.Tensor) for value in args):
            _agree(kwargs.get("generator"), wanted)
        result = original(*args, **kwargs)
        if isinstance(result, torch.Tensor) and (wanted is None or device is not None):
            return _settled(result, device, args)
        return result

    return made


def _agree(generator: Any, wanted: Any) -> None:
    """Raises RuntimeError, as torch does, if numbers on a device are to come from a generator for another."""
    if generator is None:
        return
    device = device_of(torch.empty(0)) if wanted is None else named(wanted)
    if device is not None and generator.device.type != device.type:
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found '{generator.device.type}'"
        )


def _for_torch(device: Any) -> Any:
    return "cpu" if type(device) is int else on_cpu(device)


def _settled(result: Any, wanted: torch.device | None, args: tuple[Any, ...]) -> Any:
    """A tensor that was made, where it is to be."""
    with torch._C.DisableTorchFunction():
        others = [value for value in args if isinstance(value, torch.Tensor)]
        if not any(same_memory(result, other) for other in others):
            where = wanted or asked(result) or (asked(others[0]) if others else CPU)
            if where is not None:
                place(result, where)
            return result
    return result if wanted is None else result.to(wanted)


def _in_context(original: Any) -> Any:
    """Inside ``with torch.device("cuda"):``, and with a default device."""

    def __torch_function__(  # noqa: N807
        self: Any, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        device = named(self.device)
        if (
            device is None
            or not _in(func, torch.utils._device._device_constructors())
            or (kwargs or {}).get("device") is not None
        ):
            return original(self, func, types, args, kwargs)
        return _made(func)(*args, **{**(kwargs or {}), "device": device})

    return __torch_function__


_OF_TO = ("dtype", "non_blocking", "copy")


class _Memory(str):
    """Where the memory of all tensors is. Modes and classes of tensors are handed the method that torch has now, which
    is the one that they are called by."""

    __slots__ = ()


_MEMORY = _Memory("cpu")


def _to(original: Any) -> Any:
    """``Tensor.to``, which copies from one device to the other."""

    @functools.wraps(original)
    def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if type(kwargs.get("device")) is _Memory or isinstance(tensor, FakeTensor):
            return original(tensor, *args, **kwargs)
        first = args[0] if args else kwargs.get("device", kwargs.get("other"))
        if isinstance(first, torch.Tensor):
            kwargs.pop("other", None)
            kwargs.update(zip(_OF_TO[1:], args[1:], strict=False))
            kwargs["dtype"], device = first.dtype, named(device_of(first))
        else:
            device = None if isinstance(first, torch.dtype) else named(first)
            if device is not None:
                kwargs.update(zip(_OF_TO, args[1:], strict=False))
        if device is None:
            return original(tensor, *args, **kwargs)
        with torch._C.DisableTorchFunction():
            here = asked(tensor)
        if here is not device and (here is not None or device is not CPU):
            kwargs["copy"] = True
        kwargs["device"] = _MEMORY
        result = original(tensor, **kwargs)
        if "copy" in kwargs:
            _arrived(result, device, here)
        return result

    return to


def _arrived(result: Any, device: torch.device, origin: torch.device | None) -> None:
    with torch._C.DisableTorchFunction():
        place(result, device)
        node = result.grad_fn
    if node is not None and origin is not None:
        node.register_hook(
            lambda gradients, _: tuple(None if part is None else part.to(origin) for part in gradients)
        )


def _cuda(self: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    return self.to(cuda() if device is None else named(device), non_blocking=non_blocking, **kwargs)


def _cpu(self: Any, **kwargs: Any) -> Any:
    return self.to(CPU, **kwargs)


def _get_device(self: Any) -> int:
    device = device_of(self)
    return -1 if device.type == "cpu" else device.index or 0


def _numpy(original: Any) -> Any:
    @functools.wraps(original)
    def numpy(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        device = device_of(tensor)
        if device.type == "cuda" and not kwargs.get("force"):
            raise TypeError(
                f"can't convert {device} device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return original(tensor, *args, **kwargs)

    return numpy


def _by_name(original: Any) -> Any:
    """A method of modules that takes a device: a number is that of a CUDA device."""

    def by_name(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(kwargs.get("device")) is int:
            kwargs["device"] = named(kwargs["device"])
        if args and type(args[0]) is int:
            args = (named(args[0]), *args[1:])
        return original(self, *args, **kwargs)

    return by_name


def _type(original: Any) -> Any:
    def type_of(tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        found = device_and_dtype(dtype)
        if found is not None:
            return tensor.to(*found, *args, **kwargs)
        if dtype is not None:
            return original(tensor, dtype, *args, **kwargs)
        name = original(tensor).rpartition(".")[2]
        return f"torch.cuda.{name}" if device_of(tensor).type == "cuda" else f"torch.{name}"

    return type_of


def _type_as(original: Any) -> Any:
    def type_as(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return tensor.to(other)

    return type_as


def _ctc_loss(original: Any) -> Any:
    """Lengths may be on the CPU: torch makes numbers of them, unless a mode looks at its ops."""

    def ctc_loss(log_probs: Any, targets: Any, *args: Any, **kwargs: Any) -> Any:
        return original(log_probs, targets, *map(_length, args), **{n: _length(v) for n, v in kwargs.items()})

    def _length(value: Any) -> Any:
        return value.tolist() if isinstance(value, torch.Tensor) and device_of(value).type == "cpu" else value

    return ctc_loss


def _cloned(original: Any) -> Any:
    def clone(self: Any) -> Any:
        copy = original(self)
        keep(copy, kept(self))
        return copy

    return clone


def _storage_to(original: Any) -> Any:
    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        wanted = named(device)
        if wanted is None or wanted is (kept(self) or CPU):
            return original(self, device=on_cpu(torch.device(device)), non_blocking=non_blocking)
        return keep(self.clone(), wanted)

    return to


def _location(original: Any) -> Any:
    """What is written of a storage into a checkpoint."""

    def location_tag(storage: Any) -> Any:
        device = kept(getattr(storage, "_untyped_storage", storage))
        return original(storage) if device is None or device is CPU else str(device)

    return location_tag


def _load(original: Any) -> Any:
    def load(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(file, functools.partial(_restored, map_location), *args, **kwargs)

    return load


def _restored(map_location: Any, storage: Any, location: str) -> Any:
    """A storage of a checkpoint, where it is wanted."""
    where: Any = location
    if callable(map_location):
        found = map_location(storage, location)
        if found is not None:
            return found
    elif isinstance(map_location, dict):
        where = map_location.get(location, location)
    elif map_location is not None:
        where = map_location
    device = named(where)
    if device is None:
        return torch.serialization.default_restore_location(storage, str(where))
    return keep(storage, device)


def _grouped(original: Any) -> Any:
    def _group_tensors_by_device_and_dtype(lists: Any, with_indices: bool = False) -> Any:
        groups: dict[Any, Any] = {}
        for (_, dtype), (parts, indices) in original(lists, with_indices).items():
            for at, first in enumerate(parts[0]):
                into = groups.setdefault((device_of(first), dtype), ([[] for _ in parts], []))
                for part, values in zip(parts, into[0], strict=True):
                    values.extend(part[at : at + 1])
                into[1].extend(indices[at : at + 1])
        return groups

    return _group_tensors_by_device_and_dtype
