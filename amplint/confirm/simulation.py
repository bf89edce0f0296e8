"""CUDA simulated on a machine without a GPU: the user's script runs, on the CPU, as if it had one GPU.

What asks for a ``cuda`` device gets the CPU, autocast does to CPU tensors what it does to CUDA tensors, and a
GradScaler for CUDA works. Not simulated: speed, memory, kernels of extensions, and ``tensor.device``, which
says ``cpu``: a region for the device type "cpu" counts as one for "cuda" unless the code spells the type out.
"""

from __future__ import annotations

import functools
import sys
import types
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

_LITERAL_CPU = sys.intern("cpu")
NAME = "CUDA simulated on CPU"


def on_cpu(device: Any) -> Any:
    """A device, with the CPU in place of CUDA. What is no CUDA device stays as it is."""
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return "cpu"
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    return device


def meant(device_type: Any) -> Any:
    """The device type of a region. What a tensor's ``device.type`` gives is a string of its own, while those
    that stand in the code are interned: a "cpu" that does not is taken for "cuda"."""
    if type(device_type) is str and device_type == "cpu" and device_type is not _LITERAL_CPU:
        return "cuda"
    return device_type


class SimulatedCuda:
    """A context manager: inside there is one CUDA device, in all threads. One at a time, and on the outside of
    a probe. ``missing_kernels``: half-precision kernels that the CPU lacks are computed in float32, at the
    price of a look at every op."""

    def __init__(self, *, missing_kernels: bool = True) -> None:
        self._patches = Patches()
        self._policy: CudaPolicy | None = None
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
        self._policy = CudaPolicy()
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
        cpu = _CpuState()

        def set_autocast_enabled(*args: Any) -> None:
            device = meant(args[0]).partition(":")[0] if isinstance(args[0], str) else "cuda"
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
            device = meant(args[0] if args else kwargs.get("device_type", "cuda"))
            return cpu.enabled if device.partition(":")[0] == "cpu" else is_enabled(device)

        def clear_autocast_cache() -> None:
            policy.cache.clear()
            clear()

        dtype_of, set_dtype = torch.get_autocast_dtype, torch.set_autocast_dtype
        patches.set(torch, "get_autocast_dtype", lambda device_type: dtype_of(meant(device_type)))
        patches.set(torch, "set_autocast_dtype", lambda device, dtype: set_dtype(meant(device), dtype))
        patches.set(torch, "set_autocast_enabled", set_autocast_enabled)
        patches.set(torch, "is_autocast_enabled", is_autocast_enabled)
        patches.set(torch, "clear_autocast_cache", clear_autocast_cache)
        patches.set(torch, "is_autocast_cpu_enabled", lambda: cpu.enabled)
        patches.set(torch, "set_autocast_cpu_enabled", functools.partial(set_autocast_enabled, "cpu"))
        patches.set(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        patches.wrap(torch.amp.autocast_mode.autocast, "__init__", _device_type_first)
        patches.wrap(torch.amp.autocast_mode, "_cast", _cast)
        patches.set(torch.utils.checkpoint, "_infer_device_type", lambda *args: "cuda")

    # devices of tensors -------------------------------------------------------------------------------------

    def _factories(self) -> None:
        constructors = torch.utils._device._device_constructors()
        for owner in (torch, torch.fft, torch.nested, torch.sparse):
            for name, value in list(vars(owner).items()):
                if callable(value) and _in(value, constructors):
                    self._patches.set(owner, name, _redirected(value))
        self._patches.wrap(torch.utils._device.DeviceContext, "__init__", _redirected)
        self._patches.wrap(torch, "load", _load)
        self._patches.wrap(torch.serialization, "load", _load)

    def _tensors(self) -> None:
        tensor = torch.Tensor
        for name in ("to", "new_empty", "new_full", "new_ones", "new_zeros", "new_tensor", "new"):
            self._patches.set(tensor, name, _redirected(getattr(tensor, name)))
        self._patches.set(tensor, "cuda", lambda self, *args, **kwargs: self)
        self._patches.set(tensor, "pin_memory", lambda self, *args, **kwargs: self)
        self._patches.set(tensor, "type", _type(tensor.type))
        # lazy parameters know by identity what may be called on them
        lazy = vars(torch.nn.parameter)["UninitializedTensorMixin"]
        also = [getattr(tensor, name) for name in ("to", "cuda") if hasattr(tensor, name)]
        self._patches.set(lazy, "_allowed_methods", [*lazy._allowed_methods, *also])
        self._patches.set(torch, "Generator", Generator)

    def _modules(self) -> None:
        module = torch.nn.Module
        self._patches.wrap(module, "to", _redirected)
        self._patches.wrap(module, "to_empty", _redirected)
        self._patches.set(module, "cuda", lambda self, *args, **kwargs: self)

    def _parallel(self) -> None:
        self._patches.wrap(torch.nn.DataParallel, "__init__", _without_devices)
        self._patches.wrap(torch.nn.parallel.DistributedDataParallel, "__init__", _without_devices)
        self._patches.wrap(torch.utils.data.DataLoader, "__init__", _without_pinning)
        if torch.distributed.is_available():
            for owner in (torch.distributed, torch.distributed.distributed_c10d):
                self._patches.wrap(owner, "init_process_group", _over_gloo)

    # torch.cuda ---------------------------------------------------------------------------------------------

    def _devices(self) -> None:
        for name, value in _CUDA.items():
            for owner in (torch.cuda, torch.cuda.memory, torch.cuda.random, torch.cuda.streams):
                if owner is torch.cuda or hasattr(owner, name):
                    self._patches.set(owner, name, value)
        for name, value in _ACCELERATOR.items():
            if hasattr(torch, "accelerator") and hasattr(torch.accelerator, name):
                self._patches.set(torch.accelerator, name, value)


class _CpuState:
    """Whether the code has switched autocast on for the CPU, in this thread."""

    def __init__(self) -> None:
        import threading

        self._local = threading.local()

    @property
    def enabled(self) -> bool:
        return bool(getattr(self._local, "enabled", False))

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._local.enabled = value


class HalfKernels(TorchDispatchMode):
    """Computes in float32, and rounds, where the CPU has no half-precision kernel and CUDA has one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        done = in_parts(self, func, args, kwargs)
        if done is not NotImplemented:
            return done
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if not _lacks_kernel(func, str(error)):
                raise
        return _in_float32(func, args, kwargs)


_NOT_ON_CUDA = ("linalg_", "_linalg_", "cholesky", "geqrf", "ormqr", "_ctc_loss", "lu_", "triangular_solve")


def _lacks_kernel(func: Any, message: str) -> bool:
    lacks = "not implemented for 'Half'" in message or "could not create a primitive" in message
    return lacks and not func._schema.name.removeprefix("aten::").startswith(_NOT_ON_CUDA)


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

    def __new__(cls, device: Any = "cpu") -> Generator:
        """As that of torch."""
        return super().__new__(cls, on_cpu(device))  # type: ignore[call-arg]


def _in(value: Any, group: Any) -> bool:
    try:
        return value in group
    except TypeError:
        return False


def _redirected(original: Any) -> Any:
    """A function that takes a device, given by keyword or among its arguments."""

    @functools.wraps(original)
    def redirected(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None:
            kwargs["device"] = "cpu" if type(device) is int else on_cpu(device)
        if any(isinstance(value, (str, torch.device)) for value in args):
            args = tuple(on_cpu(value) for value in args)
        elif len(args) > 1 and type(args[1]) is int and original.__name__ == "to":
            args = (args[0], "cpu", *args[2:])
        return original(*args, **kwargs)

    return redirected


def _type(original: Any) -> Any:
    def type_of(tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(dtype, str):
            dtype = dtype.replace("torch.cuda.", "torch.")
        return original(tensor, dtype, *args, **kwargs) if dtype is not None else original(tensor)

    return type_of


def _load(original: Any) -> Any:
    def load(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if map_location is None:
            map_location = "cpu"
        elif isinstance(map_location, dict):
            map_location = {key: on_cpu(value) for key, value in map_location.items()}
        else:
            map_location = on_cpu(map_location)
        return original(file, map_location, *args, **kwargs)

    return load


def _device_type_first(original: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if args:
            args = (meant(args[0]), *args[1:])
        elif "device_type" in kwargs:
            kwargs["device_type"] = meant(kwargs["device_type"])
        original(self, *args, **kwargs)

    return __init__


def _cast(original: Any) -> Any:
    def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        return original(value, on_cpu(device_type), dtype)

    return _cast


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


class Stream:
    """A stream of the simulated device: everything is done at once."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cpu")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *details: Any) -> None:
        pass

    def query(self) -> bool:
        """Whether all work is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether a graph is being captured."""
        return False

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait_stream(self, stream: Any) -> None:
        """Waits for nothing."""

    def wait_event(self, event: Any) -> None:
        """Waits for nothing."""

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event or Event()


class Event:
    """An event of the simulated device, which knows the time of the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        """Notes the time."""
        import time

        self._time = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds to a later event."""
        return (other._time - self._time) * 1000

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def synchronize(self) -> None:
        """Waits for nothing."""

    def wait(self, stream: Any = None) -> None:
        """Waits for nothing."""


class Device:
    """``with torch.cuda.device(0):``, and ``device_of``."""

    def __init__(self, *args: Any) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *details: Any) -> None:
        pass


@contextmanager
def _stream(stream: Any) -> Iterator[None]:
    yield


_MEMORY = 24 * 2**30
_PROPERTIES = types.SimpleNamespace(
    name=NAME,
    major=8,
    minor=0,
    total_memory=_MEMORY,
    multi_processor_count=1,
    is_integrated=False,
    is_multi_gpu_board=False,
    warp_size=32,
    gcnArchName="",
)


def _giving(names: str, value: Any) -> dict[str, Any]:
    """A function for each name that gives the same whatever it is asked. Each has its own, because the
    compiler keeps a table of them."""

    def make() -> Any:
        return lambda *args, **kwargs: value

    return {name: make() for name in names.split()}


_CUDA: dict[str, Any] = {
    **_giving(
        """
        init _lazy_init set_device synchronize empty_cache ipc_collect manual_seed manual_seed_all seed seed_all
        reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated
        reset_max_memory_cached set_per_process_memory_fraction set_stream set_rng_state set_rng_state_all
        set_sync_debug_mode
        """,
        None,
    ),
    **_giving(
        """
        current_device memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached
        max_memory_cached utilization initial_seed get_sync_debug_mode
        """,
        0,
    ),
    **_giving("is_available is_bf16_supported is_initialized", True),
    **_giving("is_current_stream_capturing", False),
    "device_count": lambda: 1,
    "_device_count_nvml": lambda: 1,
    "get_device_name": lambda device=None: NAME,
    "get_device_capability": lambda device=None: (8, 0),
    "get_device_properties": lambda device=None: _PROPERTIES,
    "get_arch_list": lambda: ["sm_80"],
    "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
    "memory_stats": lambda device=None: {},
    "memory_summary": lambda device=None, abbreviated=False: "",
    "memory_snapshot": list,
    "get_rng_state": lambda device="cuda": torch.get_rng_state(),
    "get_rng_state_all": lambda: [torch.get_rng_state()],
    "can_device_access_peer": lambda device, peer: False,
    "current_stream": lambda device=None: Stream(),
    "default_stream": lambda device=None: Stream(),
    "Stream": Stream,
    "Event": Event,
    "StreamContext": _stream,
    "stream": _stream,
    "device": Device,
    "device_of": Device,
}
_ACCELERATOR: dict[str, Any] = {
    **_giving("is_available", True),
    **_giving("device_count", 1),
    **_giving(
        """
        current_device_index current_device_idx memory_allocated max_memory_allocated memory_reserved
        max_memory_reserved
        """,
        0,
    ),
    **_giving(
        """
        synchronize set_device_index set_device_idx set_stream empty_cache reset_peak_memory_stats
        reset_accumulated_memory_stats
        """,
        None,
    ),
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_stream": lambda device=None: Stream(),
    "get_memory_info": lambda device=None: (_MEMORY, _MEMORY),
    "memory_stats": lambda device=None: {},
}
