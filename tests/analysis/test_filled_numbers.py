"""Numbers that are written into tensors in half precision."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch

layer = torch.nn.Linear(8, 8).cuda()
with torch.autocast("cuda", dtype=torch.float16):
    scores = layer(torch.ones(2, 8, device="cuda"))
    print(scores.masked_fill(scores > 0, {number}))
"""


@pytest.mark.parametrize(("number", "expected"), [("-1e30", 1), ("-3.4e38", 1), ("-1e39", 0), ("-1e200", 0)])
def test_what_float32_cannot_hold_either_is_no_matter_of_half_precision(
    number: str, expected: int, tmp_path: Path
) -> None:
    assert len(said(tmp_path, "half-overflow-literal", PROGRAM.format(number=number))) == expected
