"""A backward pass inside a region whose gradients nothing uses is advice."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Level

PROBE = """
    import time
    import torch
    from torch import nn

    model = nn.Linear(2, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        for _ in range(10):
            start = time.time()
            model(torch.randn(2, 2).cuda()).sum().backward()
            print(time.time() - start)
    {last}
"""
HELPER = """
    import torch

    def run(model, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(x).sum().backward()
"""


def level(folder: Path, program: str) -> Level:
    """How bad the one finding in a program is."""
    (folder / "program.py").write_text(dedent(program))
    (found,) = (
        one
        for one in check([str(folder)], Settings(root=folder), jobs=1).findings
        if one.name == "backward-in-autocast"
    )
    return found.level


def test_a_script_that_measures_drops_its_gradients(tmp_path: Path) -> None:
    assert level(tmp_path, PROBE.format(last="print(model)")) is Level.ADVICE


@pytest.mark.parametrize(
    "use",
    [
        "optimizer.step()",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "print(model.weight.grad.norm())",
    ],
)
def test_a_script_that_uses_them_does_not(tmp_path: Path, use: str) -> None:
    assert level(tmp_path, PROBE.format(last=use)) is Level.WARNING


def test_a_notebook_may_go_on(tmp_path: Path) -> None:
    source = dedent(PROBE.format(last="print(model)"))
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "program.ipynb").write_text(json.dumps(notebook))
    (found,) = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert (found.name, found.level) == ("backward-in-autocast", Level.WARNING)


def test_whoever_calls_a_function_may_use_them(tmp_path: Path) -> None:
    assert level(tmp_path, HELPER) is Level.WARNING
