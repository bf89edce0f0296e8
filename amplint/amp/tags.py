"""The tags of registered keys that more than one room asks for."""

from __future__ import annotations

BESIDE_HALF = "beside half"
"""The tag of keys beside which a half-precision type is worth a look: ``.backward``, ``.numpy``. A qualified name of
weight ENTRY without a model, such as ``torch.float16``, makes an entry point only of what meets such a key, too; code
that only asks for a type is no AMP."""
