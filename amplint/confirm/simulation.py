"""CUDA simulated on a machine without a GPU: the user's script runs, on the CPU, as if it had one GPU.

What asks for a ``cuda`` device gets memory of the CPU, of which is kept that it is CUDA's (``placement.py``): tensors
say so, ops that meet tensors on both raise as there, and a region is for tensors on its device. A GradScaler for CUDA
works. Not simulated: speed, memory, graphs, several devices and kernels of extensions.

An op that has no kernel on the CPU, and what ``torch.cuda`` cannot do without a device, ends the run: nothing is
refuted by it. Any number of a device stands for the one that is there.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import TracebackType
from typing import Any

import torch

from amplint.confirm import simulated_tensors, simulated_types
from amplint.confirm.cuda_policy import CudaPolicy
from amplint.confirm.patches import Patches
from amplint.confirm.placement import current
from amplint.confirm.simulated_device import ACCELERATOR, CUDA
from amplint.confirm.simulated_ops import SimulatedOps, seen_in_thread


class SimulatedCuda:
    """A context manager: inside there is one CUDA device, in all threads. One at a time, and on the outside of
    a probe."""

    def __init__(self) -> None:
        self._patches = Patches()
        self._policy: CudaPolicy | None = None
        self._enabled = _Enabled()
        self._mode: SimulatedOps | None = None

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
        # torch imports it at the first op under a dispatch mode, and torch 2.6 cannot with function modes off
        import_module("torch._dynamo")
        self._policy = CudaPolicy(self._enabled)
        self._policy.install()
        try:
            self._autocast(self._policy)
            simulated_tensors.install(self._patches)
            simulated_types.install(self._patches)
            self._patches.wrap(threading.Thread, "start", seen_in_thread)
            self._devices()
            self._parallel()
        except BaseException:
            self.stop()
            raise
        self._mode = SimulatedOps()
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
        leave_regions()

    # autocast -----------------------------------------------------------------------------------------------

    def _autocast(self, policy: CudaPolicy) -> None:
        """A region for CUDA switches the kernels of the AutocastCPU key on; ``is_autocast_enabled`` tells the
        two devices apart all the same."""
        patches = self._patches
        set_enabled, is_enabled = torch.set_autocast_enabled, torch.is_autocast_enabled
        clear = torch.clear_autocast_cache
        enabled = self._enabled

        def set_autocast_enabled(*args: Any) -> None:
            device = args[0].partition(":")[0] if isinstance(args[0], str) else "cuda"
            args = (device, args[-1])
            if device == "cpu":
                before = is_enabled("cpu")
                set_enabled(*args)  # refuses what is no flag
                set_enabled("cpu", before)
                enabled.cpu = args[-1]
            else:
                set_enabled(*args)
            if device == "cuda":
                enabled.cuda = args[-1]
            if device in ("cpu", "cuda"):
                set_enabled("cpu", enabled.cpu or is_enabled("cuda"))

        def is_autocast_enabled(*args: Any, **kwargs: Any) -> bool:
            device = args[0] if args else kwargs.get("device_type", "cuda")
            return enabled.cpu if device.partition(":")[0] == "cpu" else is_enabled(device)

        def clear_autocast_cache() -> None:
            policy.cache.clear()
            clear()

        patches.set(torch, "set_autocast_enabled", set_autocast_enabled)
        patches.set(torch, "is_autocast_enabled", is_autocast_enabled)
        patches.set(torch, "clear_autocast_cache", clear_autocast_cache)
        patches.set(torch, "is_autocast_cpu_enabled", lambda: enabled.cpu)
        patches.set(torch, "set_autocast_cpu_enabled", functools.partial(set_autocast_enabled, "cpu"))
        patches.set(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)

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


def leave_regions() -> None:
    """Puts autocast back to how torch begins, whatever a program left open: ``leave_regions()`` after a run."""
    while torch.autocast_increment_nesting() > 1:
        torch.autocast_decrement_nesting()
        torch.autocast_decrement_nesting()
    torch.autocast_decrement_nesting()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(True)
    for device, dtype in (("cuda", torch.float16), ("cpu", torch.bfloat16)):
        torch.set_autocast_enabled(device, False)
        torch.set_autocast_dtype(device, dtype)


class _Enabled(threading.local):
    """For which devices the code has switched autocast on, in this thread."""

    cpu = False
    cuda = False


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
