"""Methods that are called by their name alone inside a region: their classes are found in the project, and what is said
of them says what it rests on."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding, Level
from amplint.flow.project import callgraph

MODEL = """
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
        self.criterion = nn.BCELoss()

    def {method}(self, data, target):
        return self.criterion(self.head(data), target)
"""

TRAINER = """
import torch


class Trainer:
    def __init__(self, model, amp):
        self.model = model
        self.amp = amp

    def step(self, data, target, compute=None):
        compute = compute or self.model.batch_loss
        with torch.autocast("cuda", enabled=self.amp):
            return compute(data, target)
"""

IN_REGION = """
import torch


def train(model, data, target):
    with torch.autocast("cuda"):
        return model.{method}(data, target)
"""


def found(folder: Path, trainer: str, method: str = "batch_loss", **more: str) -> list[Finding]:
    texts = {"trainer": trainer, "model": MODEL.format(method=method)} | more
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return check([str(folder)], Settings(root=folder), jobs=1).findings


@pytest.mark.parametrize("trainer", [TRAINER, IN_REGION.format(method="batch_loss")])
def test_the_method_is_judged_as_called_there(tmp_path: Path, trainer: str) -> None:
    [finding] = found(tmp_path, trainer)
    assert finding.name == "bce-in-autocast" and finding.path.endswith("model.py")
    assert finding.level is Level.WARNING
    assert "if the call of `batch_loss` on line" in finding.message
    assert "trainer.py gets here" in finding.message


def test_a_call_outside_of_regions_says_nothing(tmp_path: Path) -> None:
    trainer = IN_REGION.format(method="batch_loss").replace('torch.autocast("cuda")', "torch.no_grad()")
    assert not found(tmp_path, f"{trainer}\n\nunused = torch.autocast\n")


def test_known_callers_win(tmp_path: Path) -> None:
    known = """
import torch
from model import Classifier


def run(loader, scaler, optimizer):
    model = Classifier()
    for data, target in loader:
        with torch.autocast("cuda", enabled=False):
            loss = model.batch_loss(data, target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
    assert not found(tmp_path, IN_REGION.format(method="batch_loss"), known=known)


@pytest.mark.parametrize("method", ["update", "append", "scale", "step"])
def test_names_that_others_know_say_nothing(tmp_path: Path, method: str) -> None:
    assert not found(tmp_path, IN_REGION.format(method=method), method)


def test_names_that_are_everywhere_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgraph, "MOST_FILES", 0)
    assert not found(tmp_path, IN_REGION.format(method="batch_loss"))


def test_two_guesses_are_silence(tmp_path: Path) -> None:
    likely = """
import torch.nn.functional as F


class Wrapped:
    def __init__(self, model):
        self.model = model

    def other_loss(self, data):
        out = self.model(data)
        return out.masked_fill(data > 0, -1e9)
"""
    assert not found(tmp_path, IN_REGION.format(method="other_loss"), likely=likely)


USELESS = """
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)

    def other_loss(self, data):
        return self.second(self.first(data).float())
"""


def test_what_is_of_no_use_has_to_be_so_for_every_caller(tmp_path: Path) -> None:
    call = "model.batch_loss(data, target)"
    by_name = IN_REGION.format(method="batch_loss").replace(call, "model.other_loss(data)")
    assert not found(tmp_path, by_name, head=USELESS)
    known = by_name.replace("import torch", "import torch\nfrom head import Head").replace(
        "model.other_loss", "Head().other_loss"
    )
    assert [finding.name for finding in found(tmp_path, known, head=USELESS)] == ["useless-float"]


OTHER = """
class Meter:
    def {method}(self, data, target):
        return data
"""


@pytest.mark.parametrize(
    "trainer",
    [
        IN_REGION.format(method="batch_loss").replace("batch_loss(data, target)", "batch_loss(data)"),
        IN_REGION.format(method="batch_loss").replace(
            "batch_loss(data, target)", "batch_loss(data, target, mask=1)"
        ),
    ],
    ids=["too few", "another name"],
)
def test_a_method_that_does_not_take_the_arguments_is_not_meant(tmp_path: Path, trainer: str) -> None:
    assert "batch_loss(data, target)" not in trainer
    assert not found(tmp_path, trainer)


def test_a_method_of_classes_that_are_not_related_may_be_anything(tmp_path: Path) -> None:
    assert not found(tmp_path, IN_REGION.format(method="batch_loss"), meter=OTHER.format(method="batch_loss"))
    related = OTHER.format(method="batch_loss").replace("return data", "raise NotImplementedError")
    heirs = MODEL.format(method="batch_loss").replace("nn.Module", "Meter, nn.Module")
    base = f"from meter import Meter\n{heirs}"
    assert [
        one.name for one in found(tmp_path, IN_REGION.format(method="batch_loss"), meter=related, model=base)
    ] == ["bce-in-autocast"]


def test_forward_says_nothing(tmp_path: Path) -> None:
    assert not found(tmp_path, IN_REGION.format(method="forward"), "forward")
