"""Open texts of several projects, as an editor has them."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from amplint.api import Cache, ConfigError, Stopped, Workspace, applied, rule_file, rule_of, silencing
from amplint.source.project import ProjectFile

OLD = "import torch\n\nregion = torch.cuda.amp.autocast()\n"
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
CONDITIONAL = """import sys

if len(sys.argv) > 1:
    import model
else:
    model = None
print(model.x)
"""
"""What depends on a condition is kept in tables."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(REGION)
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def names(workspace: Workspace, *paths: Path) -> list[tuple[str, str]]:
    result = workspace.check(*paths)
    assert result.crashes == ()
    return [(one.path, one.name) for one in result.findings]


def reuse(workspace: Workspace, path: Path) -> str:
    """What a check of a file did with earlier results."""
    return workspace.check(path).accounts[0].cache


def test_what_was_found_is_found_again_without_an_analysis(project: Path) -> None:
    workspace = Workspace()
    model, train, other = project / "model.py", project / "train.py", project / "other.py"
    other.write_text("x = 1\n")
    assert reuse(workspace, model) == "nothing to use"
    assert reuse(workspace, train) == "used"
    workspace.set_text(train, REGION)
    assert reuse(workspace, train) == "used"
    workspace.set_text(other, "x = 2  # nothing of AMP\n")
    assert reuse(workspace, train) == "used"
    workspace.set_text(model, MODEL + "\n")
    assert reuse(workspace, train) == "nothing to use"
    assert reuse(workspace, train) == "used"
    assert names(workspace, model) == [("model.py", "half-underflow-eps")]
    workspace.set_text(other, OLD)
    assert reuse(workspace, train) == "nothing to use"
    workspace.set_text(other, None)
    assert reuse(workspace, train) == "nothing to use"
    train.write_text(REGION + "\n")
    assert reuse(workspace, train) == "used"  # the editor has another text
    workspace.set_text(train, None)
    assert reuse(workspace, train) == "nothing to use"
    assert names(workspace, train) == [("train.py", "backward-in-autocast")]
    (project / "amplint.toml").write_text('ignore = ["AMP101"]\n')
    assert reuse(workspace, train) == "nothing to use"
    assert names(workspace, train) == []
    assert not (project / ".amplint_cache").exists()


def test_what_is_found_in_files_as_they_are_is_kept_for_other_runs(project: Path) -> None:
    workspace, train = Workspace(cache=Cache()), project / "train.py"
    workspace.set_text(train, REGION + "\n")
    assert reuse(workspace, train) == "nothing to use"
    assert not (project / ".amplint_cache").exists()
    train.write_text(REGION + "\n")  # now it is saved
    assert reuse(workspace, train) == "used"
    assert reuse(Workspace(cache=Cache()), train) == "used"
    assert names(Workspace(cache=Cache()), train) == names(workspace, train) != []


def test_whether_a_text_is_another_one_is_told(project: Path) -> None:
    workspace, train, new = Workspace(), project / "train.py", project / "new.py"
    assert not workspace.set_text(train, REGION)
    assert workspace.set_text(train, "x = 1\n")
    assert not workspace.set_text(train, "x = 1\n")
    assert workspace.set_text(train, None)
    assert not workspace.set_text(train, None)
    assert workspace.set_text(new, "")
    assert workspace.set_text(new, None)


@pytest.mark.parametrize("after", [0, 1, 5, 20, 60, 200, 5_000])
def test_a_check_can_be_ended_at_any_time(project: Path, after: int) -> None:
    workspace, train = Workspace(), project / "train.py"
    train.write_text(CONDITIONAL + REGION + "x = 1\n" * 300)
    expected = names(Workspace(), train)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    gc.collect()
    before = sum(type(one) is ProjectFile for one in gc.get_objects())
    if after < 5_000:
        with pytest.raises(Stopped):
            workspace.check(train, stop=stop)
        assert asked == after + 1
    else:
        workspace.check(train, stop=stop)
        assert 200 < asked < after
    gc.collect()
    assert sum(type(one) is ProjectFile for one in gc.get_objects()) <= before
    assert gc.isenabled()
    assert names(workspace, train) == expected


def test_a_project_begins_where_something_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    file = inner / "train.py"
    assert Workspace().project_of(file) == inner
    assert Workspace([tmp_path]).project_of(file) == tmp_path
    assert Workspace([tmp_path, tmp_path / "a"]).project_of(file) == tmp_path / "a"
    (tmp_path / ".git").mkdir()
    assert Workspace([tmp_path / "a"]).project_of(file) == tmp_path
    (inner / "amplint.toml").write_text("")
    assert Workspace([tmp_path]).project_of(file) == inner


def test_a_folder_is_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "work"
    (folder / "models").mkdir(parents=True)
    (folder / "scripts").mkdir()
    (folder / "models" / "model.py").write_text(MODEL)
    train = folder / "scripts" / "train.py"
    train.write_text(REGION.replace("from model", "from models.model"))
    model = folder / "models" / "model.py"
    assert names(Workspace(), model) == []
    assert names(Workspace([folder]), model) == [("work/models/model.py", "half-underflow-eps")]


def test_patterns_of_a_project_are_about_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "build" / "project"
    (project / "build").mkdir(parents=True)
    inside, generated = project / "train.py", project / "build" / "train.py"
    assert Workspace().excludes(inside)  # nothing says that a project begins there
    assert not Workspace([project]).excludes(inside)
    assert Workspace([project]).excludes(generated)
    (project / ".git").mkdir()
    assert not Workspace().excludes(inside)
    assert Workspace().excludes(generated)
    options = {"ignore": ["AMP999"]}
    with pytest.raises(ConfigError, match="AMP999"):
        Workspace(options=options)


def test_an_excluded_text_is_no_part_of_the_project(project: Path) -> None:
    (project / "amplint.toml").write_text('exclude = ["old"]\n')
    workspace = Workspace()
    (project / "train.py").unlink()
    model = project / "model.py"
    assert names(workspace, model) == []
    workspace.set_text(project / "old" / "train.py", REGION)
    assert names(workspace, model) == []
    (project / ".gitignore").write_text("ignored.py\n")
    (project / "ignored.py").write_text(REGION)
    workspace.set_text(project / "ignored.py", REGION)  # nor is one that git ignores
    assert names(workspace, model) == []
    workspace.set_text(project / "train.py", REGION)
    assert names(workspace, model) == [("model.py", "half-underflow-eps")]


def test_safe_fixes_are_made_of_the_texts_that_there_are(project: Path) -> None:
    workspace, train = Workspace(), project / "train.py"
    workspace.set_text(train, OLD)
    mended = OLD.replace("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")')
    assert workspace.fixed(train) == {str(train): (OLD, mended)}
    workspace.set_text(train, mended)
    assert workspace.fixed(train) == {}
    assert train.read_text() == REGION


def test_a_write_protected_file_that_is_not_open_is_not_fixed(project: Path) -> None:
    workspace, train = Workspace(), project / "train.py"
    train.write_text(OLD)
    train.chmod(0o444)
    assert workspace.fixed(train) == {}
    workspace.set_text(train, OLD)  # in an editor somebody sees to it
    assert list(workspace.fixed(train)) == [str(train)]


def test_a_finding_leads_to_its_rule_and_to_a_comment(project: Path) -> None:
    workspace, train = Workspace(), project / "train.py"
    (finding,) = workspace.check(train).findings
    assert rule_of(finding).code == finding.code
    assert rule_of(finding).page.split("\n\n")[1] in rule_file(finding).read_text("utf-8")
    assert applied(REGION, silencing(REGION, finding, "why")).endswith(
        "loss.backward()  # amplint: ignore[backward-in-autocast] why\n"
    )
    workspace.set_text(train, "import torch\ntorch.autocast(\n")
    (finding,) = workspace.check(train).findings
    assert rule_of(finding).name == "syntax-error"
    assert rule_file(finding).name == "unreadable.py"
    assert silencing("import torch\ntorch.autocast(\n", finding) == ()


def test_a_text_that_does_not_fit_its_coding_comment_is_told_of(project: Path) -> None:
    workspace, train = Workspace(), project / "train.py"
    for text in ("# coding: latin-1\ntorch.autocast('\N{SNOWMAN}')\n", "# coding: no\ntorch.autocast\n"):
        workspace.set_text(train, text)
        assert names(workspace, train) == [("train.py", "syntax-error")]
    workspace.set_text(train, "# coding: latin-1\ntorch.autocast('\xe4')\n")
    assert workspace.text(train) == "# coding: latin-1\ntorch.autocast('\xe4')\n"
    assert workspace.text(project / "nowhere.py") is None
