"""The sine and cosine of positions that were multiplied in half precision."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import math

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 8, 2).float() / 8))

    def forward(self, x):
        hidden = self.layer(x)
        {angles}
        return hidden.sum() + torch.cat((angles, angles), -1).{op}().sum()


model = Model().cuda()
with torch.autocast("cuda", dtype=torch.{dtype}):
    model(torch.zeros(2, 300, 8, device="cuda"))
"""
COUNTED = "counted = torch.arange(300, device=x.device)"


@pytest.mark.parametrize(
    ("angles", "level"),
    [
        ('angles = torch.einsum("i,j->ij", counted.float(), self.frequencies)', "warning"),
        ("angles = counted.float()[:, None] @ self.frequencies[None]", "warning"),
        ("angles = (counted[:, None] * self.frequencies).to(hidden.dtype)", "warning"),
        ("angles = (counted[:, None] * self.frequencies).bfloat16()", "warning"),
        ("angles = counted.to(hidden.dtype)[:, None] * self.frequencies.to(hidden.dtype)", "warning"),
        (
            "angles = (counted + 7).to(hidden.dtype).unsqueeze(1) * self.frequencies.to(hidden.dtype)",
            "warning",
        ),
        # in float32
        ("angles = torch.outer(counted.float(), self.frequencies)", None),
        ("angles = counted[:, None] * self.frequencies", None),
        # shares of a number, and what says nothing of a position
        ("angles = (counted / 300 * math.pi).to(hidden.dtype)", None),
        ("angles = (counted * 0.01).to(hidden.dtype)", None),
        ("angles = hidden", None),
        ("angles = torch.arange(256, device=x.device).bfloat16()", None),
        ("angles = torch.arange(257, device=x.device).bfloat16()", "warning"),
    ],
)
def test_positions(angles: str, level: str | None, tmp_path: Path) -> None:
    program = PROGRAM.format(angles=f"{COUNTED}; {angles}", op="cos", dtype="bfloat16")
    found = said(tmp_path, "unprotected-op-in-half", program)
    assert [one.level.value for one in found] == ([level] if level is not None else [])


@pytest.mark.parametrize(("op", "dtype", "level"), [("sin", "float16", "advice"), ("tanh", "bfloat16", None)])
def test_what_suffers(op: str, dtype: str, level: str | None, tmp_path: Path) -> None:
    """Float16 keeps ten times as much of an angle."""
    angles = 'angles = torch.einsum("i,j->ij", counted.float(), self.frequencies)'
    program = PROGRAM.format(angles=f"{COUNTED}; {angles}", op=op, dtype=dtype)
    found = said(tmp_path, "unprotected-op-in-half", program)
    assert [one.level.value for one in found] == ([level] if level is not None else [])


def test_steps_of_a_schedule(tmp_path: Path) -> None:
    angles = "angles = torch.randint(1000, (2,), device=x.device).to(hidden.dtype)[:, None] * self.frequencies.half()"
    program = PROGRAM.format(angles=angles, op="sin", dtype="float16")
    assert len(said(tmp_path, "unprotected-op-in-half", program)) == 1
