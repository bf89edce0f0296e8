"""What is known of classes of torch.nn: as annotations, and by calls of ``forward``."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F


class Own(nn.Linear):
    pass


def train({parameters}, x, y):
    {made}
    with torch.autocast("cuda", dtype=torch.float16):
        out = {call}
    loss = {loss}(out, y)
    loss.backward()
"""


def found(folder: Path, parameters: str, made: str, call: str, loss: str = "F.cross_entropy") -> list[int]:
    text = PROGRAM.format(parameters=parameters, made=made, call=call, loss=loss)
    return [one.span.line for one in said(folder, "missing-float", text)]


@pytest.mark.parametrize("call", ["model(x)", "model.forward(x)"])
@pytest.mark.parametrize(
    ("parameters", "made"),
    [
        ("model: nn.Module", "pass"),
        ("model: nn.Sequential", "pass"),
        ("model: nn.Linear", "pass"),
        ("_", "model = nn.Linear(8, 4)"),
        ("_", "model = nn.Sequential(nn.Linear(8, 4))"),
        ("_", "model = Own(8, 4)"),
        ("_", 'model = torch.hub.load("a", "b").train()'),
    ],
)
def test_forward_is_a_call(tmp_path: Path, parameters: str, made: str, call: str) -> None:
    assert found(tmp_path, parameters, made, call) == [15]


@pytest.mark.parametrize("kind", ["nn.CrossEntropyLoss", "nn.BCEWithLogitsLoss", "torch.nn.SmoothL1Loss"])
def test_a_loss_may_be_known_by_its_annotation(tmp_path: Path, kind: str) -> None:
    parameters = f"model: nn.Module, criterion: {kind}"
    called = "criterion" if kind == "nn.CrossEntropyLoss" else "(lambda a, b: criterion(a, b.half()))"
    assert found(tmp_path, parameters, "pass", "model(x)", called) == [15]


def test_another_class_is_none(tmp_path: Path) -> None:
    assert not found(tmp_path, "model: nn.Module, criterion: nn.Module", "pass", "model(x)", "criterion")
    assert not found(tmp_path, "model: F.Linear", "pass", "model(x)")
