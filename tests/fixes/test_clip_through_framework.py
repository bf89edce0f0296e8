"""Clipping with the method of the framework that has scaled the gradients."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding
from amplint.fixes.edits import applied

PROGRAM = """
import torch
from accelerate import Accelerator


class Trainer:
    def __init__(self):
        self.accelerator = Accelerator(mixed_precision="fp16")
        model = torch.nn.Linear(4, 1)
        self.model, self.optimizer = self.accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def train(self, x):
        self.accelerator.backward(self.model(x).mean())
        {clip}
        self.optimizer.step()


Trainer().train(torch.ones(2, 4))
"""


def found(folder: Path, clip: str) -> tuple[Finding, str]:
    path = folder / "train.py"
    path.write_text(PROGRAM.format(clip=clip), encoding="utf-8")
    [finding] = check([path], Settings(folder)).findings
    assert finding.name == "clip-without-unscale"
    return finding, path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("clip", "fixed"),
    [
        (
            "torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=1.0)",
            "self.accelerator.clip_grad_norm_(self.model.parameters(), max_norm=1.0)",
        ),
        (
            "norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, 2)",
            "norm = self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0, 2)",
        ),
        (
            "torch.nn.utils.clip_grad_value_(self.model.parameters(), 0.5)",
            "self.accelerator.clip_grad_value_(self.model.parameters(), 0.5)",
        ),
    ],
)
def test_the_method_stands_for_the_function(tmp_path: Path, clip: str, fixed: str) -> None:
    finding, text = found(tmp_path, clip)
    assert finding.fix is not None
    assert not finding.fix.is_safe
    assert "once for each step" in finding.fix.note
    assert applied(text, finding.fix.edits) == text.replace(clip, fixed)


@pytest.mark.parametrize(
    ("clip", "reason"),
    [
        ("self.clip()", "the backward pass is in another function"),
        (
            "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, error_if_nonfinite=True)",
            "the framework's method does not take all of the arguments",
        ),
        (
            "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, 2.0, True)",
            "the framework's method does not take all of the arguments",
        ),
        (
            "[p.grad.clamp_(-1, 1) for p in self.model.parameters()]",
            "the framework has no method for `p.grad.clamp_`",
        ),
    ],
)
def test_what_it_cannot_stand_for_stays(tmp_path: Path, clip: str, reason: str) -> None:
    finding, _ = found(tmp_path, clip)
    assert finding.fix is None
    assert finding.fix_note == reason


def test_fabric_takes_other_arguments(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = """
        import torch
        from lightning import Fabric

        fabric = Fabric(precision="16-mixed")
        model = torch.nn.Linear(4, 1)
        model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
        fabric.backward(model(torch.ones(2, 4)).mean())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        """
    path.write_text(dedent(text), encoding="utf-8")
    [finding] = check([path], Settings(tmp_path)).findings
    assert finding.name == "clip-without-unscale"
    assert finding.fix_note == "`fabric.clip_gradients` takes other arguments"
