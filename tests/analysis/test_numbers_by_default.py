"""``scale or width**-0.5``: what a number may stand for is a number, and lifts no half tensor to float32."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads=8, scale=None):
        super().__init__()
        part = width // heads
        self.scale = {scale}
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        with torch.autocast("cuda", enabled=False):
            weights = (q @ k.transpose(-2, -1)) * self.scale
            return weights.softmax(dim=-1) @ v
"""


@pytest.mark.parametrize(
    ("scale", "findings"),
    [
        ("part ** -0.5", 1),
        ("scale or part ** -0.5", 1),
        ("scale or 0.5", 1),
        ("scale", 0),
        ("scale or other", 0),
        ("scale and part ** -0.5", 0),
    ],
)
def test_scales(tmp_path: Path, scale: str, findings: int) -> None:
    text = PROGRAM.format(scale=scale).replace("scale=None", "scale=None, other=None")
    assert len(said(tmp_path, "disabled-region-without-cast", text)) == findings
