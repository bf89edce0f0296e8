"""Before torch 2.5 the threads of the autograd engine do not know a bfloat16 region: not those of the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Level

SOURCE = """
import torch

def main(model, x):
    with torch.autocast("{device}", dtype=torch.bfloat16):
        loss = model(x).mean()
        loss.backward()
"""


@pytest.mark.parametrize(("device", "level"), [("cpu", Level.WARNING), ("cuda", Level.ERROR)])
def test_backward_in_a_bfloat16_region(tmp_path: Path, device: str, level: Level) -> None:
    (tmp_path / "main.py").write_text(SOURCE.format(device=device))
    settings = Settings(root=tmp_path, torch=((2, 0), (2, 4)), torch_from="the tests")
    (finding,) = check([tmp_path / "main.py"], settings, jobs=1).findings
    assert (finding.name, finding.level) == ("backward-in-autocast", level)
