"""A backward pass in a region changes the gradients of products in float32, if gradients flow through them."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

from amplint.findings import Level

PROGRAM = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 16)
        self.head = nn.Linear(16, 1)
        self.register_buffer("frequencies", 1.0 / 10000 ** (torch.arange(0, 16).float() / 16))

    def positions(self, x, ids):
        with torch.autocast("cuda", enabled=False):
            {island}

    def forward(self, x, ids):
        h = torch.relu(self.body(x))
        return self.head(h + self.positions(h, ids))


def train(loader):
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, ids in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(x, ids).float().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
WITHOUT = {
    "a table": "return torch.einsum('i,j->ij', torch.arange(16).float(), self.frequencies).cos()",
    "ids": "return torch.outer(ids.float(), self.frequencies.float()).sin()",
}
WITH = {
    "a layer": "return self.head(x.float())",
    "what was half": "return x.float() @ x.float().t()",
    "a weight": "return x.float() @ self.body.weight",
}


@pytest.mark.parametrize(
    ("island", "level"),
    [*((text, Level.WARNING) for text in WITHOUT.values()), *((text, Level.ERROR) for text in WITH.values())],
    ids=[*WITHOUT, *WITH],
)
def test_it_is_an_error_where_gradients_flow_through_the_products(
    island: str, level: Level, tmp_path: Path
) -> None:
    (found,) = said(tmp_path, "AMP101", PROGRAM.format(island=island))
    assert found.level is level
