"""What ``torch.cuda`` and ``torch.accelerator`` answer while CUDA is simulated: one device, which does all at once."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from amplint.confirm.placement import CPU, cuda, current, named

NAME = "CUDA simulated on CPU"


class Stream:
    """A stream of the simulated device: everything is done at once."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = cuda()

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

    def __init__(self, device: Any = None) -> None:
        self.idx = _index(device)
        self.prev_idx = current.index

    def __enter__(self) -> None:
        self.prev_idx, current.index = current.index, self.idx

    def __exit__(self, *details: Any) -> None:
        current.index = self.prev_idx


def _index(device: Any) -> int:
    """The number of a device, that of the thread's if it is no CUDA device."""
    found = named(getattr(device, "device", device)) if type(device) is not int or device >= 0 else None
    return current.index if found is None or found is CPU else found.index


def _set_device(device: Any) -> None:
    current.index = _index(device)


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


CUDA: dict[str, Any] = {
    **_giving(
        """
        init _lazy_init synchronize empty_cache ipc_collect manual_seed manual_seed_all seed seed_all
        reset_peak_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated
        reset_max_memory_cached set_per_process_memory_fraction set_stream set_rng_state set_rng_state_all
        set_sync_debug_mode
        """,
        None,
    ),
    **_giving(
        """
        memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached
        utilization initial_seed get_sync_debug_mode
        """,
        0,
    ),
    **_giving("is_available is_bf16_supported is_initialized", True),
    **_giving("is_current_stream_capturing", False),
    "current_device": lambda: current.index,
    "set_device": _set_device,
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
"""What stands for the functions and classes of ``torch.cuda``, by name."""

ACCELERATOR: dict[str, Any] = {
    **_giving("is_available", True),
    **_giving("device_count", 1),
    **_giving(
        """
        memory_allocated max_memory_allocated memory_reserved max_memory_reserved
        """,
        0,
    ),
    **_giving(
        """
        synchronize set_stream empty_cache reset_peak_memory_stats reset_accumulated_memory_stats
        """,
        None,
    ),
    "current_device_index": lambda: current.index,
    "current_device_idx": lambda: current.index,
    "set_device_index": _set_device,
    "set_device_idx": _set_device,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_stream": lambda device=None: Stream(),
    "get_memory_info": lambda device=None: (_MEMORY, _MEMORY),
    "memory_stats": lambda device=None: {},
}
"""The same for ``torch.accelerator``."""
