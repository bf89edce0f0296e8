"""Hooks run in the order that they are sorted by, where that is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch


class Hook:
    priority = 50

    def before_step(self, trainer):
        pass


class Unscale(Hook):
    priority = {priority}

    def before_step(self, trainer):
        trainer.scaler.unscale_(trainer.optimizer)


class Clip(Hook):
    def before_step(self, trainer):
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), 1.0)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cuda")
        hooks = [Unscale(), Clip()]
        {sorting}

    def train(self, batches):
        for batch in batches:
            self.optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                loss = self.model(batch).float().mean()
            self.scaler.scale(loss).backward()
            for hook in self.hooks:
                hook.before_step(self)
            self.scaler.step(self.optimizer)
            self.scaler.update()


Trainer(torch.nn.Linear(4, 4).cuda()).train([torch.zeros(2, 4, device="cuda")])
"""
SORTED = "self.hooks = sorted(hooks, key=lambda hook: hook.priority)"
BACKWARDS = "self.hooks = sorted(hooks, key=lambda hook: hook.priority, reverse=True)"
IN_PLACE = "self.hooks = hooks; self.hooks.sort(key=lambda hook: hook.priority)"
BY_NAME = "self.hooks = sorted(hooks, key=lambda hook: type(hook).__name__)"


@pytest.mark.parametrize(
    ("priority", "sorting", "told"),
    [
        ("60", SORTED, True),
        ("40", SORTED, False),
        ("50", SORTED, False),
        ("60", BACKWARDS, False),
        ("40", BACKWARDS, True),
        ("50", BACKWARDS, False),
        ("60", IN_PLACE, True),
        ("40", IN_PLACE, False),
        ("float(open('priority').read())", SORTED, False),
        ("'last'", SORTED, False),
        ("60", BY_NAME, True),
    ],
)
def test_the_order_of_hooks(priority: str, sorting: str, told: bool, tmp_path: Path) -> None:
    program = PROGRAM.format(priority=priority, sorting=sorting)
    assert bool(said(tmp_path, "clip-without-unscale", program)) == told


def test_texts_have_an_order_too(tmp_path: Path) -> None:
    program = PROGRAM.format(priority="'z'", sorting=SORTED).replace("priority = 50", "priority = 'a'")
    assert said(tmp_path, "clip-without-unscale", program)
