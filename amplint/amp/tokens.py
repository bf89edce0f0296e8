"""The byte strings without which a file has no AMP in it."""

from __future__ import annotations

import re

_CASTS = (b"float16", b".half(", b"torch.half")
_APEX = re.compile(rb"(?:from|import)[ \t]+apex\b")
_TRAINING = (b"optim.", b"backward(", b"Optimizer", b"AdamW(")

STRONG: tuple[tuple[bytes, ...], ...] = (
    (b"autocast",),
    (b"GradScaler",),
    (b"custom_fwd",),
    (b"custom_bwd",),
    (b"amp_mode",),
)
GATE: tuple[tuple[bytes, ...], ...] = (
    *STRONG,
    *((cast, training) for cast in _CASTS for training in _TRAINING),
    (b"float16", b".numpy("),
    (b".half(", b".float()"),
    (b"apex", b"amp"),
)
"""A file is looked at if all tokens of one row occur in it. Half-precision casts matter only where
something is trained or cast back (half-model) or turned into numpy (bfloat16-to-numpy). apex has an AMP of its own
(apex-amp)."""

REGIONS_AND_SCALERS = r"autocast|GradScaler"
"""A definition whose text has one of these is walked as an entry point."""

HALF_CASTS = (
    r"\.half\(|\.bfloat16\(|HalfTensor|\.(?:to|type)\([^()]*(?:float16|torch\.half)"
    r"|dtype\s*=\s*torch\.(?:b?float16|half)"
)
"""So is one with a cast to half precision, in a file that trains something or meets numpy."""

TRAINING = r"\boptim\.|backward\(|Optimizer\b|AdamW\(|\.numpy\(|(?m:^[ \t]*[\w.]+\.float\(\)[ \t\r]*(?:#|$))"
"""The last is a cast that stands as a statement, which only modules take in place."""
_TRAINS = re.compile(TRAINING.encode())
_HALVES = re.compile(HALF_CASTS.encode())


def is_worth_reading(data: bytes) -> bool:
    """Whether a file that passed the gate by a half-precision type and a training token really casts
    something. Files with an AMP name, or with an import of apex, always are."""
    if any(token in data for (token,) in STRONG) or _APEX.search(data) is not None:
        return True
    return _HALVES.search(data) is not None and _TRAINS.search(data) is not None


HALF = "half"
"""The tag of keys of weight ENTRY, half-precision types, that make an entry point only of what meets a key with the tag
BESIDE_HALF, too: code that only asks for a type is no AMP."""
BESIDE_HALF = "beside half"
"""The tag of keys beside which a half-precision type is worth a look: ``.backward``, ``.numpy``."""
