"""What half-model says where a framework steps the optimizer: which setting scales, and what is assumed."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding, Level

HEAD = """
import torch
from accelerate import Accelerator
from torch import nn
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def run(options, batches):
"""
STEPS = """
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    for x in batches:
        accelerator.backward(model(x).mean())
        optimizer.step()
"""


def found(tmp_path: Path, body: str, steps: str = STEPS) -> Finding:
    path = tmp_path / "train.py"
    path.write_text(HEAD + indent(dedent(body), "    ") + steps, encoding="utf-8")
    (finding,) = check([path], Settings(root=tmp_path, select=("half-model",))).findings
    return finding


@pytest.mark.parametrize(
    ("precision", "level", "assumed"),
    [
        ('"fp16"', Level.ERROR, []),
        ("options.precision", Level.ERROR, ['with `mixed_precision="fp16"`']),
        ('"bf16"', Level.WARNING, []),
        ("None", Level.WARNING, []),
    ],
)
def test_a_setting_out_of_sight_is_assumed(
    tmp_path: Path, precision: str, level: Level, assumed: list[str]
) -> None:
    finding = found(
        tmp_path,
        f"""
        accelerator = Accelerator(mixed_precision={precision})
        model = nn.Linear(4, 4).half()
        """,
    )
    assert finding.level is level
    assert [assumption.text for assumption in finding.assumes] == assumed
    assert ("unscale" in finding.why) is (level is Level.ERROR)


@pytest.mark.parametrize("given", ['mixed_precision="fp16"', 'mixed_precision="bf16"', ""])
def test_no_scaler_is_advised_where_the_framework_makes_one(tmp_path: Path, given: str) -> None:
    finding = found(
        tmp_path,
        f"""
        accelerator = Accelerator({given})
        model = nn.Linear(4, 4).half()
        """,
    )
    assert "GradScaler" not in finding.help
    assert ('mixed_precision="fp16"' in finding.help) is ("fp16" not in given)


def test_of_a_framework_out_of_sight_no_setting_is_named(tmp_path: Path) -> None:
    finding = found(
        tmp_path,
        """
        accelerator = options.accelerator
        model = nn.Linear(4, 4).half()
        """,
    )
    assert finding.level is Level.WARNING
    assert "the framework's mixed precision" in finding.help


def test_without_a_framework_a_scaler_is_advised(tmp_path: Path) -> None:
    steps = """
    optimizer = torch.optim.AdamW(model.parameters())
    for x in batches:
        model(x).mean().backward()
        optimizer.step()
"""
    assert "GradScaler" in found(tmp_path, "model = nn.Linear(4, 4).half()", steps).help


def test_what_a_trainer_is_told_goes_by_its_own_name(tmp_path: Path) -> None:
    trained = """
    Trainer(model=model, args=TrainingArguments("out", fp16=True), train_dataset=batches).train()
"""
    finding = found(
        tmp_path, 'model = AutoModelForCausalLM.from_pretrained("x", torch_dtype=torch.float16)', trained
    )
    assert "the gradient scaler that `fp16=True` makes" in finding.message
