"""Methods that are looked through for what they save count as judged for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Level

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


CALLBACKS = """
import torch


class Callback:
    def on_end(self, trainer): ...


class Saver(Callback):
    def on_end(self, trainer):
        state = {"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()}
        torch.save(state, "last.pt")


class Trainer:
    def __init__(self, model, callbacks, resume=None):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")
        if resume:
            self.optimizer.load_state_dict(torch.load(resume)["optimizer"])

    def fit(self, loader):
        for x in loader:
            with torch.autocast("cuda"):
                loss = self.model(x).mean()
            self.optimizer.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
        self.ended()

    def ended(self):
        for callback in self.callbacks:
            callback.on_end(self)
"""


def test_what_a_callback_saves_of_the_trainer_that_calls_it(tmp_path: Path) -> None:
    (finding,) = said(tmp_path, "scaler-not-saved", CALLBACKS)
    assert finding.level is Level.WARNING
    assert "if the call of `on_end` on line 35 gets here" in finding.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("on_end(self)", "on_end(self.model)"),
        ("on_end(self)", "on_other_end(self)"),
        ("on_end(self)", "on_end(self, 1)"),
        ('"model": ', '"scaler": trainer.scaler.state_dict(), "model": '),
        ("self.ended()", "pass"),
        ("class Saver(Callback)", "class Saver"),
    ],
    ids=["not handed over", "another name", "another arity", "saved", "not called", "anything has that name"],
)
def test_what_a_callback_does_not_save_of_it(tmp_path: Path, before: str, after: str) -> None:
    assert before in CALLBACKS
    assert said(tmp_path, "scaler-not-saved", CALLBACKS.replace(before, after)) == ()
