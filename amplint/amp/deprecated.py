"""Deprecated spellings of torch.amp and what replaces them.

Source: the FutureWarnings of torch 2.4.0 to 2.13.0 (``torch/cuda/amp``, ``torch/cpu/amp``), and which of the new names
are in the wheels of 1.10.2, 1.11.0, 1.12.1, 2.2.2, 2.3.1 and 2.4.1: 1.10 and 1.11 have ``torch.autocast`` without a
package ``torch.amp``, 2.3 has the new GradScaler but not yet the new custom_fwd and custom_bwd. For the
functions that ask for the state of autocast or set it: what ``libtorch_python.so`` of 2.4.1 warns of, and that of 2.3.1
does not.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """``device`` goes first in the new call; ``since`` is the torch release that has the new name. ``warning`` is the
    class of what torch warns with."""

    new: str
    device: str
    since: tuple[int, int]
    old_parameters: tuple[str, ...] = ()
    warning: str = "FutureWarning"


_AUTOCAST = ("enabled", "dtype", "cache_enabled")
_SCALER = ("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled")


def _for_device(device: str) -> dict[str, Replacement]:
    autocast = Replacement("torch.amp.autocast", device, (1, 12), _AUTOCAST)
    scaler = Replacement("torch.amp.GradScaler", device, (2, 3), _SCALER)
    return {
        f"torch.{device}.amp.autocast": autocast,
        f"torch.{device}.amp.autocast_mode.autocast": autocast,
        f"torch.{device}.amp.GradScaler": scaler,
        f"torch.{device}.amp.grad_scaler.GradScaler": scaler,
    }


def _state(name: str, device: str, *parameters: str) -> Replacement:
    return Replacement(f"torch.{name}", device, (2, 4), parameters, "DeprecationWarning")


def _states(middle: str, device: str) -> dict[str, Replacement]:
    return {
        f"torch.get_autocast_{middle}_dtype": _state("get_autocast_dtype", device),
        f"torch.set_autocast_{middle}_dtype": _state("set_autocast_dtype", device, "dtype"),
        f"torch.is_autocast_{middle}_enabled": _state("is_autocast_enabled", device),
        f"torch.set_autocast_{middle}_enabled": _state("set_autocast_enabled", device, "enabled"),
    }


DEPRECATED: dict[str, Replacement] = {
    **_for_device("cuda"),
    **_for_device("cpu"),
    **{
        f"torch.cuda.amp.{middle}{name}": Replacement(f"torch.amp.{name}", "cuda", (2, 4))
        for name in ("custom_fwd", "custom_bwd")
        for middle in ("", "autocast_mode.")
    },
    "torch.get_autocast_gpu_dtype": _state("get_autocast_dtype", "cuda"),
    "torch.set_autocast_gpu_dtype": _state("set_autocast_dtype", "cuda", "dtype"),
    **_states("cpu", "cpu"),
    **_states("xla", "xla"),
}

STATE_FUNCTIONS = frozenset(
    old.rpartition(".")[2] for old, new in DEPRECATED.items() if not new.new.startswith("torch.amp.")
)
"""The names of the functions that ask for the state of autocast or set it."""

OLD_MODULES = frozenset({"torch.cuda.amp", "torch.cpu.amp"})
"""The modules whose names ``torch.amp`` has."""

GONE = "torch._six"
"""A module that torch has no longer since 2.0 (pytorch#94709): code that imports it runs with releases that do not warn
of the old names."""
