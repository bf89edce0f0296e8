"""What is known of an object on some paths decides nothing on the others."""

from __future__ import annotations

from pathlib import Path

from one_rule import said

AVERAGED = """
import copy

import torch


def train(model: torch.nn.Module, data, half: bool):
    ema = copy.deepcopy(model)
    if half:
        ema.half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in data:
        with torch.no_grad():
            for old, new in zip(ema.parameters(), model.parameters()):
                old.mul_(0.999).add_(new, alpha=0.001)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).sum()
        loss.backward()
        optimizer.step()
"""


def test_an_average_that_may_be_half_ends_no_path(tmp_path: Path) -> None:
    (average,) = said(tmp_path, "average-in-half", AVERAGED)
    assert average.why.endswith("It happens if `half`.")
    (backward,) = said(tmp_path, "missing-grad-scaler", AVERAGED)
    assert "It happens" not in backward.why
