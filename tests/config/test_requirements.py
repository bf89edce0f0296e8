from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from amplint.bounds import TORCH_DEFAULT, TorchBounds
from amplint.config import Settings, with_project_torch
from amplint.requirements import bounds_of_setting, project_torch


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("2.4", ((2, 4), (2, 4))),
        ("2.4.1", ((2, 4), (2, 4))),
        ("2", ((2, 0), (2, 99))),
        (">=2.3,<2.9", ((2, 3), (2, 8))),
        (">=2.3, <2.9.1", ((2, 3), (2, 9))),
        (">2.3", ((2, 3), None)),
        (">=2.3,<3", ((2, 3), (2, 99))),
        ("<=2.5", (TORCH_DEFAULT[0], (2, 5))),
        ("<1.13", ((1, 12), (1, 12))),
        ("==2.3.*", ((2, 3), (2, 3))),
        ("==2.*", ((2, 0), (2, 99))),
        ("~=2.3", ((2, 3), (2, 99))),
        ("~=2.3.1", ((2, 3), (2, 3))),
        (">=2.1,!=2.2.0", ((2, 1), None)),
        ("", None),
        ("new", None),
        ("2.4.1.dev1+cu121", ((2, 4), (2, 4))),
        ("2." + "1" * 5000, None),
        ("1" * 5000, None),
        (">=2.5,<2.3", None),
    ],
)
def test_bounds(text: str, bounds: TorchBounds | None) -> None:
    assert bounds_of_setting(text) == bounds


@pytest.mark.parametrize(
    ("line", "bounds"),
    [
        ("torch >= 2.1 , < 2.7 ,", ((2, 1), (2, 6))),
        ("torch(>=2.1,<2.7)", ((2, 1), (2, 6))),
        ("torch[opt-einsum]>=2.1,<2.7;python_version>'3'", ((2, 1), (2, 6))),
        ("torch>=2.1,,<2.7", None),
        ("torch >=2.1 <2.7", None),
        ("torch 2.1", None),
        ("torch ^2.1", None),
        ("torch @ https://example.org/torch-2.1.whl", None),
        ("torch @ https://example.org/torch-2.1.0-cp311-cp311-linux_x86_64.whl ; x", ((2, 1), (2, 1))),
        (
            "https://example.org/whl/cpu/torch-1.8.1%2Bcpu-cp37-cp37m-linux_x86_64.whl  # cpu",
            ((1, 8), (1, 8)),
        ),
        ("https://example.org/torchvision-0.9.1-cp37-cp37m-linux_x86_64.whl", None),
        ("torch[opt", None),
        ("torch", None),
        ("torchvision>=0.1", None),
        ("torch " + "!a" * 5000, None),
    ],
)
def test_requirements(tmp_path: Path, line: str, bounds: TorchBounds | None) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(f"{line}\n")
    (tmp_path / ".git").mkdir()
    assert project_torch(tmp_path) == ((bounds, path) if bounds is not None else None)


SOURCES = {
    "dependencies": ("pyproject.toml", "[project]\ndependencies = ['numpy', 'torch>=2.1,<2.7']"),
    "extras": (
        "pyproject.toml",
        "[project.optional-dependencies]\nx = ['torch[opt] >= 2.1, < 2.7 ; python_version > \"3\"']",
    ),
    "groups": ("pyproject.toml", "[dependency-groups]\nx = ['torch (>=2.1,<2.7)', {include-group = 'y'}]"),
    "poetry": ("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '>=2.1,<2.7'"),
    "poetry table": (
        "pyproject.toml",
        "[tool.poetry.group.a.dependencies]\ntorch = {version = '>=2.1,<2.7'}",
    ),
    "setup.cfg": ("setup.cfg", "[options]\ninstall_requires =\n    torchvision>=0.1\n    torch>=2.1,<2.7\n"),
    "setup.py": ("setup.py", "raise SystemExit\nsetup(install_requires=['torch>=2.1, <2.7'])\n"),
    "constraints": ("constraints.txt", "torchvision\ntorch>=2.1,<2.7\n"),
    "requirements": ("requirements-gpu.txt", "torchvision\ntorch>=2.1,<2.7  # why\n"),
}


_LOCK = """version = 1

[[package]]
name = "torch-geometric"
version = "2.9"

[[package]]
name = "torch"
version = "2.1.2"
source = { registry = "https://pypi.org/simple" }
dependencies = [
    { name = "filelock" },
]

[[package]]
name = "torch"
version = "2.6.0+cu124"

[[package]]
name = "triton"
version = "3.2.0"
"""
_PIXI_LOCK = """version: 6
packages:
- conda: https://conda.anaconda.org/conda-forge/linux-64/pytorch-2.1.2-cuda118.conda
  sha256: 0
- conda: https://conda.anaconda.org/nvidia/noarch/pytorch-cuda-11.8-h7e8668a_5.tar.bz2
- pypi: https://download.pytorch.org/whl/torch-2.6.0%2Bcu124-cp312-none-linux_x86_64.whl
  name: torch
  version: 2.6.0+cu124
"""
_CONDA = """name: train
channels:
  - pytorch
dependencies:
  - python=3.10
  - pytorch-cuda=11.8
  {}
"""
SOURCES |= {
    "uv": ("uv.lock", _LOCK),
    "poetry.lock": ("poetry.lock", _LOCK),
    "pdm.lock": ("pdm.lock", _LOCK),
    "pixi.lock": ("pixi.lock", _PIXI_LOCK),
    "conda": ("environment.yml", _CONDA.format("- pytorch>=2.1,<2.7")),
    "conda pip": ("environment.yaml", _CONDA.format("- pip:\n    - torch >=2.1, <2.7 # why\n  - git")),
    "conda file": ("conda.yaml", _CONDA.format("- 'pytorch::pytorch >=2.1,<2.7'  # why")),
    "pixi": ("pixi.toml", "[dependencies]\npytorch = '>=2.1,<2.7'\npytorch-cuda = '11.8'\n"),
    "pixi pypi": ("pixi.toml", "[feature.gpu.pypi-dependencies]\ntorch = {version = '>=2.1,<2.7'}\n"),
    "pixi platform": ("pixi.toml", "[target.linux-64.dependencies]\npytorch-gpu = '>=2.1,<2.7'\n"),
    "pyproject pixi": ("pyproject.toml", "[tool.pixi.dependencies]\npytorch = '>=2.1,<2.7'\n"),
}


@pytest.mark.parametrize(
    ("spec", "bounds"),
    [
        ("- pytorch=1.12", ((1, 12), (1, 12))),
        ("- pytorch=2", ((2, 0), (2, 99))),
        ("- pytorch==2.1.2", ((2, 1), (2, 1))),
        ("- pytorch=2.1.2=py3.10_cuda11.8_cudnn8.7.0_0", ((2, 1), (2, 1))),
        ("- pytorch 2.1.*", ((2, 1), (2, 1))),
        ("- pytorch 2.1.2 py3.10_0", ((2, 1), (2, 1))),
        ("- conda-forge::pytorch-gpu>=2.3", ((2, 3), None)),
        ('- "pytorch >= 2.3"', ((2, 3), None)),
        ("- pip:\n    - torch==2.1.0\n", ((2, 1), (2, 1))),
        ("- pip:\n    - torchvision==0.16\n  - torch==2.1.0\n", None),
        ("- pip:\n    - pytorch=2.1\n", None),
        ("- pytorch", None),
        ("- pytorch=", None),
        ("- pytorch=2.1|2.2", None),
        ("- pytorch-lightning=2.1", None),
        ("# - pytorch=2.1", None),
        ("x: pytorch=2.1", None),
    ],
)
def test_environments_of_conda(tmp_path: Path, spec: str, bounds: TorchBounds | None) -> None:
    path = tmp_path / "environment.yml"
    path.write_text(_CONDA.format(spec))
    (tmp_path / ".git").mkdir()
    assert project_torch(tmp_path) == ((bounds, path) if bounds is not None else None)


def test_what_is_declared_wins_over_what_is_locked(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text(_LOCK)
    (tmp_path / "environment.yml").write_text(_CONDA.format("- pytorch=2.2"))
    assert project_torch(tmp_path) == (((2, 2), (2, 2)), tmp_path / "environment.yml")
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['torch']")
    assert project_torch(tmp_path) == (((2, 2), (2, 2)), tmp_path / "environment.yml")
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['torch>=2.0']")
    assert project_torch(tmp_path) == (((2, 0), None), tmp_path / "pyproject.toml")


_ODD = "".join(map(chr, range(1, 0x250))) + "\u2028- pytorch=\x0c[[package]] name = torch: :: = ' \" "


@pytest.mark.parametrize("name", ["environment.yml", "uv.lock", "poetry.lock", "pixi.lock", "pixi.toml"])
@pytest.mark.parametrize(
    "unit",
    [
        "- ",
        "- pytorch",
        "- pytorch=",
        "::",
        "- pip:\n",
        "- pip: ",
        " ",
        "'",
        "=1.",
        "\n",
        "[",
        "[[package]]\n",
        _ODD,
        'name = "torch"\n',
        "name: torch\n",
        "- conda: torch-",
        "- a: b\n",
        "pytorch=9",
        "- torch==9,",
        "9",
    ],
)
def test_nonsense_takes_linear_time(tmp_path: Path, name: str, unit: str) -> None:
    """A hundred kilobytes of it take a fraction of a second; with a step that looks at the rest each time it would be
    minutes."""
    (tmp_path / ".git").mkdir()
    (tmp_path / name).write_text("torch\n- pytorch " + unit * (100_000 // len(unit)), encoding="utf-8")
    before = process_time()
    project_torch(tmp_path)
    assert process_time() - before < 5


@pytest.mark.parametrize(("name", "text"), SOURCES.values(), ids=SOURCES.keys())
def test_where_bounds_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / name).write_text(text)
    assert project_torch(tmp_path / "src" / "train.py") == (((2, 1), (2, 6)), tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "requirements.txt",
            "torch\ntorchvision==0.15\npytorch-lightning>=2.0\ntorch @ https://x/torch-2.1.whl\n",
        ),
        ("pyproject.toml", "torch = [[["),
        ("pyproject.toml", "project = 3\n[tool]\npoetry = 'torch'"),
        ("setup.py", "torch = ("),
    ],
)
def test_files_that_say_nothing(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    assert project_torch(tmp_path) is None


def test_lists_in_a_folder_of_requirements_count(tmp_path: Path) -> None:
    folder = tmp_path / "requirements"
    folder.mkdir()
    (folder / "build.txt").write_text("ninja\n")
    (folder / "runtime.txt").write_text("torch>=2.2,<=2.5.1\n")
    assert project_torch(tmp_path) == (((2, 2), (2, 5)), folder / "runtime.txt")


METADATA = """Metadata-Version: 2.1
Name: trainer
Requires-Dist: numpy
Requires-Dist: torch (>=1.10,<2.2) ; extra == 'train'
Requires-Dist: torch-geometric==1.0

A trainer.

Requires-Dist: torch==2.9
"""


@pytest.mark.parametrize("name", ["PKG-INFO", "trainer-1.0.dist-info/METADATA"])
def test_what_a_built_distribution_says_of_itself(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(METADATA)
    assert project_torch(tmp_path) == (((1, 10), (2, 1)), path)


@pytest.mark.parametrize("name", ["trainer.egg-info", "src/trainer.egg-info"])
def test_what_setuptools_has_worked_out(tmp_path: Path, name: str) -> None:
    (tmp_path / "setup.py").write_text("setup(install_requires=open('needs.txt').read().split())  # torch\n")
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "requires.txt").write_text("numpy\ntorch==2.0.0\n\n[test]\npytest\n")
    assert project_torch(tmp_path) == (((2, 0), (2, 0)), folder / "requires.txt")
    other = folder.parent / "other.egg-info"
    other.mkdir()
    (other / "requires.txt").write_text("torch==1.9\n")
    assert project_torch(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("[DEFAULT]\nlib_name = trainer\nrequirements = fastcore>=1.3 torch>=1.7\n", ((1, 7), None)),
        ("[DEFAULT]\npip_requirements = torch>=2.1,<2.4\ndev_requirements = torch==2.9\n", ((2, 1), (2, 3))),
        ("requirements = torch>=1.7\n", None),
    ],
)
def test_settings_of_nbdev(text: str, bounds: TorchBounds | None, tmp_path: Path) -> None:
    path = tmp_path / "settings.ini"
    path.write_text(text)
    assert project_torch(tmp_path) == (None if bounds is None else (bounds, path))


def test_an_environment_says_nothing_of_the_project(tmp_path: Path) -> None:
    for name in ("trainer-1.0", "other-2.0"):
        folder = tmp_path / f"{name}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(METADATA)
    assert project_torch(tmp_path) is None


def test_all_mentions_count_and_the_repository_is_the_border(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.13\n")
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    assert project_torch(repository) is None
    (repository / "requirements.txt").write_text("torch>=2.1\ntorch>=2.4,<2.6\n")
    assert project_torch(repository) == (((2, 1), None), repository / "requirements.txt")


def test_settings_take_them_unless_the_user_has_said_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch>=2.4\n")
    settings = Settings(root=tmp_path)
    assert with_project_torch(settings, tmp_path).torch == ((2, 4), None)
    assert with_project_torch(settings, tmp_path).torch_from == str(tmp_path / "requirements.txt")
    said = Settings(root=tmp_path, torch=((2, 1), None), torch_from="--torch-version")
    assert with_project_torch(said, tmp_path) is said


def test_where_the_root_says_nothing_the_oldest_torch_of_a_folder_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text("torch\n")
    example, other = tmp_path / "examples" / "depth", tmp_path / "other"
    example.mkdir(parents=True)
    other.mkdir()
    (example / "environment.yml").write_text("dependencies:\n  - pytorch=1.13.1\n")
    (other / "requirements.txt").write_text("torch>=2.6\n")
    files = [str(example / "train.py"), str(other / "main.py")]
    settings = Settings(root=tmp_path)
    found = with_project_torch(settings, tmp_path, files)
    assert (found.torch, found.torch_from) == (((1, 13), None), str(example / "environment.yml"))
    # what only newer releases run says nothing of the others, and all where there are no others
    (tmp_path / "third").mkdir()
    newer = [files[1], str(tmp_path / "third" / "main.py")]
    assert with_project_torch(settings, tmp_path, newer).torch_from == "the default"
    assert with_project_torch(settings, tmp_path, files[1:]).torch == ((2, 6), None)
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch>=2.4'])\n")
    assert with_project_torch(settings, tmp_path, files).torch == ((2, 4), None)


@pytest.mark.parametrize(
    ("name", "text", "low"),
    [
        ("README.md", "```\npip install torch==1.11.0+cu113 torchvision==0.12.0\n```\n", (1, 11)),
        ("README.md", "- PyTorch >= 1.9, <= 1.10.2\n- Python 3.8", (1, 9)),
        ("README.rst", "We use **PyTorch 1.7.1** and timm 0.3.2", (1, 7)),
        ("INSTALL.md", "conda install pytorch==1.8.1 -c pytorch", (1, 8)),
        ("docs/en/get_started.md", "conda install pytorch=1.13.1=py3.9_cuda11.7", (1, 13)),
        ("docker/Dockerfile", "RUN conda install -y pytorch==1.10.1 cudatoolkit=11.3", (1, 10)),
        ("environment/Dockerfile.gpu", "RUN pip install 'torch==1.5.0'", None),
        ("install_pytorch17.sh", "conda install -y pytorch==1.7.0", (1, 7)),
        ("cog.yaml", 'build:\n  python_packages:\n    - "torch==1.8.1"', (1, 8)),
        ("segmentation.yaml", "dependencies:\n  - pytorch=1.12.1=py3.8_0", (1, 12)),
        (".github/workflows/test.yml", "      run: pip install torch==1.6.0+cpu", (1, 6)),
        ("README.md", "Works with PyTorch 2.4 or newer: pip install 'torch>=2.4'", None),
        ("README.md", "torchvision==1.2, pytorch-lightning==1.7.7, pytorch-cuda=1.8", None),
        ("README.md", "a PyTorch implementation in 1.5 hours; torch.nn 1.2; torch==3.1; torch==1.x", None),
        ("notes.md", "torch==1.8", None),
    ],
)
def test_instructions_count_where_nothing_is_declared(
    tmp_path: Path, name: str, text: str, low: tuple[int, int] | None
) -> None:
    (tmp_path / ".git").mkdir()
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found = with_project_torch(Settings(root=tmp_path), tmp_path)
    if low is None:
        assert (found.torch, found.torch_from) == (TORCH_DEFAULT, "the default")
    else:
        assert (found.torch, found.torch_from) == ((low, None), str(path))
    (tmp_path / "requirements.txt").write_text("torch>=2.5\n")
    assert with_project_torch(Settings(root=tmp_path), tmp_path).torch == ((2, 5), None)


def test_the_oldest_instruction_of_all_folders_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "detection").mkdir()
    (tmp_path / "README.md").write_text("torch==1.13")
    (tmp_path / "detection" / "README.md").write_text("torch==1.11 or torch==2.1")
    files = [str(tmp_path / "detection" / "train.py")]
    assert with_project_torch(Settings(root=tmp_path), tmp_path, files).torch == ((1, 11), None)


@pytest.mark.parametrize(
    ("lines", "bounds"),
    [
        (
            "torch_ver = [int(x) for x in torch.__version__.split('.')[:2]]\nassert torch_ver >= [1, 8], ''",
            (1, 8),
        ),
        ("assert tuple(map(int, torch.__version__.split('.')[:2])) > (1, 10)", (1, 10)),
        ("ver = sys.version_info\nassert ver >= (3, 7)", None),
        ("assert torch_ver <= [1, 8]\ntorch_ver = torch.__version__", None),
        ("assert torch.__version__ >= '1.8'", None),
    ],
)
def test_what_setup_py_asserts_of_torch(tmp_path: Path, lines: str, bounds: tuple[int, int] | None) -> None:
    (tmp_path / "setup.py").write_text(f"import torch\n{lines}\nsetup(install_requires=['timm'])\n")
    wanted = None if bounds is None else ((bounds, None), tmp_path / "setup.py")
    assert project_torch(tmp_path) == wanted


def test_an_environment_may_be_named_after_what_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "tft2v_environment.yaml").write_text("dependencies:\n  - pip:\n      - torch==2.0.1+cu118\n")
    assert project_torch(tmp_path) == (((2, 0), (2, 0)), tmp_path / "tft2v_environment.yaml")
