"""Levels that depend on what is done with a value, not on how sure it is."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Level

LOSS = """
    import torch
    import torch.nn.functional as F


    {decorator}
    def run(weight, x, target):
        with torch.autocast("cuda", dtype=torch.float16):
            out = x @ weight
        return {value}
"""


@pytest.mark.parametrize(
    ("decorator", "value", "level"),
    [
        ("", "F.cross_entropy(out, target)", Level.WARNING),
        ("@torch.no_grad()", "F.cross_entropy(out, target)", Level.ADVICE),
        # a running mean of targets, say
        ("@torch.no_grad()", "out.mean()", Level.WARNING),
        ("@torch.no_grad()", "F.linear(out, torch.randn(4, 4))", Level.ERROR),
    ],
)
def test_a_loss_without_gradients_is_a_figure_to_look_at(
    decorator: str, value: str, level: Level, tmp_path: Path
) -> None:
    path = tmp_path / "run.py"
    path.write_text(dedent(LOSS).format(decorator=decorator, value=value))
    result = check([tmp_path], Settings(root=tmp_path))
    assert [finding.level for finding in result.findings] == [level]
