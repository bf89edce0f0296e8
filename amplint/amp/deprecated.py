"""Deprecated spellings of torch.amp and what replaces them.

Source: the FutureWarnings of torch 2.4.0 to 2.13.0 (``torch/cuda/amp``, ``torch/cpu/amp``), and which of the new names
are in the wheels of 1.10.2, 1.11.0, 1.12.1, 2.2.2, 2.3.1 and 2.4.1: 1.10 and 1.11 have ``torch.autocast`` without a
package ``torch.amp``, 2.3 has the new GradScaler but not yet the new custom_fwd and custom_bwd.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replacement:
    """``device`` goes first in the new call; ``since`` is the torch release that has the new name."""

    new: str
    device: str
    since: tuple[int, int]
    old_parameters: tuple[str, ...] = ()


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


DEPRECATED: dict[str, Replacement] = {
    **_for_device("cuda"),
    **_for_device("cpu"),
    **{
        f"torch.cuda.amp.{middle}{name}": Replacement(f"torch.amp.{name}", "cuda", (2, 4))
        for name in ("custom_fwd", "custom_bwd")
        for middle in ("", "autocast_mode.")
    },
}

WARNS_SINCE = (2, 4)
"""The first torch release that prints a FutureWarning for them."""
