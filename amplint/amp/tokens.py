"""The tags of keys that models and the byte gate agree on."""

from __future__ import annotations

HALF = "half"
"""The tag of keys of weight ENTRY, half-precision types, that make an entry point only of what meets a key with the tag
BESIDE_HALF, too: code that only asks for a type is no AMP."""
BESIDE_HALF = "beside half"
"""The tag of keys beside which a half-precision type is worth a look: ``.backward``, ``.numpy``."""
TO_HALF = "to half"
"""The tag of what casts to half precision by its name alone: ``.half``."""
SCALES_LOSSES = "scales losses"
"""The tag of what may multiply a loss by a scale."""
