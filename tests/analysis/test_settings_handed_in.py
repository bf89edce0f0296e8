"""What is believed of the settings of an object that somebody out of sight hands in."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F


class Config:
    def __init__(self):
        self.amp = False


def train(config: Config, batches, optimizer):
    model = nn.Linear(4, 4).cuda()
    scaler = torch.amp.GradScaler("cuda", enabled=config.amp)
    for x, y in batches:
        with torch.autocast("cuda", dtype=torch.float16, enabled=config.amp):
            loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
FIELD = "    def __init__(self):\n        self.amp = False\n"


def lines(folder: Path, text: str, old: str = "", new: str = "") -> list[int]:
    assert old in text
    changed = text.replace(old, new) if old else text
    return [finding.span.line for finding in said(folder, "backward-in-autocast", changed)]


def test_who_hands_it_in_may_have_set_them(tmp_path: Path) -> None:
    assert lines(tmp_path, PROGRAM) == [18]


def test_the_name_of_a_field_tells_nothing(tmp_path: Path) -> None:
    private = PROGRAM.replace("self.amp", "self._amp").replace("config.amp", "config._amp")
    assert lines(tmp_path, private) == [18]


@pytest.mark.parametrize(
    "field", ["    amp = False\n", "    amp: bool = False\n"], ids=["of the class", "annotated"]
)
def test_fields_of_the_class(tmp_path: Path, field: str) -> None:
    assert len(lines(tmp_path, PROGRAM, FIELD, field)) == 1


def test_what_the_code_alone_decides(tmp_path: Path) -> None:
    arguments = "config: Config, batches, optimizer):\n"
    assert lines(tmp_path, PROGRAM, arguments, "batches, optimizer):\n    config = Config()\n") == []
