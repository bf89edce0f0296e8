"""A loss that code out of sight computes in a float16 region."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

TRAINING = """
import torch
import torch.nn.functional as F
from elsewhere import {names}


def train(model, optimizer: torch.optim.Optimizer, data, criterion, amp=True):
    for x, y in data:
        optimizer.zero_grad()
        {step}
        optimizer.step()
"""
METHOD = """
        with torch.autocast("cuda"):
            _, loss, _ = model.forward_train(x, y, criterion)
        loss.backward()
"""
METHOD_AND_LOSS = """
        with torch.autocast("cuda"):
            loss = criterion(model.time_derivative(x), y)
        loss.backward()
"""
LOSS_OF_TORCH = """
        with torch.autocast("cuda"):
            loss = F.mse_loss(model.encode(x), y)
        loss.backward()
"""
LOSS_OUTSIDE = """
        with torch.autocast("cuda"):
            out = model.encode(x)
        F.mse_loss(out.float(), y).backward()
"""
FUNCTION = """
        with torch.autocast("cuda"):
            losses = compute_losses(model, x)
            loss = losses["a"] + 0.1 * losses["b"]
        loss.backward()
"""
FLAG = """
        with torch.autocast("cuda", enabled=amp):
            loss = model.training_step(x)
        loss.backward()
"""
SEVERAL = """
        with torch.autocast("cuda"):
            first, second = model.losses(x)
        torch.autograd.backward([first, second])
"""


@pytest.mark.parametrize(
    "step",
    [METHOD, METHOD_AND_LOSS, LOSS_OF_TORCH, LOSS_OUTSIDE, FUNCTION, FLAG, SEVERAL],
    ids=[
        "a method",
        "a method and a loss",
        "a loss of torch",
        "a loss outside",
        "a function",
        "a flag",
        "several",
    ],
)
def test_a_loss_of_a_call_in_the_region_needs_a_scaler(step: str, tmp_path: Path) -> None:
    text = TRAINING.format(names="compute_losses", step=step.strip())
    (finding,) = said(tmp_path, "missing-grad-scaler", text)
    assert "the loss comes out of the float16 region" in finding.message


OTHER_LOSS = """
        with torch.autocast("cuda"):
            features = model.extract(x)
        losses = compute_losses(x, y)
        losses.backward()
"""
NO_GRADIENTS = """
        with torch.autocast("cuda"), torch.no_grad():
            target = model.encode(y)
        F.mse_loss(model.decode(x), target).backward()
"""
BFLOAT16 = """
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model.training_step(x)
        loss.backward()
"""
SCALED = """
        with torch.autocast("cuda"):
            loss = model.training_step(x)
        scaler.scale(loss).backward()
"""
OUTSIDE = """
        loss = model.training_step(x)
        with torch.autocast("cuda"):
            model.log(x)
        loss.backward()
"""


@pytest.mark.parametrize(
    "step",
    [OTHER_LOSS, NO_GRADIENTS, BFLOAT16, SCALED, OUTSIDE],
    ids=["another loss", "no gradients", "bfloat16", "scaled", "computed outside"],
)
def test_another_loss_needs_none(step: str, tmp_path: Path) -> None:
    text = TRAINING.format(names="compute_losses, scaler", step=step.strip())
    assert said(tmp_path, "missing-grad-scaler", text) == ()


IN_A_HELPER = """
import torch


class Backend:
    def __init__(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run(self, function, x):
        with torch.autocast("cuda", dtype=torch.float16):
            return function(x)

    def step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main(model, function, data):
    backend = Backend(model)
    for x in data:
        metrics = backend.run(function, x)
        backend.step(metrics["loss"])
"""


def test_the_call_may_be_made_elsewhere(tmp_path: Path) -> None:
    assert len(said(tmp_path, "missing-grad-scaler", IN_A_HELPER)) == 1


SCALER_AT_HAND = """
import torch


def train(model, data, optimizer: torch.optim.Optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for x in data:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model.training_step(x)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()
"""


def test_a_scaler_that_is_at_hand_has_to_scale_it(tmp_path: Path) -> None:
    assert said(tmp_path, "unscaled-backward", SCALER_AT_HAND) != ()
