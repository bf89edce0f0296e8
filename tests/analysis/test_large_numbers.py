"""Numbers that no float and no tensor holds are no values: whatever a program does with them, the run goes on."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from amplint.check import check
from amplint.config import Settings

HUGE = "3" * 400
SOURCE = """\
    import torch

    def main(model, x):
        with torch.autocast("cuda", dtype=torch.float16):
            {statement}
            loss = model(x).sum()
            loss.backward()

    main(torch.nn.Linear(8, 1).cuda(), torch.randn(4, 8).cuda())
"""


@pytest.mark.parametrize(
    "statement",
    [
        "scaler = torch.amp.GradScaler('cuda', init_scale={huge})",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), {huge})",
        "x.half().masked_fill_(x > 0, -{huge})",
        "x.half()[0] = {huge}",
        "y = x / {huge} + {huge} * 1.5 - {huge} ** 2",
        "y = torch.full((2,), {huge}, dtype=torch.float16)",
        "n = round({huge}) + int('{huge}') + int(1e300) * 10 ** 300 + pow(1000, 1000) + abs(-{huge}) + sum([{huge}])",
        "n = torch.full((2,), pow(1000, 1000), dtype=torch.float16), torch.full((2,), int('{huge}'), dtype=torch.half)",
        "n = torch.full((2,), 10 ** 200 * 10 ** 200, dtype=torch.float16)",
        "n = float({huge}), {huge} > 0.5, {huge} == 1e308, 'x' * {huge}, [1] * {huge}, 'ab'[{huge}], {huge} / 3",
        "for n in range({huge}): x = x + n",
        "for n in range(10 ** 30): x = x + n",
        "n = len(range(-{huge}, {huge})), list(zip(range({huge}), range(10 ** 30)))",
    ],
)
def test_large_numbers(tmp_path: Path, statement: str) -> None:
    text = SOURCE.format(statement=statement.format(huge=HUGE))
    (tmp_path / "program.py").write_text(dedent(text))
    settings = Settings(root=tmp_path, select=("ALL",), torch=((2, 4), None), torch_from="the tests")
    result = check([tmp_path / "program.py"], settings, jobs=1)
    assert result.crashes == ()
    assert "backward-in-autocast" in {finding.name for finding in result.findings}
