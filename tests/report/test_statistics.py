"""What ``--statistics`` says beside the counts."""

from __future__ import annotations

from pathlib import Path

from amplint.check import CheckResult, check
from amplint.config import load_settings
from amplint.flow.core.walks import MOST_STEPS
from amplint.report.statistics import render_statistics
from amplint.report.text import Style

CUT = "2 of 40 entry points are longer than what is walked: findings may be missing."


def test_entry_points_that_were_cut_are_counted() -> None:
    text = render_statistics(CheckResult((), 3, entries=40, cut=2), Style(), as_json=False)
    assert CUT in text.splitlines()
    assert "entry points" not in render_statistics(CheckResult((), 3, entries=40), Style(), as_json=False)


def test_a_run_says_how_many_entry_points_it_cut(tmp_path: Path) -> None:
    """More statements than are walked, after a region was opened."""
    short = "import torch\nwith torch.autocast('cuda'):\n    x = 1\n"
    (tmp_path / "short.py").write_text(short)
    result = check([tmp_path / "short.py"], load_settings(tmp_path))
    assert result.entries
    assert not result.cut
    many = "def step(x):\n    torch.relu(x)\n" + "    x = x + 1\n" * 1000
    calls = "".join(f"    step({number})\n" for number in range(MOST_STEPS // 1000 + 2))
    (tmp_path / "long.py").write_text(
        f"{short}{many}\ndef main():\n    torch.autocast('cuda').__enter__()\n{calls}"
    )
    result = check([tmp_path / "long.py"], load_settings(tmp_path))
    assert result.cut
