"""On which device a program has put each tensor, while CUDA is simulated and all of them are in the CPU's memory.

The device is kept with the memory of a tensor, so that views, parameters and what autograd saves share it, and it goes
with the memory. What an op makes is where its operands are. Of memory that torch takes inside, of no operand, and of
what other threads make nothing is known until it is filled: it is never in the way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import Parameter

from amplint.confirm.provenance import Notes

CPU = torch.device("cpu")
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastCUDA
)
_PLAIN = (Tensor, Parameter)
_KEPT = "amplint_device"
_Mismatch: Any = getattr(fake_tensor, "FakeTensorDeviceMismatchError", ())
"""What fake tensors of torch raise; before there was a class for it nothing is raised here."""

_cuda: dict[int, torch.device] = {}
_without_memory: Notes[torch.device] = Notes()
"""Devices of tensors that have no memory of one piece: sparse and opaque ones."""
_together: dict[Any, tuple[str, torch.device | None]] = {}
"""What comes of an op that meets tensors on these devices: an error, or the device of its result if torch can say."""

Where = torch.device | dict[torch.dtype, torch.device] | None
"""Where the result of an op is: on a device, or that of the operand of its type, or that is not known."""


class _Current(threading.local):
    index = 0


current = _Current()
"""``index``: the CUDA device that a thread has chosen by ``torch.cuda.set_device``."""


def on_cpu(device: Any) -> Any:
    """A device, with the CPU in place of CUDA. What is no CUDA device stays as it is."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return "cpu"
    if isinstance(device, torch.device) and device.type == "cuda":
        return CPU
    return device


def cuda(index: int | None = None) -> torch.device:
    """A CUDA device, that of the thread if none is named. There is one object for each."""
    number = current.index if index is None else index
    if number not in _cuda:
        _cuda[number] = torch.device("cuda", number)
    return _cuda[number]


def named(device: Any) -> torch.device | None:
    """The CPU or a CUDA device, from what torch takes for one; None if it is something else."""
    if type(device) is int:
        return cuda(device)
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device):
        return None
    if device.type == "cuda":
        return cuda(device.index)
    return CPU if device.type == "cpu" else None


def kept(storage: Any) -> torch.device | None:
    """The device that is kept with memory."""
    return getattr(storage, _KEPT, None)


def keep(storage: Any, device: torch.device | None) -> Any:
    """Keeps a device with memory, which is returned."""
    setattr(storage, _KEPT, device)
    return storage


def asked(tensor: Any) -> torch.device | None:
    """Where the program has put a tensor; None if that is not known."""
    try:
        return getattr(tensor.untyped_storage(), _KEPT, None)
    except (NotImplementedError, RuntimeError):
        pass
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return asked(torch._C._functorch.get_unwrapped(tensor))
    return next((asked(part) for part in _inside(tensor)), _without_memory.of(tensor))


def place(tensor: Any, device: torch.device) -> None:
    """Notes where a tensor is, in place of what was known."""
    try:
        setattr(tensor.untyped_storage(), _KEPT, device)
    except (NotImplementedError, RuntimeError):
        parts = _inside(tensor)
        for part in parts:
            place(part, device)
        if not parts:
            _without_memory.note(tensor, device)


def _inside(tensor: Any) -> list[Tensor]:
    """The tensors that a tensor of a class of its own is made of."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    return [getattr(tensor, name) for name in flatten()[0]] if flatten is not None else []


def same_memory(one: Any, other: Any) -> bool:
    """Whether two tensors share their memory."""
    try:
        return one is other or one.untyped_storage() is other.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return False


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors among arguments or results, those in lists included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def involved(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, bool]:
    """Whether an op meets tensors that may be on CUDA, and whether on the CPU."""
    on_cuda = on_cpu = False
    for tensor in tensors_in((*args, *kwargs.values())):
        device = asked(tensor)
        on_cuda = on_cuda or device is not CPU
        on_cpu = on_cpu or device is CPU or device is None
    return on_cuda, on_cpu


def common(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Where:
    """Where the result of an op will be. Raises RuntimeError, as torch does, if its operands must not be on different
    devices."""
    found: torch.device | None = None
    unknown = False
    for tensor in tensors_in((*args, *kwargs.values()) if kwargs else args):
        device = asked(tensor)
        if device is None:
            unknown = True
        elif found is None:
            found = device
        elif device is not found:
            return _met(func, args, kwargs)
    return None if unknown and found is CPU else found


def spread(result: Any, where: Where) -> None:
    """Notes where what an op gave is, unless that is known."""
    if where is None:
        return
    for tensor in (result,) if type(result) is Tensor else tensors_in((result,)):
        device = where.get(tensor.dtype) if isinstance(where, dict) else where
        if device is not None and asked(tensor) is None:
            place(tensor, device)


def _met(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Where:
    tensors = list(tensors_in((*args, *kwargs.values())))
    devices = [asked(tensor) for tensor in tensors]
    by_type: dict[torch.dtype, torch.device] = {}
    for device, tensor in zip(devices, tensors, strict=True):
        if device is not None:
            by_type.setdefault(tensor.dtype, device)
    if None in devices:
        return by_type
    key = (func, tuple((device, tensor.dim() == 0) for device, tensor in zip(devices, tensors, strict=True)))
    if key not in _together:
        _together[key] = _asked_of_torch(func, args, kwargs)
    error, device = _together[key]
    if error:
        raise RuntimeError(error)
    return device or by_type


def _asked_of_torch(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, torch.device | None]:
    """What torch's own fake tensors say of an op on these devices."""
    mode = FakeTensorMode()

    def fake(value: Any) -> Any:
        if isinstance(value, Tensor):
            empty = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")
            return FakeTensor(mode, empty, asked(value) or CPU)
        if isinstance(value, (list, tuple)):
            return type(value)(fake(part) for part in value)
        return value

    try:
        with torch.no_grad(), torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            given, named_ones = fake(args), {name: fake(value) for name, value in kwargs.items()}
            with mode:
                result = func(*given, **named_ones)
    except _Mismatch as error:
        return str(error), None
    except Exception:
        return "", None  # it depends on numbers, say, of which fake tensors have none
    return "", next((named(part.device) for part in tensors_in((result,))), None)


# what tensors say of themselves ------------------------------------------------------------------------------

_own_device = torch._C.TensorBase.device.__get__


def device_of(tensor: Any) -> torch.device:
    """What ``tensor.device`` says: where the program has put it, if it is in the CPU's memory."""
    if type(tensor) in _PLAIN:
        with torch._C.DisableTorchFunction():
            own: torch.device = _own_device(tensor)
            return (asked(tensor) or own) if own.type == "cpu" else own
    own = _own_device(tensor)
    if own.type != "cpu":
        return own
    with torch._C.DisableTorchFunction():
        return asked(tensor) or own
