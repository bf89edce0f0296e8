"""What is said of an entry point that is walked once more with its regions switched off."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

from amplint.findings import Level

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F


def train(args, batches, flag, optimizer, dtype=None):
    model = nn.Linear(4, 4).cuda()
    scaler = torch.amp.GradScaler("cuda")
    for x, y in batches:
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.amp):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
SCALER = 'torch.amp.GradScaler("cuda")'
STEP = "scaler.scale(loss).backward()\n        scaler.step(optimizer)\n        scaler.update()\n"
PLAIN = "loss.backward()\n            optimizer.step()\n"


def one(folder: Path, text: str, old: str = "", new: str = "") -> list[str]:
    assert old in text
    found = said(folder, "scaler-enabled-mismatch", text.replace(old, new, 1) if old else text)
    assert all(finding.level is Level.ADVICE for finding in found if "stays on" in finding.message)
    return [finding.message for finding in found]


def test_scaler_that_stays_on(tmp_path: Path) -> None:
    (message,) = one(tmp_path, PROGRAM)
    assert message == "this gradient scaler stays on where a flag switches the region on line 11 off"


@pytest.mark.parametrize("flag", ["bool(args.amp)", "args.amp and flag", "flag", 'args["amp"]'])
def test_flags(tmp_path: Path, flag: str) -> None:
    assert len(one(tmp_path, PROGRAM, "args.amp", flag)) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SCALER, 'torch.amp.GradScaler("cuda", enabled=args.amp)'),
        (SCALER, SCALER + " if args.amp else None"),
        ("    for x", "    if not args.amp:\n        return None\n    for x"),
        (STEP, f"if not args.amp:\n            {PLAIN}            continue\n        {STEP}"),
        ("torch.float16", "torch.bfloat16"),
        ("enabled=args.amp", 'enabled=x.device.type == "cuda"'),
        (
            "        scaler.scale",
            "        with torch.autocast('cuda'):\n            loss = model(x).sum()\n        scaler.scale",
        ),
        (SCALER, "args.scaler"),
    ],
    ids=["flag", "choice", "return", "continue", "bfloat16", "computed", "another region", "out of sight"],
)
def test_scalers_that_are_off_with_the_region(tmp_path: Path, old: str, new: str) -> None:
    assert one(tmp_path, PROGRAM, old, new) == []


def test_islands_tell_nothing_of_the_region(tmp_path: Path) -> None:
    island = (
        "with torch.autocast('cuda', enabled=False):\n            y = y.float()\n        with torch.autocast"
    )
    assert len(one(tmp_path, PROGRAM, "with torch.autocast", island)) == 1


TRAINER = """
import torch
from torch import nn
from torch.nn import functional as F


class Trainer:
    def __init__(self, args, optimizer):
        self.args, self.optimizer = args, optimizer
        self.model = nn.Linear(4, 4).cuda()
        self.scaler = torch.amp.GradScaler("cuda")

    def train(self, batches):
        for x, y in batches:
            with torch.autocast("cuda", enabled=self.args.amp):
                loss = F.mse_loss(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""


def test_methods_of_an_object_that_nobody_makes(tmp_path: Path) -> None:
    (message,) = one(tmp_path, TRAINER)
    assert message == "this gradient scaler stays on where a flag switches the region on line 15 off"
    assert one(tmp_path, TRAINER, SCALER, SCALER + " if args.amp else None") == []


def test_methods_that_the_object_may_choose_by_the_flag(tmp_path: Path) -> None:
    """Who calls them is out of sight, and may do so only where the flag is set."""
    text = TRAINER.replace(
        f"        self.scaler = {SCALER}\n",
        f"        self.scaler = {SCALER}\n        self.step = self.train if args.amp else None\n",
    )
    assert text != TRAINER
    assert one(tmp_path, text) == []


@pytest.mark.parametrize(("path", "findings"), [("tests/test_program.py", 1), ("choice.py", 0)])
def test_tests_choose_nothing(tmp_path: Path, path: str, findings: int) -> None:
    """What a test hands on is no user's choice; other code in sight may choose by the flag."""
    (tmp_path / path).parent.mkdir(exist_ok=True)
    caller = "import torch\nfrom program import Trainer\n\n\ndef test_train(steps):\n    steps.append(Trainer.train)\n"
    (tmp_path / path).write_text(caller)
    assert len(one(tmp_path, TRAINER)) == findings


def test_nothing_else_is_heard_without_the_regions(tmp_path: Path) -> None:
    """Without its region the half batch meets float32 weights, which is another run's affair."""
    text = PROGRAM.replace("model(x)", "model(x.half())")
    with_region = said(tmp_path, "half-input", text)
    assert all("outside every autocast region" not in finding.message for finding in with_region)
