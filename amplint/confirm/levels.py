"""How closely a probe looks."""

from __future__ import annotations

from enum import Enum


class Level(Enum):
    """Each level sees what those before it see."""

    API = 1
    """Calls of torch.amp, backward, optimizers, scalers, modules. Costs next to nothing."""
    FUNCTIONS = 2
    """Ops with half-precision operands, and where these come from."""
    CASTS = 3
    """All ops, and the casts that autocast makes for them. Slow."""
