"""What is asked of shapes and of members of enumerations, which are no settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

TRAINING = """
import enum
import torch
from torch import nn
from torch.nn import functional as F


class Kind(enum.Enum):
    MEAN = enum.auto()
    SUM = enum.auto()


def main(args, batches):
    model = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler()
    for x, y in batches:
        if args.checks:
{checks}
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        if {clips}:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def run(args, batches):
    main(args, batches)
"""


def program(checks: str = "            pass", clips: str = "args.clips") -> str:
    return TRAINING.format(checks=checks, clips=clips)


def test_checks_of_settings_are_remembered(tmp_path: Path) -> None:
    text = program().replace("    for x, y", "    assert not args.clips\n    for x, y")
    assert said(tmp_path, "clip-without-unscale", text) == ()


def test_checks_that_fail_end_the_path(tmp_path: Path) -> None:
    (found,) = said(tmp_path, "clip-without-unscale", program("            assert False"))
    assert "It happens if `args.clips` and `not args.checks`." in found.why


@pytest.mark.parametrize(
    ("clips", "findings"),
    [
        ("Kind.MEAN == Kind.SUM", 0),
        ("Kind.MEAN == Kind.MEAN", 1),
        ("args.kind == Kind.SUM", 1),
        ("Kind.SUM", 1),
    ],
)
def test_members_of_enumerations(tmp_path: Path, clips: str, findings: int) -> None:
    found = said(tmp_path, "clip-without-unscale", program(clips=clips))
    assert len(found) == findings
    assert all("It happens if" not in finding.why for finding in found)
