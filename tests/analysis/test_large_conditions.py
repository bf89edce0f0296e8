"""Conditions that are too large to be carried on: what is forgotten of them accuses nobody."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.flow.state import conditions


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


def test_what_checks_in_methods_leave_of_the_path_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the checks lets one combination of two settings pass: together they would double with each of them."""
    count, trees = 16, []
    checks = "".join(
        f"def check{index}(self):\n"
        f"    if self.args.a{index} and not self.args.b{count - 1 - index}:\n        raise ValueError\n"
        f"    torch.autocast('cuda')\n"
        for index in range(count)
    )
    calls = "".join(f"self.check{index}()\n" for index in range(count))
    asked = "".join(f"self.x{index} = args.a{index} or 1\n" for index in range(count))
    train = f"self.args = args\n{asked}{calls}with torch.autocast('cuda'):\n    loss.backward()\n"
    body = f"def __init__(self, args, loss):\n{indent(train, '    ')}{checks}"
    (tmp_path / "main.py").write_text(f"import torch\n\n\nclass Settings:\n{indent(body, '    ')}")
    start_over = conditions.start_over
    start_over()  # what other tests have left
    monkeypatch.setattr(conditions, "start_over", lambda: (trees.append(conditions.is_full()), start_over()))
    monkeypatch.setattr(conditions, "_MOST_KEPT", 100_000)
    found = {finding.name for finding in check([str(tmp_path)], Settings(root=tmp_path), jobs=1).findings}
    assert found == {"backward-in-autocast", "autocast-not-entered"}
    assert trees
    assert not any(trees)
