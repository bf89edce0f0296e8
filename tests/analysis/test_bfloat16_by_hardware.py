"""``torch.cuda.is_bf16_supported()`` is true on each CUDA device since torch 2.3, which emulates it on older ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings

PROGRAM = """
import torch
from torch import nn

model = nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
with torch.autocast("cuda", dtype=dtype):
    loss = model(torch.randn(2, 2).cuda()).float().mean()
loss.backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("asked", "since", "count"),
    [
        ("is_bf16_supported()", (2, 3), 0),
        ("is_bf16_supported()", (2, 2), 1),
        ("is_bf16_supported(True)", (2, 4), 0),
        ("is_bf16_supported(including_emulation=True)", (2, 4), 0),
        ("is_bf16_supported(including_emulation=False)", (2, 4), 1),
        ("get_device_capability()[0] >= 8", (2, 4), 1),
    ],
)
def test_float16_is_chosen_where_there_is_no_bfloat16(
    tmp_path: Path, asked: str, since: tuple[int, int], count: int
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.replace("is_bf16_supported()", asked), encoding="utf-8")
    settings = Settings(
        root=tmp_path, select=("missing-grad-scaler",), torch=(since, None), torch_from="the tests"
    )
    assert len(check([str(tmp_path)], settings, jobs=1).findings) == count
