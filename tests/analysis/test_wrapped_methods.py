"""Methods that a decorator of the project has wrapped in a function that takes anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import functools

import torch
from torch import nn
from torch.nn import functional as F


def guarded(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except RuntimeError:
            print("failed", args[0])
            raise

    return run


class Trainer:
    def __init__(self, batches):
        self.model = nn.Linear(4, 4).cuda().half()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1.0)
        self.batches = batches

    @guarded
    def train(self):
        for x, y in self.batches:
            loss = F.mse_loss(self.model(x).float(), y)
            loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("(*args, **kwargs):", "(this, *args, **kwargs):\n        args = (this, *args)"),
        ("function(*args, **kwargs)", "function(*args)"),
        ("def train(self):", "def train(self, *others):"),
    ],
    ids=["all", "the object apart", "no keywords", "others"],
)
def test_the_object_is_known_inside(tmp_path: Path, old: str, new: str) -> None:
    """What its constructor makes is known, too."""
    assert old in PROGRAM
    text = PROGRAM.replace(old, new, 1) if old else PROGRAM
    (finding,) = said(tmp_path, "half-model", text)
    assert ".half()" in text.splitlines()[finding.span.line - 1]


def test_the_first_argument_is_another_one(tmp_path: Path) -> None:
    """Then the object is in another place."""
    text = PROGRAM.replace("function(*args, **kwargs)", "function(*args[1:], **kwargs)")
    assert said(tmp_path, "half-model", text) == ()
