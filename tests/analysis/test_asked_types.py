"""An op that is asked for a type casts its input to it first: it is not computed in half precision."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F


def train(x, y, optimizer, dtype):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4)).cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(x)
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
OPS = (
    "F.nll_loss(F.log_softmax(out, 1{asked}), y)",
    "F.nll_loss(torch.log_softmax(out, 1{asked}), y)",
    "F.nll_loss(out.log_softmax(-1{asked}), y)",
    "-(F.softmax(out, 1{asked}).log() * y).sum()",
    "out.sum(0{asked}) / 3",
    "out.mean(0{asked}).log()",
    "out.cumsum(0{asked}) / 3",
    "out.norm(dim=1{asked}) / 3",
    "torch.linalg.vector_norm(out, 2{asked}) * 2",
)


def found(folder: Path, loss: str) -> list[int]:
    return [one.span.line for one in said(folder, "missing-float", PROGRAM.format(loss=loss))]


@pytest.mark.parametrize("op", OPS)
def test_in_half_precision_they_are_told_of(tmp_path: Path, op: str) -> None:
    assert found(tmp_path, op.format(asked="")) == [11]
    assert found(tmp_path, op.format(asked=", dtype=None")) == [11]


@pytest.mark.parametrize("asked", [", dtype=torch.float32", ", dtype=torch.float64", ", dtype=dtype"])
@pytest.mark.parametrize("op", OPS)
def test_in_another_type_they_are_not(tmp_path: Path, op: str, asked: str) -> None:
    assert not found(tmp_path, op.format(asked=asked))


@pytest.mark.parametrize(
    "op", ["torch.log_softmax(out, 1, torch.float32)", "out.log_softmax(1, torch.float32)"]
)
def test_the_type_may_stand_by_its_position(tmp_path: Path, op: str) -> None:
    assert not found(tmp_path, f"F.nll_loss({op}, y)")


def test_half_precision_may_be_asked_for(tmp_path: Path) -> None:
    assert found(tmp_path, "out.mean(0, dtype=torch.bfloat16).log()") == [11]
