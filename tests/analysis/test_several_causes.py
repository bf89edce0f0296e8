"""Findings that differ in nothing but where their cause lies are one, with the further causes in its trail."""

from __future__ import annotations

from pathlib import Path

from one_rule import said

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding

AGENTS = """
import torch


class Agent:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def update(self, batch):
        raise NotImplementedError

    def train(self, batches):
        for batch in batches:
            self.update(batch)
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, "last.pt")

    def resume(self):
        self.optimizer.load_state_dict(torch.load("last.pt")["optimizer"])

    def step(self, scaler, batch):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self.model(batch).float().mean()
        scaler.scale(loss).backward()
        scaler.step(self.optimizer)
        scaler.update()


class First(Agent):
    def __init__(self, model, optimizer):
        super().__init__(model, optimizer)
        self.scaler = torch.amp.GradScaler("cuda")

    def update(self, batch):
        self.step(self.scaler, batch)


class Second(Agent):
    def __init__(self, model, optimizer):
        super().__init__(model, optimizer)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)

    def update(self, batch):
        self.step(self.scaler, batch)
"""

PAIR = """
import torch


def train(generator, critic, g_optimizer, c_optimizer, batches):
    g_scaler = torch.amp.GradScaler("cuda")
    c_scaler = torch.amp.GradScaler("cuda")
    for batch in batches:
        for model, optimizer, scaler in ((generator, g_optimizer, g_scaler), (critic, c_optimizer, c_scaler)):
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(batch).float().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        torch.save({"g": g_optimizer.state_dict(), "c": c_optimizer.state_dict()}, "last.pt")


def resume(g_optimizer, c_optimizer):
    states = torch.load("last.pt")
    g_optimizer.load_state_dict(states["g"])
    c_optimizer.load_state_dict(states["c"])
"""


REGIONS = """
import torch

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def finish(loss):
    loss.backward()


def train(optimizer, batches, name):
    model = torch.nn.Linear(4, 4).cuda()
    for batch in batches:
        with torch.autocast("cuda", dtype=TYPES[name]):
            with torch.autocast("cuda", enabled=False):
                loss = model(batch.float()).mean()
            finish(loss)
        optimizer.step()
"""


def found(tmp_path: Path, text: str) -> list[Finding]:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    findings = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    return [finding for finding in findings if finding.name == "scaler-not-saved"]


def test_the_scalers_of_two_classes_are_one_finding(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, AGENTS)
    made = [step.span.line for step in finding.trail if step.message == "the scaler is made here"]
    assert made == [line for line, text in enumerate(AGENTS.splitlines(), 1) if "GradScaler(" in text]


def test_two_scalers_of_two_optimizers_are_two(tmp_path: Path) -> None:
    assert len(found(tmp_path, PAIR)) == 2


def test_one_place_in_regions_of_two_types_is_one_finding(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(REGIONS, encoding="utf-8")
    findings = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert [(finding.span.line, finding.level.value) for finding in findings if finding.code == "AMP101"] == [
        (8, "error")
    ]


BUFFER = """
import torch
from torch import nn

layer, other = nn.Linear(8, 8).cuda(), nn.Linear(8, 8).cuda()


def fill(batch, first, second, scale):
    with torch.autocast("cuda", dtype=torch.float16):
        filled = layer(batch)
        more = other(batch)
        filled[first] = batch[first] * 2.0
        filled[second] = batch[second] * 3.0
        more[first] = batch[first] * 2.0
    return filled, more


fill(torch.zeros(4, 8, device="cuda"), [0], [1], 2.0)
"""


def test_all_that_is_written_into_one_buffer_is_one_finding(tmp_path: Path) -> None:
    found = said(tmp_path, "buffer-dtype-mismatch", BUFFER)
    lines = [
        (one.span.line, [step.span.line for step in one.trail if "same" in step.message]) for one in found
    ]
    assert lines == [(12, [13]), (14, [])]
