"""The range of torch releases that code is to run with."""

from __future__ import annotations

Version = tuple[int, int]
"""A release by its major and minor number."""

TorchBounds = tuple[Version, Version | None]
"""The lowest release and the highest, or None where there is no upper bound."""

TORCH_DEFAULT: TorchBounds = ((2, 0), None)
"""Assumed where neither the settings nor the project say which torch versions it runs with."""

WARNS_SINCE: Version = (2, 4)
"""The first torch release that warns of the names below ``torch.cuda.amp``; it has all that stand for them."""
