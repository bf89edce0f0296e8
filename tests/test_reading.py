"""The protocol of reading: what the sheet holds, and what is counted in a filled one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "reading.py"
PROJECT = """\
import torch
from data import load


def epoch(net, loader):
    for x in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = torch.nn.functional.linear(x, x)
        print(y.numpy())


epoch(None, load())
"""


def reading(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARK), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_a_sheet_is_written_filled_and_counted(tmp_path: Path) -> None:
    root, sheet, labels = tmp_path / "projects", tmp_path / "sheet.md", tmp_path / "labels.json"
    (root / "one").mkdir(parents=True)
    (root / "one" / "main.py").write_text(PROJECT)
    assert reading("sheet", root, sheet).returncode == 0
    text = sheet.read_text()
    assert (
        "## 1. AMP207 bfloat16-to-numpy, error\n\nproject: one\nplace: main.py:9\nassumes: nothing\n" in text
    )
    assert ">    9         print(y.numpy())" in text
    assert "Calls of `epoch`: \n- main.py:12: `epoch(None, load())`" in text

    counted = reading("summary", sheet)
    assert "1 findings have no judgement yet." in counted.stdout
    sheet.write_text(text.replace("judgement:", "judgement: false"))
    counted = reading("summary", sheet)
    assert re.search(r"\| error +\| +0 \| +0 \| +1 \| +0\.00 \|", counted.stdout)
    assert re.search(r"\| AMP207 bfloat16-to-numpy +\| +0 \| +0 \| +1 \|", counted.stdout)
    assert "no judgement" not in counted.stdout
    sheet.write_text(text.replace("judgement:", "judgement: perhaps"))
    assert reading("summary", sheet).returncode != 0

    places = [("main.py", 11, "bug"), ("main.py", 20, "bug"), ("main.py", 8, "clean"), ("b.py", 8, "advice")]
    found = [
        {"project": "one", "file": file, "line": line, "severity": severity}
        for file, line, severity in places
    ]
    labels.write_text(json.dumps(found))
    sheet.write_text(text)
    shown = reading("recall", sheet, labels).stdout
    assert re.search(r"\| bug +\| +1 \| +2 \|", shown)
    assert re.search(r"\| advice +\| +0 \| +1 \|", shown)
    assert "missed: bug one/main.py:20" in shown
