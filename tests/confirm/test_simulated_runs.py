"""Programs under the probe with simulated CUDA: whose regions an op is in, and what the simulation does not have."""

from __future__ import annotations

import sys

import pytest

torch = pytest.importorskip("torch")

from probing import Probed  # noqa: E402

from amplint.confirm import placement  # noqa: E402
from amplint.report.verdicts import described_run  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")

START = """
import torch
from torch import nn

x = torch.ones(2, 2, device="cuda")
assert x.is_cuda and x.device == torch.device("cuda", 0)
assert next(nn.Linear(2, 2).to(x.device).parameters()).is_cuda
"""


NO_GRAPHS = (
    "RuntimeError: Tried to instantiate dummy base class CUDAGraph"
    if torch.version.cuda is None
    else "Error: CUDA error: "
)
"""What torch says without a device, by what it is built for."""


@pytest.mark.parametrize(
    ("rest", "because"),
    [
        ("torch.cuda.CUDAGraph()", NO_GRAPHS),
        (
            "h = x.view(1, 2, 1, 2).half()\n"
            "torch.ops.aten._flash_attention_forward(h, h, h, None, None, 2, 2, 0.0, False, False)",
            "NotImplementedError: Could not run 'aten::_flash_attention_forward'",
        ),
        (
            "try:\n    torch.cuda.CUDAGraph()\nexcept RuntimeError as error:\n"
            "    raise SystemError('no graphs') from error",
            "SystemError: no graphs",
        ),
    ],
    ids=["a part of torch.cuda", "an op", "what follows of it"],
)
def test_what_the_simulation_does_not_have_is_told(probed: Probed, rest: str, because: str) -> None:
    done = probed(START + rest)
    assert done.status == 1
    [raised] = done.recording.raised
    assert raised.not_simulated
    _, said, after = described_run(done.recording).partition("the simulation ended the run: ")
    assert said
    assert because in after


@pytest.mark.parametrize(
    "rest",
    [
        "assert not x.is_cuda, 'of its own'",
        "x @ torch.ones(3, 3, device='cuda')",
        pytest.param(
            "x @ torch.ones(2, 2)",
            marks=pytest.mark.skipif(
                not placement._Mismatch, reason="fake tensors of this torch do not tell mismatches apart"
            ),
        ),
        "torch.linalg.inv(x.half())",
        "torch.cuda.amp.custom_fwd(lambda ctx: 1 / 0)(x)",
        "try:\n    torch.cuda.CUDAGraph()\nexcept RuntimeError:\n    pass\nraise KeyError('of its own')",
    ],
)
def test_what_a_program_raises_by_itself_is_its_own(probed: Probed, rest: str) -> None:
    done = probed(START + rest)
    assert done.status == 1
    assert not any(raised.not_simulated for raised in done.recording.raised)
    assert "the simulation ended" not in described_run(done.recording)


def test_a_region_is_for_ops_on_its_device(probed: Probed) -> None:
    done = probed(
        START
        + """
h, y = x.half(), torch.ones(2, 2)
p = torch.sigmoid(x)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h.log_softmax(0)
    (y @ y).exp()
with torch.autocast("cuda"):
    nn.functional.binary_cross_entropy(y, y)
    try:
        nn.functional.binary_cross_entropy(p, p)
    except RuntimeError:
        pass
"""
    )
    assert (done.status, done.stderr) == (0, "")
    inside = {part.span.line: part.inside for part in done.recording.reached if part.kind == "Op"}
    lines = START.count("\n")
    assert inside[lines + 5] == 0 and inside[lines + 6] > 0
    [banned] = [part.finding for part in done.recording.seen if part.finding.name == "bce-in-autocast"]
    assert banned.span.line == lines + 10
