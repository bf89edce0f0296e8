"""What groups of files that are judged apart say together."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from amplint.check import check
from amplint.config import Settings


def test_what_several_groups_reach_is_said_once(tmp_path: Path) -> None:
    shared = """\
        import torch
        def train(step, model, x):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                step(model, x)
        def step(model, x):
            model(x).sum().backward()
        """
    (tmp_path / "shared.py").write_text(dedent(shared))
    for number in range(30):
        folder = tmp_path / f"part_{number:02}"
        folder.mkdir()
        text = """\
            import torch
            from shared import step, train
            def main(model, x):
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    model(x)
                train(step, model, x)
            """
        (folder / "main.py").write_text(dedent(text))
    result = check([str(tmp_path)], Settings(root=tmp_path, select=("AMP101",)), jobs=2)
    assert [(finding.name, finding.span.line) for finding in result.findings] == [("backward-in-autocast", 6)]
