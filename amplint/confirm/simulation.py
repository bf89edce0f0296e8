"""CUDA simulated on a machine without a GPU: the user's script runs, on the CPU, as if it had one GPU.

What asks for a ``cuda`` device gets memory of the CPU, of which is kept that it is CUDA's (``placement.py``): tensors
say so, ops that meet tensors on both raise as there, and a region is for tensors on its device. A GradScaler for CUDA
works. Not simulated: speed, memory, graphs, several devices and kernels of extensions.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
import torch.utils._device
import torch.utils.checkpoint
from torch.utils._python_dispatch import TorchDispatchMode

from amplint.confirm.composites import in_parts
from amplint.confirm.cuda_policy import CudaPolicy
from amplint.confirm.patches import Patches
from amplint.confirm.placement import (
    CPU,
    asked,
    common,
    cuda,
    current,
    device_of,
    keep,
    kept,
    named,
    on_cpu,
    place,
    same_memory,
    spread,
)
from amplint.confirm.simulated_device import ACCELERATOR, CUDA


class SimulatedCuda:
    """A context manager: inside there is one CUDA device, in all threads. One at a time, and on the outside of
    a probe. ``missing_kernels``: half-precision kernels that the CPU lacks are computed in float32, at the
    price of a look at every op."""

    def __init__(self, *, missing_kernels: bool = True) -> None:
        self._patches = Patches()
        self._policy: CudaPolicy | None = None
        self._cpu = _CpuState()
        self._missing_kernels = missing_kernels
        self._mode: HalfKernels | None = None

    def __enter__(self) -> SimulatedCuda:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins to simulate."""
        if torch.cuda.is_available():
            raise RuntimeError("there is a CUDA device; nothing needs to be simulated")
        self._policy = CudaPolicy(self._cpu)
        self._policy.install()
        try:
            self._autocast(self._policy)
            self._factories()
            self._tensors()
            self._modules()
            self._devices()
            self._parallel()
        except BaseException:
            self.stop()
            raise
        if self._missing_kernels:
            self._mode = HalfKernels()
            self._mode.__enter__()

    def stop(self) -> None:
        """Leaves torch as it was."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None
        self._patches.undo()
        if self._policy is not None:
            self._policy.close()
            self._policy = None
        current.index = 0
        # regions that the code never left
        while torch.autocast_increment_nesting() > 1:
            torch.autocast_decrement_nesting()
            torch.autocast_decrement_nesting()
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(True)
        for device, dtype in (("cuda", torch.float16), ("cpu", torch.bfloat16)):
            torch.set_autocast_enabled(device, False)
            torch.set_autocast_dtype(device, dtype)

    # autocast -----------------------------------------------------------------------------------------------

    def _autocast(self, policy: CudaPolicy) -> None:
        """A region for CUDA switches the kernels of the AutocastCPU key on; ``is_autocast_enabled`` tells the
        two devices apart all the same."""
        patches = self._patches
        set_enabled, is_enabled = torch.set_autocast_enabled, torch.is_autocast_enabled
        clear = torch.clear_autocast_cache
        cpu = self._cpu

        def set_autocast_enabled(*args: Any) -> None:
            device = args[0].partition(":")[0] if isinstance(args[0], str) else "cuda"
            args = (device, args[-1])
            if device == "cpu":
                before = is_enabled("cpu")
                set_enabled(*args)  # refuses what is no flag
                set_enabled("cpu", before)
                cpu.enabled = args[-1]
            else:
                set_enabled(*args)
            if device in ("cpu", "cuda"):
                set_enabled("cpu", cpu.enabled or is_enabled("cuda"))

        def is_autocast_enabled(*args: Any, **kwargs: Any) -> bool:
            device = args[0] if args else kwargs.get("device_type", "cuda")
            return cpu.enabled if device.partition(":")[0] == "cpu" else is_enabled(device)

        def clear_autocast_cache() -> None:
            policy.cache.clear()
            clear()

        patches.set(torch, "set_autocast_enabled", set_autocast_enabled)
        patches.set(torch, "is_autocast_enabled", is_autocast_enabled)
        patches.set(torch, "clear_autocast_cache", clear_autocast_cache)
        patches.set(torch, "is_autocast_cpu_enabled", lambda: cpu.enabled)
        patches.set(torch, "set_autocast_cpu_enabled", functools.partial(set_autocast_enabled, "cpu"))
        patches.set(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)

    # devices of tensors -------------------------------------------------------------------------------------

    def _factories(self) -> None:
        patches = self._patches
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

    def _tensors(self) -> None:
        patches, tensor = self._patches, torch.Tensor
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
        patches.set(tensor, "numpy", _numpy(tensor.numpy))
        # lazy parameters know by identity what may be called on them
        lazy = vars(torch.nn.parameter)["UninitializedTensorMixin"]
        patches.set(lazy, "_allowed_methods", [*lazy._allowed_methods, tensor.to])
        storage = torch.UntypedStorage
        patches.wrap(storage, "clone", _cloned)
        patches.wrap(storage, "to", _storage_to)
        # C++ groups by the devices of memory
        patches.wrap(torch._C, "_group_tensors_by_device_and_dtype", _grouped)
        # memory on the CPU is none that cuDNN could use
        patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: False)

    def _modules(self) -> None:
        for name in ("to", "to_empty"):
            self._patches.wrap(torch.nn.Module, name, _by_name)
        if self._missing_kernels:
            self._patches.wrap(threading.Thread, "start", _seen_in_thread)

    def _parallel(self) -> None:
        self._patches.wrap(torch.nn.DataParallel, "__init__", _without_devices)
        self._patches.wrap(torch.nn.parallel.DistributedDataParallel, "__init__", _without_devices)
        self._patches.wrap(torch.utils.data.DataLoader, "__init__", _without_pinning)
        if torch.distributed.is_available():
            for owner in (torch.distributed, torch.distributed.distributed_c10d):
                self._patches.wrap(owner, "init_process_group", _over_gloo)

    # torch.cuda ---------------------------------------------------------------------------------------------

    def _devices(self) -> None:
        for name, value in CUDA.items():
            for owner in (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams):
                if owner is torch.cuda or hasattr(owner, name):
                    self._patches.set(owner, name, value)
        for name, value in ACCELERATOR.items():
            if hasattr(torch, "accelerator") and hasattr(torch.accelerator, name):
                self._patches.set(torch.accelerator, name, value)


class _CpuState:
    """Whether the code has switched autocast on for the CPU, in this thread."""

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def enabled(self) -> bool:
        return bool(getattr(self._local, "enabled", False))

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._local.enabled = value


def _seen_in_thread(original: Any) -> Any:
    """A thread has modes of its own."""

    def start(thread: threading.Thread) -> None:
        run, own = thread.run, vars(thread).get("run")

        def seen() -> None:
            if own is None:
                del thread.run
            else:
                thread.run = own  # type: ignore[method-assign]
            with HalfKernels():
                run()

        thread.run = seen  # type: ignore[method-assign]
        original(thread)

    return start


class HalfKernels(TorchDispatchMode):
    """Sees each op: keeps in mind on which device its result is, and computes in float32, and rounds, where the CPU
    has no half-precision kernel and CUDA has one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        done = in_parts(self, func, args, kwargs)
        if done is not NotImplemented:
            return done
        with torch._C.DisableTorchFunction():
            device = common(func, args, kwargs)
        try:
            result = func(*args, **kwargs)
        except RuntimeError as error:
            if not _lacks_kernel(func, str(error)):
                raise
            _as_cufft(func, args)
            result = _in_float32(func, args, kwargs)
        with torch._C.DisableTorchFunction():
            spread(result, device)
        return result


_LACKING = (
    "not implemented for 'Half'",
    "could not create a primitive",
    "FFT doesn't support tensors of type: Half",
)
_NOT_ON_CUDA = ("linalg_", "_linalg_", "cholesky", "geqrf", "ormqr", "_ctc_loss", "lu_", "triangular_solve")


def _lacks_kernel(func: Any, message: str) -> bool:
    lacks = any(text in message for text in _LACKING)
    return lacks and not func._schema.name.removeprefix("aten::").startswith(_NOT_ON_CUDA)


def _as_cufft(func: Any, args: tuple[Any, ...]) -> None:
    """Raises where cuFFT has no half-precision transform, either."""
    if func._schema.name.startswith("aten::_fft_"):
        sizes = [args[0].size(part) for part in args[1]]
        if any(size & (size - 1) for size in sizes):
            raise RuntimeError(
                "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but "
                f"got a signal size of{sizes}"
            )


def _in_float32(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raised: list[tuple[torch.Tensor, torch.Tensor]] = []

    def up(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype is torch.float16:
            copy = value.float()
            raised.append((value, copy))
            return copy
        if isinstance(value, (tuple, list)):
            return type(value)(up(part) for part in value)
        return torch.float32 if value is torch.float16 else value

    def down(value: Any) -> Any:
        for original, copy in raised:
            if value is copy:
                return original
        if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
            return value.half()
        if isinstance(value, torch.Tensor) and value.dtype is torch.complex64:
            return value.to(torch.complex32)
        if isinstance(value, (tuple, list)):
            return type(value)(down(part) for part in value)
        return value

    result = func(*up(args), **{key: up(value) for key, value in kwargs.items()})
    if func._schema.is_mutable:
        for original, copy in raised:
            original.copy_(copy)
    return down(result)


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
        result = original(*args, **kwargs)
        device = named(wanted)
        if isinstance(result, torch.Tensor) and (wanted is None or device is not None):
            return _settled(result, device, args)
        return result

    return made


def _for_torch(device: Any) -> Any:
    return "cpu" if type(device) is int else on_cpu(device)


def _settled(result: Any, wanted: torch.device | None, args: tuple[Any, ...]) -> Any:
    """A tensor that was made, where it is to be."""
    with torch._C.DisableTorchFunction():
        others = [value for value in args if isinstance(value, torch.Tensor)]
        if not any(same_memory(result, other) for other in others):
            if wanted is not None:
                place(result, wanted)
            elif not others and asked(result) is None:
                place(result, CPU)
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
        if type(kwargs.get("device")) is _Memory:
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
        if isinstance(dtype, str):
            where, _, name = dtype.removeprefix("torch.").rpartition(".")
            return tensor.to(cuda() if where else CPU, getattr(torch, name).dtype, *args, **kwargs)
        if dtype is not None:
            return original(tensor, dtype, *args, **kwargs)
        name = original(tensor).rpartition(".")[2]
        return f"torch.cuda.{name}" if device_of(tensor).type == "cuda" else f"torch.{name}"

    return type_of


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


def _without_devices(original: Any) -> Any:
    def __init__(  # noqa: N807
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        with _no_gpu():
            original(self, module, None, None, *args, **kwargs)

    return __init__


def _without_pinning(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        self.pin_memory = False

    return __init__


def _over_gloo(original: Any) -> Any:
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return original("gloo" if backend is None or "nccl" in str(backend) else backend, *args, **kwargs)

    return init_process_group


@contextmanager
def _no_gpu() -> Iterator[None]:
    """torch finds no accelerator for a moment."""
    patches = Patches()
    patches.set(torch.cuda, "is_available", lambda: False)
    patches.set(torch.cuda, "device_count", lambda: 0)
    try:
        yield
    finally:
        patches.undo()
