"""The torch that the run takes place on."""

from __future__ import annotations

import torch

from amplint.amp import ops

TORCH = ops.of_release(torch.__version__)
"""The bounds that admit its release alone."""

RELEASE = TORCH[0]
"""(2, 13)."""
