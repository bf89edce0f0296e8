"""Conditions that are too large to be carried on: what is forgotten of them accuses nobody."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

from amplint.check import check
from amplint.config import Settings


def exits(count: int) -> str:
    return "".join(f"if options.x{index}:\n    return\n" for index in range(count))


def findings(folder: Path, after: str, count: int) -> list[str]:
    """What is found where many exits stand in a region that one of several flags has chosen."""
    ways = "".join(
        f"    if options.kind == {index}:\n"
        f"        return torch.autocast('cuda', enabled=options.on{index}, cache_enabled=options.cache{index})\n"
        for index in range(4)
    )
    cast = (
        f"import torch\n\n\ndef cast(options):\n{ways}    return torch.autocast('cuda', enabled=False)\n\n\n"
    )
    body = f"with cast(options):\n{indent(exits(count), '    ')}    model(options)\n{after}"
    (folder / "main.py").write_text(f"{cast}def main(options, model, loss):\n{indent(body, '    ')}")
    return [finding.name for finding in check([str(folder)], Settings(root=folder), jobs=1).findings]


def test_a_region_that_one_of_several_flags_has_chosen_is_left(tmp_path: Path) -> None:
    assert findings(tmp_path, "loss.backward()\n", 70) == []
    assert findings(tmp_path, "    loss.backward()\n", 10) == ["backward-in-autocast"]
