"""The byte strings without which a file has no AMP in it."""

from __future__ import annotations

_CASTS = (b".half(", b".bfloat16(", b"torch.float16", b"torch.half", b"torch.bfloat16")
_TRAINING = (b"optim", b"backward(")

GATE: tuple[tuple[bytes, ...], ...] = (
    (b"autocast",),
    (b"GradScaler",),
    (b"custom_fwd",),
    (b"custom_bwd",),
    *((cast, training) for cast in _CASTS for training in _TRAINING),
    (b"bfloat16", b"numpy("),
)
"""A file is looked at if all tokens of one row occur in it. Half-precision casts matter only where
something is trained (half-model) or turned into numpy (bfloat16-to-numpy)."""

DEFINITION_TOKENS: tuple[str, ...] = (
    "autocast", "GradScaler", ".half(", ".bfloat16(", "float16", "torch.half", "HalfTensor",
)
"""A definition whose text holds one of these is analysed as an entry point."""
