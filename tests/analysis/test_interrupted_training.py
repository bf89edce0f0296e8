"""An exception ends a loop in a late round as well as in the first one: handlers are judged after both."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_rule import said

HEAD = """
import torch
from torch import nn


def main(loader, path):
    model = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    optimizer.load_state_dict(torch.load(path)["optimizer"])

    def epoch():
        for x, y in loader:
            with torch.autocast("cuda"):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    def save():
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
"""

TRIED = {
    "a loop": """
    try:
        while True:
            epoch()
    except KeyboardInterrupt:
        save()
""",
    "a function": """
    try:
        epoch()
    except Exception:
        save()
        raise
""",
    "what is returned": """
    try:
        return epoch()
    except Exception:
        print("interrupted")
        save()
""",
    "the second handler": """
    try:
        return epoch()
    except KeyboardInterrupt:
        raise
    except Exception:
        save()
""",
}


@pytest.mark.parametrize("text", TRIED.values(), ids=TRIED.keys())
def test_what_a_handler_saves_is_judged_after_what_was_tried(tmp_path: Path, text: str) -> None:
    (found,) = said(tmp_path, "AMP308", HEAD + text)
    assert "optimizer.state_dict()" in (tmp_path / "program.py").read_text().splitlines()[found.span.line - 1]


def test_an_exception_before_anything_was_done_is_as_before(tmp_path: Path) -> None:
    """What is tried has no loop: that an optimizer was stepped before its exception came is another guess."""
    text = """
    try:
        torch.compile(model)
    except RuntimeError:
        save()
"""
    assert said(tmp_path, "AMP308", HEAD + text) == ()


def test_what_follows_is_not_judged_after_a_late_exception(tmp_path: Path) -> None:
    """The handler unscales, and the next step would do so a second time."""
    text = """
    try:
        epoch()
    except RuntimeError:
        scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
"""
    assert said(tmp_path, "AMP309", HEAD + text) == ()
