"""Lightning's Trainer: its steps run in regions if ``precision`` says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings

PROGRAM = """\
import torch
from torch import nn
import {package} as pl

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        {constructor}
        self.layer = nn.Linear(8, 8)
        self.criterion = nn.BCELoss()

    def forward(self, x):
        return self.layer(x)

    def training_step(self, batch, number):
        x, y = batch
        return self.criterion(torch.sigmoid(self(x)), y)

    def validation_step(self, batch, number):
        return self(batch).cpu().numpy()

def main(args):
    trainer = pl.Trainer({arguments})
    trainer.{method}(Net())
"""
BCE, NUMPY = ("bce-in-autocast", 17, "error"), ("bfloat16-to-numpy", 20, "error")
MAYBE = ("bce-in-autocast", 17, "warning")


def found(
    folder: Path, arguments: str, constructor: str = "", method: str = "fit", package: str = "lightning"
) -> object:
    program = PROGRAM.format(arguments=arguments, constructor=constructor, method=method, package=package)
    (folder / "main.py").write_text(program)
    result = check([str(folder)], Settings(root=folder), jobs=1)
    assert result.crashes == ()
    return [(finding.name, finding.span.line, finding.level.value) for finding in result.findings]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('precision="16-mixed"', [BCE]),
        ("precision=16", [BCE]),
        ('precision="bf16-mixed"', [BCE, NUMPY]),
        ("precision=args.precision", [MAYBE]),
        ('precision="16-mixed" if args.half else "32-true"', [BCE]),
        ("precision=32", []),
        ('precision="32-true"', []),
        ('precision="16-true"', []),
        ("", []),
        ("**args.trainer", []),
    ],
)
def test_precision_decides(tmp_path: Path, arguments: str, expected: object) -> None:
    assert found(tmp_path, arguments) == expected


@pytest.mark.parametrize("package", ["lightning", "lightning.pytorch", "pytorch_lightning"])
def test_packages(tmp_path: Path, package: str) -> None:
    assert found(tmp_path, "precision=16", package=package) == [BCE]


def test_a_module_that_steps_by_itself_is_not_run_by_the_trainer(tmp_path: Path) -> None:
    assert found(tmp_path, "precision=16", "self.automatic_optimization = False") == []


def test_only_fit_trains(tmp_path: Path) -> None:
    assert found(tmp_path, "precision=16", method="predict") == []
