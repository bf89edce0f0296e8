"""mmengine's wrappers of optimizers: an ``AmpOptimWrapper`` opens a region, and what somebody hands in may be one."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

from amplint.findings import Level

PROGRAM = """
import torch
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from torch.nn import functional as F


class Model(torch.nn.Module):
    def train_step(self, data, optim_wrapper{annotation}):
        with optim_wrapper.optim_context(self):
            loss = F.mse_loss(self(data["x"]), data["y"])
            {inside}
        {behind}
        return loss

{more}
"""
UPDATE = "optim_wrapper.update_params(loss)"
MAKES = """
model = Model()
model.train_step(dict(), {name}(optimizer=torch.optim.SGD(model.parameters(), lr=0.1)))
"""


@pytest.mark.parametrize(
    ("annotation", "inside", "behind", "more", "when"),
    [
        ("", UPDATE, "", "", "if mixed precision is on"),
        (": OptimWrapper", UPDATE, "", "", "if mixed precision is on"),
        (": AmpOptimWrapper", UPDATE, "", "", "always"),
        ("", UPDATE, "", MAKES.format(name="AmpOptimWrapper"), "always"),
        ("", UPDATE, "", MAKES.format(name="OptimWrapper"), None),
        ("", "", UPDATE, "", None),
    ],
)
def test_a_backward_pass_in_its_region(
    annotation: str, inside: str, behind: str, more: str, when: str | None, tmp_path: Path
) -> None:
    program = PROGRAM.format(annotation=annotation, inside=inside, behind=behind, more=more)
    found = said(tmp_path, "backward-in-autocast", program)
    assert len(found) == (when is not None)
    assert all(one.level is Level.WARNING for one in found)
    assert all(one.message.endswith(", if mixed precision is on") == (when != "always") for one in found)


@pytest.mark.parametrize(
    ("inside", "told"), [(UPDATE, 0), ("optim_wrapper.backward(loss); optim_wrapper.step()", 1)]
)
def test_a_call_that_does_both_is_one_finding(inside: str, told: int, tmp_path: Path) -> None:
    program = PROGRAM.format(annotation=": AmpOptimWrapper", inside=inside, behind="", more="")
    assert len(said(tmp_path, "step-in-autocast", program)) == told
