"""Warnings that only tests lead to are none: nobody trains as a test does."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding, Level

LOSS = """
    import torch.nn.functional as F

    def loss(out, y):
        return F.cross_entropy(out, y)
"""
HIDDEN = """
    def hidden(out, mask):
        return out.masked_fill(mask, -1e9)
"""
USING = """
    import torch
    from lost import loss
    from masks import hidden

    def run(x, y):
        with torch.autocast("cuda", dtype=torch.{dtype}):
            out = x @ x
            hidden(out, y)
        return loss(out, y)
"""


def findings(folder: Path, **files: str) -> list[Finding]:
    """What is found in a project of the two functions and these files."""
    for name, text in {"lost": LOSS, "masks": HIDDEN, **files}.items():
        (folder / f"{name}.py").write_text(dedent(text))
    return list(check([str(folder)], Settings(root=folder), jobs=1).findings)


def test_a_warning_about_a_region_of_a_test_is_left_out(tmp_path: Path) -> None:
    assert findings(tmp_path, test_lost=USING.format(dtype="bfloat16")) == []
    (found,) = findings(tmp_path, train=USING.format(dtype="bfloat16"))
    assert (found.level, found.name, Path(found.path).name) == (Level.WARNING, "missing-float", "lost.py")
    assert "train.py" in found.message


def test_an_error_about_a_region_of_a_test_is_told(tmp_path: Path) -> None:
    (found,) = findings(tmp_path, test_lost=USING.format(dtype="float16"))
    assert (found.level, found.name) == (Level.ERROR, "half-overflow-literal")
