"""That a region on the CPU runs in float16 is one guess more than that a region on CUDA does."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from torch import nn


def train(loader, optimizer, dtype):
    layer = nn.Linear(3, 3)
    for x in loader:
        with torch.autocast({device}, dtype=dtype):
            out = layer(x)
            loss = (out * torch.log(out.abs() + 1e-8)).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("device", "count"), [('"cuda"', 1), ('"cpu"', 0)])
def test_an_epsilon(tmp_path: Path, device: str, count: int) -> None:
    found = said(tmp_path, "half-underflow-eps", PROGRAM.format(device=device))
    assert len(found) == count


@pytest.mark.parametrize(("device", "count"), [('"cuda"', 1), ('"cpu"', 0)])
def test_a_large_constant(tmp_path: Path, device: str, count: int) -> None:
    program = PROGRAM.format(device=device).replace("out.abs() + 1e-8", "out.masked_fill(out > 0, -1e9)")
    assert len(said(tmp_path, "half-overflow-literal", program)) == count
