"""Methods that are looked through for what they save count as judged for nothing else."""

from __future__ import annotations

from pathlib import Path

from amplint.check import check
from amplint.config import Settings

BASE = """
import torch


class Base:
    def train(self, data):
        self.critic.tune(data)
        torch.save({"model": self.model.state_dict()}, "last.pt")
"""

TRAINER = """
import torch
from base import Base


class Critic:
    def __init__(self, model):
        self.model = model

    def tune(self, data):
        with torch.autocast("cuda"):
            self.model(data).sum().backward()


class Trainer(Base):
    def __init__(self, model, optimizer):
        self.model = model
        self.critic = Critic(model)
        self.optimizer = optimizer
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, data, other):
        with torch.autocast("cuda"):
            loss = self.model(data).sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        other.tune(data)
"""


def test_what_a_saver_calls_is_judged(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(BASE, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(TRAINER, encoding="utf-8")
    found = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert "backward-in-autocast" in {finding.name for finding in found}
