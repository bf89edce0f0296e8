"""Which classes an object may have that is called in a region and made elsewhere."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings

LOSS = """\
    from torch import nn
    class Binary(nn.Module):
        def __init__(self):
            super().__init__()
            self.loss = nn.BCELoss()
        def forward(self, pred, label, **kwargs):
            return self.loss(pred.sigmoid(), label)
    """
TRAINER = """\
    import torch
    from torch import nn
    from parts import Part
    class Trainer:
        def __init__(self, part{annotation}):
            self.part = part
        def train(self, scaler, model, x, y):
            with torch.autocast("cuda"):
                loss = self.part({arguments})
            scaler.scale(loss).backward()
    """
PART = """\
    from torch import nn
    class Part(nn.Module):
        def forward(self, x, y):
            raise NotImplementedError
    """


@pytest.mark.parametrize(
    ("annotation", "arguments", "expected"),
    [
        ("", "model(x), y", 1),
        (": nn.Module", "model(x), y", 1),
        (": Part | None", "model(x), y", 0),
        ("", "**y", 0),
    ],
)
def test_a_loss_that_the_project_never_makes(
    tmp_path: Path, annotation: str, arguments: str, expected: int
) -> None:
    (tmp_path / "losses.py").write_text(dedent(LOSS))
    (tmp_path / "parts.py").write_text(dedent(PART))
    trainer = dedent(TRAINER).format(annotation=annotation, arguments=arguments)
    (tmp_path / "trainer.py").write_text(trainer)
    result = check([str(tmp_path)], Settings(root=tmp_path, select=("AMP401",)), jobs=1)
    assert len(result.findings) == expected
