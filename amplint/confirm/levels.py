"""How closely a probe looks."""

from __future__ import annotations

from enum import Enum


class Level(Enum):
    """The second sees what the first sees, too."""

    API = 1
    """Calls of torch.amp, backward, optimizers, scalers, modules. Costs next to nothing."""
    FUNCTIONS = 2
    """Ops with half-precision operands, and where these come from."""
    CASTS = 3
    """What the first level sees, and for a trace all ops, modules and casts. Slow."""


_LAST = 128


def is_sampled(count: int) -> bool:
    """Whether something is measured that happens for the ``count``-th time at a place: the 1st, 2nd, 4th … 128th
    time, because the first scales of a run are often too large for any gradient."""
    return count & (count - 1) == 0 and count <= _LAST
