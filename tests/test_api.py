"""What other programs use."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from amplint.api import ConfigError, MissingPathError, Project, Settings, Unwritable, applied
from amplint.source.project import ProjectFile

REGION = """import torch

from model import Net

net = Net()
with torch.autocast("cuda", dtype=torch.float16):
    loss = net(torch.randn(3, 4, device="cuda")).mean()
    loss.backward()
"""
MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.log(torch.sigmoid(nn.functional.linear(x, x)) + 1e-8)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(REGION)
    (tmp_path / "model.py").write_text(MODEL)
    return Project(".")


def names(project: Project, *paths: str) -> list[tuple[str, int, str]]:
    result = project.check(*paths)
    assert result.crashes == ()
    return [(one.path, one.span.line, one.name) for one in result.findings]


def test_a_file_gets_what_the_project_says_of_it(project: Project) -> None:
    model = ("model.py", 7, "half-underflow-eps")
    backward = ("train.py", 8, "backward-in-autocast")
    assert names(project, "model.py") == [model]
    assert names(project, "train.py") == [backward]
    assert names(project) == [model, backward]


def test_a_text_counts_instead_of_the_disk_until_it_is_taken_back(project: Project) -> None:
    project.set_text("model.py", MODEL.replace("1e-8", "1e-3"))
    assert names(project, "model.py") == []
    project.set_text("train.py", "import torch\n")  # nothing calls the model in a region any more
    project.set_text("model.py", MODEL)
    assert names(project) == []
    project.set_text("train.py", None)
    assert len(names(project)) == 2


def test_a_file_need_not_be_saved(project: Project) -> None:
    project.set_text("other.py", REGION)
    assert names(project, "other.py") == [("other.py", 8, "backward-in-autocast")]
    assert [path for path, _, _ in names(project)] == ["model.py", "other.py", "train.py"]
    assert [path for path, _, _ in names(project, "train.py")] == ["train.py"]
    (project.root / "train.py").unlink()
    assert names(project, "model.py") == [("model.py", 7, "half-underflow-eps")]  # other.py opens the region


def test_a_fix_gives_a_text(project: Project) -> None:
    (finding,) = project.check("train.py").findings
    assert finding.path == project.display("train.py")
    assert finding.fix is not None
    text = applied(REGION, finding.fix.edits)
    assert "\nloss.backward()" in text
    project.set_text("train.py", text)
    assert names(project, "train.py") == []


def test_settings_are_given_or_those_of_the_nearest_file(project: Project) -> None:
    (project.root / "amplint.toml").write_text('ignore = ["backward-in-autocast"]\n')
    assert [name for _, _, name in names(Project("."))] == ["half-underflow-eps"]
    mine = Settings(root=project.root, ignore=("AMP403",))
    assert [name for _, _, name in names(Project(".", mine))] == ["backward-in-autocast"]
    (project.root / "amplint.toml").write_text("nonsense = 1\n")
    with pytest.raises(ConfigError, match="nonsense"):
        Project(".")


def test_what_cannot_be_is_said(project: Project) -> None:
    with pytest.raises(MissingPathError):
        project.check("nowhere.py")
    with pytest.raises(Unwritable):
        project.set_text("train.py", "# coding: latin-1\nx = '\N{SNOWMAN}'\n")
    project.set_text("train.py", "# coding: latin-1\nx = '\xe4'\n" + REGION)
    assert [path for path, _, _ in names(project, "train.py")] == ["train.py"]


def test_nothing_of_a_check_stays_in_memory(project: Project) -> None:
    """A server for an editor checks for days. What depends on a condition is kept in tables."""
    text = (
        "import sys\nif len(sys.argv) > 1:\n    import model\nelse:\n    model = None\nprint(model.x)\n"
        + REGION
    )
    project.set_text("train.py", text)
    gc.collect()
    before = sum(type(one) is ProjectFile for one in gc.get_objects())
    assert project.check().findings
    gc.collect()
    assert sum(type(one) is ProjectFile for one in gc.get_objects()) <= before
