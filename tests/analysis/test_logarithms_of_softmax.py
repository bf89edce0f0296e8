"""A cross entropy in two steps, the logarithm of a softmax and a choice, is one, also for a model out of sight."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

from amplint.findings import Level

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F


def train(model: nn.Module, optimizer, x, y):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(x)
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
CROSS_ENTROPIES = (
    "F.cross_entropy(out, y)",
    "F.nll_loss(F.log_softmax(out, 1), y)",
    "F.nll_loss(out.log_softmax(dim=1), y)",
    "nn.NLLLoss()(nn.LogSoftmax(1)(out), y)",
    "-F.log_softmax(out, -1).gather(1, y.unsqueeze(1)).mean()",
    "F.kl_div(F.log_softmax(out, 1), y, log_target=True)",
    "(torch.logsumexp(out, 1) - out.gather(1, y).squeeze(1)).mean()",
    "-(F.softmax(out, 1).log() * F.one_hot(y, 5)).sum(1).mean()",
)
OTHERS = (
    "F.nll_loss(F.log_softmax(out.float(), 1), y)",
    "F.nll_loss(F.log_softmax(out, 1, dtype=torch.float32), y)",
    "-(F.softmax(out.float(), 1).log() * F.one_hot(y, 5)).sum(1).mean()",
    "(F.softmax(out, 1) * y).sum()",
    'F.nll_loss(F.log_softmax(out["logits"], 1), y)',
    "F.nll_loss(F.log_softmax(out.logits, 1), y)",
)


def found(folder: Path, text: str) -> list[tuple[Level, int]]:
    return [(one.level, one.span.line) for one in said(folder, "missing-float", text)]


@pytest.mark.parametrize("loss", CROSS_ENTROPIES)
def test_all_cross_entropies_are_told_of_once(tmp_path: Path, loss: str) -> None:
    assert found(tmp_path, PROGRAM.format(loss=loss)) == [(Level.WARNING, 10)]


@pytest.mark.parametrize("loss", OTHERS)
def test_what_is_none_or_is_cast_is_not(tmp_path: Path, loss: str) -> None:
    assert not found(tmp_path, PROGRAM.format(loss=loss))


@pytest.mark.parametrize("loss", CROSS_ENTROPIES[1:])
def test_of_a_model_out_of_sight_a_figure_is_nothing(tmp_path: Path, loss: str) -> None:
    """Where no gradients are taken, nothing but a guess says that it is half."""
    text = PROGRAM.format(loss=loss).replace("def train", "@torch.no_grad()\ndef evaluate")
    assert not found(
        tmp_path, text.replace("    loss.backward()\n    optimizer.step()\n", "    return loss\n")
    )
