"""What a project says in its settings changes what the analysis sees."""

from __future__ import annotations

from pathlib import Path

from amplint.check import check
from amplint.config import Settings


def lines(folder: Path, **settings: object) -> list[tuple[str, int]]:
    """The findings of backward-in-autocast, by file and line."""
    made = Settings(root=folder, select=("AMP101",), **settings)  # type: ignore[arg-type]
    return [(Path(found.path).name, found.span.line) for found in check([str(folder)], made, jobs=1).findings]


REGION = """from wrappers import half_region, push

def train(model, loader):
    for x in loader:
        with half_region(model):
            loss = model(x).mean()
            loss.backward()
"""

BACKWARD = """import torch
from wrappers import push

def train(model, loader):
    for x in loader:
        with torch.autocast("cuda"):
            push(model(x).mean())
"""


def test_own_contexts_open_regions(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REGION)
    assert lines(tmp_path) == []
    assert lines(tmp_path, autocast_contexts=("wrappers.half_region",)) == [("train.py", 7)]


def test_own_contexts_are_told_apart_by_module(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REGION)
    assert lines(tmp_path, autocast_contexts=("elsewhere.half_region",)) == []


def test_own_backward_functions_run_backward(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BACKWARD)
    assert lines(tmp_path) == []
    assert lines(tmp_path, backward_functions=("push",)) == [("train.py", 7)]


def test_methods_are_known_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "class Trainer:\n"
        "    def fit(self, x):\n"
        "        with self.half_region():\n"
        "            self.loss(x).backward()\n"
    )
    assert lines(tmp_path, autocast_contexts=("trainer.Trainer.half_region",)) == [("train.py", 4)]


def test_a_wrapper_of_the_project_is_taken_at_its_word(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "amp.py").write_text(
        "def region(kind):\n    return REGIONS[kind]()\n\nREGIONS = load('kinds')\n"
    )
    (package / "train.py").write_text(
        "from package.amp import region\n\n"
        "def train(model, x):\n"
        "    with region('half'):\n"
        "        model(x).mean().backward()\n"
    )
    assert lines(tmp_path) == []
    assert lines(tmp_path, autocast_contexts=("package.amp.region",)) == [("train.py", 5)]
