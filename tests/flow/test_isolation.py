"""What is said of a file does not depend on files that have nothing to do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings

CASTS_IN_A_CONSTRUCTOR = """
import torch
from torch import nn

class Trainer:
    def __init__(self):
        self.model = nn.Linear(2, 2).half()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def fit(self, x):
        with torch.autocast("cuda"):
            self.model(x).sum().backward()
        self.optimizer.step()
"""
CASTS_AN_INPUT = """
import torch
from torch import nn

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x)

def main(batches):
    model = Network()
    for x in batches:
        with torch.autocast("cuda"):
            x = x.half()
            model(x).sum()
"""


def test_casts_of_another_file_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_trainer.py").write_text(CASTS_IN_A_CONSTRUCTOR)
    (tmp_path / "main.py").write_text(CASTS_AN_INPUT)
    monkeypatch.chdir(tmp_path)
    settings = Settings(root=tmp_path, select=("ALL",))

    alone = check(["main.py"], settings, jobs=1).findings
    together = check(["."], settings, jobs=1).findings

    assert [finding.name for finding in alone] == ["half-input"]
    assert alone[0] in together
