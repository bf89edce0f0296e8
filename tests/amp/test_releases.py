"""The linter speaks of the torch that the project admits."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings, TorchBounds

BEGINNING = """
import torch
from torch import nn
import torch.nn.functional as F

model, x = nn.Linear(8, 8).cuda(), torch.randn(4, 8, device="cuda")
"""
POLAR = (
    BEGINNING
    + """
with torch.autocast("cuda", dtype=torch.float16):
    length, angle = model(x), model(x)
    turned = torch.polar(length, angle)
"""
)
RMS_NORM = (
    BEGINNING
    + """
with torch.autocast("cuda", dtype=torch.bfloat16):
    result = F.rms_norm(model(x), (8,))
saved = result.detach().cpu().numpy()
"""
)
QR = (
    BEGINNING
    + """
with torch.autocast("cuda", dtype=torch.bfloat16):
    result = torch.qr(model(x))
"""
)


def found(code: str, torch: TorchBounds, folder: Path) -> list[str]:
    """The names of the rules that speak."""
    (folder / "program.py").write_text(code, encoding="utf-8")
    settings = Settings(root=folder, torch=torch, torch_from="the test")
    result = check([folder / "program.py"], settings, jobs=1)
    assert result.crashes == () and result.torch == torch
    return [finding.name for finding in result.findings]


@pytest.mark.parametrize(
    ("code", "torch", "rules"),
    [
        pytest.param(POLAR, ((2, 13), (2, 13)), ["unprotected-op-in-half"], id="polar without a kernel"),
        pytest.param(POLAR, ((2, 4), (2, 13)), ["unprotected-op-in-half"], id="polar in old releases"),
        pytest.param(POLAR, ((2, 14), None), [], id="polar with a kernel"),
        pytest.param(POLAR, ((2, 0), None), [], id="polar in any release"),
        pytest.param(
            RMS_NORM, ((2, 7), (2, 11)), ["bfloat16-to-numpy"], id="rms_norm in the type of its operand"
        ),
        pytest.param(RMS_NORM, ((2, 12), None), [], id="rms_norm in float32"),
        pytest.param(RMS_NORM, ((2, 0), None), [], id="rms_norm in any release"),
        pytest.param(QR, ((2, 13), (2, 13)), ["unprotected-op-in-half"], id="qr"),
        pytest.param(QR, ((2, 14), None), [], id="qr is gone"),
    ],
)
def test_a_finding_holds_for_every_release_that_is_admitted(
    code: str, torch: TorchBounds, rules: list[str], tmp_path: Path
) -> None:
    assert found(code, torch, tmp_path) == rules
