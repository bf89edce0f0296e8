"""Which backward pass is that of a loss from a float16 region."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings

PROGRAM = """
import torch


def train(model: torch.nn.Module, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        {steps}
"""
LOOKED_AT = """
        for x in loader:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        with torch.autocast("cuda", dtype=torch.float16):
            print(model(next(iter(loader))))
"""
SUMMED_UP = """
        losses = []
        optimizer.zero_grad()
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                losses.append(model(x).sum())
        sum(losses).backward()
        optimizer.step()
"""
EACH_OF_SEVERAL = """
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            losses = [model(x).sum() for x in loader]
        for loss in losses:
            loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("steps", "expected"),
    [(LOOKED_AT, False), (SUMMED_UP, True), (EACH_OF_SEVERAL, True)],
    ids=["looked at", "summed up", "each of several"],
)
def test_what_was_not_differentiated_in_its_round_was_looked_at(
    steps: str, expected: bool, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(PROGRAM.format(steps=steps.strip()), encoding="utf-8")
    found = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert ("missing-grad-scaler" in {finding.name for finding in found}) is expected


FOREIGN = """
import torch
from somewhere import Pipeline


class Tuner(Pipeline):
    def tune(self, loader):
        optimizer = torch.optim.AdamW(self.model.parameters())
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(x).mean()
            loss.backward()
            optimizer.step()
"""


def test_a_base_class_out_of_sight_scales_no_loss_that_is_differentiated_here(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(FOREIGN, encoding="utf-8")
    found = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert "missing-grad-scaler" in {finding.name for finding in found}
