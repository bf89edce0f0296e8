"""Conditions that are too large to be carried on: what is forgotten of them accuses nobody."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from amplint.check import check
from amplint.config import Settings
from amplint.flow.core.api import Settings as FlowSettings
from amplint.flow.driver import Driver
from amplint.flow.state import conditions
from amplint.source.project import Project


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


def settings_with_checks(folder: Path, count: int) -> None:
    """A program each of whose checks lets one combination of two settings pass."""
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
    folder.mkdir(exist_ok=True)
    (folder / "main.py").write_text(f"import torch\n\n\nclass Settings:\n{indent(body, '    ')}")


def trees_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many trees the conditions of a program are made of."""
    made: list[int] = []
    conditions.start_over()  # what other tests have left
    with monkeypatch.context() as patched:
        start_over = conditions.start_over
        patched.setattr(conditions, "start_over", lambda: (made.append(conditions.made()), start_over()))
        patched.setattr(conditions, "is_full", lambda: False)
        found = {finding.name for finding in check([str(folder)], Settings(root=folder), jobs=1).findings}
    assert found == {"backward-in-autocast", "autocast-not-entered"}
    (trees,) = made
    return trees


def test_what_checks_in_methods_leave_of_the_path_stays_small(tmp_path: Path) -> None:
    """Together the conditions would double with each of the checks."""
    settings_with_checks(tmp_path, 16)
    project = Project([tmp_path / "main.py"])
    file = project.load(tmp_path / "main.py")
    assert file is not None
    driver = Driver(project, [file], FlowSettings(((2, 0), None), "cuda"))
    asked = [item.condition for walk in driver.walks() for item in walk.graph.items]
    sizes = [sum(1 for _ in conditions._nodes_of(condition)) for condition in asked]
    assert max(sizes) > 100
    assert max(sizes) <= conditions.MOST_NODES


def test_what_is_forgotten_does_not_depend_on_where_the_project_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = set()
    for name in ("here", "there", "now inside"):
        settings_with_checks(tmp_path / name, 16)
        if name == "now inside":  # reports call files by their path from the working directory
            monkeypatch.chdir(tmp_path / name)
        trees.add(trees_made(tmp_path / name, monkeypatch))
    assert len(trees) == 1
