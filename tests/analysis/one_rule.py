"""What one rule says of a program."""

from __future__ import annotations

from pathlib import Path

from amplint.check import check
from amplint.config import Settings
from amplint.findings import Finding


def said(folder: Path, rule: str, text: str) -> tuple[Finding, ...]:
    """The findings of the rule in a program that is put into the folder."""
    (folder / "program.py").write_text(text, encoding="utf-8")
    settings = Settings(root=folder, select=(rule,), torch=((2, 4), None), torch_from="the tests")
    result = check([str(folder)], settings, jobs=1)
    assert result.crashes == ()
    return result.findings
