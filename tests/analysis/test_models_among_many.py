"""A model that may be one of too many to be told apart hides no scaled loss."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

COUNT = 14
NETS = "".join(
    f"class Net{index}(nn.Module):\n    def forward(self, x):\n        return x * {index}\n\n\n"
    for index in range(COUNT)
)
NETS_OF_THE_PROJECT = "Net{index}()"
REPLICAS = (
    "nn.DataParallel(tensor_parallel({index})) if copies > {index} else tensor_parallel({index}).train()"
)
PROGRAM = f"""
import torch
from library import prepare, tensor_parallel
from torch import nn


{NETS}
def main(batches, name, clip, copies):
    model = tensor_parallel(nn.Linear(8, 8))
{{choices}}    {{wrapped}}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(prepare(x, model)).mean()
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""


def one_of_many(made: str) -> str:
    """Lines that choose one of many models by name."""
    ways = (f"    if name == 'net{index}':\n        model = {made}\n" for index in range(COUNT))
    return "".join(way.format(index=index) for index, way in enumerate(ways))


@pytest.mark.parametrize(
    ("choices", "wrapped"),
    [
        (one_of_many(NETS_OF_THE_PROJECT), ""),
        (one_of_many(REPLICAS), ""),
        (one_of_many(NETS_OF_THE_PROJECT), "model = tensor_parallel(model, 'row')"),
        ("", "model = tensor_parallel(model, list(range(copies)))"),
    ],
)
def test_a_model_that_is_one_of_many(tmp_path: Path, choices: str, wrapped: str) -> None:
    text = PROGRAM.format(choices=choices, wrapped=wrapped)
    (finding,) = said(tmp_path, "clip-without-unscale", text)
    assert "clip_grad_norm_" in finding.message
