"""A loss that raises, twice in one statement: the second one is never reached."""

from __future__ import annotations

from pathlib import Path

from one_rule import said

PROGRAM = """
import torch
from torch.nn import functional as F


def train(model, x, y, optimizer):
    with torch.autocast("cuda"):
        one, two = torch.sigmoid(model(x)), torch.sigmoid(model(y))
        loss = F.binary_cross_entropy(one, y) + F.binary_cross_entropy(two, y)
        other = F.binary_cross_entropy(one, y)
    (loss + other).backward()
    optimizer.step()
"""


def test_one_finding_for_a_line(tmp_path: Path) -> None:
    found = said(tmp_path, "bce-in-autocast", PROGRAM)
    assert [finding.span.line for finding in found] == [9, 10]
