"""Tests that train a model, run by pytest."""

import pytest
import torch
from torch import nn


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)).cuda()


@pytest.mark.parametrize("batch", [4, 16])
def test_a_step_changes_the_weights(model, batch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=64.0)
    before = model[0].weight.detach().clone()
    x, y = torch.randn(batch, 8, device="cuda"), torch.randn(batch, 1, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert not torch.equal(before, model[0].weight)
