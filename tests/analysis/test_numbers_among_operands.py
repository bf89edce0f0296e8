"""A number, text or None among the operands of an op lifts none of them to float32, as a tensor may do."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F


def train(x, y, weights: torch.Tensor):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(x)
    loss = {loss}
    loss.backward()
"""


def found(folder: Path, loss: str) -> list[int]:
    return [one.span.column for one in said(folder, "missing-float", PROGRAM.format(loss=loss))]


@pytest.mark.parametrize(
    "loss",
    [
        "torch.linalg.vector_norm(out, 2) * 2",
        "torch.linalg.vector_norm(out, 2, (0, 1)) * 2",
        "F.huber_loss(out, out * 2, 'mean', 0.5)",
        "F.cross_entropy(out, y, None, None, -1)",
        "F.smooth_l1_loss(out, out * 2, True)",
        "torch.dist(out, out * 2, 2)",
    ],
)
def test_what_is_no_tensor_lifts_nothing(tmp_path: Path, loss: str) -> None:
    assert found(tmp_path, loss) == [12]


@pytest.mark.parametrize("loss", ["F.huber_loss(out, weights, 'mean', 0.5)", "torch.dist(out, y, 2)"])
def test_what_may_be_one_may(tmp_path: Path, loss: str) -> None:
    assert not found(tmp_path, loss)
