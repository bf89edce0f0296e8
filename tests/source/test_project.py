from __future__ import annotations

from pathlib import Path

import pytest

from amplint.source.project import Project, ProjectFile, Unparsable
from amplint.source.texts import read_source

TREE = {
    "script.py": "import helper",
    "helper.py": "",
    "tools/loose.py": "",
    "tools/near.py": "",
    "src/pack/__init__.py": "",
    "src/pack/train.py": "",
    "src/pack/inner/__init__.py": "",
    "src/pack/inner/deep.py": "",
    "src/pack/inner/stub.pyi": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def project(tree: Path) -> Project:
    return Project([tree / name for name in TREE])


def loaded(project: Project, path: Path) -> ProjectFile:
    file = project.load(path)
    assert file is not None
    return file


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("script.py", "script"),
        ("tools/loose.py", "loose"),
        ("src/pack/__init__.py", "pack"),
        ("src/pack/train.py", "pack.train"),
        ("src/pack/inner/__init__.py", "pack.inner"),
        ("src/pack/inner/deep.py", "pack.inner.deep"),
    ],
)
def test_module_names_start_at_the_outermost_package(
    tree: Path, project: Project, name: str, module: str
) -> None:
    assert loaded(project, tree / name).module == module
    assert project.find_module(module) == tree / name


def test_a_module_that_is_not_there(project: Project) -> None:
    assert project.find_module("pack.nothing") is None


def test_a_script_finds_its_neighbours(tree: Path, project: Project) -> None:
    script = loaded(project, tree / "tools/loose.py")
    assert project.find_module("near", script) == tree / "tools/near.py"


def test_a_script_finds_packages_and_files_below_it(tree: Path, project: Project) -> None:
    script = loaded(project, tree / "script.py")
    assert project.find_module("tools.near", script) == tree / "tools/near.py"
    assert project.find_module("src.pack", script) == tree / "src/pack/__init__.py"


def test_a_neighbour_goes_before_a_package_elsewhere(tree: Path) -> None:
    for name in ("a/engine.py", "b/engine.py", "b/main.py"):
        path = tree / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("", encoding="utf-8")
    project = Project([tree / "a/engine.py", tree / "b/engine.py", tree / "b/main.py"])
    assert project.find_module("engine", loaded(project, tree / "b/main.py")) == tree / "b/engine.py"


@pytest.mark.parametrize(
    ("file", "target", "absolute"),
    [
        ("src/pack/train.py", "torch.amp", "torch.amp"),
        ("src/pack/train.py", ".inner", "pack.inner"),
        ("src/pack/train.py", ".", "pack"),
        ("src/pack/inner/deep.py", "..train.run", "pack.train.run"),
        ("src/pack/inner/deep.py", ".stub", "pack.inner.stub"),
        ("src/pack/inner/__init__.py", ".deep", "pack.inner.deep"),
        ("src/pack/inner/__init__.py", "..train", "pack.train"),
    ],
)
def test_relative_imports(tree: Path, project: Project, file: str, target: str, absolute: str) -> None:
    assert project.absolute(loaded(project, tree / file), target) == absolute


def test_a_relative_import_beyond_the_top_harms_nobody(tree: Path, project: Project) -> None:
    assert project.find_module(project.absolute(loaded(project, tree / "script.py"), "...x.y")) is None


def test_files_are_read_when_they_are_asked_for_and_once(tree: Path, project: Project) -> None:
    path = tree / "helper.py"
    assert not project.is_loaded(path)
    first = project.load(path)
    assert project.is_loaded(path)
    assert project.load(path) is first


def test_a_file_that_is_no_python_is_no_file(tree: Path, project: Project) -> None:
    (tree / "helper.py").write_text("def (", encoding="utf-8")
    assert project.load(tree / "helper.py") is None


def test_a_file_that_is_gone_is_no_file(tree: Path, project: Project) -> None:
    (tree / "helper.py").unlink()
    assert project.load(tree / "helper.py") is None
    assert project.bytes_of(tree / "helper.py") == b""


def test_a_file_that_is_checked_must_be_python(tree: Path, project: Project) -> None:
    (tree / "helper.py").write_text("x = 1\ndef (", encoding="utf-8")
    with pytest.raises(Unparsable) as caught:
        project.add(read_source(tree / "helper.py"))
    assert caught.value.line == 2


def test_code_that_is_nested_too_deeply_is_told(tree: Path, project: Project) -> None:
    (tree / "helper.py").write_text("x = " + "not " * 500 + "a\n", encoding="utf-8")
    with pytest.raises(Unparsable, match="nested"):
        project.add(read_source(tree / "helper.py"))


def test_files_can_be_added_later(tree: Path, project: Project) -> None:
    path = tree / "late.py"
    path.write_text("", encoding="utf-8")
    project.extend([path])
    assert project.find_module("late") == path


def test_slices_are_parsed_once(tree: Path, project: Project) -> None:
    (tree / "helper.py").write_text("a = 1\nb = 2\n", encoding="utf-8")
    file = loaded(project, tree / "helper.py")
    assert file.slice(1, 1) is file.slice(1, 1)


def test_text_between_lines(tree: Path, project: Project) -> None:
    (tree / "helper.py").write_bytes(b"a = 1\r\nb = 2\r\nc = 3")
    file = loaded(project, tree / "helper.py")
    assert file.text_between(2, 2) == "b = 2\r\n"
    assert file.text_between(2, 9) == "b = 2\r\nc = 3"


def test_a_name_comes_from_the_file_that_defines_it(tmp_path: Path) -> None:
    texts = {
        "pack/__init__.py": "from .setup import device",
        "pack/setup.py": "device = 'cuda'",
        "pack/train.py": "from . import device, setup",
        "other/__init__.py": "",
        "other/setup.py": "device = 'cpu'",
        "other/train.py": "from .setup import device",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    project = Project([tmp_path / name for name in texts])
    train = loaded(project, tmp_path / "pack/train.py").display
    defined = loaded(project, tmp_path / "pack/setup.py").display
    assert project.origin(train, ".device") == f"{defined}:device"
    assert project.origin(defined, "pack.device") == f"{defined}:device"
    assert project.origin(train, "torch.amp.autocast") == "torch.amp.autocast"
    other = loaded(project, tmp_path / "other/train.py").display
    assert (
        project.origin(other, ".setup.device")
        == f"{loaded(project, tmp_path / 'other/setup.py').display}:device"
    )
