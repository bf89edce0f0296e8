"""Fixes that would mend one way through the code and break another are not offered, and say why."""

from __future__ import annotations

from pathlib import Path

from test_when_fixes_are_safe import findings, verdict

_STEP_OF_EACH = """import torch


def main(model, losses):
    scaler = torch.amp.GradScaler("cuda")
    optimizers = {"only": torch.optim.SGD(model.parameters(), lr=0.1)}
    for loss in losses:
        scaler.scale(loss).backward()
        for name in ("only",):
            optimizer = optimizers[name]
            scaler.step(optimizer)
"""
_REPLICAS = """import torch
from torch import nn


def train(model, x, dtype=torch.bfloat16):
    model = nn.DataParallel(model)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return run(model, x)


def run(model, x):
    return model(x)
"""


def test_an_optimizer_that_is_picked_in_the_loop_gets_no_update_in_it(tmp_path: Path) -> None:
    assert verdict(findings(tmp_path, _STEP_OF_EACH, "missing-scaler-update")) == (
        "none: `scaler.step` runs for several optimizers, and the update belongs after the loop"
    )


def test_a_region_is_not_opened_around_the_call_of_the_replicas(tmp_path: Path) -> None:
    assert verdict(findings(tmp_path, _REPLICAS, "autocast-lost-in-threads")) == (
        "none: the function that the thread runs is out of sight"
    )
