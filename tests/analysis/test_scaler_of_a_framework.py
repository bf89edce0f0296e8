"""What a framework scales is divided by the framework, or by its scaler."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

PROGRAM = """
import torch
from accelerate import Accelerator


def main(model, batches, half):
    accelerator = Accelerator(mixed_precision="fp16" if half else "no")
    optimizer = torch.optim.Adam(model.parameters())
    model = accelerator.prepare(model)
    for x in batches:
        accelerator.backward(model(x).mean())
{divides}
        optimizer.step()
        optimizer.zero_grad()
"""
DIVIDES = """
        if accelerator.scaler is not None:
            accelerator.scaler.unscale_(optimizer)
"""
DIVIDES_ANOTHER = """
        if accelerator.scaler is not None:
            accelerator.scaler.unscale_(torch.optim.SGD(model.parameters()))
"""


@pytest.mark.parametrize(("divides", "findings"), [(DIVIDES, 0), (DIVIDES_ANOTHER, 1), ("", 1)])
def test_gradients_that_the_scaler_of_a_framework_has_divided(
    tmp_path: Path, divides: str, findings: int
) -> None:
    found = said(tmp_path, "direct-optimizer-step", PROGRAM.format(divides=divides))
    assert len(found) == findings


def test_gradients_of_the_backward_pass_after_that_are_scaled_again(tmp_path: Path) -> None:
    again = f"{DIVIDES}        accelerator.backward(model(x).sum())\n"
    (finding,) = said(tmp_path, "direct-optimizer-step", PROGRAM.format(divides=again))
    assert "`accelerator.backward(model(x).sum())`" in finding.message
