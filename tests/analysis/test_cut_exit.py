"""A walk that meets its budget inside a ``with`` block of the project's own leaves the block all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.flow.core import walks

PROGRAM = """
import torch


class Precision:
    def __init__(self):
        self.region = torch.autocast("cuda")

    def __enter__(self):
        self.region.__enter__()

    def __exit__(self, *args):
        self.region.__exit__(*args)


def shaped(x):
    x = x + 1
    x = x + 2
    x = x + 3
    x = x + 4
    x = x + 5
    x = x + 6
    return x


def train(model, x):
    with Precision():
        loss = shaped(model(x)).sum()
    loss.backward()
"""


@pytest.mark.parametrize("most", range(1, 20))
def test_a_region_is_left_although_the_walk_is_cut(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "PLENTY", 0)
    monkeypatch.setattr(walks, "FEWER", most)
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    assert not check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings
