"""What user code does with a framework whose own code calls torch: the place of a finding tells whose it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from probing import Probed

from amplint.confirm.recording import Recording
from amplint.confirm.verdicts import cross_check
from amplint.rules import all_rules

FRAMEWORK = """
import torch


class Framework:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def forward(self, model, x):
        with torch.autocast("cuda", dtype=torch.float16):
            return model(x)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.scaler.update()

    def clip(self, model):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""

LOOP = """
import sys
sys.path.insert(0, "{installed}")
import torch
from framework import Framework
from torch import nn

torch.manual_seed(0)
framework = Framework()
model = nn.Linear(4, 1).cuda(){cast}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 4, device="cuda")
for _ in range(3):
    optimizer.zero_grad()
    loss = framework.forward(model, x).float().square().mean()
    {backward}
    {clip}
    framework.step(optimizer)
"""

GOOD = {"cast": "", "backward": "framework.backward(loss)", "clip": "pass"}


def told(probed: Probed, tmp_path: Path, **changed: str) -> tuple[list[str], int, Recording]:
    installed = tmp_path.parent / f"{tmp_path.name}-installed"
    installed.mkdir()
    (installed / "framework.py").write_text(FRAMEWORK)
    done = probed(LOOP.format(installed=installed, **(GOOD | changed)))
    crossed = cross_check([], done.recording, all_rules(), dict(done.recording.files))
    missed = [
        f"{verdict.finding.name}: {verdict.finding.path}:{verdict.finding.span.line}"
        for verdict in crossed.missed
    ]
    return missed, len(crossed.in_libraries), done.recording


def test_a_right_program_is_silent(probed: Probed, tmp_path: Path) -> None:
    missed, in_libraries, recording = told(probed, tmp_path)
    assert (missed, in_libraries, recording.steps) == ([], 0, 3)


def test_the_users_own_clip_is_told_although_the_framework_steps(probed: Probed, tmp_path: Path) -> None:
    clip = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    missed, in_libraries, recording = told(probed, tmp_path, clip=clip)
    assert (missed, in_libraries) == (["clip-without-unscale: train.py:17"], 0)
    [seen] = recording.seen
    assert seen.evidence[0].startswith("the gradient norm was ")
    assert " where 1 is allowed, the scale was " in seen.evidence[0]


def test_the_frameworks_own_clip_is_counted(probed: Probed, tmp_path: Path) -> None:
    missed, in_libraries, _ = told(probed, tmp_path, clip="framework.clip(model)")
    assert (missed, in_libraries) == ([], 1)


@pytest.mark.parametrize(
    ("changed", "finding", "error"),
    [
        ({"backward": "loss.backward()"}, "unscaled-backward: train.py:18", "AssertionError"),
        ({"cast": ".half()"}, "half-model: train.py:10", "ValueError"),
    ],
)
def test_what_the_framework_raises_for_the_users_mistake_is_told(
    probed: Probed, tmp_path: Path, changed: dict[str, str], finding: str, error: str
) -> None:
    missed, _, recording = told(probed, tmp_path, **changed)
    assert finding in missed
    assert recording.raised[0].type == error


def test_a_wrapper_for_several_devices_that_has_one_hides_its_threads(probed: Probed) -> None:
    done = probed(
        """
        import torch
        from torch import nn

        model = nn.DataParallel(nn.Linear(4, 1).cuda())
        x = torch.ones(2, 4, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            model(x)
        """
    )
    [hidden] = done.recording.hidden
    assert (hidden.kind, hidden.span.line) == ("ThreadBegan", 8)
