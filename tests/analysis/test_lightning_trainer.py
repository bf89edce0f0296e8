"""Lightning's Trainer: its steps run in regions if ``precision`` says so."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

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
        ("precision=16 if args.half else 32", [BCE]),
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


def test_optimizers_that_a_setting_adds(tmp_path: Path) -> None:
    program = """
        import torch
        from torch import nn
        import lightning as pl

        class Net(pl.LightningModule):
            def __init__(self, rate):
                super().__init__()
                self.automatic_optimization = False
                self.layer, self.other, self.rate = nn.Linear(8, 8), nn.Linear(8, 8), rate

            def configure_optimizers(self):
                one = torch.optim.SGD(self.layer.parameters(), lr=0.1)
                schedules = [torch.optim.lr_scheduler.StepLR(one, 2)]
                if not self.rate:
                    return [one], schedules
                return [one, torch.optim.SGD(self.other.parameters(), lr=self.rate)], schedules

            def training_step(self, batch, number):
                optimizers = self.optimizers()
                optimizers = optimizers if isinstance(optimizers, list) else [optimizers]
                self.manual_backward(self.other(self.layer(batch)).float().mean())
                nn.utils.clip_grad_norm_(self.layer.parameters(), 1.0)
                for optimizer in optimizers:
                    optimizer.step()

        def main(args):
            pl.Trainer(precision="16-mixed").fit(Net(args.rate))
    """
    (tmp_path / "main.py").write_text(dedent(program))
    findings = check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
    assert [(finding.name, finding.span.line) for finding in findings] == [("clip-without-unscale", 23)]


def test_only_fit_trains(tmp_path: Path) -> None:
    assert found(tmp_path, "precision=16", method="predict") == []


NAMED = """\
import importlib
import {package} as pl
from omegaconf import OmegaConf

def made(config):
    module, name = config.target.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**config.params)

def main(path):
    model = made(OmegaConf.load(path).model)
    pl.Trainer(precision={precision}).fit(model)
"""


@pytest.mark.parametrize(
    ("package", "precision", "more", "expected"),
    [
        ("lightning", '"16-mixed"', "", [MAYBE]),
        ("lightning", '"32-true"', "", []),
        # two guesses
        ("lightning", "path.precision", "", []),
        # not a module of this trainer's
        ("pytorch_lightning", '"16-mixed"', "", []),
        # somebody in sight makes it, for another trainer or for none
        ("lightning", '"16-mixed"', "def test(x):\n    return Net().validation_step(x, 0)\n", []),
    ],
)
def test_a_module_that_settings_name(
    tmp_path: Path, package: str, precision: str, more: str, expected: object
) -> None:
    module = PROGRAM.format(arguments="", constructor="", method="", package="lightning")
    (tmp_path / "module.py").write_text(module.partition("def main")[0] + more)
    (tmp_path / "main.py").write_text(NAMED.format(package=package, precision=precision))
    result = check([str(tmp_path)], Settings(root=tmp_path), jobs=1)
    assert [(finding.name, finding.span.line, finding.level.value) for finding in result.findings] == expected


def test_a_step_that_a_module_takes_by_itself_is_taken_in_the_region_of_the_trainer(tmp_path: Path) -> None:
    module = PROGRAM.format(
        arguments="", constructor="self.automatic_optimization = False", method="", package="lightning"
    )
    step = """
        loss = self(batch[0]).sum()
        self.manual_backward(loss)
        self.optimizers().step()
"""
    head, _, rest = module.partition("        x, y = batch\n")
    rest = rest.partition("\n\n")[2].partition("def main")[0]
    (tmp_path / "module.py").write_text(f"{head}{step}\n{rest}")
    (tmp_path / "main.py").write_text(NAMED.format(package="lightning", precision='"16-mixed"'))
    assert check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings == ()
