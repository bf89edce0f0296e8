"""The project is the unit, the given paths are the view."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from amplint.check import CheckResult, Stdin, check_stdin, check_views
from amplint.config import ConfigError, Settings, load_settings, with_option
from amplint.fixing import fix
from amplint.scope import View, alone, root_of, views

REGION = """import torch

from model import Net

net = Net()
with torch.autocast("cuda", dtype=torch.float16):
    net(torch.randn(3, 4, device="cuda")).mean().backward()
"""
MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.log(torch.sigmoid(nn.functional.linear(x, x)) + 1e-8)
"""


def folder(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def settings_of(start: Path) -> Settings:
    return load_settings(start)


def names(files: Sequence[str], root: Path) -> list[str]:
    return [Path(file).relative_to(root).as_posix() for file in files]


def found(result: CheckResult) -> list[tuple[str, int, str]]:
    return [(Path(one.path).name, one.span.line, one.name) for one in result.findings]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return folder(tmp_path / "project", {"train.py": REGION, "model.py": MODEL, ".git/HEAD": ""})


def test_one_file_gets_the_findings_that_a_run_over_all_has_for_it(project: Path) -> None:
    whole = found(check_views(views([project], settings_of)))
    assert {file for file, _, _ in whole} == {"train.py", "model.py"}
    for name in ("train.py", "model.py"):
        part = check_views(views([project / name], settings_of))
        assert found(part) == [one for one in whole if one[0] == name]
        assert part.checked == 1
    assert found(check_views([alone([project / "model.py"], Settings(root=project))])) == []


def test_the_order_of_paths_and_what_else_is_given_make_no_difference(project: Path) -> None:
    whole = found(check_views(views([project], settings_of)))
    both = [project / "model.py", project / "train.py"]
    assert found(check_views(views(both, settings_of))) == whole
    assert found(check_views(views(both[::-1], settings_of))) == whole
    assert found(check_views(views([project / "model.py", project], settings_of))) == whole


def test_text_from_standard_input_stands_for_the_file_that_it_is_named_after(project: Path) -> None:
    (view,) = views([project / "model.py"], settings_of, [str(project / "model.py")])
    text = MODEL.replace("1e-8", "1e-3")
    assert found(check_stdin(view, Stdin(project / "model.py", text.encode()))) == []
    assert len(found(check_stdin(view, Stdin(project / "model.py", MODEL.encode())))) == 1
    (new,) = views([project / "model2.py"], settings_of, [str(project / "model2.py")])
    assert found(check_stdin(new, Stdin(project / "model2.py", MODEL.encode()))) == []


def test_the_project_begins_at_the_nearest_settings(tmp_path: Path) -> None:
    root = folder(
        tmp_path, {".git/HEAD": "", "a/amplint.toml": "", "a/b/c.py": "", "a/pyproject.toml": "x=1"}
    )
    assert root_of(root / "a/b", settings_of(root / "a/b")) == root / "a"
    assert root_of(root / "a/b", Settings(root=root)) == root / "a"  # --isolated
    (root / "a/amplint.toml").unlink()
    assert root_of(root / "a/b", settings_of(root / "a/b")) == root


def test_without_settings_and_repository_it_is_the_outermost_package(tmp_path: Path) -> None:
    root = folder(tmp_path, {"p/__init__.py": "", "p/q/__init__.py": "", "p/q/r.py": "", "other.py": ""})
    assert root_of(root / "p/q", Settings(root=root)) == root / "p"
    (view,) = views([root / "p/q/r.py"], settings_of)
    assert names(view.project, root) == ["p/__init__.py", "p/q/__init__.py", "p/q/r.py"]


def test_a_lone_script_has_its_neighbours_and_the_packages_beside_it(tmp_path: Path) -> None:
    files = {"s.py": "", "t.py": "", "p/__init__.py": "", "p/m.py": "", "data/x.py": "", "data/y/z.py": ""}
    root = folder(tmp_path, files)
    (view,) = views([root / "s.py"], settings_of)
    assert names(view.project, root) == ["p/__init__.py", "p/m.py", "s.py", "t.py"]
    (view,) = views([root], settings_of)
    assert names(view.files, root) == names(view.project, root) == sorted(files)


def test_the_root_may_be_named(tmp_path: Path) -> None:
    root = folder(tmp_path, {".git/HEAD": "", "a/x.py": "", "a/b/y.py": "", "z.py": ""})
    named = with_option(settings_of(root), "project-root", str(root / "a"), "--project")
    (view,) = views([root / "a/b/y.py"], lambda start: named)
    assert names(view.project, root) == ["a/b/y.py", "a/x.py"]
    folder(root, {"a/b/amplint.toml": 'project-root = ".."\n'})
    (view,) = views([root / "a/b/y.py"], settings_of)
    assert view.root == root / "a"
    assert names(view.project, root) == ["a/b/y.py"]  # a/x.py has other settings
    with pytest.raises(ConfigError, match="there is no directory"):
        with_option(settings_of(root), "project-root", "nowhere", "--project")


def test_settings_hold_for_the_files_below_them_whatever_the_order(tmp_path: Path) -> None:
    files = {
        ".git/HEAD": "",
        "amplint.toml": "",
        "train.py": REGION,
        "model.py": MODEL,
        "inner/amplint.toml": 'ignore = ["half-underflow-eps"]\nextend-exclude = ["old.py"]\n',
        "inner/train.py": REGION,
        "inner/model.py": MODEL,
        "inner/old.py": REGION,
    }
    root = folder(tmp_path, files)
    outer, inner = views([root], settings_of)
    assert names(outer.project, root) == ["model.py", "train.py"]
    assert names(inner.project, root) == ["inner/model.py", "inner/train.py"]
    result = check_views([outer, inner])
    assert [one.path for one in result.findings if one.name == "half-underflow-eps"] == [
        str(root / "model.py")
    ]
    again = [root / "inner/model.py", root / "model.py"]
    for paths in (again, again[::-1]):
        part = check_views(views(paths, settings_of))
        assert [one.path for one in part.findings] == [str(root / "model.py")]


def test_settings_that_are_wrong_matter_where_something_below_them_is_given(project: Path) -> None:
    folder(project, {"inner/amplint.toml": "nonsense = 1", "inner/x.py": REGION})
    (view,) = views([project / "train.py"], settings_of)
    assert names(view.project, project) == ["model.py", "train.py"]
    with pytest.raises(ConfigError, match="nonsense"):
        views([project], settings_of)


def test_excluded_files_are_no_part_of_the_project_but_given_ones_are(project: Path) -> None:
    folder(project, {"amplint.toml": 'extend-exclude = ["model.py"]\n'})
    (view,) = views([project / "train.py"], settings_of)
    assert names(view.project, project) == ["train.py"]
    (view,) = views([project / "model.py"], settings_of)
    assert names(view.project, project) == ["model.py", "train.py"]


def test_a_fix_changes_no_file_that_was_not_given(project: Path) -> None:
    (project / "train.py").write_text(REGION.replace("torch.autocast(", "torch.cuda.amp.autocast("))
    fixing = fix(views([project / "model.py"], settings_of), unsafe=True)
    assert [change.name for change in fixing.changes] == [str(project / "model.py")]


def test_what_cannot_be_read_elsewhere_is_not_reported(project: Path) -> None:
    folder(project, {"broken.py": "import torch\nwith torch.autocast('cuda'\n"})
    part = check_views(views([project / "train.py"], settings_of))
    assert {file for file, _, _ in found(part)} == {"train.py"}
    assert ("broken.py", "syntax-error") in {
        (file, name) for file, _, name in found(check_views(views([project], settings_of)))
    }


def test_a_view_of_no_file(tmp_path: Path) -> None:
    (view,) = views([tmp_path], settings_of)
    assert view == View(Settings(root=Path.cwd(), patterns_from=tmp_path), (), (), tmp_path)
    assert check_views([view]).checked == 0
