"""Nothing of an earlier run in the same process is believed in the next."""

from __future__ import annotations

from pathlib import Path

from amplint.check import check
from amplint.config import Settings

MAIN = """from engine import push
import torch

def train(model, x):
    with torch.autocast("cuda"):
        push(model(x))
"""


def test_a_file_that_was_imported_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(MAIN)
    (tmp_path / "engine.py").write_text("def push(loss):\n    loss.backward()\n")
    settings = Settings(root=tmp_path, select=("AMP101",))
    assert len(check([str(tmp_path)], settings, jobs=1).findings) == 1
    (tmp_path / "engine.py").write_text("def push(loss):\n    return loss\n")
    assert check([str(tmp_path)], settings, jobs=1).findings == ()
